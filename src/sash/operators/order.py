"""The order of rows: by sort keys, and by all of their values where nothing else decides.

Values compare as in the evaluator: NaN is the greatest number, strings compare byte by byte; NULL comes last
unless a key says otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial

import numpy as np
import pyarrow as pa

from sash.lang.algebra import Field, SortKey
from sash.lang.types import Type
from sash.lang.values import Scalar
from sash.operators.delta import Bools, Delta, Ints, as_table, one_array
from sash.operators.evaluate import evaluate
from sash.operators.net import in_order
from sash.state.fingerprints import null_mask
from sash.state.ordering import to_ordinal


def in_file_order(delta: Delta, fields: Sequence[Field], order: Sequence[SortKey]) -> Delta:
    """Rows as files have them: by instant, those that leave first, then by sort keys and by their values.

    Only rows that share their instant and sign are compared, by one column after the other until all differ.
    """
    delta = in_order(delta)
    apart = delta.ts[1:] != delta.ts[:-1]
    if delta.sign is not None:
        apart |= delta.sign[1:] != delta.sign[:-1]
    places = _places(apart, partial(_keys, delta.columns, fields, order))
    return delta if places is None else delta.take(places)


def places_by_value(apart: Bools, columns: Sequence[pa.Array], types: Sequence[Type]) -> Ints | None:
    """Where rows come from if each run of them, which ends where the next is `apart`, is put in order.

    None: they are.
    """
    return _places(apart, partial(_by_value, columns, types))


def _places(apart: Bools, keys: Callable[[Ints | None], Iterator[Ints]]) -> Ints | None:
    """The same by any keys: `keys` gives those of some rows (None: of all), the most significant first."""
    if apart.all():
        return None
    starts = np.concatenate([[True], apart])
    shared = ~(starts & np.concatenate([apart, [True]]))
    rows = None if shared.all() else np.flatnonzero(shared)
    run = np.cumsum(starts if rows is None else starts[rows])
    order = np.arange(len(run))
    for key in keys(rows):
        values = key[order]
        tied = run[1:] == run[:-1]
        if bool((tied & (values[1:] < values[:-1])).any()):
            again = np.lexsort((values, run))
            order, values = order[again], values[again]
        tied &= values[1:] == values[:-1]
        if not tied.any():
            break
        run = np.concatenate([[0], np.cumsum(~tied)])
    if bool((order[1:] > order[:-1]).all()):
        return None
    if rows is None:
        return order
    places = np.arange(len(starts))
    places[rows] = rows[order]
    return places


def _keys(
    columns: Sequence[pa.Array], fields: Sequence[Field], order: Sequence[SortKey], rows: Ints | None
) -> Iterator[Ints]:
    """The sort keys of some rows: those of ORDER BY, then the values of each column."""
    if order:
        taken = [_some(column, rows) for column in columns]
        table = as_table(taken, [field.name for field in fields], len(taken[0]))
        for key, values in zip(order, evaluate(table, [key.scalar for key in order]), strict=True):
            yield from _ranked(one_array(values), key)
    yield from _by_value(columns, [field.type for field in fields], rows)


def _by_value(columns: Sequence[pa.Array], types: Sequence[Type], rows: Ints | None) -> Iterator[Ints]:
    for column, type_ in zip(columns, types, strict=True):
        chosen = _some(column, rows)
        nulls = null_mask(chosen)
        if nulls is not None:
            yield nulls.astype(np.int64)
        codes = to_ordinal(chosen, type_)[0]
        yield codes if nulls is None else np.where(nulls, 0, codes)


def _some(column: pa.Array, rows: Ints | None) -> pa.Array:
    return column if rows is None else column.take(pa.array(rows))


def first_column(fields: Sequence[Field]) -> SortKey:
    """What decides first where nothing but values does."""
    name, type_ = fields[0].name, fields[0].type
    return SortKey(Scalar('"' + name.replace('"', '""') + '"', type_, (name,), name))


def sort_order(columns: Sequence[pa.Array], fields: Sequence[Field], order: Sequence[SortKey]) -> Ints:
    """Positions of rows by ORDER BY, then by their values."""
    count = len(columns[0]) if columns else 0
    table = as_table(columns, [field.name for field in fields], count)
    keys: list[Ints] = []
    for key, values in zip(order, evaluate(table, [key.scalar for key in order]), strict=True):
        keys.extend(_ranked(one_array(values), key))
    return np.lexsort((*keys, *_by_value(columns, [field.type for field in fields], None))[::-1])


def _ranked(column: pa.Array, key: SortKey) -> Iterator[Ints]:
    """The sort keys of a column for an ORDER BY."""
    nulls = null_mask(column)
    codes = to_ordinal(column, key.scalar.type)[0]
    if nulls is not None:
        yield (~nulls if key.nulls_first else nulls).astype(np.int64)
        codes = np.where(nulls, 0, codes)
    # ~x reverses the order of integers without overflow.
    yield ~codes if key.is_descending else codes
