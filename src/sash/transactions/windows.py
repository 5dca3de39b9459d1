"""The rings as they are now: which panes they hold, and which movement last wrote each."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from sash.errors import InternalError
from sash.transactions.events import Change, Moved, Ring, SubWindow


class Windows:
    """`number` and `instant` are those of the newest movement."""

    def __init__(self, rings: Iterable[Ring], number: int = 0, instant: int = 0) -> None:
        self.number = number
        self.instant = instant
        self.rings = {ring.name: ring for ring in rings}
        self.order = {name: place for place, name in enumerate(self.rings)}
        self._first = {ring.name: ring.first for ring in self.rings.values()}
        self._head = {ring.name: ring.head for ring in self.rings.values()}
        self._versions = {
            SubWindow(ring.name, pane): number
            for ring in self.rings.values()
            if ring.first is not None and ring.head is not None
            for pane in range(ring.first, ring.head + 1)
        }

    def open(self, ring: Ring) -> None:
        if ring.name in self.order or ring.head is not None:
            raise InternalError(f"ring '{ring.name}' is there, was there, or is not empty")
        self.rings[ring.name] = ring
        self.order[ring.name] = len(self.order)
        self._first[ring.name] = self._head[ring.name] = None

    def grow(self, ring: str, size: int) -> None:
        if size < self.rings[ring].size:
            raise InternalError(f"ring '{ring}' has {self.rings[ring].size} sub-windows and cannot shrink")
        self.rings[ring] = replace(self.rings[ring], size=size)

    def close(self, ring: str) -> list[tuple[SubWindow, int]]:
        """A ring goes, and its name with it; gives the versions that it held."""
        panes = self.panes(ring, self.rings.pop(ring).size)
        del self._first[ring], self._head[ring]
        return [(SubWindow(ring, pane), self._versions.pop(SubWindow(ring, pane))) for pane in panes]

    def head(self, ring: str) -> int | None:
        return self._head[ring]

    def panes(self, ring: str, length: int) -> range:
        """The youngest panes of a ring, at most `length`."""
        first, head = self._first[ring], self._head[ring]
        if first is None or head is None:
            return range(0)
        return range(max(first, head - length + 1), head + 1)

    def version(self, sub_window: SubWindow) -> int:
        return self._versions[sub_window]

    def change(self, ring: str, head: int, inserted: Iterable[int] = (), first: int | None = None) -> Change:
        """What a slide to `head` writes; an empty ring is filled from `first`."""
        size, before = self.rings[ring].size, self._head[ring]
        begin = (head if first is None else first) if before is None else before + 1
        change = Change(ring, max(begin, head - size + 1), head, tuple(inserted))
        if head < begin - 1:
            raise InternalError(f"ring '{ring}' is at pane {before} and cannot slide to {head}")
        live = self.panes(ring, size)
        if any(pane not in live or pane <= head - size for pane in change.inserted):
            raise InternalError(f"inserts into panes {change.inserted} of ring '{ring}', which has {live}")
        return change

    def apply(self, moved: Moved) -> list[tuple[SubWindow, int]]:
        """Take in a movement; gives the versions that are no longer part of the windows."""
        if moved.number <= self.number:
            raise InternalError(f"movement {moved.number} after {self.number}")
        retired: list[tuple[SubWindow, int]] = []
        for change in moved.changes:
            retired.extend(self._apply(change, moved.number))
        self.number, self.instant = moved.number, moved.instant
        return retired

    def _apply(self, change: Change, number: int) -> Iterable[tuple[SubWindow, int]]:
        if change != self.change(change.ring, change.head, change.inserted, change.first):
            raise InternalError(f"{change} does not follow {self._head[change.ring]}")
        name = change.ring
        before = self.panes(name, self.rings[name].size)
        if change.head >= change.first:
            self._head[name] = change.head
            oldest = max(change.head - self.rings[name].size + 1, before.start if before else change.first)
            self._first[name] = oldest
            for pane in range(change.first, change.head + 1):
                self._versions[SubWindow(name, pane)] = number
            for pane in range(before.start, min(before.stop, oldest)):
                yield SubWindow(name, pane), self._versions.pop(SubWindow(name, pane))
        for pane in change.inserted:
            sub_window = SubWindow(name, pane)
            yield sub_window, self._versions[sub_window]
            self._versions[sub_window] = number
