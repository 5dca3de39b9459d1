"""Kernels that find the partners of tuples in a window, and the plan of a probe (002, section 5.2).

A combination of rows lives while all of them live: from the latest start to the earliest end. A probe finds
only combinations that live at some instant, so nothing else has to look at the times of rows again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sash.lang.algebra import Equality
from sash.lang.values import Scalar
from sash.state.jit import kernel

Ints = npt.NDArray[np.int64]

# Which rows of a window a probe sees.
ALL, OLDER, OLDER_AND_STAYING = 0, 1, 2


@kernel
def _sees(slot: int, mode: int, batch: int, born: Ints, start: Ints, exp: Ints, end: Ints) -> bool:
    if start[slot] == end[slot]:
        return False
    if mode == ALL:
        return True
    if born[slot] == batch:
        return False
    return mode == OLDER or end[slot] == exp[slot]


@kernel
def probe_chains(
    numbers: Ints,
    begin: Ints,
    until: Ints,
    heads: Ints,
    following: Ints,
    start: Ints,
    exp: Ints,
    end: Ints,
    born: Ints,
    mode: int,
    batch: int,
    is_ordered: bool,
    origin: Ints,
    found: Ints,
) -> int:
    """Partners by key; those that do not fit into `found` are only counted.

    Where the rows of a chain leave in order (`is_ordered`), the first that is gone ends the search.
    """
    total = 0
    for i in range(numbers.shape[0]):
        if numbers[i] >= 0:
            slot = heads[numbers[i]]
            while slot >= 0:
                if end[slot] <= begin[i]:
                    if is_ordered:
                        break
                elif start[slot] < until[i] and _sees(slot, mode, batch, born, start, exp, end):
                    if total < found.shape[0]:
                        origin[total] = i
                        found[total] = slot
                    total += 1
                slot = following[slot]
    return total


@kernel
def probe_all(
    numbers: Ints,
    begin: Ints,
    until: Ints,
    live: Ints,
    owner: Ints,
    is_keyed: bool,
    start: Ints,
    exp: Ints,
    end: Ints,
    born: Ints,
    mode: int,
    batch: int,
    origin: Ints,
    found: Ints,
) -> int:
    """Partners by looking at all rows (nested loops); `is_keyed`: those of the same key."""
    total = 0
    for i in range(begin.shape[0]):
        if not is_keyed or numbers[i] >= 0:
            for k in range(live.shape[0]):
                slot = live[k]
                if is_keyed and owner[slot] != numbers[i]:
                    continue
                if (
                    end[slot] > begin[i]
                    and start[slot] < until[i]
                    and _sees(slot, mode, batch, born, start, exp, end)
                ):
                    if total < found.shape[0]:
                        origin[total] = i
                        found[total] = slot
                    total += 1
    return total


def collect(probe: Callable[[Ints, Ints], int], guess: int) -> tuple[Ints, Ints]:
    """Run a probe that writes who asked and what was found; again if there was more than expected."""
    origin, found = np.empty(guess, dtype=np.int64), np.empty(guess, dtype=np.int64)
    total = probe(origin, found)
    if total > guess:
        origin, found = np.empty(total, dtype=np.int64), np.empty(total, dtype=np.int64)
        probe(origin, found)
    return origin[:total], found[:total]


@dataclass(frozen=True, slots=True)
class Link:
    """An equality seen from the input that is probed: its own expression, and whose it equals."""

    own: Scalar
    other_input: int
    other: Scalar


@dataclass(frozen=True, slots=True)
class Step:
    """Probe `input` with what is joined so far; without links that is every row."""

    input: int
    links: tuple[Link, ...]


def probe_order(start: int, inputs: int, equalities: Sequence[Equality]) -> tuple[Step, ...]:
    """In which order the other inputs are probed for tuples of `start` (002, table 5.2).

    The global order holds, but an input that is linked to what is joined comes before one that is not.
    """
    joined = {start}
    steps: list[Step] = []
    while len(joined) < inputs:
        waiting = [i for i in range(inputs) if i not in joined]
        following = next((i for i in waiting if links(i, joined, equalities)), waiting[0])
        steps.append(Step(following, links(following, joined, equalities)))
        joined.add(following)
    return tuple(steps)


def links(position: int, joined: set[int], equalities: Sequence[Equality]) -> tuple[Link, ...]:
    """The equalities between an input and those that are joined."""
    found: list[Link] = []
    for equality in equalities:
        for own_input, own, other_input, other in (
            (equality.left_input, equality.left, equality.right_input, equality.right),
            (equality.right_input, equality.right, equality.left_input, equality.left),
        ):
            if own_input == position and other_input in joined:
                found.append(Link(own, other_input, other))
    return tuple(found)


def own_keys(step: Step) -> tuple[Scalar, ...]:
    """The expressions by which the probed input must be indexed."""
    return tuple(link.own for link in step.links)
