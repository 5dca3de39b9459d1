"""One-pass pre-aggregation: the rows of a chunk become measures per pane and group, for all synopses.

Work that synopses have in common is done once a chunk: reading a column, filtering by the same WHERE,
encoding a key column, computing an argument, cutting time into panes. Then each synopsis adds its
measures with one compiled loop per measure over dense arrays.

Cost: a few nanoseconds per row, synopsis and measure. A partial has one row per (pane, group) that
occurs in the chunk.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sash.errors import InternalError
from sash.lang.bound import Scalar
from sash.lang.types import Type
from sash.operators.evaluate import evaluate, evaluate_mask
from sash.plan.measures import Measure, MeasureKind
from sash.plan.panes import Panes
from sash.plan.periodic import SynopsisSpec
from sash.plan.sketches import HASHES
from sash.state import kernels
from sash.state.fingerprints import hashes, null_mask
from sash.state.groups import canonical, plain
from sash.state.layout import Layout
from sash.state.ordering import to_ordinal

Int64Array = npt.NDArray[np.int64]
Float64Array = npt.NDArray[np.float64]

# A table of counters may be this many times as large as the rows that fill it before hashing pays.
_DENSE_FACTOR = 4
_DENSE_LEAST = 1 << 16
# Integers that lie in a range of so many times their number, but not of more than that, need no hashing.
_CLOSE_FACTOR = 16
_CLOSE_MOST = 1 << 21


@dataclass(frozen=True, slots=True)
class Partial:
    """What one chunk adds to one synopsis.

    Row i belongs to pane `panes[i]` and to the group whose key is row `groups[i]` of `keys`. Extrema of
    strings are ranks in the sorted `words` of their integer column.

    Where values are counted, `groups` are of all keys but the last, which has the different values in order,
    or the hashes that stand for them, in order; row i has value `values[i]`. Rows are in order of pane, group
    and value.
    """

    synopsis: str
    keys: tuple[pa.Array, ...]
    groups: Int64Array
    panes: Int64Array
    ints: Int64Array
    floats: Float64Array
    words: dict[int, pa.Array] = field(default_factory=dict)
    values: Int64Array | None = None


def preaggregate(ts: Int64Array, table: pa.Table, synopses: Sequence[SynopsisSpec]) -> Iterator[Partial]:
    """The partials of a chunk whose row i has the timestamp ts[i]; synopses without rows give none."""
    filters: dict[Scalar | None, _Rows] = {}
    for spec in synopses:
        rows = filters.get(spec.where)
        if rows is None:
            rows = filters[spec.where] = _filtered(ts, table, spec.where, synopses)
        if len(rows.ts):
            yield _aggregate(rows, spec) if spec.of is None else _count_values(rows, spec)


def _filtered(
    ts: Int64Array, table: pa.Table, where: Scalar | None, synopses: Sequence[SynopsisSpec]
) -> _Rows:
    if where is not None:
        mask = evaluate_mask(table, where)
        ts, table = ts[np.asarray(plain(mask))], table.filter(mask)
    scalars = tuple(dict.fromkeys(s for spec in synopses if spec.where == where for s in spec.scalars))
    return _Rows(ts, dict(zip(scalars, evaluate(table, scalars), strict=True)))


class _Rows:
    """The rows that pass one WHERE, with everything that several synopses can use computed once."""

    def __init__(self, ts: Int64Array, values: dict[Scalar, pa.ChunkedArray]) -> None:
        self.ts = ts
        self._values = values
        self._keys: dict[Scalar, tuple[Int64Array, pa.Array]] = {}
        self._panes: dict[Panes, tuple[Int64Array, Int64Array]] = {}
        self._arguments: dict[Scalar, tuple[npt.NDArray[Any], npt.NDArray[np.bool_] | None]] = {}
        self._ordinals: dict[Scalar, tuple[Int64Array, pa.Array | None]] = {}
        self._ranked: dict[tuple[Scalar, bool], tuple[Int64Array, pa.Array]] = {}

    def values(self, scalar: Scalar) -> pa.ChunkedArray:
        return self._values[scalar]

    def key(self, scalar: Scalar) -> tuple[Int64Array, pa.Array]:
        """Codes per row and the distinct values they stand for, NULL among them."""
        if scalar not in self._keys:
            self._keys[scalar] = _encode(self._values[scalar])
        return self._keys[scalar]

    def panes(self, panes: Panes) -> tuple[Int64Array, Int64Array]:
        """Dense pane numbers per row, and the true number of each."""
        if panes not in self._panes:
            numbers = panes.number_of(self.ts)
            first, last = int(numbers.min()), int(numbers.max())
            if last - first < _dense_limit(len(numbers)):
                self._panes[panes] = (numbers - first, np.arange(first, last + 1))
            else:
                dense = pa.array(numbers).dictionary_encode()
                self._panes[panes] = (
                    np.asarray(dense.indices, dtype=np.int64),
                    np.asarray(dense.dictionary),
                )
        return self._panes[panes]

    def argument(self, scalar: Scalar) -> tuple[npt.NDArray[Any], npt.NDArray[np.bool_] | None]:
        """Values per row, and which of them are there (None: all are)."""
        if scalar not in self._arguments:
            values = plain(self._values[scalar])
            present = np.asarray(values.is_valid()) if values.null_count else None
            if scalar.type in (Type.BIGINT, Type.DOUBLE):
                filled = values.fill_null(0) if values.null_count else values
                self._arguments[scalar] = (np.asarray(filled), present)
            else:
                self._arguments[scalar] = (np.empty(0), present)
        return self._arguments[scalar]

    def ordinal(self, scalar: Scalar) -> tuple[Int64Array, pa.Array | None]:
        """Integers in the order of the values, and for strings the sorted words they number."""
        if scalar not in self._ordinals:
            self._ordinals[scalar] = to_ordinal(plain(self._values[scalar]), scalar.type)
        return self._ordinals[scalar]

    def ranked(self, scalar: Scalar, *, is_hashed: bool) -> tuple[Int64Array, pa.Array]:
        """Codes per row and the values they stand for, in order of value or hash; NULL is last."""
        if (scalar, is_hashed) not in self._ranked:
            codes, values = self.key(scalar)
            if is_hashed:
                values = pa.array(hashes(values), mask=null_mask(values))
            if not _ascend(values):
                order = np.asarray(pc.sort_indices(values)).astype(np.int64)
                place = np.empty(len(order), dtype=np.int64)
                place[order] = np.arange(len(order))
                codes, values = place[codes], values.take(pa.array(order))
            self._ranked[scalar, is_hashed] = (codes, values)
        return self._ranked[scalar, is_hashed]


def _ascend(values: pa.Array) -> bool:
    """Whether different values are surely in order."""
    if not pa.types.is_int64(values.type) or values.null_count:
        return len(values) < 2
    numbers = np.asarray(values)
    return bool((numbers[1:] > numbers[:-1]).all())


def _dense_limit(rows: int) -> int:
    return max(_DENSE_LEAST, _DENSE_FACTOR * rows)


def _lie_close(least: int, greatest: int, rows: int) -> bool:
    """Whether an array over all integers between two costs less than hashing those that there are."""
    return greatest - least < max(_DENSE_LEAST, min(_CLOSE_FACTOR * rows, _CLOSE_MOST))


def _encode(values: pa.ChunkedArray) -> tuple[Int64Array, pa.Array]:
    if pa.types.is_dictionary(values.type):
        values = values.unify_dictionaries()
        chunks = values.chunks
        encoded = chunks[0] if len(chunks) == 1 else pa.chunked_array(chunks).combine_chunks()
    else:
        given = canonical(plain(values))
        few = _few_integers(given)
        if few is not None:
            return few
        encoded = given.dictionary_encode()
    indices, dictionary = encoded.indices, encoded.dictionary
    if indices.null_count:
        indices = indices.fill_null(len(dictionary))
        dictionary = pa.concat_arrays([dictionary, pa.nulls(1, dictionary.type)])
    return np.asarray(indices).astype(np.int64, copy=False), dictionary


def _few_integers(values: pa.Array) -> tuple[Int64Array, pa.Array] | None:
    """Integers that are close together need no hashing: codes and values, in order."""
    if not pa.types.is_int64(values.type) or values.null_count or not len(values):
        return None
    numbers = np.asarray(values)
    least, greatest = int(numbers.min()), int(numbers.max())
    if not _lie_close(least, greatest, len(values)):
        return None
    counts = np.zeros(greatest - least + 1, dtype=np.int64)
    offsets = numbers - least
    kernels.count_rows(offsets, counts)
    present = np.flatnonzero(counts)
    place = np.zeros(len(counts), dtype=np.int64)
    place[present] = np.arange(len(present))
    return place[offsets], pa.array(present + least)


def _groups(rows: _Rows, keys: tuple[Scalar, ...]) -> tuple[Int64Array | None, int, Sequence[Int64Array]]:
    """Group numbers per row, their bound, and per key column the code that each number stands for.

    No key: no numbers, one group. The decoding columns are empty where a number is its own code.
    """
    if not keys:
        return None, 1, ()
    numbers, values = rows.key(keys[0])
    size = len(values)
    decoded: list[Int64Array] = [np.arange(size)]
    for key in keys[1:]:
        codes, values = rows.key(key)
        width = len(values)
        numbers = numbers * width + codes
        if size * width <= _dense_limit(len(numbers)):
            decoded = [np.repeat(column, width) for column in decoded]
            decoded.append(np.tile(np.arange(width), size))
            size *= width
        else:
            dense = pa.array(numbers).dictionary_encode()
            numbers = np.asarray(dense.indices, dtype=np.int64)
            occurring = np.asarray(dense.dictionary)
            decoded = [column[occurring // width] for column in decoded]
            decoded.append(occurring % width)
            size = len(occurring)
    return numbers, size, decoded


def _aggregate(rows: _Rows, spec: SynopsisSpec) -> Partial:
    pane_of, pane_numbers = rows.panes(spec.panes)
    group_of, groups, decoded = _groups(rows, spec.keys)
    entries = pane_of if group_of is None else pane_of * groups + group_of
    size = len(pane_numbers) * groups
    if size <= _dense_limit(len(entries)):
        counts = np.zeros(size, dtype=np.int64)
        kernels.count_rows(entries, counts)
        kept = np.flatnonzero(counts)
        occurring = kept
    else:
        dense = pa.array(entries).dictionary_encode()
        entries = np.asarray(dense.indices, dtype=np.int64)
        occurring = np.asarray(dense.dictionary)
        size = len(occurring)
        counts = np.zeros(size, dtype=np.int64)
        kernels.count_rows(entries, counts)
        kept = np.arange(size)
    layout = Layout.of(spec.measures)
    ints, floats = layout.empty(len(kept))
    ints[:, 0] = counts[kept]
    words: dict[int, pa.Array] = {}
    for position, measure in enumerate(spec.measures):
        _add_measure(rows, measure, entries, size, kept, layout, position, ints, floats, words)
    local_groups = occurring % groups
    place = np.zeros(groups, dtype=np.int64)
    place[local_groups] = 1
    used = np.flatnonzero(place)
    place[used] = np.arange(len(used))
    keys = tuple(
        rows.key(key)[1].take(pa.array(codes[used])) for key, codes in zip(spec.keys, decoded, strict=True)
    )
    return Partial(
        spec.name, keys, place[local_groups], pane_numbers[occurring // groups], ints, floats, words
    )


def _count_values(rows: _Rows, spec: SynopsisSpec) -> Partial:
    """How often each value of the last key occurs, per pane and group of the others."""
    return _count_close(rows, spec) or _count_any(rows, spec)


def _count_close(rows: _Rows, spec: SynopsisSpec) -> Partial | None:
    """Without groups, integers that lie close together are counted as they are, before they are numbered."""
    if len(spec.keys) > 1 or spec.is_hashed:
        return None
    values = plain(rows.values(spec.keys[0]))
    if not pa.types.is_int64(values.type) or values.null_count:
        return None
    numbers = np.asarray(values)
    least, greatest = int(numbers.min()), int(numbers.max())
    if not _lie_close(least, greatest, len(numbers)):
        return None
    width = greatest - least + 1
    pane_of, pane_numbers = rows.panes(spec.panes)
    occurring, counts = _counted(pane_of * width + (numbers - least), len(pane_numbers) * width)
    panes, offsets = np.divmod(occurring, width)
    is_there = np.zeros(width, dtype=np.bool_)
    is_there[offsets] = True
    return Partial(
        spec.name,
        (pa.array(np.flatnonzero(is_there) + least),),
        np.zeros(len(panes), dtype=np.int64),
        pane_numbers[panes],
        counts[:, None],
        np.zeros((len(panes), 0)),
        values=(np.cumsum(is_there) - 1)[offsets],
    )


def _count_any(rows: _Rows, spec: SynopsisSpec) -> Partial:
    *keys, counted = spec.keys
    pane_of, pane_numbers = rows.panes(spec.panes)
    group_of, groups, decoded = _groups(rows, tuple(keys))
    codes, values = rows.ranked(counted, is_hashed=spec.is_hashed)
    width = len(values)
    owners = pane_of if group_of is None else pane_of * groups + group_of
    occurring, counts = _counted(owners * width + codes, len(pane_numbers) * groups * width)
    owners, codes = np.divmod(occurring, width)
    if spec.is_hashed:
        # Groups keep the least hashes only, and so may their parts.
        kept = _rank_in_run(owners) <= HASHES
        owners, codes, counts = owners[kept], codes[kept], counts[kept]
    panes, locals_ = np.divmod(owners, groups)
    used = np.flatnonzero(np.bincount(locals_, minlength=groups))
    place = np.zeros(groups, dtype=np.int64)
    place[used] = np.arange(len(used))
    known = tuple(rows.key(key)[1].take(pa.array(by[used])) for key, by in zip(keys, decoded, strict=True))
    ints, floats = counts[:, None], np.zeros((len(counts), 0))
    return Partial(
        spec.name, (*known, values), place[locals_], pane_numbers[panes], ints, floats, values=codes
    )


def _counted(entries: Int64Array, size: int) -> tuple[Int64Array, Int64Array]:
    """The different entries in order, and how often each comes; all are less than `size`."""
    if size <= _dense_limit(len(entries)):
        counts = np.zeros(size, dtype=np.int64)
        kernels.count_rows(entries, counts)
        occurring = np.flatnonzero(counts)
        return occurring, counts[occurring]
    # Sorting half as many bytes takes a fraction of the time.
    ordered = np.sort(entries.astype(np.int32) if size < 1 << 31 else entries)
    starts = np.concatenate([[0], np.flatnonzero(ordered[1:] != ordered[:-1]) + 1])
    return ordered[starts].astype(np.int64), np.diff(starts, append=len(ordered))


def _rank_in_run(owners: Int64Array) -> Int64Array:
    """The place of each row among neighbours with the same owner, from 0."""
    starts = np.flatnonzero(np.diff(owners, prepend=-1))
    return np.arange(len(owners)) - np.repeat(starts, np.diff(np.append(starts, len(owners))))


def _add_measure(
    rows: _Rows,
    measure: Measure,
    entries: Int64Array,
    size: int,
    kept: Int64Array,
    layout: Layout,
    position: int,
    ints: Int64Array,
    floats: Float64Array,
    words: dict[int, pa.Array],
) -> None:
    """Fill the columns of one measure; `kept` are the entries that become rows."""
    if measure.argument is None:
        return
    values, present = rows.argument(measure.argument)
    if measure.kind is MeasureKind.NULLS:
        if present is not None:
            nulls = np.zeros(size, dtype=np.int64)
            kernels.count_rows(entries[~present], nulls)
            ints[:, layout.ints[position]] = nulls[kept]
        return
    if present is not None:
        entries = entries[present]
    column = layout.ints[position]
    match measure.kind:
        case MeasureKind.SUM if measure.argument.type is Type.BIGINT:
            high, low = _sum_ints(entries, values if present is None else values[present], size)
            ints[:, column], ints[:, column + 1] = high[kept], low[kept]
        case MeasureKind.SUM:
            pairs = np.zeros((size, 2))
            kernels.sum_doubles(entries, values if present is None else values[present], pairs)
            first = layout.floats[position]
            floats[:, first : first + 2] = pairs[kept]
        case MeasureKind.MIN | MeasureKind.MAX:
            ordinals, vocabulary = rows.ordinal(measure.argument)
            if vocabulary is not None:
                words[column] = vocabulary
            extrema = np.full(size, layout.identity()[column])
            extend = kernels.minima if measure.kind is MeasureKind.MIN else kernels.maxima
            extend(entries, ordinals if present is None else ordinals[present], extrema)
            ints[:, column] = extrema[kept]
        case _:
            raise InternalError(f"no pre-aggregation for the measure {measure}")


def _sum_ints(entries: Int64Array, values: npt.NDArray[Any], size: int) -> tuple[Int64Array, Int64Array]:
    high, low = np.zeros(size, dtype=np.int64), np.zeros(size, dtype=np.int64)
    if len(values) == 0:
        return high, low
    largest = max(abs(int(values.min())), abs(int(values.max())))
    if largest * len(values) < 1 << 62:
        totals = np.zeros(size, dtype=np.int64)
        kernels.sum_ints(entries, values, totals)
        return totals >> kernels.LOW_BITS, totals & kernels.LOW_MASK
    kernels.sum_pairs(entries, values, high, low)
    return high, low
