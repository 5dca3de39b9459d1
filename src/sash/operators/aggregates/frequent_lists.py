"""FREQUENT(x, k) of rows that come and go one by one: Algorithm 6 (002, 6.2) under windows that do not slide.

The rows of a group fall into sub-windows: so many rows, so long a time, or what comes at one instant (`Cut`);
the rows of an instant are in one sub-window. The newest one, the *head*, has exact counts. When it is
complete, it keeps the k most frequent of its values, its list, and what the others had is taken off their
counters. A window that does not slide leaves its oldest sub-window row by row. From the first row on that
leaves, the list does not count any more, and δ has its greatest count instead of its last one.

What holds, for f the true count of a value, g its counter: g ≤ f ≤ g + δ. So what is reported, values with g
above δ, is never false, and a value without a counter has f ≤ δ.

Needs: rows of a group that leave in the order in which they came. Time: O(1) a row but for lists, which cost
up to k for each value of a complete sub-window, and looks, which pass over the counters of the group. Space:
a counter for each value of the head and of lists, k pairs a list.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sash.errors import InternalError
from sash.operators.aggregates.arguments import Argument, Given
from sash.operators.aggregates.events import Events
from sash.operators.aggregates.json_text import json_values, pairs_text
from sash.operators.aggregates.measure import Measure
from sash.operators.aggregates.tally import Tally
from sash.operators.aggregates.values import Values
from sash.operators.delta import Bools, Ints, one_array
from sash.operators.operator import State
from sash.state.countedtree import recoded
from sash.state.jit import kernel

SUB_WINDOWS = 10
"""Into so many sub-windows a window without SLIDE is cut."""


@dataclass(frozen=True, slots=True)
class Cut:
    """Where sub-windows end: after so many `rows`, at multiples of `step`, or with each instant (neither)."""

    rows: int = 0
    step: int = 0


# Columns of a group, of an entry (a value of a group) and of a sub-window. Lists end with −1.
COUNTERS, HEAD, HEAD_ROWS, HEAD_ID, OLDEST, NEWEST, LEFT, DELTA = range(8)
ORDINAL, IN_HEAD, NEXT, PREVIOUS, NEXT_IN_HEAD = range(5)
ROWS, LAST, GREATEST, ITEM, LATER = range(5)
ENTRY, AMOUNT, FOLLOWING = range(3)
_GROUP = (-1, -1, 0, 0, -1, -1, 0, 0)
_ENTRY = (0, 0, -1, -1, -1)
# Of the state: where free sub-windows and free items begin, how many pairs are used, the sample that waits.
FREE, FREE_ITEM, USED, WAITING = range(4)


@kernel
def _count(group: Ints, entries: Ints, counts: Ints, entry: int, amount: int) -> None:
    """Add to a counter; it is in the chain of its group as long as it is not 0."""
    before = counts[entry]
    counts[entry] = before + amount
    if before == 0 and amount != 0:
        first = group[COUNTERS]
        entries[entry, NEXT] = first
        entries[entry, PREVIOUS] = -1
        if first >= 0:
            entries[first, PREVIOUS] = entry
        group[COUNTERS] = entry
    elif before != 0 and counts[entry] == 0:
        last, then = entries[entry, PREVIOUS], entries[entry, NEXT]
        if last >= 0:
            entries[last, NEXT] = then
        else:
            group[COUNTERS] = then
        if then >= 0:
            entries[then, PREVIOUS] = last


@kernel
def _close(
    group: Ints, entries: Ints, counts: Ints, subs: Ints, items: Ints, state: Ints, best: Ints
) -> None:
    """The head is complete: it becomes a list of its most frequent values, equal counts in their order."""
    size = 0
    entry = group[HEAD]
    while entry >= 0:
        amount, ordinal = entries[entry, IN_HEAD], entries[entry, ORDINAL]
        place = size
        while place > 0:
            other = best[place - 1]
            own = entries[other, IN_HEAD]
            if own > amount or (own == amount and entries[other, ORDINAL] < ordinal):
                break
            if place < len(best):
                best[place] = other
            place -= 1
        if place < len(best):
            best[place] = entry
            size = min(size + 1, len(best))
        entry = entries[entry, NEXT_IN_HEAD]
    sub = state[FREE]
    state[FREE] = subs[sub, LATER]
    subs[sub, ROWS] = group[HEAD_ROWS]
    subs[sub, GREATEST] = entries[best[0], IN_HEAD]
    subs[sub, LAST] = entries[best[size - 1], IN_HEAD] if size == len(best) else 0
    subs[sub, ITEM], subs[sub, LATER] = -1, -1
    for place in range(size - 1, -1, -1):
        item = state[FREE_ITEM]
        state[FREE_ITEM] = items[item, FOLLOWING]
        items[item, ENTRY], items[item, AMOUNT] = best[place], entries[best[place], IN_HEAD]
        items[item, FOLLOWING] = subs[sub, ITEM]
        subs[sub, ITEM] = item
        # What is on the list stays counted.
        entries[best[place], IN_HEAD] = 0
    entry = group[HEAD]
    while entry >= 0:
        then = entries[entry, NEXT_IN_HEAD]
        _count(group, entries, counts, entry, -entries[entry, IN_HEAD])
        entries[entry, IN_HEAD], entries[entry, NEXT_IN_HEAD] = 0, -1
        entry = then
    if group[NEWEST] >= 0:
        subs[group[NEWEST], LATER] = sub
    else:
        group[OLDEST] = sub
    group[NEWEST] = sub
    group[DELTA] += subs[sub, LAST]
    group[HEAD], group[HEAD_ROWS] = -1, 0


@kernel
def _begin_to_leave(group: Ints, entries: Ints, counts: Ints, subs: Ints, items: Ints, state: Ints) -> None:
    """The oldest list does not count any more."""
    sub = group[OLDEST]
    item = subs[sub, ITEM]
    while item >= 0:
        _count(group, entries, counts, items[item, ENTRY], -items[item, AMOUNT])
        then = items[item, FOLLOWING]
        items[item, FOLLOWING] = state[FREE_ITEM]
        state[FREE_ITEM] = item
        item = then
    subs[sub, ITEM] = -1
    group[DELTA] += subs[sub, GREATEST] - subs[sub, LAST]


@kernel
def _leave(
    leaving: int, group: Ints, entries: Ints, counts: Ints, subs: Ints, items: Ints, state: Ints, best: Ints
) -> bool:
    """The oldest rows go; False if there are not so many."""
    while leaving > 0:
        if group[OLDEST] < 0:
            if group[HEAD_ROWS] == 0:
                return False
            _close(group, entries, counts, subs, items, state, best)
        sub = group[OLDEST]
        if group[LEFT] == 0:
            _begin_to_leave(group, entries, counts, subs, items, state)
        gone = min(leaving, subs[sub, ROWS] - group[LEFT])
        leaving -= gone
        group[LEFT] += gone
        if group[LEFT] == subs[sub, ROWS]:
            group[DELTA] -= subs[sub, GREATEST]
            group[OLDEST], group[LEFT] = subs[sub, LATER], 0
            if group[OLDEST] < 0:
                group[NEWEST] = -1
            subs[sub, LATER] = state[FREE]
            state[FREE] = sub
    return True


@kernel
def _length(table: Ints, column: int, first: int) -> int:
    """How many rows a list has."""
    count = 0
    while first >= 0:
        first = table[first, column]
        count += 1
    return count


@kernel
def _walk_subs(groups: Ints, numbers: Ints, subs: Ints, out: Ints) -> int:
    count = 0
    for number in numbers:
        sub = groups[number, OLDEST]
        while sub >= 0:
            out[count, 0], out[count, 1] = number, sub
            count += 1
            sub = subs[sub, LATER]
    return count


@kernel
def _walk_items(subs: Ints, chosen: Ints, items: Ints, out: Ints) -> int:
    count = 0
    for place in range(len(chosen)):
        item = subs[chosen[place], ITEM]
        while item >= 0:
            out[count, 0], out[count, 1] = place, item
            count += 1
            item = items[item, FOLLOWING]
    return count


@kernel
def _restore_counters(
    owners: Ints, found: Ints, amounts: Ints, in_head: Ints, groups: Ints, entries: Ints, counts: Ints
) -> None:
    for i in range(len(found)):
        group, entry = groups[owners[i]], found[i]
        _count(group, entries, counts, entry, amounts[i])
        if in_head[i] > 0:
            entries[entry, IN_HEAD], entries[entry, NEXT_IN_HEAD] = in_head[i], group[HEAD]
            group[HEAD] = entry


@kernel
def _restore_lists(
    owners: Ints,
    told: Ints,
    which: Ints,
    found: Ints,
    amounts: Ints,
    groups: Ints,
    subs: Ints,
    items: Ints,
    state: Ints,
) -> None:
    """Lists from the oldest on, those of a group one after the other; items are in the order of lists."""
    at = 0
    for i in range(len(owners)):
        group, sub = groups[owners[i]], state[FREE]
        state[FREE] = subs[sub, LATER]
        subs[sub, ROWS], subs[sub, LAST], subs[sub, GREATEST] = told[i, 0], told[i, 1], told[i, 2]
        subs[sub, ITEM], subs[sub, LATER] = -1, -1
        while at < len(which) and which[at] == i:
            item = state[FREE_ITEM]
            state[FREE_ITEM] = items[item, FOLLOWING]
            items[item, ENTRY], items[item, AMOUNT] = found[at], amounts[at]
            items[item, FOLLOWING] = subs[sub, ITEM]
            subs[sub, ITEM] = item
            at += 1
        if group[NEWEST] >= 0:
            subs[group[NEWEST], LATER] = sub
        else:
            group[OLDEST] = sub
        group[NEWEST] = sub


@kernel
def _look(
    sample: int, group: Ints, entries: Ints, counts: Ints, samples: Ints, pairs: Ints, state: Ints
) -> bool:
    """Write the counters above δ; False if there is no room for them."""
    begin = used = state[USED]
    entry = group[COUNTERS]
    while entry >= 0:
        if counts[entry] > group[DELTA]:
            if used == len(pairs):
                return False
            pairs[used, 0], pairs[used, 1] = entries[entry, ORDINAL], counts[entry]
            used += 1
        entry = entries[entry, NEXT]
    samples[sample, 0], samples[sample, 1], samples[sample, 2] = begin, used, group[DELTA]
    state[USED] = used
    return True


@kernel
def _look_all(
    begin: int,
    numbers: Ints,
    groups: Ints,
    entries: Ints,
    counts: Ints,
    samples: Ints,
    pairs: Ints,
    state: Ints,
) -> int:
    for i in range(begin, len(numbers)):
        if not _look(i, groups[numbers[i]], entries, counts, samples, pairs, state):
            return i
    return len(numbers)


@kernel
def _follow(
    begin: int,
    numbers: Ints,
    signs: Ints,
    ids: Ints,
    marks: Ints,
    found: Ints,
    rows: int,
    step: int,
    groups: Ints,
    entries: Ints,
    counts: Ints,
    subs: Ints,
    items: Ints,
    state: Ints,
    best: Ints,
    samples: Ints,
    pairs: Ints,
) -> int:
    """Take events from `begin` on, instant by instant of each group, up to where samples need room.

    Gives where it stands; −1 if a row leaves that is not there. A sample that has no room waits.
    """
    if state[WAITING] >= 0:
        group = groups[numbers[begin - 1]]
        if not _look(state[WAITING], group, entries, counts, samples, pairs, state):
            return begin
        state[WAITING] = -1
    while begin < len(numbers):
        group = groups[numbers[begin]]
        end = begin
        leaving = entering = 0
        while True:
            leaving += signs[end] < 0
            entering += signs[end] > 0
            end += 1
            if marks[end - 1] >= 0:
                break
        if not _leave(leaving, group, entries, counts, subs, items, state, best):
            return -1
        if entering:
            is_full = rows > 0 and group[HEAD_ROWS] >= rows
            is_past = step > 0 and group[HEAD_ID] != ids[begin]
            if group[HEAD_ROWS] > 0 and (is_full or is_past):
                _close(group, entries, counts, subs, items, state, best)
            group[HEAD_ID] = ids[begin]
            group[HEAD_ROWS] += entering
            for i in range(begin, end):
                if signs[i] > 0:
                    entry = found[i]
                    if entries[entry, IN_HEAD] == 0:
                        entries[entry, NEXT_IN_HEAD] = group[HEAD]
                        group[HEAD] = entry
                    entries[entry, IN_HEAD] += 1
                    _count(group, entries, counts, entry, 1)
            if rows == 0 and step == 0:
                _close(group, entries, counts, subs, items, state, best)
        mark = marks[end - 1]
        begin = end
        if not _look(mark, group, entries, counts, samples, pairs, state):
            state[WAITING] = mark
            return begin
    return begin


class Reported(Values):
    """δ and what is above it: sample i has the pairs from begins[i] to ends[i]; without values it is NULL."""

    def __init__(self, samples: Ints, pairs: Ints, valid: Bools, argument: Argument) -> None:
        self._begins, self._ends, self._deltas = samples.T
        # Most frequent first, equal counts in the order of values; the pairs of a sample stay where they are.
        owners = np.zeros(len(pairs), dtype=np.int64)
        owners[self._begins[self._ends > self._begins]] = 1
        self._pairs = pairs[np.lexsort((pairs[:, 0], -pairs[:, 1], np.cumsum(owners)))]
        self._valid = valid
        self._argument = argument

    def differs(self, samples: Ints, others: Ints) -> Bools:
        lengths, other = ((self._ends - self._begins)[places] for places in (samples, others))
        differs: Bools = (lengths != other) | (self._deltas[samples] != self._deltas[others])
        same = np.flatnonzero(~differs)
        mine, theirs = (self._places(places[same]) for places in (samples, others))
        unequal = (self._pairs[mine] != self._pairs[theirs]).any(axis=1)
        differs[np.repeat(same, lengths[same])[unequal]] = True
        valid, other_valid = self._valid[samples], self._valid[others]
        changed: Bools = (valid != other_valid) | (differs & valid)
        return changed

    def _places(self, samples: Ints) -> Ints:
        lengths = self._ends[samples] - self._begins[samples]
        before = np.cumsum(lengths) - lengths
        return np.repeat(self._begins[samples] - before, lengths) + np.arange(lengths.sum())

    def take(self, samples: Ints) -> pa.Array:
        offsets = np.concatenate([[0], np.cumsum(self._ends[samples] - self._begins[samples])])
        ordinals, counts = self._pairs[self._places(samples)].T
        unique, which = np.unique(ordinals, return_inverse=True)
        texts = json_values(self._argument.decode(unique)).take(pa.array(which))
        return reported_text(self._deltas[samples], texts, counts, offsets, self._valid[samples])


def reported_text(deltas: Ints, texts: pa.Array, counts: Ints, offsets: Ints, valid: Bools) -> pa.Array:
    """As JSON: {"delta": 5, "items": [["a", 9], ["b", 7]]}; NULL where not valid."""
    items = pairs_text(texts, np.ascontiguousarray(counts), offsets).fill_null("[]")
    parts = (pa.scalar('{"delta": '), pa.array(deltas).cast(pa.string()), pa.scalar(', "items": '), items)
    text = pc.binary_join_element_wise(*parts, pa.scalar("}"), pa.scalar(""))
    return pc.if_else(pa.array(valid), text, pa.scalar(None, pa.string()))


class FrequentLists(Measure):
    def __init__(self, argument: Argument, limit: int, cut: Cut) -> None:
        self._argument = argument
        self._limit = limit
        self._cut = cut
        self._tally = Tally()
        self._groups = np.tile(np.array(_GROUP, dtype=np.int64), (1, 1))
        self._entries = np.tile(np.array(_ENTRY, dtype=np.int64), (len(self._tally.counts), 1))
        self._subs = np.zeros((0, 5), dtype=np.int64)
        self._items = np.zeros((0, 3), dtype=np.int64)
        self._state = np.array([-1, -1, 0, -1], dtype=np.int64)
        self._best = np.zeros(limit, dtype=np.int64)
        self._sampled: tuple[Ints, Ints] | None = None

    def follow(self, events: Events, given: Given) -> None:
        assert events.ts is not None
        self._grow_groups(events.capacity)
        if given.moved is not None:
            held = np.flatnonzero(self._tally.counts)
            self._entries[held, ORDINAL] = recoded(self._entries[held, ORDINAL], *given.moved)
        before = np.flatnonzero(self._tally.counts)
        # Only rows that come have an entry; which of them goes is known by the order.
        coming = np.flatnonzero(given.signs > 0)
        found = np.full(len(events), -1, dtype=np.int64)
        found[coming] = self._enter(events.numbers[coming], given.codes[coming], given.ordinals[coming])
        # A group closes its head at most twice at an instant.
        self._make_room(2 * events.samples, len(before) + len(coming))
        samples = np.zeros((events.samples, 3), dtype=np.int64)
        pairs = np.zeros((max(64, 2 * events.samples), 2), dtype=np.int64)
        self._state[USED] = 0
        tables = self._groups, self._entries, self._tally.counts
        done = 0
        while (done := _look_all(done, events.groups, *tables, samples, pairs, self._state)) < len(
            events.groups
        ):
            pairs = np.concatenate([pairs, np.zeros_like(pairs)])
        order = events.by_group()
        ids = events.ts // self._cut.step if self._cut.step else np.zeros(len(events), dtype=np.int64)
        done = 0
        while True:
            done = _follow(
                done,
                events.numbers[order],
                given.signs[order],
                ids[order],
                events.marks[order],
                found[order],
                self._cut.rows,
                self._cut.step,
                *tables,
                self._subs,
                self._items,
                self._state,
                self._best,
                samples,
                pairs,
            )
            if done < 0:
                raise InternalError("a row leaves that is not there")
            if done == len(events) and self._state[WAITING] < 0:
                break
            pairs = np.concatenate([pairs, np.zeros_like(pairs)])
        self._sampled = samples, pairs[: int(self._state[USED])]
        touched = np.unique(np.concatenate([before, found[coming]]))
        self._tally.forget(touched[self._tally.counts[touched] == 0])

    def _enter(self, groups: Ints, codes: Ints, ordinals: Ints) -> Ints:
        found = self._tally.enter(groups, codes)
        more = len(self._tally.counts) - len(self._entries)
        if more > 0:
            new = np.tile(np.array(_ENTRY, dtype=np.int64), (more, 1))
            self._entries = np.concatenate([self._entries, new])
        self._entries[found, ORDINAL] = ordinals
        return found

    def _grow_groups(self, capacity: int) -> None:
        more = capacity - len(self._groups)
        if more > 0:
            new = np.tile(np.array(_GROUP, dtype=np.int64), (more, 1))
            self._groups = np.concatenate([self._groups, new])

    def _make_room(self, lists: int, values: int) -> None:
        """Let there be room for so many more lists with so many values in all."""
        self._subs = _with_free(self._subs, lists, LATER, self._state, FREE)
        self._items = _with_free(self._items, values, FOLLOWING, self._state, FREE_ITEM)

    def reported(self, valid: Bools) -> Reported:
        """The samples of the last batch; `valid` where a group has values."""
        assert self._sampled is not None
        return Reported(*self._sampled, valid, self._argument)

    def settle(self) -> None:
        self._sampled = None

    def snapshot(self, numbers: Ints, rows: Ints) -> State:
        groups, _, counters = self._tally.pairs()
        entries = np.flatnonzero(self._tally.counts)
        ordinals, in_head = (self._entries[entries, column] for column in (ORDINAL, IN_HEAD))
        owners, subs = _listed(self._groups, numbers, self._subs)
        lists, items = _items_of(self._subs, subs, self._items)
        listed = self._argument.decode(self._entries[self._items[items, ENTRY], ORDINAL])
        told = self._groups[numbers][:, [HEAD_ROWS, HEAD_ID, LEFT, DELTA]].T
        return {
            "counters": pa.table(
                {
                    "group": rows[groups],
                    "value": self._argument.decode(ordinals),
                    "count": counters,
                    "in_head": in_head,
                }
            ),
            "groups": pa.table(dict(zip(("head_rows", "head_id", "left", "delta"), told, strict=True))),
            "lists": pa.table(
                {
                    "group": rows[owners],
                    "rows": self._subs[subs, ROWS],
                    "last": self._subs[subs, LAST],
                    "greatest": self._subs[subs, GREATEST],
                }
            ),
            "items": pa.table({"list": lists, "value": listed, "count": self._items[items, AMOUNT]}),
        }

    def restore(self, state: State, numbers: Ints, capacity: int) -> None:
        self._grow_groups(capacity)
        told, counters = state["groups"], state["counters"]
        for name, column in (
            ("head_rows", HEAD_ROWS),
            ("head_id", HEAD_ID),
            ("left", LEFT),
            ("delta", DELTA),
        ):
            self._groups[numbers, column] = told.column(name).to_numpy()
        owners = numbers[counters.column("group").to_numpy()]
        ordinals, codes = self._argument.encode(one_array(counters.column("value")))
        entries = self._enter(owners, codes, ordinals)
        _restore_counters(
            owners,
            entries,
            counters.column("count").to_numpy().copy(),
            counters.column("in_head").to_numpy().copy(),
            self._groups,
            self._entries,
            self._tally.counts,
        )
        lists, items = state["lists"], state["items"]
        self._make_room(lists.num_rows, items.num_rows)
        holders = numbers[lists.column("group").to_numpy()]
        which = items.column("list").to_numpy().copy()
        _, codes = self._argument.encode(one_array(items.column("value")))
        _restore_lists(
            holders,
            np.stack([lists.column(name).to_numpy() for name in ("rows", "last", "greatest")], axis=1),
            which,
            self._tally.enter(holders[which], codes),
            items.column("count").to_numpy().copy(),
            self._groups,
            self._subs,
            self._items,
            self._state,
        )

    @property
    def entries(self) -> int:
        return len(self._tally)

    @property
    def nbytes(self) -> int:
        held = self._groups.nbytes + self._entries.nbytes + self._subs.nbytes + self._items.nbytes
        return self._tally.nbytes + held


def _with_free(table: Ints, needed: int, column: int, state: Ints, first: int) -> Ints:
    """A table with so many rows in its free list."""
    missing = needed - _length(table, column, state[first])
    if missing <= 0:
        return table
    new = np.zeros((max(missing, len(table)), table.shape[1]), dtype=np.int64)
    new[:, column] = np.arange(1, len(new) + 1) + len(table)
    new[-1, column] = state[first]
    state[first] = len(table)
    return np.concatenate([table, new])


def _listed(groups: Ints, numbers: Ints, subs: Ints) -> tuple[Ints, Ints]:
    """The sub-windows of some groups, each group's from the oldest on, and whose they are."""
    found = np.empty((len(subs), 2), dtype=np.int64)
    size = _walk_subs(groups, numbers, subs, found)
    return found[:size, 0].copy(), found[:size, 1].copy()


def _items_of(subs: Ints, chosen: Ints, items: Ints) -> tuple[Ints, Ints]:
    """The items of the lists of some sub-windows, and the places of their lists."""
    found = np.empty((len(items), 2), dtype=np.int64)
    size = _walk_items(subs, chosen, items, found)
    return found[:size, 0].copy(), found[:size, 1].copy()
