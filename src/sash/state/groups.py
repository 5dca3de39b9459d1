"""Group keys and their slots: a slot is a small dense number by which arrays are indexed.

Keys are Arrow columns of any type; NULL is a key like any other and NaN equals NaN. All work is done on
whole columns: a batch of keys costs one hash pass over the batch and one over the known values.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Int64Array = npt.NDArray[np.int64]


class Dictionary:
    """Distinct values in order of first appearance; a value's code is its position."""

    def __init__(self, type_: pa.DataType) -> None:
        self.values: pa.Array = pa.array([], type_)

    def encode(self, values: pa.Array) -> Int64Array:
        """The code of each value; unknown values get the next codes."""
        codes = pc.index_in(values, value_set=self.values)
        if codes.null_count:
            unknown = values.filter(codes.is_null()).unique()
            self.values = pa.concat_arrays([self.values, unknown])
            codes = pc.index_in(values, value_set=self.values)
        return np.asarray(codes, dtype=np.int64)


class GroupTable:
    """Slots of composite keys. With no key columns there is one group, slot 0, from the start."""

    def __init__(self, types: Sequence[pa.DataType]) -> None:
        self.types = tuple(types)
        self._columns = [Dictionary(type_) for type_ in types]
        # Composite keys are numbered pair by pair: (number of the first columns, code of the next).
        self._pairs = [Dictionary(pa.int64()) for _ in types[1:]]
        self._codes: list[Int64Array] = [np.zeros(0, dtype=np.int64) for _ in types]
        self.size = 0 if types else 1

    def encode(self, keys: Sequence[pa.Array]) -> Int64Array:
        """The slot of each key row."""
        codes = [column.encode(plain(values)) for column, values in zip(self._columns, keys, strict=True)]
        slots = codes[0]
        for pairs, following in zip(self._pairs, codes[1:], strict=True):
            slots = pairs.encode(pa.array((slots << 32) | following))
        self._remember(slots, codes)
        return slots

    def _remember(self, slots: Int64Array, codes: list[Int64Array]) -> None:
        size = int(slots.max()) + 1 if len(slots) else 0
        if size <= self.size:
            return
        added = size - self.size
        self._codes = [np.concatenate([known, np.empty(added, np.int64)]) for known in self._codes]
        new = slots >= self.size
        for known, given in zip(self._codes, codes, strict=True):
            known[slots[new]] = given[new]
        self.size = size

    @property
    def nbytes(self) -> int:
        values = sum(int(column.values.nbytes) for column in (*self._columns, *self._pairs))
        return values + sum(codes.nbytes for codes in self._codes)

    def keys_of(self, slots: Int64Array) -> list[pa.Array]:
        """The key columns of the given slots."""
        return [
            column.values.take(pa.array(codes[slots]))
            for column, codes in zip(self._columns, self._codes, strict=True)
        ]


def canonical(values: pa.Array) -> pa.Array:
    """The same values, doubles with one zero and one NaN: Arrow tells values apart by their bits."""
    if not pa.types.is_floating(values.type):
        return values
    return pc.if_else(pc.is_nan(values), pa.scalar(float("nan"), values.type), pc.add(values, 0.0))


def plain(values: pa.Array | pa.ChunkedArray) -> pa.Array:
    """One contiguous array without dictionary encoding."""
    if isinstance(values, pa.ChunkedArray):
        # Arrow copies even what is in one piece.
        values = values.chunk(0) if values.num_chunks == 1 else values.combine_chunks()
        if isinstance(values, pa.ChunkedArray):
            values = pa.concat_arrays(values.chunks)
    if pa.types.is_dictionary(values.type):
        values = values.dictionary_decode()
    return values
