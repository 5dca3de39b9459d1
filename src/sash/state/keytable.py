"""A hash table from 128-bit keys to small dense numbers by which arrays are indexed.

A key's number stays its own until the key is released, and is then given to another key, so arrays over
numbers stay as large as the live keys need. Open addressing with linear probing; deletion shifts entries
back, so there are no tombstones and lookups do not slow down with time.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from sash.state.fingerprints import Keys, Words, mix_a, mix_b
from sash.state.jit import kernel

Ints = npt.NDArray[np.int64]
_SMALLEST = 64


@kernel
def _home(first: np.uint64, second: np.uint64, mask: int) -> np.int64:
    return np.int64(mix_a(first ^ mix_b(second)) & np.uint64(mask))


@kernel
def _find(first: Words, second: Words, table: Ints, known: Words, out: Ints) -> None:
    mask = table.shape[0] - 1
    for i in range(first.shape[0]):
        place = _home(first[i], second[i], mask)
        out[i] = -1
        while table[place] >= 0:
            number = table[place]
            if known[number, 0] == first[i] and known[number, 1] == second[i]:
                out[i] = number
                break
            place = (place + 1) & mask


@kernel
def _intern(
    first: Words,
    second: Words,
    begin: int,
    table: Ints,
    known: Words,
    free: Ints,
    counts: Ints,
    out: Ints,
) -> int:
    """Number keys from `begin` on; stops, and says where, when the table is half full.

    counts: [live keys, numbers ever used, length of the free list].
    """
    mask = table.shape[0] - 1
    limit = table.shape[0] // 2
    for i in range(begin, first.shape[0]):
        place = _home(first[i], second[i], mask)
        found = -1
        while table[place] >= 0:
            number = table[place]
            if known[number, 0] == first[i] and known[number, 1] == second[i]:
                found = number
                break
            place = (place + 1) & mask
        if found < 0:
            if counts[0] >= limit:
                return i
            if counts[2] > 0:
                counts[2] -= 1
                found = free[counts[2]]
            else:
                found = counts[1]
                counts[1] += 1
            counts[0] += 1
            known[found, 0] = first[i]
            known[found, 1] = second[i]
            table[place] = found
        out[i] = found
    return len(first)


@kernel
def _rebuild(table: Ints, old: Ints, known: Words) -> None:
    mask = table.shape[0] - 1
    for k in range(old.shape[0]):
        number = old[k]
        if number >= 0:
            place = _home(known[number, 0], known[number, 1], mask)
            while table[place] >= 0:
                place = (place + 1) & mask
            table[place] = number


@kernel
def _release(numbers: Ints, table: Ints, known: Words, free: Ints, counts: Ints) -> None:
    mask = table.shape[0] - 1
    for i in range(numbers.shape[0]):
        number = numbers[i]
        hole = _home(known[number, 0], known[number, 1], mask)
        while table[hole] != number:
            hole = (hole + 1) & mask
        # Entries after the hole that may not stand where they are without it move back into it.
        place = (hole + 1) & mask
        while table[place] >= 0:
            other = table[place]
            home = _home(known[other, 0], known[other, 1], mask)
            if ((place - home) & mask) >= ((place - hole) & mask):
                table[hole] = other
                hole = place
            place = (place + 1) & mask
        table[hole] = -1
        free[counts[2]] = number
        counts[2] += 1
        counts[0] -= 1


class KeyTable:
    """Numbers for keys. `capacity` bounds every number, for arrays that are indexed by them.

    `expected` makes room for so many keys from the start.
    """

    def __init__(self, expected: int = 0) -> None:
        size = max(_SMALLEST, 1 << (2 * expected).bit_length())
        self._table = np.full(size, -1, dtype=np.int64)
        # Both words of a key, side by side.
        self._known = np.zeros((size // 2, 2), dtype=np.uint64)
        self._free = np.zeros(size // 2, dtype=np.int64)
        self._counts = np.zeros(3, dtype=np.int64)

    def __len__(self) -> int:
        return int(self._counts[0])

    @property
    def capacity(self) -> int:
        return len(self._known)

    @property
    def nbytes(self) -> int:
        return self._table.nbytes + self._known.nbytes + self._free.nbytes

    def find(self, keys: Keys) -> Ints:
        """The number of each key, −1 where it is not known."""
        out = np.empty(len(keys), dtype=np.int64)
        _find(keys.first, keys.second, self._table, self._known, out)
        return out

    def intern(self, keys: Keys) -> Ints:
        """The number of each key; unknown keys get one."""
        out = np.empty(len(keys), dtype=np.int64)
        done = 0
        while True:
            done = _intern(
                keys.first,
                keys.second,
                done,
                self._table,
                self._known,
                self._free,
                self._counts,
                out,
            )
            if done == len(keys):
                return out
            self._grow()

    def release(self, numbers: Ints) -> None:
        """Forget keys by their numbers, each once."""
        if len(numbers):
            _release(numbers, self._table, self._known, self._free, self._counts)

    def keys_of(self, numbers: Ints) -> Keys:
        words = self._known[numbers]
        return Keys(words[:, 0].copy(), words[:, 1].copy())

    def _grow(self) -> None:
        old = self._table
        self._table = np.full(2 * len(old), -1, dtype=np.int64)
        self._known = grown(self._known, len(old), 0)
        self._free = grown(self._free, len(old), 0)
        _rebuild(self._table, old, self._known)


def grown(array: npt.NDArray[Any], size: int, fill: object) -> npt.NDArray[Any]:
    """The array, made longer if it must be; new places hold `fill`."""
    if len(array) >= size:
        return array
    longer = np.full((size, *array.shape[1:]), fill, dtype=array.dtype)
    longer[: len(array)] = array
    return longer


def distinct(numbers: Ints) -> Ints:
    """Each number once, in order. NumPy's own takes ten times as long for integers."""
    if len(numbers) < 2:
        return numbers
    ordered: Ints = np.sort(numbers)
    first = np.concatenate([[True], ordered[1:] != ordered[:-1]])
    once: Ints = ordered[first]
    return once


def first_of_each(numbers: Ints) -> tuple[Ints, Ints]:
    """Each number once, in order, and the first place where it stands."""
    if len(numbers) < 2:
        return numbers, np.zeros(len(numbers), dtype=np.int64)
    order = np.argsort(numbers, kind="stable")
    ordered = numbers[order]
    first = np.concatenate([[True], ordered[1:] != ordered[:-1]])
    return ordered[first], order[first]
