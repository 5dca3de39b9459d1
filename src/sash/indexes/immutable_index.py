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
`immutable_search.py` searches many of them at once.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sash.indexes.domain import Ints, ordinals_of, present_of
from sash.indexes.hash_storage import bucket_of
from sash.lang.indexing import IndexSpec, ValueIndexKind
from sash.state.addresses import address_of
from sash.state.fingerprints import fingerprint, string_buffers
from sash.state.jit import kernel
from sash.state.ordering import ranked_words

HEADER = ("keys", "offsets", "letters", "ends", "rows", "heads", "count", "buckets", "is_grouped")
"""`keys` or, of words, `offsets` and `letters`: where each begins, and their bytes; how many `count` says."""


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
            keys = keys if words is None else hashes_of(words)
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


def hashes_of(words: pa.Array) -> Ints:
    return fingerprint([words], len(words)).first.view(np.int64)


class ImmutableIndex:
    """What `build_still` has made, wherever it lies: nothing is copied.

    At the address `header` kernels find what HEADER lists: addresses, 0 for no array, and sizes.
    """

    def __init__(self, table: pa.Table) -> None:
        cells = {name: table.column(name).chunk(0).values for name in table.column_names}
        self.spec = table.schema.metadata[b"spec"].decode()
        self.type = table.schema.metadata[b"type"].decode()
        keys = cells.pop("keys")
        # Held, because the header has their addresses.
        self._arrays: dict[str, npt.NDArray[Any]] = {name: cell.to_numpy() for name, cell in cells.items()}
        if pa.types.is_string(keys.type):
            self._arrays["offsets"], self._arrays["letters"] = string_buffers(keys)
        else:
            self._arrays["keys"] = keys.to_numpy()
        self._header = np.zeros(len(HEADER), dtype=np.int64)
        for name, array in self._arrays.items():
            self._header[HEADER.index(name)] = address_of(array)
        buckets = len(self._arrays["heads"]) - 1 if "heads" in self._arrays else 0
        self._header[HEADER.index("count") :] = len(keys), buckets, "G(" in self.spec
        self.header = address_of(self._header)

    def leads_into(self, rows: int) -> bool:
        """Whether all it leads to are tuples of a file of `rows`: kernels would read whatever it says."""
        arrays, count = self._arrays, int(self._header[HEADER.index("count")])
        found = arrays["rows"]
        is_inside = not len(found) or (int(found.min()) >= 0 and int(found.max()) < rows)
        bounds = [(arrays["ends"], count, len(found))]
        if "heads" in arrays:
            bounds.append((arrays["heads"], len(arrays["heads"]) - 1, count))
        if "offsets" in arrays:
            bounds.append((arrays["offsets"], count, len(arrays["letters"])))
        return is_inside and all(_are_bounds(*each) for each in bounds)


def _are_bounds(places: npt.NDArray[Any], parts: int, end: int) -> bool:
    """Whether places divide what ends at `end` into parts."""
    is_whole = len(places) == parts + 1 and places[0] >= 0 and places[-1] <= end
    return bool(is_whole and (places[1:] >= places[:-1]).all())
