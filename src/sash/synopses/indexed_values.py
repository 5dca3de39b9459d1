"""The values of a window without groups in a value index (003, section 5), where CREATE INDEX asks for one.

The pre-aggregation counts each value of a sub-window once, which is the storage HASH of 003; here its counts
come and go in the index. COUNT(DISTINCT x), QUANTILE and TOP are asked of the index itself, others of
all its values in order.

Time: moving a window costs an access to the index for each different value of the sub-windows that enter and
leave, nothing for the values that stay: where the window has many more values than its sub-windows, that is
less than passing over them (`value_counts.py`). Space: that of the index, about 100 bytes a value.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sash.errors import InternalError
from sash.indexes.build import value_index
from sash.indexes.purging import BY_SHARE
from sash.indexes.storage import BasicWindow
from sash.indexes.value_index import KeyedIndex
from sash.indexes.value_window import Upkeep
from sash.lang.bound import AggregateCall, AggregateFunction
from sash.lang.indexing import IndexSpec
from sash.operators.aggregates.calls import fraction_of
from sash.state.lexicon import Moved
from sash.synopses.b_int_qnt import LARGEST_DENOMINATOR, Tallies

if TYPE_CHECKING:
    from sash.synopses.value_counts import ValueCounts

_F = AggregateFunction
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
        self._upkeep = Upkeep(index, BY_SHARE)

    def advance(self, boundary: int) -> None:
        """Make the window that of `boundary`, which is on an edge and not before the last one."""
        log, panes = self._all.log.cells, self._all.spec.panes
        left = log.position_after(panes.number_at(boundary - self.range))
        right = log.position_after(panes.number_at(boundary))
        if left >= self.right or self.left < log.base:
            self._clear(left)
        coming, going = self._basic(self.right, right), self._basic(self.left, left)
        # First what comes: a value that goes and comes keeps its node.
        self._index.add(coming)
        self._index.take(going)
        self._upkeep.after_slide(coming.tuples)
        self.left, self.right = left, right

    def _basic(self, begin: int, end: int) -> BasicWindow:
        ordinals, amounts = self._all.log.between(begin, end)
        nodes = self._index.enter(ordinals, ordinals)
        return BasicWindow(nodes.astype(np.int32), amounts, int(amounts.sum()))

    def tallies(self, slots: Ints) -> Tallies:
        """The values of the one slot, in order."""
        return self._tallies(slots, self._index.ordered())

    def for_call(self, call: AggregateCall, slots: Ints) -> Tallies | None:
        """As few values as the answer of a call can be made of; None: it takes all of them."""
        match call.function:
            case _F.QUANTILE if not call.is_distinct:
                total = self._index.totals[0]
                if not total:
                    return self._tallies(slots, np.zeros(0, dtype=np.int64))
                share = fraction_of(call).limit_denominator(LARGEST_DENOMINATOR)
                number = -(-total * share.numerator // share.denominator) - 1
                return self._tallies(slots, np.array([self._index.quantile(Fraction(share), number)]))
            case _F.TOP if not call.is_distinct:
                nodes = self._index.top(call.limit)
                return self._tallies(slots, nodes[np.argsort(self._index.keys[nodes])])
        return None

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
        return self._index.nbytes
