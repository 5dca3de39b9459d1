"""A window of basic windows with an index of its values: any storage under any value index (003, sections 3
and 5).

`slide` appends the newest basic window and evicts the oldest, if the window is full: the index finds or
makes a node for each entry of the new one, adds its counts, and subtracts those of the old one by following
its pointers. A value that goes and comes within one slide keeps its node.
"""

from __future__ import annotations

from collections import deque

import numpy as np
import pyarrow as pa

from sash.errors import InternalError
from sash.indexes.answers import WindowAnswers
from sash.indexes.domain import Ints
from sash.indexes.g_index import GIndex
from sash.indexes.group_storage import GroupStorage
from sash.indexes.hash_storage import equal_values
from sash.indexes.list_storage import ListStorage
from sash.indexes.purging import BY_SHARE, Purging
from sash.indexes.storage import BasicWindow, BasicWindowStorage, State, in_order
from sash.indexes.value_index import ValueIndex
from sash.state.groups import plain


class Upkeep:
    """When an index is purged, as a policy has it."""

    def __init__(self, index: ValueIndex, purging: Purging) -> None:
        self._index = index
        self._purging = purging
        self._tuples = self._slides = 0
        if purging.keeps_list:
            index.tracks_zeros()

    def after_slide(self, tuples: int) -> None:
        self._tuples += tuples
        self._slides += 1
        index = self._index
        if self._purging.is_due(
            tuples=self._tuples, slides=self._slides, zeros=index.zeros, nodes=index.nodes
        ):
            index.purge()
            self._tuples = self._slides = 0


class ValueWindow(WindowAnswers):
    """The `basic_windows` newest basic windows on one side of an index."""

    def __init__(
        self,
        index: ValueIndex,
        storage: BasicWindowStorage,
        basic_windows: int,
        *,
        side: int = 0,
        upkeep: Upkeep | None = None,
    ) -> None:
        super().__init__(index, side)
        is_grouped = isinstance(storage, GroupStorage)
        if isinstance(index, GIndex) is not is_grouped and not isinstance(storage, ListStorage):
            raise InternalError(f"a {index.name} does not work over {storage.name}")
        self.storage = storage
        self.basic_windows = basic_windows
        self._upkeep = Upkeep(index, BY_SHARE) if upkeep is None else upkeep
        self._held: deque[BasicWindow] = deque()

    def slide(self, values: pa.Array | pa.ChunkedArray) -> None:
        """The newest basic window has these values; if there are too many, the oldest goes."""
        read = self.index.read(plain(values))
        folded = self.storage.fold(read)
        basic = self.storage.bind(read, folded, self.index.enter(folded.ordinals, folded.holders))
        self.index.add(basic, self.side)
        self._held.append(basic)
        if len(self._held) > self.basic_windows:
            self.index.take(self._held.popleft(), self.side)
        self._upkeep.after_slide(read.rows)

    def expire(self, count: int = 1) -> None:
        """The oldest basic windows go and nothing comes; those that are not there are not missed."""
        for _ in range(min(count, len(self._held))):
            self.index.take(self._held.popleft(), self.side)
        self._upkeep.after_slide(0)

    @property
    def slides(self) -> int:
        """How many basic windows it holds."""
        return len(self._held)

    @property
    def entries(self) -> int:
        return sum(len(basic.nodes) for basic in self._held)

    @property
    def nbytes(self) -> int:
        return self.index.nbytes + sum(basic.nbytes for basic in self._held)

    # ----------------------------------------------------------------- state

    def snapshot(self) -> State:
        """The basic windows, oldest first, and their entries."""
        sizes = np.array([len(basic.nodes) for basic in self._held], dtype=np.int64)
        tuples = np.array([basic.tuples for basic in self._held], dtype=np.int64)
        nodes = _joined([basic.nodes.astype(np.int64) for basic in self._held])
        amounts = _joined(
            [
                np.ones(len(basic.nodes), dtype=np.int64) if basic.amounts is None else basic.amounts
                for basic in self._held
            ]
        )
        state = {"windows": pa.table({"entries": sizes, "tuples": tuples})}
        if isinstance(self.index, GIndex):
            state["entries"] = pa.table({"node": nodes, "count": amounts})
            if self.index.bounds is not None:
                state["bounds"] = pa.table({"bound": self.index.bounds})
        else:
            labels = self.index.labels(nodes)
            state["entries"] = pa.table({**labels, "count": amounts})
        return state

    def restore(self, state: State) -> None:
        """Take up a state; only for a window that has not slid."""
        if self._held:
            raise InternalError("a window takes up a state before it slides")
        entries = state["entries"]
        if isinstance(self.index, GIndex):
            if "bounds" in state and self.index.bounds is None:
                self.index.set_bounds(plain(state["bounds"].column("bound")))
            nodes = entries.column("node").to_numpy()
        else:
            nodes = enter_all(self.index, plain(entries.column("value")))
        amounts = entries.column("count").to_numpy()
        begin = 0
        sizes, tuples = (state["windows"].column(name).to_pylist() for name in ("entries", "tuples"))
        for size, count in zip(sizes, tuples, strict=True):
            end = begin + size
            own = None if isinstance(self.storage, ListStorage) else amounts[begin:end].copy()
            basic = BasicWindow(nodes[begin:end].astype(np.int32), own, count)
            self.index.add(basic, self.side)
            self._held.append(basic)
            begin = end


def enter_all(index: ValueIndex, values: pa.Array) -> Ints:
    """The node of each value, with one access to the index for each different one."""
    read = index.read(values)
    first, _, local = equal_values(read.ordinals)
    nodes = index.enter(read.ordinals[first], read.holders[first])
    return in_order(read, nodes[local]).astype(np.int64)


def _joined(parts: list[Ints]) -> Ints:
    return np.concatenate(parts) if parts else np.zeros(0, dtype=np.int64)
