"""How many rows of each group have each value: a hash table of groups and values."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from sash.operators.delta import Ints, one_array
from sash.state.fingerprints import Keys
from sash.state.keytable import KeyTable, grown

# Groups' numbers are small and so are many values; an odd factor spreads them over 64 bits and can be undone.
_SPREAD = 0x9E3779B97F4A7C15
_GATHER = pow(_SPREAD, -1, 1 << 64)


class Tally:
    """`counts` is by entry; an entry is a group and a value, and may be forgotten when its count is 0."""

    def __init__(self) -> None:
        self._keys = KeyTable()
        self.counts = np.zeros(self._keys.capacity, dtype=np.int64)

    def __len__(self) -> int:
        return len(self._keys)

    @property
    def nbytes(self) -> int:
        return self._keys.nbytes + self.counts.nbytes

    def enter(self, groups: Ints, codes: Ints) -> Ints:
        """The entry of each pair; those that are not there yet have the count 0."""
        keys = Keys(groups.view(np.uint64) * np.uint64(_SPREAD), codes.view(np.uint64))
        entries = self._keys.intern(keys)
        self.counts = grown(self.counts, self._keys.capacity, 0)
        return entries

    def forget(self, entries: Ints) -> None:
        """Let go of entries with the count 0, each once."""
        self._keys.release(entries)

    def pairs(self) -> tuple[Ints, Ints, Ints]:
        """Group, code and count of all entries."""
        entries = np.flatnonzero(self.counts)
        keys = self._keys.keys_of(entries)
        groups = (keys.first * np.uint64(_GATHER)).view(np.int64)
        return groups, keys.second.view(np.int64), self.counts[entries]


def value_table(groups: Ints, values: pa.Array, counts: Ints) -> pa.Table:
    """A table of groups, by their row in the table of groups, their values, and how many rows have each."""
    return pa.table({"group": groups, "value": values, "count": counts})


def from_value_table(table: pa.Table) -> tuple[Ints, pa.Array, Ints]:
    """What `value_table` wrote."""
    groups, counts = (table.column(name).to_numpy().copy() for name in ("group", "count"))
    return groups, one_array(table.column("value")), counts
