"""Indexes of tuples that do not change, one a file, are searched for some conditions in one pass.

Each sub-window of 003 has indexes of its own, so a question looks into as many as there are files. Of each
file the condition is taken that leads to the fewest tuples, if they are few.
A tuple is `file << 32 | position`: the order of tuples is that of files, and within each that of arrival.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sash.indexes.domain import Ints
from sash.indexes.hash_storage import bucket_of
from sash.indexes.immutable_index import HEADER, hashes_of
from sash.plan.key_conditions import Among, Condition, Value
from sash.state.addresses import byte_at, int32_at, int64_at
from sash.state.fingerprints import string_buffers
from sash.state.jit import kernel
from sash.state.kernels import copy
from sash.state.ordering import double_to_ordinal

Offsets = npt.NDArray[np.int32]
Letters = npt.NDArray[np.uint8]
Key = int | str
NOT_TOLD = -1
# Of a file more than one tuple in so many is not looked up: reading it all is faster.
DENSE = 8
_KEYS, _OFFSETS, _LETTERS, _ENDS, _ROWS, _HEADS, _COUNT, _BUCKETS, _IS_GROUPED = range(len(HEADER))
_SLOT, _BEGIN, _END, _IS_RANGE, _HAS_LOW, _HAS_HIGH, _IS_LOW_OPEN, _IS_HIGH_OPEN = range(8)
_NO_WORDS = np.zeros(1, dtype=np.int32), np.zeros(0, dtype=np.uint8)
_LEAST, _GREATEST = -(2**63), 2**63 - 1
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class Sought:
    """A condition on a column of some type.

    At the address of a file the number at `slot` is the address of the header of that column's index, or 0.
    """

    slot: int
    type: str
    condition: Condition


def search(files: Ints, sought: Sequence[Sought]) -> tuple[Ints, Ints]:
    """How many tuples of the files at some addresses can fulfil all conditions, and which those are.

    NOT_TOLD: they are not few, or no index tells. The first number at each address is how many a file has.
    """
    forms: list[tuple[int, ...]] = []
    keys: list[Key] = []
    for each in sought:
        own = _keys(each.type, each.condition)
        if own is not None:
            forms.append((each.slot, len(keys), len(keys) + len(own), *_form(each.condition)))
            keys += own
    counts = np.empty(len(files), dtype=np.int64)
    if not forms:
        counts.fill(NOT_TOLD)
        return counts, np.empty(0, dtype=np.int64)
    numbers, offsets, letters = _arrays(keys)
    tuples, is_sorted = _search(files, np.array(forms), numbers, offsets, letters, counts)
    # Two words with one hash lead to the same tuples.
    return counts, tuples if is_sorted else np.unique(tuples)


def _form(condition: Condition) -> tuple[bool, bool, bool, bool, bool]:
    if isinstance(condition, Among):
        return False, False, False, False, False
    has_low, has_high = condition.low is not None, condition.high is not None
    return True, has_low, has_high, condition.is_low_open, condition.is_high_open


def _keys(type_: str, condition: Condition) -> Sequence[Key] | None:
    """The values of a set in the order of a directory, or two bounds; None: one is of another type."""
    values = condition.values if isinstance(condition, Among) else (condition.low, condition.high)
    # What stands for no bound is not looked at.
    absent = "" if type_ == "string" else 0
    keys: list[Key] = []
    for value in values:
        key = absent if value is None else _key(type_, value)
        if key is None:
            return None
        keys.append(key)
    return sorted(set(keys)) if isinstance(condition, Among) else keys


def _key(type_: str, value: Value) -> Key | None:
    """What a directory has for a value; None: it is not of the type of the column."""
    if isinstance(value, float) and type_ == "int64" and value.is_integer():
        value = int(value)
    match type_, value:
        case "string", str():
            return value
        case "bool", bool():
            return int(value)
        case _, bool():
            return None
        case "int64", int() if _LEAST <= value <= _GREATEST:
            return value
        case "double", int() | float():
            return int(double_to_ordinal(np.array([value], dtype=np.float64))[0])
        case "timestamp[us]", datetime():
            given = value if value.tzinfo is not None else value.replace(tzinfo=UTC)
            return (given - _EPOCH) // _MICROSECOND
    return None


def _arrays(keys: Sequence[Key]) -> tuple[Ints, Offsets, Letters]:
    """Keys for kernels: numbers, which of words are hashes, and where those begin in their bytes."""
    if not any(isinstance(key, str) for key in keys):
        return np.array(keys, dtype=np.int64), *_NO_WORDS
    words = pa.array([key if isinstance(key, str) else "" for key in keys])
    numbers = hashes_of(words)
    for place, key in enumerate(keys):
        if isinstance(key, int):
            numbers[place] = key
    # Copies, because kernels are compiled for memory that can be written.
    offsets, letters = string_buffers(words)
    return numbers, offsets.copy(), letters.copy()


@kernel
def _order(header: int, place: int, numbers: Ints, offsets: Offsets, letters: Letters, key: int) -> int:
    """How an entry of a directory compares with a key: below 0, 0, above 0."""
    starts = int64_at(header, _OFFSETS)
    if starts == 0:
        value = int64_at(int64_at(header, _KEYS), place)
        return int(value > numbers[key]) - int(value < numbers[key])
    begin, own = int32_at(starts, place), np.int64(offsets[key])
    length, own_length = int32_at(starts, place + 1) - begin, offsets[key + 1] - own
    bytes_ = int64_at(header, _LETTERS)
    for i in range(min(length, own_length)):
        difference = byte_at(bytes_, begin + i) - np.int64(letters[own + i])
        if difference != 0:
            return int(difference)
    return int(length - own_length)


@kernel
def _rank(header: int, numbers: Ints, offsets: Offsets, letters: Letters, key: int, is_after: bool) -> int:
    """How many entries of a directory come before a key, or, after it, up to it."""
    low, high = 0, int64_at(header, _COUNT)
    while low < high:
        middle = (low + high) // 2
        order = _order(header, middle, numbers, offsets, letters, key)
        if order < 0 or (is_after and order == 0):
            low = middle + 1
        else:
            high = middle
    return low


@kernel
def _note(header: int, first: int, last: int, stretches: Ints, found: int) -> int:
    """Note where the tuples of some entries of a directory lie; gives how many there are."""
    ends = int64_at(header, _ENDS)
    stretches[found, 0] = int64_at(ends, first)
    stretches[found, 1] = int64_at(ends, last)
    return int(stretches[found, 1] - stretches[found, 0])


@kernel
def _among(
    header: int, form: Ints, numbers: Ints, offsets: Offsets, letters: Letters, stretches: Ints
) -> tuple[int, int]:
    """Note the stretches of keys; gives how many there are, and how many tuples they have.

    -1: it does not tell, because more words than were asked for have these hashes.
    """
    found = count = 0
    heads = int64_at(header, _HEADS)
    last, entries = -1, int64_at(header, _COUNT)
    for key in range(form[_BEGIN], form[_END]):
        if heads != 0:
            bucket = bucket_of(numbers[key], int64_at(header, _BUCKETS))
            for place in range(int64_at(heads, bucket), int64_at(heads, bucket + 1)):
                if int64_at(int64_at(header, _KEYS), place) == numbers[key]:
                    if found == len(stretches):
                        return -1, 0
                    count += _note(header, place, place + 1, stretches, found)
                    found += 1
            continue
        place = _rank(header, numbers, offsets, letters, key, False)
        # A range of values is one entry, however many of them are asked for.
        if place in (entries, last):
            continue
        if int64_at(header, _IS_GROUPED) or _order(header, place, numbers, offsets, letters, key) == 0:
            count += _note(header, place, place + 1, stretches, found)
            found += 1
            last = place
    return found, count


@kernel
def _between(
    header: int, form: Ints, numbers: Ints, offsets: Offsets, letters: Letters, stretches: Ints
) -> tuple[int, int]:
    """As `_among` for what lies between two keys, each of which may be missing; -1: it does not tell."""
    if int64_at(header, _HEADS) != 0:
        return -1, 0
    first, last, low = 0, int64_at(header, _COUNT), form[_BEGIN]
    if form[_HAS_LOW]:
        # The last value of a range may be the bound, and then those after it are in the next one.
        first = _rank(header, numbers, offsets, letters, low, form[_IS_LOW_OPEN] != 0)
    if form[_HAS_HIGH] and int64_at(header, _IS_GROUPED):
        last = min(last, _rank(header, numbers, offsets, letters, low + 1, False) + 1)
    elif form[_HAS_HIGH]:
        last = _rank(header, numbers, offsets, letters, low + 1, form[_IS_HIGH_OPEN] == 0)
    if first >= last:
        return 0, 0
    return 1, _note(header, first, last, stretches, 0)


@kernel
def _search(
    files: Ints, forms: Ints, numbers: Ints, offsets: Offsets, letters: Letters, counts: Ints
) -> tuple[Ints, bool]:
    """Set `counts`; gives the tuples of the best conditions, and whether they are in order."""
    most = 1
    for form in forms:
        most = max(most, form[_END] - form[_BEGIN])
    tried, best = np.empty((most, 2), dtype=np.int64), np.empty((most, 2), dtype=np.int64)
    # Those of all files, one file after the other.
    stretches = np.empty((len(files) + most, 2), dtype=np.int64)
    found, rows = np.zeros(len(files), dtype=np.int64), np.zeros(len(files), dtype=np.int64)
    total = used = 0
    for file in range(len(files)):
        counts[file] = NOT_TOLD
        fewest = int64_at(files[file], 0) // DENSE
        for form in forms:
            header = int64_at(files[file], form[_SLOT])
            if header == 0:
                continue
            if form[_IS_RANGE]:
                parts, count = _between(header, form, numbers, offsets, letters, tried)
            else:
                parts, count = _among(header, form, numbers, offsets, letters, tried)
            if parts >= 0 and count <= fewest:
                counts[file] = fewest = count
                found[file], rows[file] = parts, int64_at(header, _ROWS)
                best, tried = tried, best
        if used + found[file] > len(stretches):
            stretches = np.concatenate((stretches, np.empty((len(stretches) + most, 2), dtype=np.int64)))
        for part in range(found[file]):
            copy(stretches[used + part], best[part])
        used += found[file]
        total += max(0, counts[file])
    tuples = np.empty(total, dtype=np.int64)
    at, done, is_sorted = 0, 0, True
    for file in range(len(files)):
        for begin, end in stretches[done : done + found[file]]:
            for place in range(begin, end):
                tuples[at] = file << 32 | int32_at(rows[file], place)
                is_sorted = is_sorted and (at == 0 or tuples[at - 1] < tuples[at])
                at += 1
        done += found[file]
    return tuples, is_sorted
