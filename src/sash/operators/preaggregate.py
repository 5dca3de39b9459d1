"""One-pass pre-aggregation: the rows of a chunk become measures per pane and group, for all synopses.

Work that synopses have in common is done once a chunk: reading a column, filtering by the same WHERE,
encoding a key column, computing an argument, cutting time into panes. Then each synopsis adds its
measures with one compiled loop per measure over dense arrays: from the rows, or from the partial of a finer
grouping in which it is contained, if that has far fewer (`summary.py`).

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
from sash.operators.summary import Ranking, Summary, Whole, smallest
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

_NONE: Int64Array = np.zeros(0, dtype=np.int64)
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
    or the hashes that stand for them, in order. Then panes and groups are of cells: cell i has the rows
    offsets[i] … offsets[i + 1] of `ints`, and these have the values `values`, which ascend. Cells are in
    order of pane, and there is one a pane and group. Codes and counts take as few bytes as they need. Without
    `offsets`, as pane files have them, row i belongs to panes[i] and groups[i], in any order.
    """

    synopsis: str
    keys: tuple[pa.Array, ...]
    groups: Int64Array
    panes: Int64Array
    ints: Int64Array
    floats: Float64Array
    words: dict[int, pa.Array] = field(default_factory=dict)
    values: npt.NDArray[Any] | None = None
    offsets: Int64Array | None = None

    @property
    def owners(self) -> Int64Array:
        """For each row of `ints` the place of its pane and group."""
        if self.offsets is None:
            return np.arange(len(self.panes))
        return np.repeat(np.arange(len(self.panes)), np.diff(self.offsets))


def preaggregate(ts: Int64Array, table: pa.Table, synopses: Sequence[SynopsisSpec]) -> Iterator[Partial]:
    """The partials of a chunk whose row i has the timestamp ts[i]; synopses without rows give none."""
    partials: dict[str, Partial] = {}
    for where in dict.fromkeys(spec.where for spec in synopses):
        rows = _filtered(ts, table, where, synopses)
        summaries: list[Summary] = []
        # The finest first: others may be contained in them.
        for spec in sorted(
            (spec for spec in synopses if spec.where == where and len(rows.ts)),
            key=lambda spec: (-len(spec.keys), spec.of is not None),
        ):
            source = smallest(summaries, spec, len(rows.ts)) or rows
            found, partial = _aggregate(source, spec) if spec.of is None else _count_values(source, spec)
            partials[spec.name] = partial
            if not partial.words and not spec.is_hashed:
                summaries.append(found)
    for spec in synopses:
        if spec.name in partials:
            yield partials[spec.name]


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
        self.cells: dict[
            tuple[Panes, tuple[Scalar, ...]], tuple[Int64Array, Int64Array, int, tuple[Int64Array, ...]]
        ] = {}
        self._rankings: dict[tuple[Scalar, bool], Ranking] = {}

    @property
    def size(self) -> int:
        return len(self.ts)

    @property
    def whole(self) -> _Rows:
        """The rows of the chunk: these."""
        return self

    def key(self, scalar: Scalar) -> tuple[Int64Array, pa.Array]:
        """Codes per row and the distinct values they stand for, NULL among them."""
        if scalar not in self._keys:
            self._keys[scalar] = _encode(self._values[scalar])
        return self._keys[scalar]

    def panes(self, panes: Panes) -> tuple[Int64Array, Int64Array]:
        """Dense pane numbers per row, and the true number of each."""
        if panes not in self._panes:
            first, last = panes.number_at(int(self.ts.min())), panes.number_at(int(self.ts.max()))
            if last - first < _dense_limit(self.size) and bool((self.ts[1:] >= self.ts[:-1]).all()):
                # In order of time a pane is a stretch of rows.
                edges = panes.right_edges(np.arange(first, last))
                ends = np.concatenate([[0], np.searchsorted(self.ts, edges, side="right"), [self.size]])
                dense = np.repeat(np.arange(last - first + 1), np.diff(ends))
                self._panes[panes] = (dense, np.arange(first, last + 1))
                return self._panes[panes]
            numbers = panes.number_of(self.ts)
            if last - first < _dense_limit(len(numbers)):
                self._panes[panes] = (numbers - first, np.arange(first, last + 1))
            else:
                distinct, dense = np.unique(numbers, return_inverse=True)
                self._panes[panes] = (dense, distinct)
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

    def ranking(self, scalar: Scalar, *, is_hashed: bool) -> Ranking:
        """The values of a key in order of value or hash; NULL is last."""
        if (scalar, is_hashed) not in self._rankings:
            _, values = self.key(scalar)
            if is_hashed:
                values = pa.array(hashes(values), mask=null_mask(values))
            ranking = Ranking(None, None, values)
            if not _ascend(values):
                order = np.asarray(pc.sort_indices(values)).astype(np.int64)
                place = np.empty(len(order), dtype=np.int64)
                place[order] = np.arange(len(order))
                ranking = Ranking(order, place, values.take(pa.array(order)))
            self._rankings[scalar, is_hashed] = ranking
        return self._rankings[scalar, is_hashed]

    def count(self, entries: Int64Array, totals: npt.NDArray[Any]) -> None:
        """Add up how many rows each entry has."""
        kernels.count_rows(entries, totals)

    @property
    def often(self) -> Int64Array:
        """How many rows of the chunk each one stands for; none: for itself."""
        return _NONE


def _ascend(values: pa.Array) -> bool:
    """Whether different values are surely in order."""
    if not pa.types.is_int64(values.type) or values.null_count:
        return len(values) < 2
    numbers = np.asarray(values)
    return bool((numbers[1:] > numbers[:-1]).all())


def _dense_limit(rows: int) -> int:
    return max(_DENSE_LEAST, _DENSE_FACTOR * rows)


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
    if greatest - least >= max(_DENSE_LEAST, min(_CLOSE_FACTOR * len(values), _CLOSE_MOST)):
        return None
    codes, present = kernels.ranks_of(numbers, least, greatest)
    return codes, pa.array(present + least)


def _cells(
    rows: _Rows | Summary, panes: Panes, keys: tuple[Scalar, ...]
) -> tuple[Int64Array, Int64Array, int, tuple[Int64Array, ...]]:
    """Per row pane · groups + group, the panes' true numbers, the bound of groups, what they stand for."""
    known = rows.cells if isinstance(rows, _Rows) else {}
    if (panes, keys) not in known:
        pane_of, pane_numbers = rows.panes(panes)
        group_of, groups, decoded = _groups(rows, keys)
        entries = pane_of if group_of is None else kernels.combined(pane_of, groups, group_of)
        known[panes, keys] = entries, pane_numbers, groups, decoded
    return known[panes, keys]


def _groups(
    rows: _Rows | Summary, keys: tuple[Scalar, ...]
) -> tuple[Int64Array | None, int, tuple[Int64Array, ...]]:
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
        numbers = kernels.combined(numbers, width, codes)
        if size * width <= _dense_limit(rows.whole.size):
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
    return numbers, size, tuple(decoded)


def _aggregate(rows: _Rows | Summary, spec: SynopsisSpec) -> tuple[Summary, Partial]:
    entries, pane_numbers, groups, decoded = _cells(rows, spec.panes, spec.keys)
    size = len(pane_numbers) * groups
    occurring = None
    if size > _dense_limit(rows.whole.size):
        dense = pa.array(entries).dictionary_encode()
        entries = np.asarray(dense.indices, dtype=np.int64)
        occurring = np.asarray(dense.dictionary)
        size = len(occurring)
    counts = np.zeros(size, dtype=np.int64)
    rows.count(entries, counts)
    kept = np.flatnonzero(counts)
    if occurring is None:
        occurring = kept
    layout = Layout.of(spec.measures)
    words: dict[int, pa.Array] = {}
    if isinstance(rows, Summary):
        ints, floats = rows.measured(layout, entries, size, kept)
    else:
        ints, floats = layout.empty(len(kept))
        ints[:, 0] = counts[kept]
        for position, measure in enumerate(spec.measures):
            _add_measure(rows, measure, entries, size, kept, layout, position, ints, floats, words)
    local_groups = occurring % groups
    place = np.zeros(groups, dtype=np.int64)
    place[local_groups] = 1
    used = np.flatnonzero(place)
    place[used] = np.arange(len(used))
    keys = _keys_of(rows.whole, spec.keys, [codes[used] for codes in decoded])
    panes = pane_numbers[occurring // groups]
    summary = Summary(rows.whole, spec, pane_numbers, occurring, groups, decoded, ints, floats)
    return summary, Partial(spec.name, keys, place[local_groups], panes, ints, floats, words)


def _count_values(rows: _Rows | Summary, spec: SynopsisSpec) -> tuple[Summary, Partial]:
    """How often each value of the last key occurs, per pane and group of the others."""
    *keys, counted = spec.keys
    owners, pane_numbers, groups, decoded = _cells(rows, spec.panes, tuple(keys))
    ranking = rows.ranking(counted, is_hashed=spec.is_hashed)
    codes, _ = rows.key(counted)
    ranks = codes if ranking.place is None else ranking.place[codes]
    width = len(ranking.values)
    size, most = len(pane_numbers) * groups, _dense_limit(rows.whole.size)
    if size * width <= most:
        table = np.zeros(size * width, dtype=np.int32)
        rows.count(kernels.combined(owners, width, ranks), table)
        cells, offsets, ranks, counts = kernels.filled_cells(table, width)
    elif size <= most:
        cells, offsets, ranks, counts = kernels.values_in_cells(owners, ranks, rows.often, size, width)
    else:
        found, owners = np.unique(owners, return_inverse=True)
        cells, offsets, ranks, counts = kernels.values_in_cells(owners, ranks, rows.often, len(found), width)
        cells = found[cells]
    if spec.is_hashed:
        # Groups keep the least hashes only, and so may their parts.
        lengths = np.diff(offsets)
        kept = np.arange(len(ranks)) - np.repeat(offsets[:-1], lengths) <= HASHES
        ranks, counts = ranks[kept], counts[kept]
        offsets = np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(np.minimum(lengths, HASHES + 1))])
    panes, locals_ = np.divmod(cells, groups)
    used = np.flatnonzero(np.bincount(locals_, minlength=groups))
    place = np.zeros(groups, dtype=np.int64)
    place[used] = np.arange(len(used))
    known = _keys_of(rows.whole, keys, [codes[used] for codes in decoded])
    none = np.zeros((len(counts), 0))
    ints = counts[:, None]
    summary = Summary(rows.whole, spec, pane_numbers, cells, groups, decoded, ints, none, ranks, offsets)
    return summary, Partial(
        spec.name,
        (*known, ranking.values),
        place[locals_],
        pane_numbers[panes],
        _narrow(ints),
        none,
        values=_narrow(ranks),
        offsets=offsets,
    )


def _keys_of(rows: Whole, keys: Sequence[Scalar], codes: Sequence[Int64Array]) -> tuple[pa.Array, ...]:
    return tuple(rows.key(key)[1].take(pa.array(own)) for key, own in zip(keys, codes, strict=True))


def _narrow(numbers: Int64Array) -> npt.NDArray[Any]:
    """Numbers that are not negative in as few bytes as they need: they travel between processes."""
    return numbers.astype(np.min_scalar_type(int(numbers.max(initial=0))))


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
