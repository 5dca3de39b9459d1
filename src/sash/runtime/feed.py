"""The feed: what each micro-batch reads, decided before it runs and written down first.

An entry lists the chunks of one batch over all streams. Because entries are numbered and durable, a
batch that is repeated after a crash reads exactly the same rows, and one number is all that Spark's
offset log has to remember.

Streams are read side by side in event time: a stream that is further ahead of the slowest one than its
last share of a batch covered waits, so that state held for the slow stream stays small.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from sash.runtime.sources import Chunk, Position, Source


@dataclass(frozen=True, slots=True)
class Entry:
    """One micro-batch: its chunks, where planning stands after them, and the streams that end with it."""

    number: int
    chunks: tuple[Chunk, ...]
    positions: Mapping[str, Position]
    ended: tuple[str, ...]
    is_last: bool

    def to_json(self) -> str:
        return json.dumps(
            {
                "number": self.number,
                "chunks": [json.loads(chunk.to_json()) for chunk in self.chunks],
                "positions": dict(self.positions),
                "ended": list(self.ended),
                "is_last": self.is_last,
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
        )


class Feeder:
    """Plans entries. Its state is the positions, which every entry repeats."""

    def __init__(self, sources: Mapping[str, Source], batch_rows: int, chunk_rows: int) -> None:
        self._sources = dict(sources)
        self._batch_rows = batch_rows
        self._chunk_rows = chunk_rows
        self._positions: dict[str, Position] = {name: {} for name in sources}
        self._ended: set[str] = set()
        self._finished = False
        self._newest: dict[str, int | None] = dict.fromkeys(sources)
        self._span: dict[str, int] = dict.fromkeys(sources, 0)
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

    def change(self, sources: Mapping[str, Source]) -> None:
        """Go on with these sources; what is not known yet is read from its beginning."""
        same = {name for name, source in sources.items() if self._sources.get(name) is source}
        self._sources = dict(sources)
        self._positions = {name: self._positions[name] if name in same else {} for name in sources}
        self._newest = {name: self._newest[name] if name in same else None for name in sources}
        self._span = {name: self._span[name] if name in same else 0 for name in sources}
        self._ended &= same
        self._finished = self._finished and self._ended == sources.keys()

    def next(self, newest: Mapping[str, int | None]) -> Entry | None:
        """The next entry; None if there is nothing to read at the moment (or ever, if it was the last).

        `newest` is the greatest timestamp seen of each stream.
        """
        if self._finished:
            return None
        for name, instant in newest.items():
            before = self._newest[name]
            if instant is not None and instant != before:
                self._span[name] = 0 if before is None else instant - before
                self._newest[name] = instant
        chunks: list[Chunk] = []
        ended: list[str] = []
        reading = self._in_step()
        for name in reading:
            plan = self._sources[name].plan(
                self._positions[name], max(1, self._batch_rows // len(reading)), self._chunk_rows
            )
            self._positions[name] = plan.position
            chunks.extend(plan.chunks)
            if plan.ended:
                ended.append(name)
        self._ended.update(ended)
        self._finished = len(self._ended) == len(self._sources)
        if not chunks and not ended and not self._finished:
            return None
        entry = Entry(self.number, tuple(chunks), dict(self._positions), tuple(ended), self._finished)
        self.number += 1
        return entry

    def progress(self, positions: Mapping[str, Position]) -> float | None:
        """The share of all input that lies before `positions`; None if some of it has no end."""
        shares = [source.progress(positions[name]) for name, source in self._sources.items()]
        known = [share for share in shares if share is not None]
        return sum(known) / len(known) if known and len(known) == len(shares) else None

    def _in_step(self) -> list[str]:
        """The streams to read now: those that are not too far ahead of the slowest."""
        reading = [name for name in self._sources if name not in self._ended]
        instants = [self._newest[name] for name in reading]
        known = [instant for instant in instants if instant is not None]
        if len(known) < len(reading):
            return [name for name in reading if self._newest[name] is None]
        slowest = min(known, default=0)
        in_step = [
            name for name in reading if (self._newest[name] or 0) - slowest <= max(self._span[name], 0)
        ]
        return in_step or reading
