"""A window of basic windows with an index of its tuples: any rings on any value index (003, section 6).

Tuples are given as positions: the number of tuples that came before. Whoever keeps the rows finds them by
it: rows `first` … `end` are in the window. Over a G-INDEX the tuples of all ranges that are concerned are
given, and whoever asks looks at their values.
"""

from __future__ import annotations

from collections import deque

import numpy as np
import pyarrow as pa

from sash.errors import InternalError
from sash.indexes.answers import WindowAnswers
from sash.indexes.domain import Ints
from sash.indexes.g_index import GIndex
from sash.indexes.purging import BY_SHARE
from sash.indexes.rings import Rings
from sash.indexes.storage import NULL_NODE, BasicWindow, State
from sash.indexes.value_index import ValueIndex
from sash.indexes.value_window import Upkeep, enter_all
from sash.state.groups import plain


class TupleWindow(WindowAnswers):
    """The tuples of the `basic_windows` newest basic windows, by the value of one column."""

    def __init__(
        self, index: ValueIndex, rings: Rings, basic_windows: int, *, upkeep: Upkeep | None = None
    ) -> None:
        super().__init__(index)
        self.rings = rings
        self.basic_windows = basic_windows
        self._upkeep = Upkeep(index, BY_SHARE) if upkeep is None else upkeep
        self._sizes: deque[int] = deque()

    @property
    def first(self) -> int:
        """The position of the oldest tuple in the window."""
        return self.rings.begin

    @property
    def end(self) -> int:
        """The position after that of the newest tuple."""
        return self.rings.end

    @property
    def slides(self) -> int:
        """How many basic windows it holds."""
        return len(self._sizes)

    def slide(self, values: pa.Array | pa.ChunkedArray) -> None:
        """The newest basic window has these values; if there are too many, the oldest goes."""
        read = self.index.read(plain(values))
        nodes = self.rings.insert(read, self.index)
        self.index.add(BasicWindow(nodes, None, read.rows))
        self._sizes.append(read.rows)
        if len(self._sizes) > self.basic_windows:
            self._evict()
        self._upkeep.after_slide(read.rows)

    def expire(self, count: int = 1) -> None:
        """The oldest basic windows go and nothing comes; those that are not there are not missed."""
        for _ in range(min(count, len(self._sizes))):
            self._evict()
        self._upkeep.after_slide(0)

    def _evict(self) -> None:
        size = self._sizes.popleft()
        self.index.take(BasicWindow(self.rings.expire(size), None, size))

    # --------------------------------------------------------------- answers

    def probe(self, value: pa.Scalar) -> Ints:
        """The positions of the tuples with a value, in order of arrival; NULL equals nothing."""
        return self.probe_all(pa.array([value], self.index.type))[1]

    def probe_all(self, values: pa.Array | pa.ChunkedArray) -> tuple[Ints, Ints]:
        """For many values at once: which of them, and the position of a tuple that has it."""
        nodes = self.index.find(plain(values))
        rows = np.flatnonzero(nodes >= 0)
        nodes = nodes[rows]
        counts = self.index.counts[0][nodes]
        return np.repeat(rows, counts), self.rings.gather(nodes, counts)

    def range(
        self,
        low: pa.Scalar | None = None,
        high: pa.Scalar | None = None,
        *,
        has_low: bool = True,
        has_high: bool = True,
    ) -> Ints:
        """The positions of the tuples from low to high (None: no bound), by value, then by arrival.

        `has_low`, `has_high`: whether the bounds themselves are asked for.
        """
        nodes = self.index.between(low, high)
        if self.index.is_exact:
            for bound, is_asked in ((low, has_low), (high, has_high)):
                if bound is not None and not is_asked:
                    nodes = nodes[nodes != self.index.find(pa.array([bound], self.index.type))[0]]
        return self._positions(nodes)

    def sorted_positions(self) -> Ints:
        """All tuples by value, NULL last, equal values by arrival."""
        self._exact("sorted output")
        return self._positions(np.append(self.index.ordered(), NULL_NODE))

    def null_positions(self) -> Ints:
        """The tuples that are NULL, in order of arrival."""
        return self._positions(np.array([NULL_NODE]))

    def _positions(self, nodes: Ints) -> Ints:
        return self.rings.gather(nodes, self.index.counts[0][nodes])

    @property
    def nbytes(self) -> int:
        return self.index.nbytes + self.rings.nbytes

    # ----------------------------------------------------------------- state

    def snapshot(self) -> State:
        """Sizes of the basic windows, oldest first, and what stands for the value of each tuple."""
        nodes = np.append(np.arange(1, self.index.capacity), NULL_NODE)
        counts = self.index.counts[0][nodes]
        nodes, counts = nodes[counts > 0], counts[counts > 0]
        owners = np.empty(len(self), dtype=np.int64)
        owners[self.rings.gather(nodes, counts) - self.first] = np.repeat(nodes, counts)
        state = {
            "windows": pa.table({"tuples": np.array(self._sizes, dtype=np.int64)}),
            "first": pa.table({"position": [self.first]}),
        }
        if isinstance(self.index, GIndex):
            state["tuples"] = pa.table({"node": owners})
            if self.index.bounds is not None:
                state["bounds"] = pa.table({"bound": self.index.bounds})
        else:
            state["tuples"] = pa.table(self.index.labels(owners))
        return state

    def restore(self, state: State) -> None:
        """Take up a state; only for a window that has not slid."""
        if self.slides:
            raise InternalError("a window takes up a state before it slides")
        if isinstance(self.index, GIndex):
            if "bounds" in state:
                self.index.set_bounds(plain(state["bounds"].column("bound")))
            nodes = state["tuples"].column("node").to_numpy()
        else:
            nodes = enter_all(self.index, plain(state["tuples"].column("value")))
        owners = nodes.astype(np.int32)
        self.rings.build(state["first"].column("position")[0].as_py(), owners, self.index.capacity)
        self.index.add(BasicWindow(owners, None, len(owners)))
        self._sizes.extend(state["windows"].column("tuples").to_pylist())
