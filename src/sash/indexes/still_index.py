"""An index of tuples that do not change: the tuples of a basic window that is complete and kept on disk.

003 links the tuples of a value by rings, because windows move (section 6). Here a basic window goes as a
whole, so the tuples of a value lie beside one another, and the ring is a stretch of an array. What leads
there is the value index of the specification:

| values | a directory of                                        | equality            | a range         |
|--------|-------------------------------------------------------|---------------------|-----------------|
| T, L   | all values in order                                   | O(log d)            | O(log d)        |
| H, UH  | buckets of values                                     | O(1 + d/h)          | not answered    |
| G(g)   | g ranges of about as many tuples, by their last value | O(log g), not exact | O(log g), not exact |

d different values, h buckets, as many as values unless their number is given. A sorted list on disk is
searched by halving, so L is T here, and the order within a bucket makes no difference, so UH is H. NULL is
in no index: no condition that leads to one holds for it. Space: 4 bytes a tuple, 16 a value (and the words).
What is found may be too much, with G and where two words have one hash: whoever asks looks at the tuples.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sash.indexes.domain import Ints, ordinals_of, present_of
from sash.indexes.hash_storage import bucket_of
from sash.lang.indexing import IndexSpec, ValueIndexKind
from sash.plan.key_conditions import Among, Condition, Value
from sash.state.fingerprints import fingerprint
from sash.state.jit import kernel
from sash.state.ordering import ranked_words

Rows = npt.NDArray[np.int32]
_NO_ROWS = np.zeros(0, dtype=np.int32)
_LEAST, _GREATEST = -(2**63), 2**63 - 1
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


@kernel
def _buckets_of(keys: Ints, buckets: int) -> Ints:
    out = np.empty(len(keys), dtype=np.int64)
    for i in range(len(keys)):
        out[i] = bucket_of(keys[i], buckets)
    return out


def build_still(spec: IndexSpec, values: pa.Array) -> pa.Table:
    """The index of the tuples that have these values, as a table of one row, whose cells are arrays."""
    present = present_of(values)
    there = values if present is None else values.take(pa.array(present))
    type_ = values.type.value_type if pa.types.is_dictionary(values.type) else values.type
    words: pa.Array | None = None
    if pa.types.is_string(type_):
        ordinals, words = ranked_words(there)
    else:
        ordinals = ordinals_of(there)
    keys, ends, rows = _gathered(ordinals)
    if words is not None:
        words = words.take(pa.array(keys))
    heads: Ints | None = None
    match spec.values:
        case ValueIndexKind.H | ValueIndexKind.UH:
            keys = keys if words is None else _hashes(words)
            words = None
            count = spec.buckets or max(1, len(keys))
            buckets = _buckets_of(keys, count)
            order = np.lexsort((keys, buckets))
            heads = np.searchsorted(buckets[order], np.arange(count + 1)).astype(np.int64)
            keys = keys[order]
            ends, rows = _reordered(ends, rows, order)
        case ValueIndexKind.G:
            groups = (ends[1:] - 1) * (spec.groups or 1) // max(1, len(rows))
            lasts = np.flatnonzero(np.diff(groups, append=-1))
            keys, words = keys[lasts], None if words is None else words.take(pa.array(lasts))
            ends = ends[np.concatenate([[0], lasts + 1])]
    rows = rows if present is None else present[rows]
    cells: dict[str, pa.Array] = {"ends": pa.array(ends), "rows": pa.array(rows.astype(np.int32))}
    cells["keys"] = pa.array(keys) if words is None else words
    if heads is not None:
        cells["heads"] = pa.array(heads)
    table = pa.table({name: _cell(cell) for name, cell in cells.items()})
    return table.replace_schema_metadata({"spec": str(spec), "type": str(type_)})


def _gathered(ordinals: Ints) -> tuple[Ints, Ints, Ints]:
    """The different ordinals in order, where the tuples of each begin (and the last one's end), and those."""
    count = len(ordinals)
    bits = count.bit_length()
    least, greatest = (int(ordinals.min()), int(ordinals.max())) if count else (0, 0)
    if greatest - least < 1 << (63 - bits):
        # Ordinal and tuple in one integer: those are sorted several times as fast as places by their values.
        ordered = np.sort((ordinals - least) << bits | np.arange(count))
        tuples = ordered & ((1 << bits) - 1)
        ordered = (ordered >> bits) + least
    else:
        tuples = np.argsort(ordinals)
        ordered = ordinals[tuples]
    begins = np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1]])[:count])
    return ordered[begins], np.append(begins, count), tuples


def _reordered(ends: Ints, rows: Ints, order: Ints) -> tuple[Ints, Ints]:
    """The stretches between `ends` in another order: where they end, and their rows."""
    lengths = np.diff(ends)[order]
    new_ends = np.concatenate([[0], np.cumsum(lengths)])
    places = np.repeat(ends[:-1][order] - new_ends[:-1], lengths) + np.arange(len(rows))
    return new_ends, rows[places]


def _cell(values: pa.Array) -> pa.Array:
    return pa.LargeListArray.from_arrays(pa.array([0, len(values)], pa.int64()), values)


def _hashes(words: pa.Array) -> Ints:
    return fingerprint([words], len(words)).first.view(np.int64)


class StillIndex:
    """What `build_still` has made, wherever it lies: nothing is copied."""

    def __init__(self, table: pa.Table) -> None:
        cells = {name: table.column(name).chunk(0).values for name in table.column_names}
        self.spec = table.schema.metadata[b"spec"].decode()
        self._type = table.schema.metadata[b"type"].decode()
        self._is_grouped = "G(" in self.spec
        self._ends: Ints = cells["ends"].to_numpy()
        self._rows: Rows = cells["rows"].to_numpy()
        self._heads: Ints | None = cells["heads"].to_numpy() if "heads" in cells else None
        keys = cells["keys"]
        self._keys: Ints | _Words = _Words(keys) if pa.types.is_string(keys.type) else keys.to_numpy()

    def spans(self, condition: Condition) -> list[tuple[int, int]] | None:
        """Where the tuples lie that can fulfil a condition; None: the index cannot tell."""
        is_hashed = self._heads is not None
        if isinstance(condition, Among):
            keys = [_key(self._type, value, is_hashed) for value in condition.values]
            if None in keys:
                return None
            places = (
                self._equal(keys[0]) if len(keys) == 1 else sorted({p for k in keys for p in self._equal(k)})
            )
            return [self._span(place, place + 1) for place in places]
        bounds = (condition.low, condition.high)
        low, high = (None if bound is None else _key(self._type, bound, is_hashed) for bound in bounds)
        is_known = (low is None) == (condition.low is None) and (high is None) == (condition.high is None)
        if is_hashed or not is_known:
            return None
        first, last = 0, len(self._keys)
        if low is not None:
            # The last value of a range may be the bound, and then those after it are in the next one.
            first = self._rank(low, is_after=condition.is_low_open)
        if high is not None and self._is_grouped:
            last = min(last, self._rank(high, is_after=False) + 1)
        elif high is not None:
            last = self._rank(high, is_after=not condition.is_high_open)
        return [self._span(first, last)] if first < last else []

    def _span(self, first: int, last: int) -> tuple[int, int]:
        """Where the tuples of some places of the directory lie."""
        return int(self._ends[first]), int(self._ends[last])

    def find(self, spans: Sequence[tuple[int, int]]) -> Ints:
        """The positions of the tuples that lie there, in order of arrival."""
        parts = [self._rows[begin:end] for begin, end in spans]
        rows = (parts[0] if len(parts) == 1 else np.concatenate([_NO_ROWS, *parts])).astype(np.int64)
        rows.sort()
        return rows

    def _equal(self, key: Any) -> list[int]:
        """The places of the directory that have a key."""
        if self._heads is not None:
            bucket = bucket_of(key, len(self._heads) - 1)
            begin, end = self._heads[bucket], self._heads[bucket + 1]
            return [int(begin) + int(slot) for slot in np.flatnonzero(self._keys[begin:end] == key)]
        first = self._rank(key, is_after=False)
        if first == len(self._keys) or (self._keys[first] != key and not self._is_grouped):
            return []
        return [first]

    def _rank(self, key: Any, *, is_after: bool) -> int:
        """How many entries of the directory come before a key, or, after it, up to it."""
        if isinstance(self._keys, _Words):
            return (bisect_right if is_after else bisect_left)(self._keys, key)
        return int(self._keys.searchsorted(key, side="right" if is_after else "left"))


# A question asks all files for the same values. True, 1 and 1.0 are equal and not the same.
@lru_cache(maxsize=1024, typed=True)
def _key(type_: str, value: Value, is_hashed: bool) -> int | str | None:
    """What a directory has for a value; None: it is not of the type of the column."""
    if isinstance(value, float) and type_ == "int64" and value.is_integer():
        value = int(value)
    match type_, value:
        case "string", str():
            return int(_hashes(pa.array([value]))[0]) if is_hashed else value
        case "bool", bool():
            return int(value)
        case _, bool():
            return None
        case "int64", int() if _LEAST <= value <= _GREATEST:
            return value
        case "double", int() | float():
            return int(ordinals_of(pa.array([float(value)]))[0])
        case "timestamp[us]", datetime():
            given = value if value.tzinfo is not None else value.replace(tzinfo=UTC)
            return (given - _EPOCH) // _MICROSECOND
    return None


class _Words(Sequence[str]):
    """Words on disk as halving needs them: one at a time."""

    def __init__(self, words: pa.Array) -> None:
        self._words = words

    def __len__(self) -> int:
        return len(self._words)

    def __getitem__(self, place: Any) -> Any:
        # Python compares code points, which is the order of the bytes of UTF-8.
        return self._words[place].as_py()
