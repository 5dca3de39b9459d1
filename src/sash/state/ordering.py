"""Values as integers in the same order, so that one pair of kernels finds extrema of every type.

Doubles use the order of their bits (−0.0 is 0.0, NaN is greater than everything, as in the evaluator).
Strings are numbered by their place among the sorted distinct words, compared byte by byte.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sash.lang.types import Type
from sash.state import kernels

Int64Array = npt.NDArray[np.int64]


def canonical(values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """The same doubles with one zero and one NaN, so that equal values have equal bits."""
    return np.where(np.isnan(values), np.nan, values + 0.0)


def double_to_ordinal(values: npt.NDArray[np.float64]) -> Int64Array:
    bits = canonical(values).view(np.int64)
    return bits ^ ((bits >> 63) & kernels.INT64_MAX)


def ordinal_to_double(ordinals: Int64Array) -> npt.NDArray[np.float64]:
    return (ordinals ^ ((ordinals >> 63) & kernels.INT64_MAX)).view(np.float64)


def to_ordinal(values: pa.Array, type_: Type) -> tuple[Int64Array, pa.Array | None]:
    """Integers in the order of `values` (anything where a value is NULL) and, for strings, the words."""
    match type_:
        case Type.BIGINT:
            return np.asarray(values.fill_null(0)), None
        case Type.DOUBLE:
            return double_to_ordinal(np.asarray(values.fill_null(0.0))), None
        case Type.BOOLEAN:
            return np.asarray(values.fill_null(False)).astype(np.int64), None
        case Type.TIMESTAMP:
            return np.asarray(values.cast(pa.int64()).fill_null(0)), None
        case Type.STRING:
            return ranked_words(values)


def ranked_words(values: pa.Array) -> tuple[Int64Array, pa.Array]:
    """The place of each string among the different ones in order (anything where it is NULL), and those."""
    encoded = values if pa.types.is_dictionary(values.type) else values.dictionary_encode()
    order = np.asarray(pc.sort_indices(encoded.dictionary)).astype(np.int64)
    rank = np.empty(len(order) + 1, dtype=np.int64)
    rank[order] = np.arange(len(order))
    rank[-1] = 0
    codes = np.asarray(encoded.indices.fill_null(len(order))).astype(np.int64)
    return rank[codes], encoded.dictionary.take(pa.array(order))


class Words:
    """Distinct strings in sorted order; the code of a word is its place, so codes compare as words do."""

    def __init__(self) -> None:
        self.values: pa.Array = pa.array([], pa.string())

    def insert(self, words: pa.Array) -> Int64Array | None:
        """Add words. If codes moved, the new code of each old one."""
        unknown = words.filter(pc.index_in(words, value_set=self.values).is_null())
        if len(unknown) == 0:
            return None
        old = self.values
        merged = pa.concat_arrays([old, unknown])
        self.values = merged.take(pc.sort_indices(merged))
        return self.codes(old)

    def keep(self, kept: Int64Array) -> Int64Array:
        """Forget all words but those with the given codes; gives the new code of each old one, −1 if gone."""
        moved = np.full(len(self.values), -1, dtype=np.int64)
        moved[kept] = np.arange(len(kept))
        self.values = self.values.take(pa.array(kept))
        return moved

    def codes(self, words: pa.Array) -> Int64Array:
        return np.asarray(pc.index_in(words, value_set=self.values)).astype(np.int64)


def recode(column: Int64Array, codes: Int64Array) -> None:
    """Replace codes by `codes[code]` in place; the marks of «no value yet» stay."""
    real = is_code(column)
    column[real] = codes[column[real]]


def is_code(column: Int64Array) -> npt.NDArray[np.bool_]:
    """Which entries are codes, not marks of «no value yet»."""
    real: npt.NDArray[np.bool_] = (column != kernels.INT64_MAX) & (column != kernels.INT64_MIN)
    return real
