"""Answers put together from the totals of several synopses (002, section 8.3.3, second step).

Totals are measures per group, as a synopsis gives them for one window. Sums and counts are added or taken
away, extrema are compared; parts that stand beside each other give other measures of the same groups. It
works on whole columns: one hash pass over the groups of each part, then one compiled pass over its measures.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sash.errors import InternalError
from sash.plan.duplicates import is_subtractable
from sash.plan.measures import Measure
from sash.sharing.workload import Reading
from sash.state import kernels
from sash.state.groups import GroupTable
from sash.state.layout import Layout
from sash.state.ordering import Words, recode

Int64Array = npt.NDArray[np.int64]
Float64Array = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Totals:
    """Measures per group: row i belongs to the group whose key is row i of `keys`; no keys: one row.

    `words` are the strings that codes in an integer column stand for.
    """

    measures: tuple[Measure, ...]
    keys: tuple[pa.Array, ...]
    ints: Int64Array
    floats: Float64Array
    words: Mapping[int, Words] = field(default_factory=dict)


def combine(reading: Reading, totals: Mapping[str, Totals], wanted: tuple[Measure, ...]) -> Totals:
    """The totals of a query from those of the synopses that it reads, over the same window."""
    parts = [totals[part.synopsis] for part in reading.parts]
    groups = GroupTable([key.type for key in parts[0].keys])
    slots = [groups.encode(part.keys) if part.keys else np.zeros(len(part.ints), np.int64) for part in parts]
    layout = Layout.of(wanted)
    ints, floats = layout.empty(groups.size)
    words: dict[int, Words] = {}
    if reading.beside:
        _beside(wanted, layout, parts, slots, ints, floats, words)
    else:
        for part, place, sign in zip(parts, slots, (part.sign for part in reading.parts), strict=True):
            _add(wanted, layout, part, place, sign, ints, floats, words)
    used = np.flatnonzero(ints[:, 0]) if groups.types else np.arange(len(ints))
    keys = tuple(groups.keys_of(used)) if groups.types else ()
    return Totals(wanted, keys, ints[used], floats[used], words)


def _add(
    wanted: tuple[Measure, ...],
    layout: Layout,
    part: Totals,
    slots: Int64Array,
    sign: int,
    ints: Int64Array,
    floats: Float64Array,
    words: dict[int, Words],
) -> None:
    """Add or take away the rows of one part."""
    own_ints, own_floats = layout.empty(len(part.ints))
    _copy(wanted, layout, part, np.arange(len(part.ints)), own_ints, own_floats, words, ints)
    ops = layout.ops
    nowhere = np.full_like(ints, -1)
    panes = np.zeros(len(slots), dtype=np.int64)
    if sign > 0:
        kernels.enter(slots, panes, own_ints, own_floats, 0, len(slots), ops, ints, floats, nowhere)
        return
    if not all(map(is_subtractable, wanted)):
        raise InternalError("an aggregate that cannot be subtracted is to be taken away")
    stale = np.zeros(len(ints), dtype=np.bool_)
    kernels.leave(slots, panes, own_ints, 0, len(slots), ops, False, ints, nowhere, stale)


def _beside(
    wanted: tuple[Measure, ...],
    layout: Layout,
    parts: Sequence[Totals],
    slots: Sequence[Int64Array],
    ints: Int64Array,
    floats: Float64Array,
    words: dict[int, Words],
) -> None:
    """Each measure from the first part that has it."""
    left = list(wanted)
    for part, place in zip(parts, slots, strict=True):
        has = tuple(measure for measure in left if measure in part.measures)
        _copy(has, layout, part, place, ints, floats, words, ints)
        left = [measure for measure in left if measure not in has]
    if left:
        raise InternalError(f"no part has {left[0]}")


def _copy(
    measures: tuple[Measure, ...],
    layout: Layout,
    part: Totals,
    rows: Int64Array,
    ints: Int64Array,
    floats: Float64Array,
    words: dict[int, Words],
    known: Int64Array,
) -> None:
    """Put measures of a part where `layout` has them; codes of strings move with all that is `known`."""
    have = Layout.of(part.measures)
    for measure in measures:
        column, pair = layout.column(measure.kind, measure.argument)
        own, own_pair = have.column(measure.kind, measure.argument)
        if column < 0:
            floats[rows, pair : pair + 2] = part.floats[:, own_pair : own_pair + 2]
            continue
        width = 2 if layout.operations[column] == kernels.PAIR else 1
        values = part.ints[:, own : own + width].copy()
        if own in part.words:
            all_words = words.setdefault(column, Words())
            moved = all_words.insert(part.words[own].values)
            if moved is not None:
                recode(known[:, column], moved)
            recode(values[:, 0], all_words.codes(part.words[own].values))
        ints[rows, column : column + width] = values
