"""What the tests on Spark share: run a program in a folder, read what it wrote."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from sash.engine.observe.report import BatchReport, Silent, Summary
from sash.lang import bind_program
from sash.runtime.run import run_program

MASTER = "local[2]"


def run(folder: Path, text: str, runtime: str = "spark", **options: Any) -> Summary:
    """Run a program whose paths count from `folder`."""
    return run_program(bind_program(text), base_dir=folder, runtime=runtime, master=MASTER, **options)


def write_csv(path: Path, header: str, rows: Iterable[Sequence[object]]) -> None:
    lines = [header, *(",".join("" if value is None else str(value) for value in row) for row in rows)]
    path.write_text("\n".join(lines) + "\n")


def objects(path: Path) -> list[dict[str, Any]]:
    """The rows of a JSON lines file."""
    return [json.loads(line) for line in path.read_text().splitlines()]


def tuples(path: Path) -> list[tuple[Any, ...]]:
    """The rows of a JSON lines file as tuples, sorted within each instant: their order there is free."""
    rows = [tuple(row.values()) for row in objects(path)]
    instants = [row[0] for row in rows]
    assert instants == sorted(instants), "answers come in order of instant"
    return sorted(rows, key=lambda row: (row[0], repr(row)))


def written(folder: Path) -> dict[str, list[str]]:
    """All output files of a folder, their rows as text, sorted within each instant.

    The parts of a Parquet output count as one file, because a part is a batch.
    """
    found: dict[str, list[tuple[Any, str]]] = {}
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        name = str(path.relative_to(folder))
        if path.suffix == ".parquet":
            rows = [(row["ts"], repr(row)) for row in pq.read_table(path).to_pylist()]
            found.setdefault(str(Path(name).parent), []).extend(rows)
        elif path.suffix == ".csv":
            rows = [(_instant(line.partition(",")[0]), line) for line in path.read_text().splitlines()[1:]]
            found[name] = rows
        else:
            found[name] = [(json.loads(line)["ts"], line) for line in path.read_text().splitlines()]
    for name, rows in found.items():
        instants = [instant for instant, _ in rows]
        assert instants == sorted(instants), f"the answers of {name} come in order of instant"
    return {name: [line for _, line in sorted(rows)] for name, rows in found.items()}


def _instant(text: str) -> int | str:
    return int(text) if text.lstrip("-").isdigit() else text


def texts(folder: Path) -> dict[str, str]:
    """The files of a folder to the letter."""
    return {path.name: path.read_text() for path in sorted(folder.iterdir())}


class Watching(Silent):
    """A Monitor that keeps the reports and calls back after each batch."""

    def __init__(self, after: Callable[[BatchReport], None] = lambda report: None) -> None:
        self.reports: list[BatchReport] = []
        self._after = after

    def batch(self, report: BatchReport) -> None:
        self.reports.append(report)
        self._after(report)


def stopping_after(batches: int, stop: threading.Event) -> Watching:
    """Asks for a stop when so many batches of this run are committed."""

    def after(report: BatchReport) -> None:
        if len(watching.reports) >= batches:
            stop.set()

    watching = Watching(after)
    return watching
