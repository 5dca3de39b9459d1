"""Event time: how far each stream has come, and how far the past is complete for who reads some of them.

The watermark of a query is the least, over the streams and timed relations that it reads and that have not
ended, of the newest timestamp minus SLACK; a row with just that timestamp may still come, so instants before
it are complete. When all that it reads has ended it moves to the greatest timestamp of it and includes that.
What a query does not read does not move or hold it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Protocol

from sash.engine.ingest.loss import NO_LOSS, Loss
from sash.engine.observe.report import StreamCounts
from sash.plan.run_plan import RunPlan


class Extent(Protocol):
    """What the clock needs to know of a chunk: its first and last instant, None if no row was accepted."""

    @property
    def stream(self) -> str: ...
    @property
    def newest(self) -> int | None: ...
    @property
    def oldest(self) -> int | None: ...
    @property
    def counts(self) -> StreamCounts: ...
    @property
    def loss(self) -> Loss: ...


@dataclass(frozen=True, slots=True)
class StreamState:
    """How far a stream has come.

    `joined` is how far time had come when a stream came into a run that was under way: what is not later than
    that is late.
    """

    newest: int | None = None
    first: int | None = None
    ended: bool = False
    counts: StreamCounts = field(default_factory=StreamCounts)
    joined: int | None = None
    loss: Loss = NO_LOSS

    def after(self, chunk: Extent) -> StreamState:
        counts, loss = self.counts + chunk.counts, self.loss + chunk.loss
        if chunk.newest is None or chunk.oldest is None:
            return replace(self, counts=counts, loss=loss)
        newest = chunk.newest if self.newest is None else max(self.newest, chunk.newest)
        first = chunk.oldest if self.first is None else min(self.first, chunk.oldest)
        return replace(self, newest=newest, first=first, counts=counts, loss=loss)


Streams = Mapping[str, StreamState]


def advanced(
    streams: Streams, chunks: Iterable[Extent], ended: Iterable[str], beats: Mapping[str, int] | None = None
) -> dict[str, StreamState]:
    """How far the streams are after a batch; `beats` are instants to which silent ones are taken to be."""
    after = dict(streams)
    for chunk in chunks:
        after[chunk.stream] = after[chunk.stream].after(chunk)
    for name, instant in (beats or {}).items():
        newest = after[name].newest
        after[name] = replace(after[name], newest=instant if newest is None else max(newest, instant))
    for name in ended:
        after[name] = replace(after[name], ended=True)
    return after


def begun(first: Mapping[str, int], chunks: Iterable[Extent]) -> dict[str, int]:
    """The first instants of streams after a batch."""
    after = dict(first)
    for chunk in chunks:
        if chunk.oldest is not None:
            after[chunk.stream] = min(after.get(chunk.stream, chunk.oldest), chunk.oldest)
    return after


def moved_on(before: int | None, after: int | None) -> int | None:
    """Where a watermark is after a batch; None if it is not further than before."""
    return None if after is None or (before is not None and after <= before) else after


def by_stream(synopses: Mapping[int, Iterable[str]], throughs: Mapping[int, int | None]) -> dict[str, int]:
    """The watermarks of parts, by the streams of their synopses."""
    return {
        stream: through
        for number, streams in synopses.items()
        if (through := throughs[number]) is not None
        for stream in streams
    }


@dataclass(frozen=True, slots=True)
class Clock:
    """`slacks` of all streams, and which of them are `feeds` of relations."""

    slacks: Mapping[str, int]
    feeds: frozenset[str]

    @staticmethod
    def of(plan: RunPlan, feeds: Iterable[str]) -> Clock:
        return Clock({stream.name: stream.slack for stream in plan.streams}, frozenset(feeds))

    def through(self, streams: Streams, sources: Collection[str]) -> int | None:
        """The last instant about which everything is known of some sources; None before there is one."""
        if not sources:
            # Static relations know no time; what they hold holds at any instant.
            return 0
        going = [name for name in sources if not streams[name].ended]
        if not going:
            return max((n for name in sources if (n := streams[name].newest) is not None), default=None)
        instants = []
        for name in going:
            state = streams[name]
            known = [] if state.joined is None else [state.joined]
            if state.newest is not None:
                known.append(state.newest - self.slacks[name] - 1)
            if not known:
                return None
            instants.append(max(known))
        return min(instants)

    def bars(self, streams: Streams) -> dict[str, int | None]:
        """By stream: rows that are older than this, less the SLACK, are late; None: no row can be yet."""
        bars = {}
        for name, slack in self.slacks.items():
            state = streams[name]
            joined = [] if state.joined is None else [state.joined + 1 + slack]
            newest = [] if state.newest is None else [state.newest]
            bars[name] = max(joined + newest, default=None)
        return bars

    def firsts(self, first: Mapping[str, int]) -> dict[str, int]:
        """The first instants of streams; the feed of a relation is none."""
        return {name: instant for name, instant in first.items() if name not in self.feeds}
