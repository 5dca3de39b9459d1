"""The manifest: one version of an archive as a whole.

It names the layouts (one, or two while the archive migrates), the segments of every sub-index, and what is
taken back but still in segments. It is written once under its number and never changed; the checksum of
its text is its last line.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from sash.archive.failures import damaged
from sash.archive.layout import Layout
from sash.archive.segment import Segment
from sash.archive.spec import ArchiveSpec
from sash.errors import ArchiveError

FORMAT = 1


class SlotKey(NamedTuple):
    """A sub-index: the number of its layout, and its place in it."""

    layout: int
    slot: int


@dataclass(frozen=True, slots=True)
class Slot:
    """A sub-index: its segments, and the instant up to which taken-back keys are no longer in them."""

    segments: tuple[Segment, ...]
    cleaned: int

    @property
    def rows(self) -> int:
        return sum(segment.rows for segment in self.segments)


@dataclass(frozen=True, slots=True)
class LayoutEntry:
    """A layout by what it is made from."""

    technique: str
    grid: tuple[int, int]
    seed: int
    # How long rows are guessed to live at most; None: as long as the archive allows.
    span: int | None = None

    def layout(self, spec: ArchiveSpec) -> Layout:
        span, estimated = self.span or spec.span, spec.is_estimated
        return Layout.of(self.technique, self.grid, spec.every, span, is_estimated=estimated, seed=self.seed)


@dataclass(frozen=True, slots=True)
class PendingFile:
    """A file of what is taken back, with its rows and checksum."""

    name: str
    rows: int
    checksum: int


@dataclass(frozen=True, slots=True)
class Manifest:
    """`through` is the instant whose result it is, None before the first update.

    `layouts` are by number; the greatest takes new rows. `report` has the counts of the update of `batch`.
    `asked` is how many questions had been counted then, `pace` about how many come between two updates.
    """

    version: int
    batch: int
    through: int | None
    spec: ArchiveSpec
    layouts: Mapping[int, LayoutEntry]
    slots: Mapping[SlotKey, Slot] = field(default_factory=dict)
    taken_rows: PendingFile | None = None
    taken_keys: PendingFile | None = None
    floors: Mapping[str, int] = field(default_factory=dict)
    report: Mapping[str, int] = field(default_factory=dict)
    asked: int = 0
    pace: float = 0.0

    @property
    def newest(self) -> int:
        return max(self.layouts)

    @property
    def entry(self) -> LayoutEntry:
        """What the layout is made from that takes new rows."""
        return self.layouts[self.newest]

    @property
    def layout(self) -> Layout:
        """The layout that takes new rows."""
        return self.entry.layout(self.spec)

    @property
    def rows(self) -> int:
        return sum(slot.rows for slot in self.slots.values())

    @property
    def size(self) -> int:
        return sum(segment.size for slot in self.slots.values() for segment in slot.segments)

    def files(self) -> Iterator[str]:
        """All files that the version needs."""
        for slot in self.slots.values():
            yield from (segment.name for segment in slot.segments)
        for pending in (self.taken_rows, self.taken_keys):
            if pending is not None:
                yield pending.name

    def to_text(self) -> str:
        body = json.dumps(
            {
                "format": FORMAT,
                "version": self.version,
                "batch": self.batch,
                "through": self.through,
                "spec": self.spec.to_json(),
                "layouts": {
                    str(number): [entry.technique, list(entry.grid), entry.seed, entry.span]
                    for number, entry in self.layouts.items()
                },
                "slots": [
                    [*key, slot.cleaned, [segment.to_json() for segment in slot.segments]]
                    for key, slot in sorted(self.slots.items())
                ],
                "taken_rows": _pending_json(self.taken_rows),
                "taken_keys": _pending_json(self.taken_keys),
                "floors": dict(self.floors),
                "report": dict(self.report),
                "asked": self.asked,
                "pace": self.pace,
            }
        )
        return f"{body}\n{zlib.crc32(body.encode()):08x}\n"

    @staticmethod
    def from_text(text: str, path: Path) -> Manifest:
        body, _, checksum = text.rstrip("\n").rpartition("\n")
        if f"{zlib.crc32(body.encode()):08x}" != checksum:
            raise damaged(path, "text that ends with its checksum", f"{len(text)} characters that do not")
        data = json.loads(body)
        if data["format"] != FORMAT:
            raise ArchiveError(
                f"the archive '{path.parent.parent}' has another format",
                expected=f"format {FORMAT}",
                got=f"format {data['format']}",
                hint="read it with the version of Sash that wrote it",
                id="archive-format",
            )
        return Manifest(
            data["version"],
            data["batch"],
            data["through"],
            ArchiveSpec.from_json(data["spec"]),
            {
                int(n): LayoutEntry(name, tuple(grid), seed, *more)
                for n, (name, grid, seed, *more) in data["layouts"].items()
            },
            {
                SlotKey(layout, slot): Slot(tuple(Segment.from_json(each) for each in segments), cleaned)
                for layout, slot, cleaned, segments in data["slots"]
            },
            _pending(data["taken_rows"]),
            _pending(data["taken_keys"]),
            data["floors"],
            data["report"],
            data.get("asked", 0),
            data.get("pace", 0.0),
        )


def _pending_json(pending: PendingFile | None) -> list[Any] | None:
    return None if pending is None else [pending.name, pending.rows, pending.checksum]


def _pending(data: list[Any] | None) -> PendingFile | None:
    return None if data is None else PendingFile(*data)
