"""The order of rows: by sort keys, and by all of their values where nothing else decides.

Values compare as in the evaluator: NaN is the greatest number, strings compare byte by byte; NULL comes last
unless a key says otherwise.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sash.lang.algebra import Field, SortKey
from sash.lang.values import Scalar
from sash.operators.delta import Ints, as_table, one_array
from sash.operators.evaluate import evaluate
from sash.state.fingerprints import null_mask
from sash.state.ordering import to_ordinal


def ordinals(columns: Sequence[pa.Array], fields: Sequence[Field]) -> list[npt.NDArray[np.int64]]:
    """Sort keys, the most significant first, that put rows in the order of their values."""
    keys: list[npt.NDArray[np.int64]] = []
    for column, field in zip(columns, fields, strict=True):
        nulls = null_mask(column)
        if nulls is not None:
            keys.append(nulls.astype(np.int64))
        codes = to_ordinal(column, field.type)[0]
        keys.append(codes if nulls is None else np.where(nulls, 0, codes))
    return keys


def value_order(ts: Ints, columns: Sequence[pa.Array], fields: Sequence[Field]) -> Ints:
    """Positions of rows in the order of time and then of their values."""
    return np.lexsort((*ordinals(columns, fields)[::-1], ts))


def first_column(fields: Sequence[Field]) -> SortKey:
    """What decides first where nothing but values does."""
    name, type_ = fields[0].name, fields[0].type
    return SortKey(Scalar('"' + name.replace('"', '""') + '"', type_, (name,), name))


def sort_order(columns: Sequence[pa.Array], fields: Sequence[Field], order: Sequence[SortKey]) -> Ints:
    """Positions of rows by ORDER BY, then by their values."""
    count = len(columns[0]) if columns else 0
    table = as_table(columns, [field.name for field in fields], count)
    keys: list[npt.NDArray[np.int64]] = []
    for key, values in zip(order, evaluate(table, [key.scalar for key in order]), strict=True):
        column = one_array(values)
        nulls = null_mask(column)
        codes = to_ordinal(column, key.scalar.type)[0]
        if nulls is not None:
            keys.append((~nulls if key.nulls_first else nulls).astype(np.int64))
            codes = np.where(nulls, 0, codes)
        # ~x reverses the order of integers without overflow.
        keys.append(~codes if key.is_descending else codes)
    return np.lexsort((*keys, *ordinals(columns, fields))[::-1])
