"""Answers on their way from the thread of the run to those who read them.

    nobody reads        the newest `limit` answers are kept, the run never waits
    somebody reads      nothing is thrown away; the run waits while `limit` answers or more are pending

A reader whose thread waits for this session itself (for an answer of another query, for the end), or has
ended, cannot take anything, so the run does not wait for it: that would be for ever. A batch is put in as a
whole, so at most `limit` answers and those of one batch are pending before a reader who takes its time.

Whoever begins to read a view after answers were thrown away is first given its contents as rows that came;
so the net of what a reader sees is always the view.

All inboxes of a session share one `Room`, whose lock guards them.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

import pyarrow as pa

from sash.engine.observe.report import AnswerRecord
from sash.errors import InternalError, UserError
from sash.plan.panes import last_boundary
from sash.session.answers import Answer, Cut, Told
from sash.session.view import View


class Room:
    """Where threads of a session meet. Its lock may be taken again by the thread that has it."""

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self._waiting: dict[threading.Thread, Callable[[], object]] = {}
        """Threads that wait for the session, each with what tells that its wait is over."""

    def wake(self) -> None:
        with self.changed:
            self.changed.notify_all()

    @contextmanager
    def waiting(self, is_over: Callable[[], object] = lambda: False) -> Iterator[None]:
        """While this thread waits for the session, nobody waits for it; when that `is_over`, it only has to
        wake up."""
        me = threading.current_thread()
        with self.changed:
            self._waiting[me] = is_over
            self.changed.notify_all()
        try:
            yield
        finally:
            with self.changed:
                self._waiting.pop(me, None)

    def can_read(self, thread: threading.Thread) -> bool:
        """Whether a reader in that thread may take an answer at any moment. The caller has the lock."""
        is_over = self._waiting.get(thread)
        return thread.is_alive() and (is_over is None or bool(is_over()))


@dataclass(frozen=True, slots=True)
class Shape:
    """What an inbox has to know of its query.

    `schema` is that of whole answers, with `ts`. `slide` is set where the query says its whole answer at
    every multiple of it, so that silence means an empty answer; `unit` is the microseconds in one of its
    instants. `is_partial`: it answers before its windows are whole.
    """

    schema: pa.Schema
    is_view: bool
    slide: int | None
    unit: int
    is_partial: bool = False

    @property
    def columns(self) -> pa.Schema:
        """The selected columns."""
        return pa.schema([field for field in self.schema if field.name not in ("ts", "op")])


class Inbox:
    """The answers of one query in one run."""

    def __init__(self, room: Room, shape: Shape, limit: int) -> None:
        self.shape = shape
        self.missed = 0
        self.view = View(shape.columns) if shape.is_view else None
        self.is_known = True
        """Whether the contents of the view are known; they are not where a run goes on from nothing."""
        self._room = room
        self._limit = limit
        self._cuts: deque[Cut | Told] = deque()
        self._newest: Answer | None = None
        # The same, or progress after it.
        self._last: Answer | None = None
        self._skipped_after: int | None = None
        self._clock: int | None = None
        self._has_gap = False
        self._is_closed = False
        self._failure: BaseException | None = None
        self._readers: dict[int, threading.Thread] = {}
        """The thread that each reader was last seen in."""

    # ------------------------------------------------------------------ the run

    def put(
        self,
        table: pa.Table | None,
        clock: int | None,
        committed: float | None = None,
        whole_from: int | None = None,
        skipped_after: int | None = None,
        progress: AnswerRecord | None = None,
    ) -> None:
        """What a batch gave, which is nothing for None, and the instant to which it brought the query.

        `committed`: the time on the wall, if the streams go by it. `whole_from`: when its windows are whole.
        `skipped_after`: boundaries were passed over between this instant and the answer of this batch, which
        may have no rows. `progress`: what the query tells after its answers.
        """
        with self._room.changed:
            self._clock = clock
            if self._skipped_after is None:
                self._skipped_after = skipped_after
            if table is not None and table.num_rows:
                table = table.cast(self.shape.schema)
                if self.view is not None and self.is_known:
                    self.view.add(table)
                is_partial, skipped = self.shape.is_partial, self._skipped_after
                cut = Cut(table, committed, whole_from, is_partial=is_partial, skipped_after=skipped)
                self._newest = cut.newest()
                self._append(cut)
            if progress is not None:
                self._append(Told(progress, self.shape.schema, committed))

    def _append(self, cut: Cut | Told) -> None:
        self._last = cut.newest()
        self._skipped_after = None
        self._cuts.append(cut)
        self._shorten_unread()
        self._room.changed.notify_all()

    def resume(self, contents: pa.Table | None) -> None:
        """The run goes on from a checkpoint; `contents` is the view at that point, None if nobody knows."""
        with self._room.changed:
            if self.view is not None and contents is not None:
                self.view.begin_with(contents)
            else:
                self.is_known = False

    def close(self, failure: BaseException | None = None) -> None:
        """There will be no more answers; readers are given the failure after those that are left."""
        with self._room.changed:
            self._is_closed = True
            self._failure = failure
            self._room.changed.notify_all()

    @property
    def pending(self) -> int:
        with self._room.changed:
            return sum(map(len, self._cuts))

    @property
    def holds_up(self) -> bool:
        """Whether the run has to wait for a reader. The caller has the lock of the room."""
        if self._is_closed or not any(map(self._room.can_read, self._readers.values())):
            return False
        return self.pending >= self._limit

    def _shorten_unread(self) -> None:
        excess = self.pending - self._limit
        if self._readers or self._is_closed or excess <= 0:
            return
        if self.view is not None and self.is_known:
            # The changes that are left would have to be seen from a view of the past, which nobody kept.
            excess, self._has_gap = self.pending, True
        self.missed += excess
        while excess:
            skipped = min(excess, len(self._cuts[0]))
            self._cuts[0].skip(skipped)
            excess -= skipped
            if not self._cuts[0]:
                self._cuts.popleft()

    # ------------------------------------------------------------------ readers

    def enter(self, reader: int) -> None:
        """Somebody begins to read: from now on nothing is thrown away."""
        with self._room.changed:
            self._readers[reader] = threading.current_thread()

    def leave(self, reader: int) -> None:
        with self._room.changed:
            if self._readers.pop(reader, None) is not None:
                self._shorten_unread()
                self._room.changed.notify_all()

    def take(self, reader: int) -> Answer | None:
        """The next answer, which is waited for; None after the last."""
        with self._room.changed:
            self._readers[reader] = threading.current_thread()
            if self._has_gap:
                self._has_gap = False
                # What is pending now is in the contents.
                self.missed += self.pending
                self._cuts.clear()
                contents = self._whole()
                if contents.rows.num_rows:
                    return contents
            if not self._has_news():
                with self._room.waiting(self._has_news):
                    self._room.changed.wait_for(self._has_news)
            if not self._cuts:
                if self._failure is not None:
                    raise self._failure
                return None
            answer = self._cuts[0].take()
            if not self._cuts[0]:
                self._cuts.popleft()
            self._room.changed.notify_all()
            return answer

    def _has_news(self) -> bool:
        return bool(self._cuts) or self._is_closed

    def _whole(self) -> Answer:
        """The contents of the view as rows that came."""
        if self.view is None or self._last is None or self._last.record is None:
            raise InternalError("an inbox has a gap before its first answer")
        rows = self.view.contents()
        op = pa.repeat("+", rows.num_rows)
        record = replace(self._last.record, is_progress=False)
        return Answer(self._last.at, rows.add_column(0, "op", op), record=record)

    def latest(self) -> pa.Table:
        """The contents of a view; else the newest answer."""
        if self.view is not None and not self.is_known:
            raise UserError(
                "the contents of the view are not known: the checkpoint does not have them",
                hint="its answers can be iterated; a run with a new checkpoint directory knows the contents",
                id="unknown-contents",
            )
        with self._room.changed:
            if self.view is not None:
                return self.view.contents()
            newest, clock = self._newest, self._clock
        none = self.shape.columns.empty_table()
        if newest is None or self._is_silent(newest, clock):
            return none
        return newest.rows.select(none.column_names)

    def _is_silent(self, newest: Answer, clock: int | None) -> bool:
        """Whether a later answer was empty."""
        if self.shape.slide is None or clock is None:
            return False
        last = last_boundary(clock, self.shape.slide)
        return _number(newest.at) < last // self.shape.unit


def _number(at: object) -> int:
    """An instant as the integer that its column holds."""
    if isinstance(at, int):
        return at
    return int(pa.scalar(at, pa.timestamp("us", tz="UTC")).value)
