"""retained-probe: questions for a value or a range of a column over the rows that a stream keeps.

A run keeps all its rows, once without and once with `CREATE INDEX … USING AUTO` on two columns. Then the same
questions are asked of both, as a session asks a run in its process: files are mapped into memory, and a
number of questions have been asked before, so that what is read has been touched.
`find` is what comes before any operator: the scan looks at all rows, or at what the index of each file
gives. `answer` is all of it, from the text of the question to its table. Both answer alike, which is checked.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from sash.engine.ingest.retained_files import FIRST, in_order
from sash.engine.ingest.scans import scan_rows
from sash.engine.reads.checkpoint_reader import CheckpointReader, question_in
from sash.engine.reads.index_probe import OpenFile, Probe
from sash.engine.reads.one_time_query import look
from sash.engine.reads.snapshot_registry import SnapshotRegistry
from sash.errors import InternalError
from sash.lang import Known, bind_program
from sash.plan.run_plan import plan_run
from sash.runtime.run import run_program
from sash_experiments.charts import draw_bars
from sash_experiments.result import Cell, Claim, Note, Result, silent

NAME = "retained-probe"
TITLE = "one-time questions over kept rows, by index and by reading all rows"

_STREAM = (
    "CREATE STREAM p (t BIGINT, k BIGINT, w STRING, v BIGINT) TIMESTAMP BY t RETAIN 10 DAYS "
    "FROM 'parquet:rows.parquet';\n"
)
_INDEXES = "CREATE INDEX by_k ON p (k) USING AUTO;\nCREATE INDEX by_w ON p (w) USING AUTO;\n"
_QUERY = "CREATE QUERY q INTO 'noop:' AS SELECT COUNT(*) AS n FROM p [RANGE 1 MIN SLIDE 1 MIN];\n"
_SELECT = "SELECT t, v FROM p [RANGE 9 DAYS] WHERE "
QUESTIONS: dict[str, Callable[[int], str]] = {
    "a number": lambda key: f"k = {key}",
    "a word": lambda key: f"w = 'w{key}'",
    "a range": lambda key: f"k BETWEEN {key} AND {key + 9}",
    "ten numbers": lambda key: f"k IN ({', '.join(str(key * number // 10) for number in range(1, 11))})",
}


@dataclass(frozen=True, slots=True)
class Sizes:
    rows: int = 10_000_000
    values: int = 100_000
    asked: int = 9
    asked_before: int = 200


SCALES = {"small": Sizes(), "paper": Sizes(asked=51)}


def measure(scale: str, note: Note = silent) -> Result:
    return measure_at(SCALES[scale], scale, note)


def measure_at(sizes: Sizes, scale: str, note: Note = silent) -> Result:
    rows: list[dict[str, Cell]] = []
    with tempfile.TemporaryDirectory(prefix="sash-probe-") as name:
        folder = Path(name)
        _write(sizes, folder)
        seconds = {}
        for done, (state, indexes) in enumerate((("plain", ""), ("indexed", _INDEXES))):
            note(f"keeping {sizes.rows:,} rows, {state}", done / 4)
            began = time.perf_counter()
            program = bind_program(_STREAM + indexes + _QUERY)
            run_program(program, base_dir=folder, runtime="inline", checkpoint=folder / state)
            seconds[state] = time.perf_counter() - began
        asked = {state: _Asked(folder, state) for state in seconds}
        for done, (question, where) in enumerate(QUESTIONS.items()):
            note(question, 0.5 + done / 6)
            rows.append(_compared(question, where, asked, sizes))
    return Result(NAME, TITLE, scale, rows, _claims(rows, sizes, seconds))


def _write(sizes: Sizes, folder: Path) -> None:
    random = np.random.default_rng(7)
    words = pa.array(np.char.add("w", np.arange(sizes.values).astype(str)))
    table = pa.table(
        {
            "t": np.arange(sizes.rows) // 1_000,
            "k": random.integers(0, sizes.values, sizes.rows),
            "w": words.take(pa.array(random.integers(0, sizes.values, sizes.rows))),
            "v": random.integers(0, 1_000, sizes.rows),
        }
    )
    pq.write_table(table, folder / "rows.parquet", row_group_size=500_000)


class _Asked:
    """A run that somebody asks in its process."""

    def __init__(self, folder: Path, state: str) -> None:
        self._folder = folder
        self._snapshot = CheckpointReader(folder / state).snapshot()
        self._registry = SnapshotRegistry()
        (stream,) = bind_program(_STREAM).streams
        self._known = Known(streams={stream.name: stream})
        self._registry.commit(self._snapshot, {"p": stream.retain or 0})
        self._files = [OpenFile(self._snapshot.directory, file) for file in in_order(self._snapshot.kept)]
        self.bytes = sum(path.stat().st_size for path in self._snapshot.directory.glob("*.index"))

    def answer(self, where: str) -> pa.Table:
        """All of a question."""
        return look(question_in(f"{_SELECT}{where}", self._known), self._registry, self._folder).table

    def find(self, where: str) -> Callable[[], int]:
        """Only the rows that fulfil its condition; gives how many there are."""
        plan = plan_run(bind_program(f"{_STREAM}{_SELECT}{where};"))
        (scan,) = plan.scans
        probe = Probe(scan, plan.stream("p"))
        for file in self._files:
            file.open_indexes(place for place, _ in probe.conditions)

        def found() -> int:
            pieces = probe.rows(self._files, FIRST)
            return sum(len(scan_rows(scan, probe.stream, ts, rows).ts) for _, ts, rows in pieces)

        return found


def _compared(
    question: str, where: Callable[[int], str], asked: dict[str, _Asked], sizes: Sizes
) -> dict[str, Cell]:
    random = np.random.default_rng(8)
    for key in random.integers(0, sizes.values - 10, sizes.asked_before):
        asked["indexed"].find(where(int(key)))()
    keys = random.integers(0, sizes.values - 10, sizes.asked + 1)
    times: dict[str, list[float]] = {}
    rows = 0
    for number, key in enumerate(keys):
        answers = []
        for state, run in asked.items():
            find = run.find(where(int(key)))
            spent = [_timed(find), _timed(lambda: answers.append(run.answer(where(int(key)))))]  # noqa: B023
            # The first one loads what is compiled, and files.
            if number:
                for what, seconds in zip(("find", "answer"), spent, strict=True):
                    times.setdefault(f"{state} {what}", []).append(1e3 * seconds)
        plain, indexed = (table.sort_by([("t", "ascending"), ("v", "ascending")]) for table in answers)
        if not plain.equals(indexed):
            raise InternalError(f"an index answers {where(int(key))} otherwise than all rows do")
        rows += plain.num_rows
    ms = {name: statistics.median(spent) for name, spent in times.items()}
    return {
        "asked for": question,
        "rows found": rows // len(keys),
        "find ms, all rows": ms["plain find"],
        "find ms, index": ms["indexed find"],
        "find ratio": ms["plain find"] / ms["indexed find"],
        "answer ms, all rows": ms["plain answer"],
        "answer ms, index": ms["indexed answer"],
        "answer ratio": ms["plain answer"] / ms["indexed answer"],
        "index MB": asked["indexed"].bytes / 1e6,
    }


def _timed(work: Callable[[], object]) -> float:
    """Seconds of the processor: others may be at work, too."""
    began = time.process_time()
    work()
    return time.process_time() - began


def _claims(rows: list[dict[str, Cell]], sizes: Sizes, seconds: dict[str, float]) -> list[Claim]:
    find, answer = (
        {str(row["asked for"]): float(row[f"{what} ratio"] or 0) for row in rows}
        for what in ("find", "answer")
    )

    def shown(ratios: dict[str, float]) -> str:
        return ", ".join(f"{name} {ratio:,.0f} ×" for name, ratio in ratios.items())

    spent = ", ".join(f"{row['asked for']} {row['answer ms, index']:.1f} ms" for row in rows)
    return [
        Claim(
            "probe",
            f"rows by key are found in {sizes.rows:,} kept rows 50 times as fast by index as by reading all",
            "≥ 50 ×",
            shown(find),
            min(find.values()) >= 50,
            "all rows means a comparison of a column in memory with constants by Arrow, 8 bytes a row for a "
            "number; an index has each file to look at, and its rows to fetch from all over it",
        ),
        Claim(
            "answer",
            "the same for the whole question, from its text to its answer",
            "≥ 50 ×",
            shown(answer),
            min(answer.values()) >= 50,
            f"to parse, bind, plan and run operators takes the same time with and without an index; with it: "
            f"{spent}",
        ),
        Claim(
            "upkeep",
            "two indexes make a run that keeps its rows at most twice as long",
            "≤ 2 ×",
            f"{seconds['indexed'] / seconds['plain']:.1f} ×",
            seconds["indexed"] <= 2 * seconds["plain"],
            f"{seconds['plain']:.1f} s without, {seconds['indexed']:.1f} s with: each file is sorted by each "
            "column; the one query of the run costs next to nothing",
        ),
    ]


def draw(result: Result, path: Path) -> None:
    groups = [str(row["asked for"]) for row in result.table]
    bars = {
        name: [float(row[name] or 0) for row in result.table]
        for name in ("find ms, all rows", "find ms, index", "answer ms, all rows", "answer ms, index")
    }
    draw_bars(f"Questions over kept rows ({result.scale})", "ms a question", groups, bars, path, is_log=True)
