"""Driving archives through updates, probes and scans.

Times are of the processor, in milliseconds per operation, so other work on the machine counts less; waiting
for a disk does not count at all. Files are written without fsync. What an update reads and writes stands
beside.

What is to be compared takes turns at every update, so a machine that is slow for a while is slow for all.
Whoever is first may pay for what the last one has left to the kernel to write, so another one is first each
time.
"""

from __future__ import annotations

import random
import shutil
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa

from sash.archive import ArchiveSpec, ArchiveWriter, Update
from sash.archive.techniques import technique_of
from sash_experiments.archive_data import KEYS
from sash_experiments.charts import Panel, draw_lines
from sash_experiments.result import Cell, Claim, Note, Result

_PROBES = 4
# There is a scan after every third update.
_SCANS = 3
# Archives may take this share of the free disk, and one of them so many bytes for each of its live rows:
# there may be as many dead ones, and another version of some while they are written anew.
_SHARE = 0.8
_ROW = 2_500
# A window is filled with so many bytes at a time, where that makes no difference.
_STEP = 1_900_000_000

Updates = Callable[[], Iterable[Update]]


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

    @property
    def reclusters(self) -> bool:
        return technique_of(self.technique).reclusters


class Entrant(NamedTuple):
    """A variant and the updates that it goes through."""

    variant: Variant
    updates: Updates


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
        self._updates = 0
        # What re-clusters known lives is the same in the end in however many steps it is filled.
        self._fills_slowly = not variant.reclusters or spec.is_strict or spec.is_estimated
        self._waiting: Update | None = None

    def step(self, update: Update) -> None:
        """Update it and probe it; filling the window is not measured."""
        if update.through <= 0:
            self._fill(update)
            return
        seen = self.seen
        began = time.process_time()
        report = self._writer.update(update)
        spent = time.process_time() - began
        self._updates += 1
        seen.update += 1e3 * spent
        seen.touched += report.scheduled
        seen.megabytes += (report.bytes_read + report.bytes_written) / 1e6
        with self._writer.snapshot() as snapshot:
            began = time.process_time()
            for _ in range(_PROBES):
                snapshot.probe(self._rng.randrange(KEYS))
            seen.probe += 1e3 * (time.process_time() - began) / _PROBES
            told = snapshot.describe()
        seen.stored += told.bytes / 1e6
        seen.balance += told.balance
        seen.variance += told.variance

    def _fill(self, update: Update) -> None:
        waiting, self._waiting = self._waiting, None
        if waiting is not None and waiting.rows.nbytes + update.rows.nbytes > _STEP:
            self._writer.update(waiting)
        elif waiting is not None:
            update = replace(update, rows=pa.concat_tables([waiting.rows, update.rows]))
        if self._fills_slowly or update.through == 0:
            self._writer.update(update)
        else:
            self._waiting = update

    def scan(self) -> None:
        with self._writer.snapshot() as snapshot:
            began = time.process_time()
            self.seen.rows.append(sum(part.num_rows for part in snapshot.batches()))
            self.seen.scan += 1e3 * (time.process_time() - began)

    def end(self) -> Measured:
        self._writer.close()
        for name in ("update", "probe", "touched", "megabytes", "stored", "balance", "variance"):
            setattr(self.seen, name, getattr(self.seen, name) / max(1, self._updates))
        self.seen.scan /= max(1, len(self.seen.rows))
        return self.seen


def drive_all(
    parties: Iterable[Sequence[Entrant]], spec: ArchiveSpec, live: int, note: Note, *, scans: bool = True
) -> dict[Entrant, Measured]:
    """All entrants, with `live` rows each, in rounds; those of a party take turns if the disk has room.

    Without `scans` there are updates and probes only.
    """
    free = shutil.disk_usage(tempfile.gettempdir()).free
    rounds = rounds_of(parties, max(1, int(_SHARE * free / (_ROW * live))))
    seen: dict[Entrant, Measured] = {}
    for number, entrants in enumerate(rounds):
        names = ", ".join(dict.fromkeys(entrant.variant.name for entrant in entrants))
        for batch in _drive(entrants, spec, seen, scans):
            note(f"round {number + 1} of {len(rounds)}, update {batch} of {names}", number / len(rounds))
    return seen


def parties_of(variants: Iterable[Variant], updates: Updates) -> list[list[Entrant]]:
    """Variants with as many sub-indices are compared: those that re-cluster, and those that append."""
    parties: dict[tuple[int, bool], list[Entrant]] = {}
    for variant in variants:
        parties.setdefault((variant.n, variant.reclusters), []).append(Entrant(variant, updates))
    return list(parties.values())


def rounds_of(parties: Iterable[Sequence[Entrant]], room: int) -> list[list[Entrant]]:
    """Parties one after the other, as many in a round as there is room for; larger ones are cut."""
    rounds: list[list[Entrant]] = []
    for party in parties:
        for begin in range(0, len(party), room):
            part = party[begin : begin + room]
            if not rounds or len(rounds[-1]) + len(part) > room:
                rounds.append([])
            rounds[-1] += part
    return rounds


def _drive(
    entrants: Sequence[Entrant], spec: ArchiveSpec, seen: dict[Entrant, Measured], scans: bool
) -> Iterator[int]:
    """Take turns at every update, then at a scan; the number of each update that begins is given.

    Entrants with the same updates share them.
    """
    feeds = list(dict.fromkeys(entrant.updates for entrant in entrants))
    with tempfile.TemporaryDirectory(prefix="sash-archive-") as folder:
        driven = {
            entrant: _Driven(entrant.variant, spec, Path(folder) / str(number))
            for number, entrant in enumerate(entrants)
        }
        measured = 0
        for updates in zip(*(feed() for feed in feeds), strict=True):
            yield updates[0].batch
            for entrant in _turned(entrants, measured):
                driven[entrant].step(updates[feeds.index(entrant.updates)])
            if updates[0].through <= 0:
                continue
            measured += 1
            if scans and measured % _SCANS == 0:
                for entrant in _turned(entrants, measured // _SCANS):
                    driven[entrant].scan()
        seen |= {entrant: each.end() for entrant, each in driven.items()}


def _turned(entrants: Sequence[Entrant], by: int) -> list[Entrant]:
    """The same order, begun with another one."""
    at = by % len(entrants)
    return [*entrants[at:], *entrants[:at]]


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
