"""Event time: how far each stream has come, and how far the past is complete.

The clock stands at the least, over the streams that have not ended, of the newest timestamp minus SLACK; a
row with just that timestamp may still come, so instants before it are complete. When all input has ended it
moves to the greatest timestamp and includes it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Protocol

from sash.plan.run_plan import RunPlan
from sash.runtime.report import StreamCounts


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


@dataclass(frozen=True, slots=True)
class StreamState:
    """How far a stream has come."""

    newest: int | None = None
    first: int | None = None
    ended: bool = False
    counts: StreamCounts = field(default_factory=StreamCounts)

    def after(self, chunk: Extent) -> StreamState:
        counts = self.counts + chunk.counts
        if chunk.newest is None or chunk.oldest is None:
            return replace(self, counts=counts)
        newest = chunk.newest if self.newest is None else max(self.newest, chunk.newest)
        first = chunk.oldest if self.first is None else min(self.first, chunk.oldest)
        return replace(self, newest=newest, first=first, counts=counts)


Streams = Mapping[str, StreamState]


def advanced(streams: Streams, chunks: Iterable[Extent], ended: Iterable[str]) -> dict[str, StreamState]:
    """How far the streams are after a batch."""
    after = dict(streams)
    for chunk in chunks:
        after[chunk.stream] = after[chunk.stream].after(chunk)
    for name in ended:
        after[name] = replace(after[name], ended=True)
    return after


@dataclass(frozen=True, slots=True)
class Clock:
    """`slacks` of all streams, and which of them are `feeds` of relations."""

    slacks: Mapping[str, int]
    feeds: frozenset[str]

    @staticmethod
    def of(plan: RunPlan) -> Clock:
        return Clock({stream.name: stream.slack for stream in plan.streams}, frozenset(plan.feeds))

    def through(self, streams: Streams) -> int | None:
        """The last instant about which everything is known; None before there is one."""
        if not streams:
            # Relations alone know no time; what they hold holds at any instant.
            return 0
        # Time ends with the streams, not with the feed of a relation that goes on after them.
        given = [state for name, state in streams.items() if name not in self.feeds]
        end = max((state.newest for state in given if state.newest is not None), default=None)
        if all(state.ended for state in streams.values()):
            return end
        instants = []
        if all(state.ended for state in given):
            if end is None:
                return None
            instants.append(end)
        for name, slack in self.slacks.items():
            state = streams[name]
            if state.ended:
                continue
            if state.newest is None:
                return None
            instants.append(state.newest - slack - 1)
        return min(instants)

    def firsts(self, streams: Streams) -> dict[str, int]:
        """The first instants of streams; the feed of a relation is none."""
        return {
            name: state.first
            for name, state in streams.items()
            if state.first is not None and name not in self.feeds
        }
