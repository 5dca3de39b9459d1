"""The session's eye on a run: what a batch gives goes into the inboxes, and a slow reader holds it up."""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping

import pyarrow as pa

from sash.engine.observe.report import BatchReport, QueryRefreshStats, Summary
from sash.session.inbox import Inbox, Room
from sash.session.kept import Kept

# Seconds. Readers say when they are done; the end of a thread that was one is noticed this way only.
_LOOK_AGAIN = 0.5
_LOG = logging.getLogger("sash")


class Delivery:
    """A Monitor. The thread of the run waits in `batch` until readers have caught up or it is to stop."""

    def __init__(
        self, room: Room, inboxes: Mapping[str, Inbox], stop: threading.Event, kept: Kept | None
    ) -> None:
        self._room = room
        self._inboxes = dict(inboxes)
        self._stop = stop
        self._kept = kept
        self._has_begun = False
        # How periodic queries fared, after the last batch.
        self.refreshes: Mapping[str, QueryRefreshStats] = {}
        # From when on the windows of queries are whole.
        self.whole_from: Mapping[str, int] = {}

    def watch(self, query: str, inbox: Inbox) -> None:
        """Put the answers of one more query into its inbox, from the next batch on."""
        with self._room.changed:
            self._inboxes[query] = inbox

    def forget(self, query: str) -> None:
        with self._room.changed:
            self._inboxes.pop(query, None)

    def started(self, queries: Mapping[str, str], streams: Mapping[str, str]) -> None:
        """Whether the run goes on from a checkpoint shows in its first batch."""

    def watches(self, query: str) -> bool:
        with self._room.changed:
            return query in self._inboxes

    def batch(self, report: BatchReport) -> None:
        self._begin(report.number, report.answered, report.answers)
        with self._room.changed:
            inboxes = dict(self._inboxes)
        self.refreshes = report.refresh()
        self.whole_from = report.whole_from()
        for name, inbox in inboxes.items():
            committed = report.time if name in report.live else None
            inbox.put(
                report.answers.get(name),
                report.watermarks.get(name),
                committed,
                self.whole_from.get(name),
                report.skipped_after.get(name),
                report.progressed.get(name),
            )
            if self._kept is not None and inbox.view is not None and inbox.is_known:
                self._kept.save(name, report.number, inbox.latest())
        with self._room.changed:
            while not self._stop.is_set() and any(inbox.holds_up for inbox in self._inboxes.values()):
                self._room.changed.wait(_LOOK_AGAIN)

    def warning(self, text: str) -> None:
        _LOG.warning("%s", text)

    def finished(self, summary: Summary) -> None:
        self._begin(summary.batches, summary.answered, {})

    def end(self, failure: BaseException | None) -> None:
        """The run is over."""
        with self._room.changed:
            for inbox in self._inboxes.values():
                inbox.close(failure)

    def _begin(self, batch: int, answered: Mapping[str, int], answers: Mapping[str, pa.Table]) -> None:
        """Before the first batch of this run: take up the views as they were after the batch before it."""
        if self._has_begun:
            return
        self._has_begun = True
        if batch == 0:
            return
        for name, inbox in self._inboxes.items():
            given = answers[name].num_rows if name in answers else 0
            if inbox.view is None or answered.get(name, 0) == given:
                # A query that has said nothing before this batch is not gone on with.
                continue
            found = None if self._kept is None else self._kept.load(name, batch - 1, inbox.view.schema)
            inbox.resume(found)
