"""What the windows were after each movement of a history, found in logarithmic time.

Invariant: movement numbers ascend, heads of a ring ascend, and a sub-window's versions ascend. Building it
is one pass over the history, which is refused (HistoryError) where its operations cannot have happened.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass, field

from sash.errors import HistoryError
from sash.transactions.events import (
    Began,
    Change,
    Committed,
    Covered,
    Grown,
    Handed,
    Moved,
    Opened,
    Read,
    Settled,
    SubWindow,
    Undone,
)
from sash.transactions.history import History


@dataclass(slots=True)
class RingLine:
    """Since movement `since[i]` a ring has had the panes from `tails[i]` to `heads[i]`; both ascend."""

    size: int
    since: list[int] = field(default_factory=list)
    tails: list[int] = field(default_factory=list)
    heads: list[int] = field(default_factory=list)

    @property
    def panes(self) -> range:
        """Those that it has now."""
        return range(self.tails[-1], self.heads[-1] + 1) if self.heads else range(0)

    def add(self, number: int, first: int, head: int) -> None:
        self.since.append(number)
        self.tails.append(max(self.tails[-1] if self.tails else first, head - self.size + 1))
        self.heads.append(head)

    def created(self, pane: int) -> int | None:
        """The movement that wrote a pane; a jump leaves out those that it passes."""
        place = bisect_left(self.heads, pane)
        return self.since[place] if place < len(self.since) and self.tails[place] <= pane else None

    def passed(self, pane: int) -> int | None:
        """The movement after which the head is later than `pane`, if there is one."""
        place = bisect_right(self.heads, pane)
        return self.since[place] if place < len(self.since) else None

    def replaced(self, pane: int) -> int | None:
        """The movement that put a pane out of the ring, if there is one."""
        place = bisect_right(self.tails, pane)
        return self.since[place] if place < len(self.since) else None

    def tail_under(self, head: int) -> int:
        """The oldest pane while the newest is `head`, or the next one that there was."""
        return self.tails[min(bisect_left(self.heads, head), len(self.tails) - 1)]


class Timeline:
    def __init__(self, history: History) -> None:
        self.start = history.start
        self.numbers = [history.start]
        self.settled: dict[int, int] = {}
        self._positions = [-1]
        self._instants = [history.instant]
        self._inserts: dict[SubWindow, list[int]] = {}
        self._lines: dict[str, RingLine] = {}
        for ring in history.rings:
            line = self._lines[ring.name] = RingLine(ring.size)
            if ring.first is not None and ring.head is not None:
                line.add(history.start, ring.first, ring.head)
        self._follow(history)

    def _follow(self, history: History) -> None:
        running = set[int]()
        seen = set[int]()
        for position, event in enumerate(history.events):
            match event:
                case Opened(ring):
                    if ring.name in self._lines or ring.head is not None:
                        raise _impossible(position, f"ring '{ring.name}' is there, or is not empty")
                    self._lines[ring.name] = RingLine(ring.size)
                case Grown(name, size):
                    if name not in self._lines or size < self._lines[name].size:
                        raise _impossible(position, f"ring '{name}' grows to {size}")
                    self._lines[name].size = size
                case Moved():
                    self._move(event, position)
                case Settled(number):
                    if not self._is_number(number):
                        raise _impossible(position, f"movement {number} commits but did not happen")
                    self.settled[number] = position
                case Began(transaction, query):
                    if transaction in seen:
                        raise _impossible(position, f"transaction {transaction} begins twice")
                    for name, length in query.windows.items():
                        if name not in self._lines or not 1 <= length <= self._lines[name].size:
                            raise _impossible(position, f"query {query.name} reads {length} of ring '{name}'")
                    seen.add(transaction)
                    running.add(transaction)
                case Read() | Handed() | Undone():
                    if event.transaction not in running:
                        raise _impossible(position, f"transaction {event.transaction} reads but does not run")
                    if not self.exists(event.sub_window, event.version):
                        raise _impossible(
                            position,
                            f"transaction {event.transaction} reads {shown(event.sub_window)} as movement "
                            f"{event.version} left it, which did not write it",
                        )
                case Covered(transaction):
                    if transaction not in running:
                        raise _impossible(position, f"transaction {transaction} reads but does not run")
                case _:
                    if event.transaction not in running:
                        raise _impossible(position, f"transaction {event.transaction} ends but does not run")
                    running.discard(event.transaction)
                    if isinstance(event, Committed) and not self._is_number(event.state):
                        raise _impossible(
                            position, f"an answer is of movement {event.state}, of which there is none"
                        )

    def _move(self, moved: Moved, position: int) -> None:
        if moved.number <= self.numbers[-1]:
            raise _impossible(position, f"movement {moved.number} comes after {self.numbers[-1]}")
        for change in moved.changes:
            if change.ring not in self._lines:
                raise _impossible(position, f"movement {moved.number} moves ring '{change.ring}'")
            self._change(change, moved.number, position)
        self.numbers.append(moved.number)
        self._positions.append(position)
        self._instants.append(moved.instant)
        if moved.is_settled:
            self.settled[moved.number] = position

    def _change(self, change: Change, number: int, position: int) -> None:
        line = self._lines[change.ring]
        head = line.heads[-1] if line.heads else None
        # A ring that jumps further than its size holds new panes only; else no pane is left out.
        follows = head is None or change.first == max(head + 1, change.head - line.size + 1)
        if not follows or change.head - change.first >= line.size or change.head < change.first - 1:
            raise _impossible(
                position,
                f"movement {number} writes panes {change.first} to {change.head} of ring '{change.ring}', "
                f"whose newest is {head}",
            )
        if change.head >= change.first:
            line.add(number, change.first, change.head)
        for pane in change.inserted:
            if pane not in line.panes:
                raise _impossible(position, f"movement {number} inserts into pane {pane}, which is not live")
            self._inserts.setdefault(SubWindow(change.ring, pane), []).append(number)

    def line(self, ring: str) -> RingLine:
        return self._lines[ring]

    def exists(self, sub_window: SubWindow, version: int) -> bool:
        """Whether a movement so far left that version of a sub-window."""
        if sub_window.ring not in self._lines:
            return False
        created = self._lines[sub_window.ring].created(sub_window.pane)
        if created is None:
            return False
        # What was before the history began is one version, whatever its number.
        if max(version, self.start) == created:
            return True
        inserts = self._inserts.get(sub_window, [])
        place = bisect_left(inserts, version)
        return place < len(inserts) and inserts[place] == version

    def next_version(self, sub_window: SubWindow, version: int) -> int | None:
        """The movement that first changed a sub-window, or its slot, after `version`."""
        inserts = self._inserts.get(sub_window, [])
        place = bisect_right(inserts, max(version, self.start))
        if place < len(inserts):
            return inserts[place]
        return self._lines[sub_window.ring].replaced(sub_window.pane)

    def latest_at(self, position: int) -> int:
        """The newest movement when the event at `position` happens."""
        return self.numbers[bisect_left(self._positions, position) - 1]

    def before(self, number: int) -> int:
        """The movement before one; for the first, a number before all."""
        place = bisect_left(self.numbers, number)
        return self.numbers[place - 1] if place else self.start - 1

    def instant_of(self, number: int) -> int:
        return self._instants[bisect_left(self.numbers, number)]

    def _is_number(self, number: int) -> bool:
        place = bisect_left(self.numbers, number)
        return place < len(self.numbers) and self.numbers[place] == number


def shown(sub_window: SubWindow) -> str:
    return f"sub-window {sub_window.pane} of {sub_window.ring}"


def _impossible(position: int, what: str) -> HistoryError:
    return HistoryError(
        f"event {position + 1} of the history cannot have happened",
        got=what,
        hint="was the file changed, or are lines missing?",
    )
