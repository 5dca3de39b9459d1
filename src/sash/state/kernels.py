"""Compiled loops over columns of measures.

Integer measures stand in an int64 matrix with an operation per column; a BIGINT sum takes two columns,
hi·2³² + lo with 0 ≤ lo < 2³², so that no sum of int64 values can overflow on the way and the order of
addition does not matter. Sums of doubles stand in a float64 matrix as pairs (hi, lo) whose unevaluated
sum carries about 106 bits, so that the rounded sum does not depend on how the input was cut into
batches. That holds to 2⁻¹⁰⁰ of the largest sum on the way: terms that are smaller than that are lost when
larger ones cancel, and a sum that passes 1.8e308 on the way is infinite.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from sash.state.jit import kernel

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]

ADD, PAIR, MIN, MAX = 0, 1, 2, 3
LOW_BITS = 32
LOW_MASK = (1 << LOW_BITS) - 1
INT64_MAX = np.iinfo(np.int64).max
INT64_MIN = np.iinfo(np.int64).min


@kernel
def merge_ints(target: Ints, source: Ints, ops: Ints) -> None:
    """target ⊕= source for one row of integer measures."""
    c = 0
    while c < ops.shape[0]:
        op = ops[c]
        if op == ADD:
            target[c] += source[c]
        elif op == PAIR:
            low = target[c + 1] + source[c + 1]
            target[c] += source[c] + (low >> LOW_BITS)
            target[c + 1] = low & LOW_MASK
            c += 1
        elif op == MIN:
            target[c] = min(target[c], source[c])
        else:
            target[c] = max(target[c], source[c])
        c += 1


@kernel
def subtract(target: Ints, source: Ints, ops: Ints) -> None:
    """target −= source for one row of counts and sums of integers."""
    c = 0
    while c < ops.shape[0]:
        if ops[c] == PAIR:
            low = target[c + 1] - source[c + 1]
            target[c] += (low >> LOW_BITS) - source[c]
            target[c + 1] = low & LOW_MASK
            c += 1
        else:
            target[c] -= source[c]
        c += 1


@kernel
def merge_floats(target: Floats, source: Floats) -> None:
    """target += source for pairs of doubles (Knuth's two-sum, then renormalised)."""
    for c in range(0, target.shape[0], 2):
        a, b = target[c], source[c]
        total = a + b
        if np.isfinite(total):
            shift = total - a
            error = (a - (total - shift)) + (b - shift)
            error += target[c + 1] + source[c + 1]
            target[c] = total + error
            target[c + 1] = error - (target[c] - total)
        else:
            target[c] = total
            target[c + 1] = 0.0


@kernel
def copy(target: npt.NDArray[Any], source: npt.NDArray[Any]) -> None:
    """An assignment of an array, which would have seconds of numba's own error messages compiled with it."""
    for c in range(target.shape[0]):
        target[c] = source[c]


@kernel
def merge_runs(slots: Ints, panes: Ints, ints: Ints, floats: Floats, ops: Ints) -> int:
    """Merge neighbouring rows of equal (pane, slot), in place; returns how many rows remain."""
    n = slots.shape[0]
    if n == 0:
        return 0
    last = 0
    for row in range(1, n):
        if slots[row] == slots[last] and panes[row] == panes[last]:
            merge_ints(ints[last], ints[row], ops)
            merge_floats(floats[last], floats[row])
        else:
            last += 1
            slots[last] = slots[row]
            panes[last] = panes[row]
            copy(ints[last], ints[row])
            copy(floats[last], floats[row])
    return last + 1


@kernel
def chain(slots: Ints, previous: Ints, heads: Ints, start: int, stop: int, base: int) -> None:
    """Link rows start..stop of a log into their slots' chains, newest first."""
    for row in range(start, stop):
        slot = slots[row]
        previous[row] = heads[slot]
        heads[slot] = base + row


@kernel
def different(ascending: Ints) -> Ints:
    """The different numbers among some that ascend; equal ones, of which there are many, are leapt over."""
    found = np.empty(64, dtype=np.int64)
    size, at = 0, 0
    while at < len(ascending):
        if size == len(found):
            found = np.concatenate((found, np.empty_like(found)))
        number = ascending[at]
        found[size] = number
        size += 1
        reach = 1
        while at + reach < len(ascending) and ascending[at + reach] == number:
            reach *= 2
        low, high = at + reach // 2, min(at + reach, len(ascending))
        while low < high:
            middle = (low + high) >> 1
            if ascending[middle] == number:
                low = middle + 1
            else:
                high = middle
        at = low
    return found[:size]


@kernel
def slots_in(slots: Ints, start: int, stop: int, second: int, end: int, size: int) -> Ints:
    """The different slots, all below `size`, of rows start … stop and second … end, in order."""
    marks = np.zeros(size, dtype=np.bool_)
    found = 0
    for row in range(start, stop):
        found += not marks[slots[row]]
        marks[slots[row]] = True
    for row in range(second, end):
        found += not marks[slots[row]]
        marks[slots[row]] = True
    different = np.empty(found, dtype=np.int64)
    at = 0
    for slot in range(size):
        if marks[slot]:
            different[at] = slot
            at += 1
    return different


@kernel
def enter(
    slots: Ints,
    panes: Ints,
    ints: Ints,
    floats: Floats,
    start: int,
    stop: int,
    ops: Ints,
    total_ints: Ints,
    total_floats: Floats,
    newest: Ints,
) -> None:
    """Rows start..stop of a log enter a window. `newest` keeps the last pane that attained an extremum."""
    for row in range(start, stop):
        slot = slots[row]
        for c in range(ops.shape[0]):
            value = ints[row, c]
            if (ops[c] == MIN and value <= total_ints[slot, c]) or (
                ops[c] == MAX and value >= total_ints[slot, c]
            ):
                newest[slot, c] = panes[row]
        merge_ints(total_ints[slot], ints[row], ops)
        merge_floats(total_floats[slot], floats[row])


@kernel
def leave(
    slots: Ints,
    panes: Ints,
    ints: Ints,
    start: int,
    stop: int,
    ops: Ints,
    has_floats: bool,
    total_ints: Ints,
    newest: Ints,
    stale: Bools,
) -> bool:
    """Rows start..stop of a log leave a window. What cannot be subtracted marks its slot stale."""
    found = False
    for row in range(start, stop):
        slot = slots[row]
        dirty = has_floats
        c = 0
        while c < ops.shape[0]:
            op = ops[c]
            if op == ADD:
                total_ints[slot, c] -= ints[row, c]
            elif op == PAIR:
                low = total_ints[slot, c + 1] - ints[row, c + 1]
                total_ints[slot, c] += (low >> LOW_BITS) - ints[row, c]
                total_ints[slot, c + 1] = low & LOW_MASK
                c += 1
            elif newest[slot, c] == panes[row]:
                dirty = True
            c += 1
        if dirty:
            stale[slot] = True
            found = True
    return found


@kernel
def rescan(
    stale_slots: Ints,
    panes: Ints,
    ints: Ints,
    floats: Floats,
    previous: Ints,
    heads: Ints,
    base: int,
    oldest: int,
    stop: int,
    ops: Ints,
    total_ints: Ints,
    total_floats: Floats,
    newest: Ints,
) -> None:
    """Recompute extrema and float sums of `stale_slots` from their chains.

    Only panes after `oldest` count, and rows before `stop`: the log may have come farther than the window.
    """
    for index in range(stale_slots.shape[0]):
        slot = stale_slots[index]
        for c in range(ops.shape[0]):
            if ops[c] == MIN:
                total_ints[slot, c] = INT64_MAX
            elif ops[c] == MAX:
                total_ints[slot, c] = INT64_MIN
        total_floats[slot, :] = 0.0
        row = heads[slot] - base
        while row >= stop:
            row = previous[row] - base
        while row >= 0 and panes[row] > oldest:
            for c in range(ops.shape[0]):
                value = ints[row, c]
                if (ops[c] == MIN and value < total_ints[slot, c]) or (
                    ops[c] == MAX and value > total_ints[slot, c]
                ):
                    total_ints[slot, c] = value
                    newest[slot, c] = panes[row]
            merge_floats(total_floats[slot], floats[row])
            row = previous[row] - base


@kernel
def merge_chains(
    slots: Ints,
    panes: Ints,
    ints: Ints,
    floats: Floats,
    previous: Ints,
    heads: Ints,
    base: int,
    oldest: int,
    left: int,
    right: int,
    ops: Ints,
    total_ints: Ints,
    total_floats: Floats,
    changed: Bools,
) -> None:
    """Merge the rows of panes after `oldest` of some slots, each into a total of its own.

    `changed` tells of which the newest row is not before position `right`, or a row since `left` too old.
    """
    for index in range(slots.shape[0]):
        row = heads[slots[index]] - base
        changed[index] = row + base >= right
        while row >= 0 and panes[row] > oldest:
            merge_ints(total_ints[index], ints[row], ops)
            merge_floats(total_floats[index], floats[row])
            row = previous[row] - base
        if row >= 0 and row + base >= left:
            changed[index] = True


@kernel
def link_states(slots: Ints, latest: Ints, previous: Ints) -> None:
    """For each row the row before it with the same slot (−1 if none); `latest` ends as the last rows."""
    for row in range(slots.shape[0]):
        slot = slots[row]
        previous[row] = latest[slot]
        latest[slot] = row


@kernel
def ordered_changes(
    first: int, owners: Ints, instants: Ints, previous: Ints, minus: Ints, plus: Ints
) -> tuple[Ints, Ints, Ints]:
    """Rows that leave and enter, from row `first` on: which, because of which row, and −1 or 1.

    Rows are in order of owner and instant. Of one instant, minus[i] times the row before row first + i
    leaves, all of them before plus[i] times that row itself enters.
    """
    size = minus.sum() + plus.sum()
    sources, causes, signs = np.empty(size, np.int64), np.empty(size, np.int64), np.empty(size, np.int64)
    begin, at = 0, 0
    while begin < len(minus):
        end = begin + 1
        while (
            end < len(minus)
            and instants[first + end] == instants[first + begin]
            and owners[first + end] == owners[first + begin]
        ):
            end += 1
        for i in range(begin, end):
            for _ in range(minus[i]):
                sources[at], causes[at], signs[at] = previous[first + i], first + i, -1
                at += 1
        for i in range(begin, end):
            for _ in range(plus[i]):
                sources[at], causes[at], signs[at] = first + i, first + i, 1
                at += 1
        begin = end
    return sources, causes, signs


@kernel
def sum_pairs(entries: Ints, values: Ints, high: Ints, low: Ints) -> None:
    """Exact sums of int64 values per entry, as hi·2³² + lo."""
    for row in range(entries.shape[0]):
        entry = entries[row]
        part = low[entry] + (values[row] & LOW_MASK)
        high[entry] += (values[row] >> LOW_BITS) + (part >> LOW_BITS)
        low[entry] = part & LOW_MASK


@kernel
def sum_ints(entries: Ints, values: Ints, totals: npt.NDArray[Any]) -> None:
    """Sums of int64 values per entry, where the caller knows that none can overflow."""
    for row in range(entries.shape[0]):
        totals[entries[row]] += values[row]


@kernel
def sum_doubles(entries: Ints, values: Floats, totals: Floats) -> None:
    """Compensated sums of doubles per entry: totals[entry] is a pair (hi, lo)."""
    pair = np.zeros(2)
    for row in range(entries.shape[0]):
        pair[0] = values[row]
        merge_floats(totals[entries[row]], pair)


@kernel
def minima(entries: Ints, values: Ints, totals: Ints) -> None:
    for row in range(entries.shape[0]):
        if values[row] < totals[entries[row]]:
            totals[entries[row]] = values[row]


@kernel
def maxima(entries: Ints, values: Ints, totals: Ints) -> None:
    for row in range(entries.shape[0]):
        if values[row] > totals[entries[row]]:
            totals[entries[row]] = values[row]


@kernel
def count_rows(entries: Ints, totals: npt.NDArray[Any]) -> None:
    for row in range(entries.shape[0]):
        totals[entries[row]] += 1


@kernel
def has_late(ts: Ints, newest: int, slack: int) -> bool:
    """Whether a row is more than `slack` behind the newest one before it."""
    for row in range(len(ts)):
        if ts[row] < newest - slack:
            return True
        newest = max(newest, ts[row])
    return False


@kernel
def far_ahead(ts: Ints, newest: int, is_known: bool, is_exact: bool, slack: int, ahead: int) -> Ints:
    """How far each row is ahead of the newest one accepted before it, 0 where that is no more than `ahead`.

    `newest` is that of the rows before these, if there are some (`is_known`). Not `is_exact`, there may be
    newer ones: the first row that is not late is taken. Rows that are late, or too far ahead, move nothing.
    """
    out = np.zeros(len(ts), dtype=np.int64)
    is_bound = is_known and is_exact
    for row in range(len(ts)):
        if is_known and ts[row] < newest - slack:
            continue
        if is_bound and ts[row] > newest + ahead:
            out[row] = ts[row] - newest
            continue
        newest = max(newest, ts[row]) if is_known else ts[row]
        is_known = is_bound = True
    return out


@kernel
def combined(numbers: Ints, width: int, codes: Ints) -> Ints:
    """numbers · width + codes."""
    out = np.empty(len(numbers), dtype=np.int64)
    for row in range(len(numbers)):
        out[row] = numbers[row] * width + codes[row]
    return out


@kernel
def ranks_of(numbers: Ints, least: int, greatest: int) -> tuple[Ints, Ints]:
    """Of each number which one it is of the different numbers, and those, from the least one on."""
    place = np.zeros(greatest - least + 1, dtype=np.int64)
    for row in range(len(numbers)):
        place[numbers[row] - least] = 1
    present = np.flatnonzero(place)
    for rank in range(len(present)):
        place[present[rank]] = rank
    ranks = np.empty(len(numbers), dtype=np.int64)
    for row in range(len(numbers)):
        ranks[row] = place[numbers[row] - least]
    return ranks, present


@kernel
def values_in_cells(
    cells: Ints, ranks: Ints, often: Ints, size: int, width: int
) -> tuple[Ints, Ints, Ints, Ints]:
    """How often each rank below `width` occurs in each cell below `size`; row i stands for often[i], or one.

    Gives the cells that have rows, where each begins and ends in what follows: its ranks in order, with their
    counts. Rows are dealt out by rank, then by cell, which keeps the order of ranks.
    """
    rows = len(cells)
    starts = np.zeros(width + 1, dtype=np.int64)
    for row in range(rows):
        starts[ranks[row] + 1] += 1
    for rank in range(width):
        starts[rank + 1] += starts[rank]
    dealt, weights = np.empty(rows, dtype=np.int64), np.empty(len(often), dtype=np.int64)
    ends = starts[:-1].copy()
    for row in range(rows):
        at = ends[ranks[row]]
        ends[ranks[row]] += 1
        dealt[at] = cells[row]
        if len(often):
            weights[at] = often[row]
    bounds = np.zeros(size + 1, dtype=np.int64)
    for row in range(rows):
        bounds[cells[row] + 1] += 1
    for cell in range(size):
        bounds[cell + 1] += bounds[cell]
    filled = bounds[:-1].copy()
    codes, counts = np.empty(rows, dtype=np.int64), np.empty(rows, dtype=np.int64)
    for rank in range(width):
        for row in range(starts[rank], starts[rank + 1]):
            cell, weight = dealt[row], weights[row] if len(often) else 1
            at = filled[cell]
            if at > bounds[cell] and codes[at - 1] == rank:
                counts[at - 1] += weight
            else:
                codes[at], counts[at] = rank, weight
                filled[cell] = at + 1
    found, offsets = np.empty(min(rows, size), dtype=np.int64), np.zeros(min(rows, size) + 1, dtype=np.int64)
    number, end = 0, 0
    for cell in range(size):
        if filled[cell] > bounds[cell]:
            for at in range(bounds[cell], filled[cell]):
                codes[end], counts[end] = codes[at], counts[at]
                end += 1
            found[number] = cell
            number += 1
            offsets[number] = end
    return found[:number], offsets[: number + 1], codes[:end], counts[:end]


@kernel
def filled_cells(counts: npt.NDArray[Any], width: int) -> tuple[Ints, Ints, Ints, Ints]:
    """A table of cells of `width` counters: the cells that count something, and where each begins and ends.

    Then the codes of their counters that are not 0, and these.
    """
    size = int(np.count_nonzero(counts))
    most = min(size, len(counts) // width)
    cells, offsets = np.empty(most, dtype=np.int64), np.zeros(most + 1, dtype=np.int64)
    codes, often = np.empty(size, dtype=np.int64), np.empty(size, dtype=np.int64)
    found, at = 0, 0
    for cell in range(len(counts) // width):
        begin = at
        for code in range(width):
            count = counts[cell * width + code]
            if count != 0:
                codes[at], often[at] = code, count
                at += 1
        if at > begin:
            cells[found] = cell
            found += 1
            offsets[found] = at
    return cells[:found], offsets[: found + 1], codes, often
