"""The feed: what each micro-batch reads, decided before it runs and written down first.

An entry lists the chunks of one batch over all streams. Because entries are numbered and durable, a
batch that is repeated after a crash reads exactly the same rows, and one number is all that Spark's
offset log has to remember.

Streams that queries read together, directly or through others, make up a *group* and are read side by side in
event time: a stream that is further ahead of the slowest one of its group than its last share of a batch
covered waits, so that state held for the slow stream stays small. Streams of other groups do not wait for it,
and nobody waits for a stream that has nothing to read at the moment: it would hold back queries that do not
read it.

A live stream with a `heartbeat` that has given nothing for that long holds nobody back: an entry says how far
it is taken to have come, just as if a row of that instant had arrived. That is as far as the streams of its
group that do give rows; where none does, time goes on as the clock on the wall does.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

from sash.connectors.sources import Chunk, Plan, Position, Source
from sash.connectors.sources.chunk import UNKNOWN_ROWS
from sash.engine.ingest.pacing import BatchSize, Trigger
from sash.lang.bound import StreamDefinition
from sash.plan.digests import digest


@dataclass(frozen=True, slots=True)
class Entry:
    """One micro-batch: its chunks, where planning stands after them, and the streams that end with it.

    `beats` are the instants to which silent streams are taken to have come. Rows of streams in `limits` that
    are later than those instants are too far ahead of the clock on the wall. `sources` tells what each stream
    was when that was decided (`identity`).
    """

    number: int
    chunks: tuple[Chunk, ...]
    positions: Mapping[str, Position]
    ended: tuple[str, ...]
    is_last: bool
    beats: Mapping[str, int] = field(default_factory=dict)
    limits: Mapping[str, int] = field(default_factory=dict)
    sources: Mapping[str, str] = field(default_factory=dict)

    def to_json(self) -> str:
        return json.dumps(
            {
                "number": self.number,
                "chunks": [json.loads(chunk.to_json()) for chunk in self.chunks],
                "positions": dict(self.positions),
                "ended": list(self.ended),
                "is_last": self.is_last,
                "beats": dict(self.beats),
                "limits": dict(self.limits),
                "sources": dict(self.sources),
            }
        )

    def of(self, streams: Collection[str], *, is_last: bool) -> Entry:
        """The entry for these streams only."""
        return Entry(
            self.number,
            tuple(chunk for chunk in self.chunks if chunk.stream in streams),
            {name: position for name, position in self.positions.items() if name in streams},
            tuple(name for name in self.ended if name in streams),
            is_last,
            {name: instant for name, instant in self.beats.items() if name in streams},
            {name: instant for name, instant in self.limits.items() if name in streams},
            {name: source for name, source in self.sources.items() if name in streams},
        )

    @staticmethod
    def from_json(text: str) -> Entry:
        data: dict[str, Any] = json.loads(text)
        return Entry(
            data["number"],
            tuple(Chunk(**chunk) for chunk in data["chunks"]),
            data["positions"],
            tuple(data["ended"]),
            data["is_last"],
            data["beats"],
            data["limits"],
            data.get("sources", {}),
        )


@lru_cache(maxsize=4_096)
def identity(stream: StreamDefinition, base_dir: str = "") -> str:
    """What a stream is called that is read just so, perhaps also from just that folder."""
    return digest((stream, base_dir))


class Feeder:
    """Plans entries. Its state is the positions, which every entry repeats.

    `together` are the streams that each query reads; left out, one reads all of them.
    """

    def __init__(
        self,
        sources: Mapping[str, Source],
        batch_rows: int | BatchSize,
        chunk_rows: int,
        now: Callable[[], float] = time.monotonic,
        trigger: float = 0.0,
        together: Iterable[Collection[str]] | None = None,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._now = now
        self._wall = wall
        self._trigger = Trigger(trigger)
        # When each stream last gave rows, and when it was last given a beat.
        self._heard = dict.fromkeys(sources, now())
        self._beaten = dict.fromkeys(sources, now())
        self._groups = _groups(sources, [tuple(sources)] if together is None else together)
        self._sources = dict(sources)
        self.size = BatchSize(batch_rows) if isinstance(batch_rows, int) else batch_rows
        self._chunk_rows = chunk_rows
        self._positions: dict[str, Position] = {name: {} for name in sources}
        self._ended: set[str] = set()
        # Streams that had nothing to read when they were last looked at.
        self._idle: set[str] = set()
        self._finished = False
        self._newest: dict[str, int | None] = dict.fromkeys(sources)
        # By how much each stream last moved on; None: it has not yet been read twice.
        self._span: dict[str, int | None] = dict.fromkeys(sources)
        self.number = 0

    @property
    def is_finished(self) -> bool:
        """Whether the last entry has been given."""
        return self._finished

    def resume(self, number: int, positions: Mapping[str, Position], ended: set[str], finished: bool) -> None:
        self.number = number
        self._positions.update({name: at for name, at in positions.items() if name in self._sources})
        self._ended = ended & self._sources.keys()
        self._finished = finished and self._ended == self._sources.keys()

    def repeat(self, entry: Entry, streams: Collection[str]) -> Entry:
        """Go on after an entry of an earlier process; gives what of it is of these streams."""
        entry = entry.of(streams, is_last=entry.is_last)
        self.resume(entry.number + 1, entry.positions, self._ended | {*entry.ended}, entry.is_last)
        return replace(entry, positions=dict(self._positions), is_last=self._finished)

    def change(self, sources: Mapping[str, Source], together: Iterable[Collection[str]]) -> None:
        """Go on with these sources; what is not known yet is read from its beginning."""
        same = {name for name, source in sources.items() if self._sources.get(name) is source}
        self._sources = dict(sources)
        self._positions = {name: self._positions[name] if name in same else {} for name in sources}
        self._newest = {name: self._newest[name] if name in same else None for name in sources}
        self._span = {name: self._span[name] if name in same else None for name in sources}
        self._heard = {name: self._heard[name] if name in same else self._now() for name in sources}
        self._beaten = {name: self._beaten[name] if name in same else self._now() for name in sources}
        self._groups = _groups(sources, together)
        self._ended &= same
        self._idle &= same
        self._finished = self._finished and self._ended == sources.keys()

    def next(self, newest: Mapping[str, int | None]) -> Entry | None:
        """The next entry; None if there is nothing to read at the moment (or ever, if it was the last).

        `newest` is the greatest timestamp seen of each stream.
        """
        if self._finished or self.wait() > 0:
            return None
        for name, instant in newest.items():
            before = self._newest[name]
            if instant is not None and instant != before:
                self._span[name] = None if before is None else instant - before
                self._newest[name] = instant
        chunks: list[Chunk] = []
        ended: list[str] = []
        silent = self._silent()
        reading = [
            *(name for group in self._groups for name in self._in_step(group, silent)),
            *sorted(silent),
        ]
        share, has_more = max(1, self.size.rows // max(1, len(reading))), False
        for name in reading:
            plan = self._sources[name].plan(self._positions[name], share, self.size.part(self._chunk_rows))
            has_more = has_more or self._has_more(name, plan, share)
            self._positions[name] = plan.position
            chunks.extend(plan.chunks)
            if plan.chunks:
                self._heard[name] = self._now()
                self._idle.discard(name)
                silent.discard(name)
            else:
                self._idle.add(name)
            if plan.ended:
                ended.append(name)
        self._trigger.looked(self._now(), has_more=has_more)
        self._ended.update(ended)
        self._finished = len(self._ended) == len(self._sources)
        beats = {name: at for group in self._groups for name, at in self._beats(group, silent).items()}
        is_due = any(self._now() - self._beaten[name] >= self._patience(name) for name in beats)
        if not chunks and not ended and not self._finished and not is_due:
            return None
        self._beaten.update(dict.fromkeys(beats, self._now()))
        entry = Entry(
            self.number,
            tuple(chunks),
            dict(self._positions),
            tuple(ended),
            self._finished,
            beats,
            self._limits({chunk.stream for chunk in chunks}),
        )
        self.number += 1
        return entry

    def wait(self) -> float:
        """For how many seconds there is no need to ask for an entry."""
        return self._trigger.wait(self._now())

    def _limits(self, streams: Collection[str]) -> dict[str, int]:
        """By stream the latest instant that a row may have; a batch that is repeated has the same."""
        live = [name for name in sorted(streams) if self._sources[name].has_wall_time]
        wall = int(self._wall() * 1_000_000) if live else 0
        return {name: wall + self._sources[name].stream.ahead_of_wall for name in live}

    def _has_more(self, name: str, plan: Plan, share: int) -> bool:
        """Whether what follows a plan need not be waited for, as far as can be told."""
        if not plan.chunks:
            return plan.ended
        is_full = 2 * plan.rows >= share or any(chunk.rows == UNKNOWN_ROWS for chunk in plan.chunks)
        return is_full or not self._sources[name].paced

    def _patience(self, name: str) -> float:
        """How long a stream may be silent, in seconds, before nobody waits for it; perhaps for ever."""
        source = self._sources[name]
        return math.inf if source.bounded else source.heartbeat

    def _silent(self) -> set[str]:
        now = self._now()
        reading = (name for name in self._sources if name not in self._ended)
        return {name for name in reading if now - self._heard[name] > self._patience(name)}

    def _beats(self, group: Collection[str], silent: Collection[str]) -> dict[str, int]:
        """How far silent streams of a group are taken to have come, where that is further than they have."""
        come = {name: self._newest[name] for name in group if name not in self._ended}
        silent = [name for name in come if name in silent]
        if len(silent) == len(come):
            waited = {name: self._now() - max(self._heard[name], self._beaten[name]) for name in silent}
            for name, newest in come.items():
                come[name] = None if newest is None else newest + int(waited[name] * 1_000_000)
            leading = {name: instant for name, instant in come.items() if instant is not None}
        else:
            leading = {name: at for name, at in come.items() if name not in silent and at is not None}
            if len(leading) < len(come) - len(silent):
                return {}
        if not silent or not leading:
            return {}
        slack = {name: source.stream.slack for name, source in self._sources.items()}
        complete = min(instant - slack[name] for name, instant in leading.items())
        beats = {name: leading.get(name, complete + slack[name]) for name in silent}
        before = self._newest
        return {name: at for name, at in beats.items() if (known := before[name]) is None or at > known}

    def progress(self, positions: Mapping[str, Position]) -> float | None:
        """The share of all input that lies before `positions`; None if some of it has no end."""
        shares = [source.progress(positions[name]) for name, source in self._sources.items()]
        known = [share for share in shares if share is not None]
        return sum(known) / len(known) if known and len(known) == len(shares) else None

    def _in_step(self, group: Collection[str], silent: Collection[str]) -> list[str]:
        """The streams of a group to read now: those that are not too far ahead of the slowest."""
        there = [name for name in group if name not in self._ended and name not in silent]
        instants = {name: self._newest[name] for name in there}
        # Those that had nothing to read may have something now, and are looked at.
        busy = [instants[name] for name in there if name not in self._idle]
        if None in busy:
            return [name for name in there if instants[name] is None]
        slowest = min((instant for instant in busy if instant is not None), default=None)
        if slowest is None:
            return there
        return [n for n in there if instants[n] is None or self._is_in_step(n, slowest)] or there

    def _is_in_step(self, name: str, slowest: int) -> bool:
        """Whether a stream is ahead by no more than it last moved on.

        Of a bounded one that is not known after one batch: if it waited, the slowest would be given the whole
        next batch, and so would each of the others after it.
        """
        span = self._span[name]
        if span is None and self._sources[name].bounded:
            return True
        return (self._newest[name] or 0) - slowest <= max(span or 0, 0)


def _groups(sources: Iterable[str], together: Iterable[Collection[str]]) -> list[list[str]]:
    """The streams that queries read together, directly or through others; each is in one group."""
    group_of = {name: [name] for name in sources}
    for names in together:
        joined = list({id(group_of[name]): group_of[name] for name in names}.values())
        for group in joined[1:]:
            joined[0].extend(group)
            group_of.update(dict.fromkeys(group, joined[0]))
    return list({id(group): group for group in group_of.values()}.values())
