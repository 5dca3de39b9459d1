"""Partials as Arrow tables: how they lie in pane files.

A row is a (pane, group): the key columns k0, k1, …, then `pane`, then the measures i0, i1, … and f0, f1, ….
An extremum of strings is kept as the string itself.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sash.lang.types import Type
from sash.operators.preaggregate import Partial
from sash.plan.periodic import SynopsisSpec
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
    panes = np.asarray(table.column("pane"))
    if spec.of is None:
        return Partial(spec.name, keys, rows, panes, ints, floats, words)
    return Partial(spec.name, keys, rows, panes, ints, floats, words, rows, np.arange(table.num_rows + 1))


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
