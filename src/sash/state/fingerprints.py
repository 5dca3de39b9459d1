"""Keys of 128 bits for rows, so that kernels compare any row by two integers.

A key of one column of numbers is the number itself, exactly. A key of several columns or of strings is a
hash of 128 bits; among a billion different rows the chance that any two collide is below 2⁻⁶⁸. NULL is a
value of its own here (a join leaves it out before it asks); doubles have one zero and one NaN.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sash.state.jit import kernel

Words = npt.NDArray[np.uint64]
Bools = npt.NDArray[np.bool_]
Bytes = npt.NDArray[np.uint8]
Ints = npt.NDArray[np.int64]

_NAN = np.array([np.nan]).view(np.uint64)[0]
_SEED_A = np.uint64(0x9E3779B97F4A7C15)
_SEED_B = np.uint64(0xC2B2AE3D27D4EB4F)
_MUL_A = np.uint64(0xBF58476D1CE4E5B9)
_MUL_B = np.uint64(0xFF51AFD7ED558CCD)
_NULL = np.uint64(0x6A09E667F3BCC909)


@dataclass(frozen=True, slots=True)
class Keys:
    """Two words per row; `nulls` marks rows in which some column is NULL (None: there are none)."""

    first: Words
    second: Words
    nulls: Bools | None = None

    def __len__(self) -> int:
        return len(self.first)

    def take(self, positions: Ints) -> Keys:
        nulls = None if self.nulls is None else self.nulls[positions]
        return Keys(self.first[positions], self.second[positions], nulls)


@kernel
def mix_a(word: np.uint64) -> np.uint64:
    word = (word ^ (word >> np.uint64(31))) * _MUL_A
    word = (word ^ (word >> np.uint64(29))) * _SEED_A
    return word ^ (word >> np.uint64(32))


@kernel
def mix_b(word: np.uint64) -> np.uint64:
    word = (word ^ (word >> np.uint64(33))) * _MUL_B
    word = (word ^ (word >> np.uint64(28))) * _SEED_B
    return word ^ (word >> np.uint64(32))


@kernel
def _fold_words(first: Words, second: Words, words: Words, nulls: Bools, has_nulls: bool) -> None:
    for i in range(first.shape[0]):
        if has_nulls and nulls[i]:
            first[i] = mix_a(first[i] + _NULL)
            second[i] = mix_b(second[i] ^ _NULL)
        else:
            first[i] = mix_a(first[i] ^ (words[i] + _SEED_A))
            second[i] = mix_b(second[i] + (words[i] ^ _SEED_B))


@kernel
def _fold_bytes(
    first: Words,
    second: Words,
    offsets: npt.NDArray[np.int32],
    data: Bytes,
    nulls: Bools,
    has_nulls: bool,
) -> None:
    for i in range(first.shape[0]):
        if has_nulls and nulls[i]:
            first[i] = mix_a(first[i] + _NULL)
            second[i] = mix_b(second[i] ^ _NULL)
            continue
        start, stop = offsets[i], offsets[i + 1]
        a = mix_a(first[i] ^ np.uint64(stop - start))
        b = mix_b(second[i] + np.uint64(stop - start))
        at = start
        while at < stop:
            word = np.uint64(0)
            last = min(at + 8, stop)
            for k in range(at, last):
                word |= np.uint64(data[k]) << np.uint64(8 * (k - at))
            a = mix_a(a ^ (word + _SEED_A))
            b = mix_b(b + (word ^ _SEED_B))
            at = last
        first[i] = a
        second[i] = b


def fingerprint(columns: Sequence[pa.Array], rows: int) -> Keys:
    """The key of each row of some columns; without columns all rows are alike."""
    if len(columns) == 1 and not pa.types.is_string(columns[0].type):
        nulls = null_mask(columns[0])
        words = words_of(columns[0])
        if nulls is None:
            return Keys(words, np.zeros(rows, dtype=np.uint64))
        return Keys(np.where(nulls, np.uint64(0), words), nulls.astype(np.uint64), nulls)
    first = np.full(rows, _SEED_A, dtype=np.uint64)
    second = np.full(rows, _SEED_B, dtype=np.uint64)
    any_null: Bools | None = None
    for column in columns:
        nulls = null_mask(column)
        if nulls is not None:
            any_null = nulls if any_null is None else any_null | nulls
        mask = np.zeros(0, dtype=np.bool_) if nulls is None else nulls
        if pa.types.is_string(column.type):
            offsets, data = string_buffers(column)
            _fold_bytes(first, second, offsets, data, mask, nulls is not None)
        else:
            _fold_words(first, second, words_of(column), mask, nulls is not None)
    return Keys(first, second, any_null)


def places(columns: Sequence[pa.Array], rows: int, of: int) -> Ints:
    """In which of so many places each row belongs by some columns; equal rows have equal places."""
    keys = fingerprint(columns, rows)
    # A number that differs in a few bits only must be as good as any other.
    mixed = (keys.first ^ (keys.second * _SEED_A)) * _SEED_A
    return ((mixed >> np.uint64(33)) % np.uint64(of)).astype(np.int64)


def hashes(column: pa.Array) -> Ints:
    """63 bits for each value of a column, as if drawn by lot; equal values have equal ones."""
    rows, nobody = len(column), np.zeros(0, dtype=np.bool_)
    first = np.full(rows, _SEED_A, dtype=np.uint64)
    second = np.full(rows, _SEED_B, dtype=np.uint64)
    if pa.types.is_string(column.type):
        _fold_bytes(first, second, *string_buffers(column), nobody, False)
    else:
        _fold_words(first, second, words_of(column), nobody, False)
    return (first >> np.uint64(1)).astype(np.int64)


def null_mask(column: pa.Array) -> Bools | None:
    if column.null_count == 0:
        return None
    mask: Bools = column.is_null().to_numpy(zero_copy_only=False)
    return mask


def words_of(column: pa.Array) -> Words:
    """The 64 bits of each value of a column that is not of strings; equal values have equal bits."""
    numbers = numbers_of(column)
    if numbers.dtype == np.float64:
        words = (numbers + 0.0).view(np.uint64)
        return np.where(np.isnan(numbers), _NAN, words)
    return numbers.view(np.uint64)


def numbers_of(column: pa.Array) -> npt.NDArray[Any]:
    """A column that is not of strings as int64 or float64; anything where it is NULL."""
    if pa.types.is_boolean(column.type):
        bits = column.fill_null(False) if column.null_count else column
        return np.asarray(bits.to_numpy(zero_copy_only=False), dtype=np.int64)
    dtype = np.float64 if pa.types.is_floating(column.type) else np.int64
    data = column.buffers()[1]
    if data is None:
        return np.zeros(len(column), dtype=dtype)
    return np.frombuffer(data, dtype=dtype)[column.offset : column.offset + len(column)]


def string_buffers(column: pa.Array) -> tuple[npt.NDArray[np.int32], Bytes]:
    """The offsets and the bytes of a column of strings."""
    _, offsets, data = column.buffers()
    if offsets is None:
        return np.zeros(len(column) + 1, dtype=np.int32), np.zeros(0, dtype=np.uint8)
    starts = np.frombuffer(offsets, dtype=np.int32)[column.offset : column.offset + len(column) + 1]
    if len(starts) == 0:
        starts = np.zeros(1, dtype=np.int32)
    return starts, np.zeros(0, dtype=np.uint8) if data is None else np.frombuffer(data, dtype=np.uint8)


def keys_from(table: pa.Table) -> Keys:
    """Keys that a state has kept, in its columns first and second."""
    first, second = (np.array(table.column(name), dtype=np.uint64) for name in ("first", "second"))
    return Keys(first, second)
