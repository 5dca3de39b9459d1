"""G-INDEX: counts of ranges of values (003, section 5.4).

Group i has the values above bound i − 1 and up to bound i; the first and the last are open. Where no
bounds are given they are the quantiles of the first basic window that has values, so that groups begin
alike in size; then they stay.

Needs: answers that may be ranges (which ranges occur in both windows; in which range the median lies).
Time: O(log g) a tuple over LIST, over GROUP O(g) a basic window besides making it. Space: O(g).
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sash.errors import InternalError
from sash.indexes.domain import Domain, Ints, Read, ordinals_of
from sash.indexes.storage import NULL_NODE
from sash.indexes.value_index import ValueIndex
from sash.state.fingerprints import null_mask

_FIRST = NULL_NODE + 1


class GIndex(ValueIndex):
    """`bounds` ascend; there is one group more than bounds. Node i + 1 is group i."""

    name = "G-INDEX"
    is_exact = False

    def __init__(
        self, type_: pa.DataType, *, groups: int, bounds: pa.Array | None = None, sides: int = 1
    ) -> None:
        super().__init__(type_, sides=sides)
        self._groups = groups
        self.bounds: pa.Array | None = None
        self._ordinals: Ints = np.zeros(0, dtype=np.int64)
        if bounds is not None:
            self.set_bounds(bounds)

    def set_bounds(self, bounds: pa.Array) -> None:
        if self.bounds is not None:
            raise InternalError("the ranges of a G-INDEX are given once")
        self.bounds = bounds
        if not pa.types.is_string(self.type):
            self._ordinals = ordinals_of(bounds)
        while self.capacity < len(bounds) + 1 + _FIRST:
            self._grow()

    @property
    def nodes(self) -> int:
        return 0 if self.bounds is None else len(self.bounds) + 1

    def read(self, values: pa.Array) -> Read:
        if self.bounds is None and values.null_count < len(values):
            self.set_bounds(self._quantiles(values.drop_null()))
        return self._read(values)

    def _read(self, values: pa.Array) -> Read:
        nulls = null_mask(values)
        present = None if nulls is None else np.flatnonzero(~nulls)
        nodes = self._groups_of(values if present is None else values.take(pa.array(present))) + _FIRST
        return Read(len(values), nodes, nodes, present)

    def _quantiles(self, values: pa.Array) -> pa.Array:
        ordered = values.take(pc.sort_indices(values))
        places = -(-np.arange(1, self._groups) * len(values) // self._groups) - 1
        bounds = ordered.take(pa.array(places[places >= 0], pa.int64()))
        if pa.types.is_string(self.type):
            return bounds.unique()
        # Equal ordinals are equal values, also of doubles.
        return Domain(self.type, lambda moved: None).values(np.unique(ordinals_of(bounds)))

    def _groups_of(self, values: pa.Array) -> Ints:
        if self.bounds is None:
            return np.zeros(len(values), dtype=np.int64)
        if not pa.types.is_string(self.type):
            return np.searchsorted(self._ordinals, ordinals_of(values), side="left").astype(np.int64)
        encoded = values.dictionary_encode()
        words, count = encoded.dictionary, len(encoded.dictionary)
        # Words before bounds, so that of equal ones the word comes first: it belongs below.
        order = np.asarray(pc.sort_indices(pa.concat_arrays([words, self.bounds]))).astype(np.int64)
        groups = np.empty(len(order), dtype=np.int64)
        groups[order] = np.cumsum(order >= count)
        return groups[np.asarray(encoded.indices).astype(np.int64)]

    def enter(self, ordinals: Ints, holders: Ints) -> Ints:
        return ordinals

    def find(self, values: pa.Array) -> Ints:
        read = self._read(values)
        if read.present is None:
            return read.ordinals
        every = np.full(read.rows, -1, dtype=np.int64)
        every[read.present] = read.ordinals
        return every

    def ordered(self, side: int = 0) -> Ints:
        return np.flatnonzero(self.counts[side][_FIRST:]) + _FIRST

    def between(self, low: pa.Scalar | None, high: pa.Scalar | None, side: int = 0) -> Ints:
        """The groups that may have values from low to high."""
        nodes = self.ordered(side)
        if low is not None:
            nodes = nodes[nodes >= self.find(pa.array([low], self.type))[0]]
        if high is not None:
            nodes = nodes[nodes <= self.find(pa.array([high], self.type))[0]]
        return nodes

    def labels(self, nodes: Ints) -> dict[str, pa.Array]:
        bounds = pa.array([], self.type) if self.bounds is None else self.bounds
        groups = nodes - _FIRST
        return {
            "low": bounds.take(pa.array(groups - 1, mask=groups == 0)),
            "high": bounds.take(pa.array(groups, mask=groups == len(bounds))),
        }

    def order_of(self, nodes: Ints) -> Ints:
        return nodes

    def purge(self) -> None:
        """A range without tuples stays a range."""

    @property
    def nbytes(self) -> int:
        bounds = 0 if self.bounds is None else int(self.bounds.nbytes)
        return super().nbytes + self._ordinals.nbytes + bounds
