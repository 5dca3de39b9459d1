"""Partials as Arrow tables: how they lie in pane files; and partials divided among partitions.

A row is a (pane, group): the key columns k0, k1, …, then `pane`, then the measures i0, i1, … and f0, f1, ….
An extremum of strings is kept as the string itself. Which partition a group belongs to follows from its keys.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sash.lang.types import Type
from sash.operators.preaggregate import Partial
from sash.plan.periodic import SynopsisSpec
from sash.state.fingerprints import places
from sash.state.groups import plain
from sash.state.layout import Layout
from sash.state.ordering import to_ordinal


def to_table(spec: SynopsisSpec, partial: Partial) -> pa.Table:
    owners = partial.owners
    places = [partial.groups[owners]] * len(partial.keys)
    if partial.values is not None:
        places[-1] = partial.values
    columns: dict[str, pa.Array] = {
        f"k{i}": key.take(pa.array(place))
        for i, (key, place) in enumerate(zip(partial.keys, places, strict=True))
    }
    columns["pane"] = pa.array(partial.panes[owners])
    layout = Layout.of(spec.measures)
    for column in range(partial.ints.shape[1]):
        values = partial.ints[:, column]
        if column in string_columns(layout):
            words = partial.words.get(column, pa.array([], pa.string()))
            codes = pa.array(values, mask=(values < 0) | (values >= len(words)))
            columns[f"i{column}"] = words.take(codes)
        else:
            columns[f"i{column}"] = pa.array(values.astype(np.int64, copy=False))
    for column in range(partial.floats.shape[1]):
        columns[f"f{column}"] = pa.array(partial.floats[:, column])
    return pa.table(columns)


def from_table(spec: SynopsisSpec, table: pa.Table) -> Partial:
    layout = Layout.of(spec.measures)
    ints, floats = layout.empty(table.num_rows)
    words: dict[int, pa.Array] = {}
    for column in range(ints.shape[1]):
        values = table.column(f"i{column}").combine_chunks()
        if column in string_columns(layout):
            ordinals, vocabulary = to_ordinal(values, Type.STRING)
            assert vocabulary is not None
            words[column] = vocabulary
            present = np.asarray(pc.is_valid(values))
            ints[present, column] = ordinals[present]
        else:
            ints[:, column] = np.asarray(values)
    for column in range(floats.shape[1]):
        floats[:, column] = np.asarray(table.column(f"f{column}"))
    keys = tuple(table.column(f"k{i}").combine_chunks() for i in range(len(spec.keys)))
    rows = np.arange(table.num_rows)
    values = None if spec.of is None else rows
    return Partial(spec.name, keys, rows, np.asarray(table.column("pane")), ints, floats, words, values)


def string_columns(layout: Layout) -> frozenset[int]:
    """The integer columns that hold places of words."""
    return frozenset(
        column
        for measure, column in zip(layout.measures, layout.ints, strict=True)
        if column >= 0
        and measure.argument is not None
        and measure.argument.type is Type.STRING
        and measure.kind.value in ("min", "max")
    )


def by_partition(partial: Partial, of: int) -> Iterator[tuple[int, Partial]]:
    """The rows of a partial by the partition, of so many, that their groups belong to."""
    at = _places(partial, of)
    cells_at = at[partial.groups]
    order = np.argsort(cells_at, kind="stable")
    bounds = np.searchsorted(cells_at[order], np.arange(of + 1))
    for partition in range(of):
        cells = order[bounds[partition] : bounds[partition + 1]]
        if len(cells):
            yield partition, _taken(partial, cells, at == partition)


def part_of(partial: Partial, partition: int, of: int) -> Partial:
    """The rows whose groups belong to one partition of so many."""
    mine = _places(partial, of) == partition
    return _taken(partial, np.flatnonzero(mine[partial.groups]), mine)


def _places(partial: Partial, of: int) -> npt.NDArray[np.int64]:
    """The partition of each group."""
    keys = partial.keys if partial.values is None else partial.keys[:-1]
    return places([plain(key) for key in keys], len(keys[0]), of)


def _taken(partial: Partial, cells: npt.NDArray[np.int64], groups: npt.NDArray[np.bool_]) -> Partial:
    """Some panes of groups, in their order, with the groups that are marked."""
    numbers = np.cumsum(groups) - 1
    marked = pa.array(groups)
    chosen = replace(partial, groups=numbers[partial.groups[cells]], panes=partial.panes[cells])
    if partial.values is None:
        keys = tuple(key.filter(marked) for key in partial.keys)
        return replace(chosen, keys=keys, ints=partial.ints[cells], floats=partial.floats[cells])
    rows, offsets = cells, None
    if partial.offsets is not None:
        lengths = np.diff(partial.offsets)[cells]
        offsets = np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(lengths)])
        rows = np.arange(offsets[-1]) + np.repeat(partial.offsets[cells] - offsets[:-1], lengths)
    used, values = np.unique(partial.values[rows], return_inverse=True)
    *own, given = partial.keys
    return replace(
        chosen,
        keys=(*(key.filter(marked) for key in own), given.take(pa.array(used))),
        ints=partial.ints[rows],
        floats=partial.floats[rows],
        values=values,
        offsets=offsets,
    )
