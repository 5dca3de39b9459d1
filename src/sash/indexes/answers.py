"""Answers that a value index gives about a window (003, sections 4.2 and 5).

All are exact unless the index has ranges for values (G-INDEX): then tables have `low` and `high` (above
low, up to high; NULL where it is open) instead of `value`, and what only exact values can say is refused.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pyarrow as pa

from sash.errors import InternalError
from sash.indexes.domain import Ints
from sash.indexes.storage import NULL_NODE
from sash.indexes.value_index import KeyedIndex, ValueIndex


class WindowAnswers:
    """What can be asked of one side of an index. NULL is skipped as aggregates do, unless said otherwise."""

    def __init__(self, index: ValueIndex, side: int = 0) -> None:
        self.index = index
        self.side = side

    def __len__(self) -> int:
        """The tuples of the window, NULL or not."""
        return self.index.totals[self.side] + self.index.nulls(self.side)

    @property
    def nulls(self) -> int:
        return self.index.nulls(self.side)

    def count_distinct(self) -> int:
        """How many different values there are."""
        self._exact("COUNT(DISTINCT)")
        return self.index.kinds[self.side]

    def median(self) -> pa.Scalar:
        return self.quantile(Fraction(1, 2))

    def quantile(self, share: float | Fraction) -> pa.Scalar:
        """Value number ⌈share · n⌉ of n in order; NULL if there is none."""
        index = self._exact("a quantile")
        node = self._quantile_node(share)
        if node is None:
            return pa.scalar(None, index.type)
        return index.values(np.array([node]))[0]

    def quantile_range(self, share: float | Fraction) -> tuple[pa.Scalar, pa.Scalar] | None:
        """Of an index of ranges: the range that has the quantile in it."""
        node = self._quantile_node(share)
        if node is None:
            return None
        labels = self.index.labels(np.array([node]))
        return labels["low"][0], labels["high"][0]

    def _quantile_node(self, share: float | Fraction) -> int | None:
        # As it was written: 0.07 of 100 values is the seventh, though 0.07 · 100 is more than 7 in binary.
        part = share if isinstance(share, Fraction) else Fraction(repr(float(share)))
        if not 0 < part <= 1:
            raise InternalError(f"a quantile lies above 0 and up to 1, not at {share}")
        tuples = self.index.totals[self.side]
        if not tuples:
            return None
        number = -(-tuples * part.numerator // part.denominator) - 1
        return self.index.quantile(part, number, self.side)

    def top(self, limit: int) -> pa.Table:
        """The most frequent values, most frequent first, equal counts in order of values."""
        return self._table(self.index.top(limit, self.side))

    def histogram(self) -> pa.Table:
        """All values in order with their counts; NULL last, where values are known exactly."""
        nodes = self.index.ordered(self.side)
        if self.index.is_exact and self.nulls:
            nodes = np.append(nodes, NULL_NODE)
        return self._table(nodes)

    def _table(self, nodes: Ints) -> pa.Table:
        counts = self.index.counts[self.side][nodes]
        return pa.table({**self.index.labels(nodes), "count": pa.array(counts)})

    def sorted_values(self) -> pa.Array:
        """The values of all tuples in order, NULL last."""
        self._exact("sorted output")
        table = self.histogram()
        counts = table.column("count").to_numpy()
        places = np.repeat(np.arange(len(counts)), counts)
        return table.column("value").combine_chunks().take(pa.array(places))

    def distinct_values(self) -> pa.Array:
        """Each value once in order, NULL last."""
        self._exact("DISTINCT")
        return self.histogram().column("value").combine_chunks()

    def intersect(self, other: WindowAnswers) -> pa.Table:
        """The values that both windows have, in order; NULL equals NULL here, as in SQL's INTERSECT.

        Two windows of one index (003, 7.2.3) need a look at its counts alone. Ranges that both windows have
        may still have no value in common.
        """
        if self.index is not other.index:
            return self._intersect_apart(other)
        nodes = self.index.ordered(self.side)
        nodes = nodes[self.index.counts[other.side][nodes] > 0]
        if self.index.is_exact and self.nulls and other.nulls:
            nodes = np.append(nodes, NULL_NODE)
        return pa.table(self.index.labels(nodes))

    def _intersect_apart(self, other: WindowAnswers) -> pa.Table:
        index = self._exact("INTERSECT of windows with indexes of their own")
        nodes = index.ordered(self.side)
        found = other._exact("INTERSECT of windows with indexes of their own").find(index.values(nodes))
        kept = nodes[(found >= 0) & (other.index.counts[other.side][found] > 0)]
        if self.nulls and other.nulls:
            kept = np.append(kept, NULL_NODE)
        return pa.table(index.labels(kept))

    def _exact(self, what: str) -> KeyedIndex:
        if not isinstance(self.index, KeyedIndex):
            raise InternalError(f"{what} needs values, and a {self.index.name} has ranges")
        return self.index
