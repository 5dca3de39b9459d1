"""The values of a window without groups in a value index (003, section 5), where CREATE INDEX asks for one.

The pre-aggregation counts each value of a sub-window once, which is the storage HASH of 003; here its counts
come and go in the index. COUNT(DISTINCT x), QUANTILE and TOP are asked of the index itself, others of
all its values in order.

Time: moving a window costs an access to the index for each different value of the sub-windows that enter and
leave, nothing for the values that stay: where the window has many more values than its sub-windows, that is
less than passing over them (`value_counts.py`). Space: that of the index, about 100 bytes a value, and 4
bytes a row of the log.
"""

from __future__ import annotations

from collections import deque
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sash.errors import InternalError
from sash.indexes.build import value_index
from sash.indexes.purging import Purging
from sash.indexes.storage import BasicWindow, Nodes
from sash.indexes.value_index import KeyedIndex
from sash.indexes.value_window import Upkeep
from sash.lang.bound import AggregateCall, AggregateFunction
from sash.lang.indexing import IndexSpec
from sash.state.lexicon import Moved
from sash.synopses.b_int_qnt import Tallies

if TYPE_CHECKING:
    from sash.synopses.value_counts import ValueCounts

_F = AggregateFunction
# The many rare values of a skewed stream come back: they stay until the index would be twice as large.
_SELDOM = Purging(share=0.5)
_NO_NODES: Nodes = np.zeros(0, dtype=np.int32)
Ints = npt.NDArray[np.int64]


class IndexedWindow:
    """The values of a window of one length, all of one slot. It holds the log's rows left … right."""

    def __init__(self, counts: ValueCounts, range_: int, spec: IndexSpec) -> None:
        self._all = counts
        self._spec = spec
        self.range = range_
        self._clear(counts.log.cells.base)

    def _clear(self, position: int) -> None:
        self.left = self.right = position
        index = value_index(self._spec, pa.int64())
        if not isinstance(index, KeyedIndex):
            raise InternalError(f"{self._spec} has no exact values")
        self._index = index
        self._upkeep = Upkeep(index, _SELDOM)
        # The nodes of each cell in the window.
        self._nodes: deque[Nodes] = deque()

    def advance(self, boundary: int) -> None:
        """Make the window that of `boundary`, which is on an edge and not before the last one."""
        log, panes = self._all.log.cells, self._all.spec.panes
        left = log.position_after(panes.number_at(boundary - self.range))
        right = log.position_after(panes.number_at(boundary))
        if left >= self.right or self.left < log.base:
            self._clear(left)
        # First what comes: a value that goes and comes keeps its node.
        coming = self._coming(self.right, right)
        self._index.add(coming)
        self._index.take(self._going(self.left, left))
        self._upkeep.after_slide(coming.tuples)
        self.left, self.right = left, right

    def _coming(self, begin: int, end: int) -> BasicWindow:
        log = self._all.log
        ordinals, amounts = log.between(begin, end)
        nodes = self._index.enter(ordinals, ordinals).astype(np.int32)
        starts = log.cells.ints[begin - log.cells.base : end - log.cells.base, 0]
        if len(starts) > 1:
            self._nodes.extend(np.split(nodes, starts[1:] - starts[0]))
        elif len(starts):
            self._nodes.append(nodes)
        return BasicWindow(nodes, amounts, int(amounts.sum()))

    def _going(self, begin: int, end: int) -> BasicWindow:
        _, amounts = self._all.log.between(begin, end)
        parts = [self._nodes.popleft() for _ in range(begin, end)]
        nodes = parts[0] if len(parts) == 1 else np.concatenate([_NO_NODES, *parts])
        return BasicWindow(nodes, amounts, int(amounts.sum()))

    def tallies(self, slots: Ints) -> Tallies:
        """The values of the one slot, in order."""
        return self._tallies(slots, self._index.ordered())

    def for_call(self, call: AggregateCall, slots: Ints) -> Tallies | None:
        """As few values as the answer of a call can be made of; None: it takes all of them."""
        if call.function is not _F.TOP or call.is_distinct:
            return None
        nodes = self._index.top(call.limit)
        return self._tallies(slots, nodes[np.argsort(self._index.keys[nodes])])

    def quantile(self, part: int, whole: int) -> int | None:
        """Value number ⌈n·part/whole⌉ of n in order; None if there is none."""
        total = self._index.totals[0]
        if not total:
            return None
        number = -(-total * part // whole) - 1
        return int(self._index.keys[self._index.quantile(Fraction(part, whole), number)])

    def distinct(self) -> int:
        """How many different values there are."""
        return self._index.kinds[0]

    def _tallies(self, slots: Ints, nodes: Ints) -> Tallies:
        offsets = np.array([0, len(nodes)] if len(slots) else [0], dtype=np.int64)
        return Tallies(slots, offsets, self._index.keys[nodes], self._index.counts[0][nodes])

    def recode(self, codes: Ints) -> None:
        """Words have other codes, in the same order."""
        # A value that is gone may be a word that nobody knows any more.
        self._index.purge()
        self._index.relabel(Moved(np.arange(len(codes)), codes))

    def renumber(self, place: Ints) -> None:
        """There is one slot, which stays."""
        base = self._all.log.cells.base
        if self.left < base:
            self._clear(base)

    @property
    def nbytes(self) -> int:
        return self._index.nbytes + sum(nodes.nbytes for nodes in self._nodes)
