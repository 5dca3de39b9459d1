"""A column in pieces, of which a few values are fetched from all over, by one kernel for all pieces.

A value is asked for by `piece << 32 | position`. Values of 64 bits and words, plain or by a dictionary, are
fetched so where none is NULL in any piece; else each piece is asked by itself.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sash.state.addresses import address_of, byte_at, int32_at, int64_at
from sash.state.fingerprints import numbers_of, string_buffers
from sash.state.groups import plain
from sash.state.jit import kernel

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
_POSITION = (1 << 32) - 1
_MOST_LETTERS = (1 << 31) - 1


class ColumnPiece:
    """One piece: an array, and the addresses of its values where kernels can fetch them, else 0."""

    def __init__(self, array: pa.Array) -> None:
        self.array = array
        # That of what is fetched.
        is_coded = pa.types.is_dictionary(array.type)
        self.type: pa.DataType = array.type.value_type if is_coded else array.type
        self.numbers = 0
        # Where the codes of a dictionary are, if there is one, where words begin, and their bytes.
        self.words = (0, 0, 0)
        if array.null_count:
            return
        if _has_64_bits(array.type):
            self.numbers = address_of(numbers_of(array))
        elif pa.types.is_string(array.type):
            self.words = (0, *_addresses(array))
        elif is_coded and not array.dictionary.null_count:
            if pa.types.is_int32(array.type.index_type) and pa.types.is_string(self.type):
                self.words = (address_of(array.indices.to_numpy()), *_addresses(array.dictionary))


def _has_64_bits(type_: pa.DataType) -> bool:
    return bool(pa.types.is_int64(type_) or pa.types.is_float64(type_) or pa.types.is_timestamp(type_))


def _addresses(words: pa.Array) -> tuple[int, int]:
    offsets, letters = string_buffers(words)
    return address_of(offsets), address_of(letters)


def as_array(type_: pa.DataType, values: Ints) -> pa.Array:
    """The bits of values of 64 as an array of their type."""
    return pa.Array.from_buffers(type_, len(values), [None, pa.py_buffer(values)])


def fetch(pieces: Sequence[ColumnPiece], tuples: Ints) -> pa.Array:
    """Values of a column, at least one piece of which there is."""
    count = len(tuples)
    if all(piece.numbers for piece in pieces):
        values = np.empty(count, dtype=np.int64)
        _copy(np.array([piece.numbers for piece in pieces]), tuples, values)
        return as_array(pieces[0].type, values)
    if all(piece.words[1] for piece in pieces):
        addresses = np.array([piece.words for piece in pieces])
        offsets = np.empty(count + 1, dtype=np.int32)
        letters = _measure(addresses, tuples, offsets)
        if letters <= _MOST_LETTERS:
            text = np.empty(letters, dtype=np.uint8)
            _spell(addresses, tuples, offsets, text)
            return pa.StringArray.from_buffers(count, pa.py_buffer(offsets), pa.py_buffer(text))
    begins = np.searchsorted(tuples >> 32, np.arange(len(pieces) + 1))
    parts = [
        # Without the dictionaries of all rows, which somebody would have to put together.
        plain(piece.array.take(pa.array(tuples[begin:end] & _POSITION)))
        for piece, begin, end in zip(pieces, begins, begins[1:], strict=False)
    ]
    return pa.concat_arrays(parts)


def fetch_rows(files: Ints, slots: Sequence[int], tuples: Ints, since: int) -> tuple[Ints, Ints, Bools]:
    """Of the tuples that are later than `since`: which, their numbers of 64 bits, and which columns have any.

    The addresses of columns stand at `slots` from the addresses of files, 0 where kernels cannot fetch from
    them. The first one has the instants.
    """
    values = np.empty((len(slots), len(tuples)), dtype=np.int64)
    left, is_there = np.empty_like(tuples), np.empty(len(slots), dtype=np.bool_)
    count = _copy_later(files, np.array(slots), tuples, since, left, values, is_there)
    return left[:count], values[:, :count], is_there


@kernel
def _copy_later(
    files: Ints, slots: Ints, tuples: Ints, since: int, left: Ints, values: Ints, is_there: Bools
) -> int:
    count = 0
    for i in range(len(tuples)):
        ts = int64_at(int64_at(files[tuples[i] >> 32], slots[0]), tuples[i] & _POSITION)
        if ts > since:
            left[count], values[0, count] = tuples[i], ts
            count += 1
    for column in range(len(slots)):
        is_there[column] = True
        for file in files:
            is_there[column] &= int64_at(file, slots[column]) != 0
        if column > 0 and is_there[column]:
            for i in range(count):
                address = int64_at(files[left[i] >> 32], slots[column])
                values[column, i] = int64_at(address, left[i] & _POSITION)
    return count


@kernel
def _copy(addresses: Ints, tuples: Ints, values: Ints) -> None:
    for i in range(len(tuples)):
        values[i] = int64_at(addresses[tuples[i] >> 32], tuples[i] & _POSITION)


@kernel
def _place(addresses: Ints, tuple_: int) -> int:
    """Which word of a piece, or of its dictionary, a tuple has."""
    codes = addresses[tuple_ >> 32, 0]
    return int(tuple_ & _POSITION if codes == 0 else int32_at(codes, tuple_ & _POSITION))


@kernel
def _measure(addresses: Ints, tuples: Ints, offsets: npt.NDArray[np.int32]) -> int:
    """Say where each word is to begin; gives how many bytes all of them have."""
    total = 0
    for i in range(len(tuples)):
        offsets[i] = total
        place, starts = _place(addresses, tuples[i]), addresses[tuples[i] >> 32, 1]
        total += int32_at(starts, place + 1) - int32_at(starts, place)
    offsets[len(tuples)] = total
    return total


@kernel
def _spell(
    addresses: Ints, tuples: Ints, offsets: npt.NDArray[np.int32], text: npt.NDArray[np.uint8]
) -> None:
    for i in range(len(tuples)):
        piece = addresses[tuples[i] >> 32]
        begin = int32_at(piece[1], _place(addresses, tuples[i]))
        for letter in range(offsets[i + 1] - offsets[i]):
            text[offsets[i] + letter] = byte_at(piece[2], begin + letter)
