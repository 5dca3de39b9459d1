"""Driving archives through updates, probes and scans.

Times are of the processor, in milliseconds per operation, so other work on the machine counts less; waiting
for a disk does not count at all. Files are written without fsync. What an update reads and writes stands
beside.
"""

from __future__ import annotations

import random
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from sash.archive import ArchiveSpec, ArchiveWriter, Update
from sash.archive.techniques import technique_of
from sash.experiments.archive_data import KEYS
from sash.experiments.charts import Panel, draw_lines
from sash.experiments.result import Cell, Claim, Note, Result

_PROBES = 4
_SCANS = 6


class Variant(NamedTuple):
    """A technique and its grid."""

    technique: str
    grid: tuple[int, int]

    @property
    def name(self) -> str:
        g, e = technique_of(self.technique).grid(self.grid)
        plain = {"r-ins": "R-ins", "d-ins": "D-ins", "r-exp": "R-exp", "d-exp": "D-exp", "wata": "WATA"}
        if self.technique in plain:
            return f"{plain[self.technique]}{g * e}"
        return f"{self.technique} {g}x{e}"

    @property
    def n(self) -> int:
        return self.grid[0] * self.grid[1]


@dataclass(slots=True)
class Measured:
    """Means over the updates; `touched` are sub-indices, megabytes are read and written by one update."""

    update: float = 0.0
    probe: float = 0.0
    scan: float = 0.0
    touched: float = 0.0
    megabytes: float = 0.0
    stored: float = 0.0
    balance: float = 0.0
    variance: float = 0.0
    rows: list[int] = field(default_factory=list)

    def cells(self) -> dict[str, Cell]:
        return {
            "update ms": self.update,
            "probe ms": self.probe,
            "scan ms": self.scan,
            "touched": self.touched,
            "MB moved": self.megabytes,
            "MB stored": self.stored,
            "balance": self.balance,
        }


class _Driven:
    """An archive of one variant on its way through the updates."""

    def __init__(self, variant: Variant, spec: ArchiveSpec, folder: Path) -> None:
        self.seen = Measured()
        self._writer = ArchiveWriter(folder, spec, variant.technique, variant.grid, seed=1, durable=False)
        self._rng = random.Random(1)
        self._updates = self._scans = 0

    def step(self, update: Update) -> None:
        """Update it, probe it, and now and then scan it."""
        seen = self.seen
        began = time.process_time()
        report = self._writer.update(update)
        spent = time.process_time() - began
        if update.through <= 0:
            # Filling the window is not measured.
            return
        self._updates += 1
        seen.update += 1e3 * spent
        seen.touched += report.scheduled
        seen.megabytes += (report.bytes_read + report.bytes_written) / 1e6
        with self._writer.snapshot() as snapshot:
            began = time.process_time()
            for _ in range(_PROBES):
                snapshot.probe(self._rng.randrange(KEYS))
            seen.probe += 1e3 * (time.process_time() - began) / _PROBES
            if self._updates % _SCANS == 0:
                began = time.process_time()
                seen.rows.append(sum(part.num_rows for part in snapshot.batches()))
                seen.scan += 1e3 * (time.process_time() - began)
                self._scans += 1
            told = snapshot.describe()
        seen.stored += told.bytes / 1e6
        seen.balance += told.balance
        seen.variance += told.variance

    def end(self) -> Measured:
        self._writer.close()
        for name in ("update", "probe", "touched", "megabytes", "stored", "balance", "variance"):
            setattr(self.seen, name, getattr(self.seen, name) / max(1, self._updates))
        self.seen.scan /= max(1, self._scans)
        return self.seen


def drive_all(
    variants: Sequence[Variant],
    spec: ArchiveSpec,
    feed: Callable[[], Iterable[Update]],
    note: Note,
    room: int = 16,
) -> dict[str, Measured]:
    """All variants by name, through the same updates: up to `room` of them take turns at every update.

    A machine that is slow for a while is slow for all that take turns.
    """
    seen: dict[str, Measured] = {}
    for begin in range(0, len(variants), room):
        part = variants[begin : begin + room]
        with tempfile.TemporaryDirectory(prefix="sash-archive-") as folder:
            driven = {
                variant.name: _Driven(variant, spec, Path(folder) / str(number))
                for number, variant in enumerate(part)
            }
            for update in feed():
                note(f"update {update.batch} of {', '.join(driven)}", begin / len(variants))
                for each in driven.values():
                    each.step(update)
            seen |= {name: each.end() for name, each in driven.items()}
    return seen


def same_rows(seen: Mapping[str, Measured]) -> Claim:
    """That all variants gave equally many rows to every scan."""
    holds = len({tuple(measured.rows) for measured in seen.values()}) == 1
    return Claim("same-rows", "all give equally many rows to a scan", "yes", "yes" if holds else "no", holds)


def table_of(seen: Mapping[str, Measured], **more: Cell) -> list[dict[str, Cell]]:
    return [{**more, "index": name, **measured.cells()} for name, measured in seen.items()]


def draw_over_n(title: str, result: Result, path: Path) -> None:
    """Updates, probes and scans over the number of sub-indices, a line for each technique."""
    panels = []
    for column, what in (("update ms", "update"), ("probe ms", "probe"), ("scan ms", "scan")):
        lines: dict[str, list[tuple[float, float]]] = {}
        for row in result.table:
            point = (float(row["n"] or 0), float(row[column] or 0))
            lines.setdefault(str(row["technique"]), []).append(point)
        panels.append(Panel(what, "sub-indices", "ms", lines, is_log_x=False, is_log_y=True))
    draw_lines(f"{title} ({result.scale})", panels, path)


def less(slow: float, fast: float) -> str:
    """By how much something is faster than another, in words."""
    return f"{100 * (1 - fast / slow):.0f} %"
