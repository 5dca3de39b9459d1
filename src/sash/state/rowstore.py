"""Rows in columns of arrays, addressed by slots: where operators keep the tuples of their state.

A slot is given to a row when it comes and to another one after it is freed. Slots are reused in the order
in which they were freed, so a window whose rows go in the order in which they came is a ring. Values of
strings lie in one heap of bytes, which is packed when half of it is garbage. Everything is done on whole
batches; a row costs a constant time to append, gather and free, and memory follows the greatest number of
live rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sash.errors import InternalError
from sash.state.fingerprints import Bools, Bytes, null_mask, numbers_of, string_buffers
from sash.state.jit import kernel
from sash.state.keytable import grown

Ints = npt.NDArray[np.int64]
_SMALLEST = 64


@kernel
def _copy_in(
    heap: Bytes,
    tail: int,
    offsets: npt.NDArray[np.int32],
    data: Bytes,
    slots: Ints,
    places: Ints,
    lengths: Ints,
) -> int:
    """Append strings to the heap; gives its new tail."""
    for i in range(slots.shape[0]):
        start, stop = offsets[i], offsets[i + 1]
        places[slots[i]] = tail
        lengths[slots[i]] = stop - start
        for k in range(start, stop):
            heap[tail] = data[k]
            tail += 1
    return tail


@kernel
def _copy_out(heap: Bytes, places: Ints, lengths: Ints, slots: Ints, offsets: Ints, out: Bytes) -> None:
    for i in range(slots.shape[0]):
        place = places[slots[i]]
        at = offsets[i]
        for k in range(lengths[slots[i]]):
            out[at + k] = heap[place + k]


@kernel
def _pack(heap: Bytes, places: Ints, lengths: Ints, live: Bools, out: Bytes) -> int:
    tail = 0
    for slot in range(live.shape[0]):
        if live[slot]:
            place = places[slot]
            places[slot] = tail
            for k in range(lengths[slot]):
                out[tail] = heap[place + k]
                tail += 1
    return tail


class Numbers:
    """A column of 64-bit values."""

    def __init__(self, type_: pa.DataType, capacity: int) -> None:
        self.type = type_
        dtype = np.float64 if pa.types.is_floating(type_) else np.int64
        self._values: npt.NDArray[Any] = np.zeros(capacity, dtype=dtype)
        # Made when the first NULL comes.
        self._nulls: Bools | None = None

    @property
    def nbytes(self) -> int:
        return self._values.nbytes + (0 if self._nulls is None else self._nulls.nbytes)

    def grow(self, capacity: int) -> None:
        self._values = grown(self._values, capacity, 0)
        if self._nulls is not None:
            self._nulls = grown(self._nulls, capacity, False)

    def put(self, slots: Ints, values: pa.Array, live: Bools) -> None:
        self._values[slots] = numbers_of(values)
        nulls = null_mask(values)
        if nulls is not None and self._nulls is None:
            self._nulls = np.zeros(len(self._values), dtype=np.bool_)
        if self._nulls is not None:
            self._nulls[slots] = False if nulls is None else nulls

    def numbers(self, slots: Ints) -> npt.NDArray[Any]:
        return self._values[slots]

    def get(self, slots: Ints) -> pa.Array:
        values = self._values[slots]
        mask = None if self._nulls is None else self._nulls[slots]
        return _to_arrow(values, mask, self.type)

    def free(self, slots: Ints) -> None:
        """Nothing to give back."""


def _to_arrow(values: npt.NDArray[Any], mask: Bools | None, type_: pa.DataType) -> pa.Array:
    if pa.types.is_boolean(type_):
        return pa.array(values.astype(np.bool_), type_, mask=mask)
    if pa.types.is_timestamp(type_):
        return pa.array(values, pa.int64(), mask=mask).view(type_)
    return pa.array(values, type_, mask=mask)


class Strings:
    """A column of strings in one heap."""

    def __init__(self, type_: pa.DataType, capacity: int) -> None:
        self.type = type_
        self._places = np.zeros(capacity, dtype=np.int64)
        self._lengths = np.zeros(capacity, dtype=np.int64)
        self._nulls: Bools | None = None
        self._heap: Bytes = np.zeros(1024, dtype=np.uint8)
        self._tail = 0
        self._live_bytes = 0

    @property
    def nbytes(self) -> int:
        return self._places.nbytes + self._lengths.nbytes + self._heap.nbytes

    def grow(self, capacity: int) -> None:
        self._places = grown(self._places, capacity, 0)
        self._lengths = grown(self._lengths, capacity, 0)
        if self._nulls is not None:
            self._nulls = grown(self._nulls, capacity, False)

    def put(self, slots: Ints, values: pa.Array, live: Bools) -> None:
        """`live` marks the slots in use before these."""
        offsets, data = string_buffers(values)
        nulls = null_mask(values)
        added = int(offsets[-1]) - int(offsets[0])
        if self._tail + added > len(self._heap):
            self._make_room(added, live)
        self._tail = _copy_in(self._heap, self._tail, offsets, data, slots, self._places, self._lengths)
        self._live_bytes += added
        if nulls is not None and self._nulls is None:
            self._nulls = np.zeros(len(self._places), dtype=np.bool_)
        if self._nulls is not None:
            self._nulls[slots] = False if nulls is None else nulls

    def _make_room(self, added: int, live: Bools) -> None:
        size = max(1024, 2 * (self._live_bytes + added))
        packed: Bytes = np.zeros(size, dtype=np.uint8)
        self._tail = _pack(self._heap, self._places, self._lengths, live, packed)
        self._heap = packed

    def get(self, slots: Ints) -> pa.Array:
        offsets = np.zeros(len(slots) + 1, dtype=np.int64)
        np.cumsum(self._lengths[slots], out=offsets[1:])
        out: Bytes = np.empty(int(offsets[-1]), dtype=np.uint8)
        _copy_out(self._heap, self._places, self._lengths, slots, offsets, out)
        buffers = [None, pa.py_buffer(offsets.astype(np.int32)), pa.py_buffer(out)]
        if self._nulls is not None:
            mask = self._nulls[slots]
            if mask.any():
                buffers[0] = pa.py_buffer(np.packbits(~mask, bitorder="little"))
        return pa.Array.from_buffers(pa.string(), len(slots), buffers)

    def free(self, slots: Ints) -> None:
        self._live_bytes -= int(self._lengths[slots].sum())


class RowStore:
    """Rows with a time of entry and of leaving.

    `start`, `exp`, `end` and `born` are indexed by slot and lie side by side, because they are looked at
    together. `exp` is when a row is foreseen to leave, `end` when it really leaves, as far as is known;
    `born` is for the operator to tell batches apart.
    """

    def __init__(self, types: Sequence[pa.DataType]) -> None:
        self.types = tuple(types)
        self._life = np.zeros((_SMALLEST, 4), dtype=np.int64)
        self.live: Bools = np.zeros(_SMALLEST, dtype=np.bool_)
        self._columns = [
            (Strings if pa.types.is_string(type_) else Numbers)(type_, _SMALLEST) for type_ in types
        ]
        # A ring of free slots: [first, number of them].
        self._free = np.arange(_SMALLEST, dtype=np.int64)
        self._first_free = 0
        self._free_count = _SMALLEST

    def __len__(self) -> int:
        """The number of live rows."""
        return self.capacity - self._free_count

    @property
    def capacity(self) -> int:
        return len(self._life)

    @property
    def start(self) -> Ints:
        return self._life[:, 0]

    @property
    def exp(self) -> Ints:
        return self._life[:, 1]

    @property
    def end(self) -> Ints:
        return self._life[:, 2]

    @property
    def born(self) -> Ints:
        return self._life[:, 3]

    @property
    def nbytes(self) -> int:
        fixed = self._life.nbytes + self.live.nbytes + self._free.nbytes
        return fixed + sum(column.nbytes for column in self._columns)

    def append(self, ts: Ints, exp: Ints, columns: Sequence[pa.Array]) -> Ints:
        """Store rows; gives their slots."""
        count = len(ts)
        if self._free_count < count:
            self._grow(len(self) + count)
        slots = self._free[(self._first_free + np.arange(count)) % len(self._free)]
        self._first_free = (self._first_free + count) % len(self._free)
        self._free_count -= count
        self._life[slots, 0] = ts
        self._life[slots, 1] = exp
        self._life[slots, 2] = exp
        for column, values in zip(self._columns, columns, strict=True):
            column.put(slots, values, self.live)
        self.live[slots] = True
        return slots

    def gather(self, slots: Ints, positions: Sequence[int] | None = None) -> tuple[pa.Array, ...]:
        """The columns of the rows at some slots, or some of the columns."""
        chosen = range(len(self._columns)) if positions is None else positions
        return tuple(self._columns[i].get(slots) for i in chosen)

    def free(self, slots: Ints) -> None:
        """Give slots back, each once."""
        if not len(slots):
            return
        if not self.live[slots].all():
            raise InternalError("a row that is not there is given back")
        self.live[slots] = False
        for column in self._columns:
            column.free(slots)
        at = (self._first_free + self._free_count + np.arange(len(slots))) % len(self._free)
        self._free[at] = slots
        self._free_count += len(slots)

    def live_slots(self) -> Ints:
        return np.flatnonzero(self.live)

    def _grow(self, needed: int) -> None:
        old = self.capacity
        capacity = max(2 * old, 1 << (needed - 1).bit_length())
        self._life = grown(self._life, capacity, 0)
        self.live = grown(self.live, capacity, False)
        for column in self._columns:
            column.grow(capacity)
        kept = self._free[(self._first_free + np.arange(self._free_count)) % len(self._free)]
        self._free = np.concatenate(
            [kept, np.arange(old, capacity), np.zeros(old - len(kept), dtype=np.int64)]
        )
        self._first_free = 0
        self._free_count += capacity - old
