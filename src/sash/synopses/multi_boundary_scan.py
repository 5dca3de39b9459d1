"""Many boundaries of a window that slides, in one go: for all queries of that length, whatever their slides.

Where a batch brings dozens of boundaries, to go from one to the next costs more than what happens there. Here
one kernel moves the totals of the window (`Sliding`) from boundary to boundary and copies, for each refresher
that has one there, the totals of the groups that have changed since its last one; another one does the same
with the values (`value_window.py`). What refreshers have on their stacks then is what steps would have put
there, and stands in the same order.

Needs: a log that has all panes up to the last boundary, and refreshers that ask for changes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from sash.state import kernels
from sash.state.jit import kernel
from sash.state.keytable import distinct
from sash.synopses.basic_interval import BasicIntervalSynopsis, Sliding
from sash.synopses.selection import overflow, passes
from sash.synopses.value_states import Rows, beside_on_the_way

if TYPE_CHECKING:
    from sash.synopses.refresh import Refresher

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]

# So many steps take as long as one stride, as measured with some hundred groups.
LEAST_STEPS = 8


class MultiBoundaryScan(NamedTuple):
    """What a refresher asks for: its boundaries, and of which groups.

    Its window has the rows left … right of the log so far. If there are `tests`, only groups count that pass
    one of them, or have passed before (`held`, of all groups); their `sums` must not overflow.
    """

    boundaries: Ints
    left: int
    right: int
    tests: Ints
    sums: Ints
    held: Bools


@kernel
def boundaries_of(edges: Ints, reach: int, slide: int, last: int, through: int) -> Ints:
    """The multiples of `slide` after `last` up to `through` at which panes enter or leave a window.

    A pane enters with its right edge, and leaves when the window has moved on by its length, `reach`.
    """
    found = np.empty(2 * len(edges), dtype=np.int64)
    size, entering, leaving = 0, 0, 0
    while leaving < len(edges):
        event = edges[leaving] + reach
        if entering < len(edges) and edges[entering] <= event:
            event = edges[entering]
            entering += 1
        else:
            leaving += 1
        boundary = -(-event // slide) * slide
        if boundary > through:
            break
        if boundary > last and (size == 0 or boundary > found[size - 1]):
            found[size] = boundary
            size += 1
    return found[:size]


@kernel
def _slide(
    slots: Ints,
    panes: Ints,
    ints: Ints,
    floats: Floats,
    previous: Ints,
    heads: Ints,
    base: int,
    lefts: Ints,
    rights: Ints,
    oldest: Ints,
    ops: Ints,
    total_ints: Ints,
    total_floats: Floats,
    newest: Ints,
    stale: Bools,
    seen_left: Ints,
    seen_right: Ints,
    wanted: Bools,
    tested: Ints,
    tests: Ints,
    summed: Ints,
    sums: Ints,
    held: Bools,
    limit: int,
) -> tuple[int, int, Ints, Ints, Ints, Ints, Floats]:
    """Move totals from boundary to boundary; they hold the rows up to lefts[0] and rights[0] to begin with.

    Positions are those of the log's arrays. `wanted` says which reader has which boundaries; the tests and
    sums of reader r are those up to tested[r + 1] and summed[r + 1].
    Gives how many boundaries were done (fewer if there are `limit` rows), a group whose sum has overflowed or
    −1, and the rows: whose, at which boundary, of which group, its totals.
    """
    readers, groups = held.shape
    room = 1024
    whose, at, found = np.empty(room, np.int64), np.empty(room, np.int64), np.empty(room, np.int64)
    found_ints = np.empty((room, total_ints.shape[1]), np.int64)
    found_floats = np.empty((room, total_floats.shape[1]), np.float64)
    touched = np.zeros((readers, groups), np.bool_)
    for r in range(readers):
        for row in range(seen_left[r], lefts[0]):
            touched[r, slots[row]] = True
        for row in range(seen_right[r], rights[0]):
            touched[r, slots[row]] = True
    size, done = 0, 0
    while done < wanted.shape[1] and size < limit:
        left, right, new_left, new_right = lefts[done], rights[done], lefts[done + 1], rights[done + 1]
        kernels.enter(slots, panes, ints, floats, right, new_right, ops, total_ints, total_floats, newest)
        has_floats = total_floats.shape[1] > 0
        if kernels.leave(slots, panes, ints, left, new_left, ops, has_floats, total_ints, newest, stale):
            again = np.flatnonzero(stale)
            for i in range(len(again)):
                stale[again[i]] = False
            kernels.rescan(
                again,
                panes,
                ints,
                floats,
                previous,
                heads,
                base,
                oldest[done],
                new_right,
                ops,
                total_ints,
                total_floats,
                newest,
            )
        for r in range(readers):
            for row in range(left, new_left):
                touched[r, slots[row]] = True
            for row in range(right, new_right):
                touched[r, slots[row]] = True
            if not wanted[r, done]:
                continue
            own_tests, own_sums = tests[tested[r] : tested[r + 1]], sums[summed[r] : summed[r + 1]]
            for slot in range(groups):
                if not touched[r, slot]:
                    continue
                touched[r, slot] = False
                if len(own_tests):
                    if overflow(total_ints[slot], own_sums):
                        return done, slot, whose, at, found, found_ints, found_floats
                    was, held[r, slot] = held[r, slot], passes(total_ints[slot], own_tests)
                    if not was and not held[r, slot]:
                        continue
                if size == room:
                    room *= 2
                    whose = np.concatenate((whose, np.empty_like(whose)))
                    at = np.concatenate((at, np.empty_like(at)))
                    found = np.concatenate((found, np.empty_like(found)))
                    found_ints = np.concatenate((found_ints, np.empty_like(found_ints)))
                    found_floats = np.concatenate((found_floats, np.empty_like(found_floats)))
                whose[size], at[size], found[size] = r, done, slot
                kernels.copy(found_ints[size], total_ints[slot])
                kernels.copy(found_floats[size], total_floats[slot])
                size += 1
        done += 1
    return done, -1, whose[:size], at[:size], found[:size], found_ints[:size], found_floats[:size]


class MultiBoundaryResult(NamedTuple):
    """What a refresher finds at its boundaries: rows in their order, and how many each boundary has.

    At the last of them its window has the rows left … right of the log.
    """

    boundaries: Ints
    counts: Ints
    slots: Ints
    ints: Ints
    floats: Floats
    held: Bools
    left: int
    right: int


def pays(refreshers: Iterable[Refresher], through: int) -> bool:
    """Whether to take refreshers of one window to `through` in one go is cheaper than step by step."""
    lasts = ((each.window.slide, each.last) for each in refreshers)
    return sum((through - last) // slide for slide, last in lasts if last is not None) >= LEAST_STEPS


def stride(refreshers: Sequence[Refresher], edges: Ints, through: int, limit: int) -> Iterator[None]:
    """Take the refreshers of one window to `through`; `edges` are the right edges of the panes in the log.

    Whenever they have some `limit` rows to answer from, somebody else has his turn.
    """
    synopsis = refreshers[0].synopsis
    assert isinstance(synopsis, BasicIntervalSynopsis)
    window = synopsis.window(refreshers[0].key)
    assert isinstance(window, Sliding)
    while True:
        striders = [refresher.strider(edges, through) for refresher in refreshers]
        boundaries = distinct(np.concatenate([strider.boundaries for strider in striders]))
        if not len(boundaries):
            return
        _take_on(refreshers, striders, boundaries, synopsis, window, limit)
        yield


def _take_on(
    refreshers: Sequence[Refresher],
    striders: Sequence[MultiBoundaryScan],
    boundaries: Ints,
    synopsis: BasicIntervalSynopsis,
    window: Sliding,
    limit: int,
) -> None:
    log, panes = synopsis.log, synopsis.spec.panes
    window.remember()
    oldest = panes.number_of(boundaries - window.range)
    lefts = np.append(window.left, log.positions_after(oldest))
    rights = np.append(window.right, log.positions_after(panes.number_of(boundaries)))
    wanted = np.zeros((len(striders), len(boundaries)), dtype=np.bool_)
    for number, strider in enumerate(striders):
        wanted[number, np.searchsorted(boundaries, strider.boundaries)] = True
    held = np.array([strider.held for strider in striders])
    done, overflown, whose, at, slots, ints, floats = _slide(
        log.slots,
        log.panes,
        log.ints,
        log.floats,
        log.previous,
        log.heads,
        log.base,
        lefts - log.base,
        rights - log.base,
        oldest,
        synopsis.ops,
        window.ints,
        window.floats,
        window.newest,
        window.stale,
        np.array([strider.left - log.base for strider in striders]),
        np.array([strider.right - log.base for strider in striders]),
        wanted,
        _edges_of([strider.tests for strider in striders]),
        np.concatenate([strider.tests for strider in striders]),
        _edges_of([strider.sums for strider in striders]),
        np.concatenate([strider.sums for strider in striders]),
        held,
        limit,
    )
    if overflown >= 0:
        # Whoever selects by that sum says what is wrong.
        for refresher in refreshers:
            refresher.select(np.array([overflown]), window)
    window.stand_at(int(boundaries[done - 1]), int(lefts[done]), int(rights[done]))
    rows = [np.flatnonzero(whose == number) for number in range(len(striders))]
    asked = [Rows(slots[own], at[own]) for own in rows]
    those = zip(refreshers, asked, rows, strict=True)
    wide = beside_on_the_way([(each.values, asks, ints[own]) for each, asks, own in those], boundaries[:done])
    for number, refresher in enumerate(refreshers):
        its = np.flatnonzero(wanted[number, :done])
        if len(its):
            counts = np.bincount(asked[number].at, minlength=len(boundaries))[its]
            last = int(its[-1]) + 1
            refresher.go_on(
                MultiBoundaryResult(
                    boundaries[its],
                    counts,
                    asked[number].slots,
                    wide[number],
                    floats[rows[number]],
                    held[number],
                    int(lefts[last]),
                    int(rights[last]),
                )
            )


def _edges_of(parts: Sequence[Ints]) -> Ints:
    """Where each of several arrays begins and ends when they stand one after the other."""
    return np.cumsum([0, *(len(part) for part in parts)])
