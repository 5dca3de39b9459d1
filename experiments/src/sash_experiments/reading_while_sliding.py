"""reading-while-sliding: questions beside a hundred periodic queries while the window slides every second.

A file with a second of rows comes into a watched directory every second. A hundred periodic queries share the
stream; a reader asks one-time questions over the rows that it keeps, in spells: some seconds without, as many
with a question a second, with ten, and again, so that a machine that is slow for a while is slow for all.
Every answer is compared with a recomputation from the rows at the instant that it names, by DuckDB, and the
recorded history is checked. At the scale `paper` the runtime is Spark, a question comes every second in every
other spell, and it takes five minutes.
"""

from __future__ import annotations

import statistics
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from sash.engine.observe.report import BatchReport, Silent
from sash.engine.reads.one_time_query import OnceAnswer
from sash.errors import UserError
from sash.lang import Program, bind_program
from sash.runtime.background_run import Live
from sash.transactions.check import Classification, classify
from sash.transactions.events import Aborted
from sash.transactions.json_lines import read_history_file
from sash_experiments.charts import Panel, draw_lines
from sash_experiments.result import Cell, Claim, Note, Result, silent

NAME = "reading-while-sliding"
TITLE = "answers, isolation and batch time while questions are asked beside 100 periodic queries"

_SLOWER = 1.10
_GOLDEN = 0.618
_STREAM = """
CREATE STREAM p (t BIGINT, k BIGINT, v BIGINT) TIMESTAMP BY t RETAIN 60 SEC
  FROM 'parquet:arriving' WITH (watch = true, unit = 'ms');
"""
_QUESTIONS = (
    "SELECT COUNT(*) AS n, SUM(v) AS v FROM p [RANGE 10 SEC]",
    "SELECT k, SUM(v) AS v FROM p [RANGE 5 SEC] WHERE k < 20 GROUP BY k",
    "SELECT MAX(v) AS high, MIN(v) AS low FROM p [RANGE 20 SEC] WHERE v < 900",
)


@dataclass(frozen=True, slots=True)
class Sizes:
    """`beat`: seconds between two slides; `spell` is counted in slides, after those that warm up.

    `rates` are questions a slide, which take turns; the first is none.
    """

    runtime: str = "inline"
    rows: int = 5_000
    queries: int = 100
    beat: float = 1.0
    warm: int = 6
    spells: int = 6
    spell: int = 8
    rates: tuple[int, ...] = (0, 1, 10)

    @property
    def slides(self) -> int:
        return self.warm + self.spells * self.spell

    def slides_of(self, spell: int) -> range:
        begin = self.warm + spell * self.spell
        return range(begin, begin + self.spell)

    def rate(self, slide: int) -> int:
        """Questions in a slide."""
        return 0 if slide < self.warm else self.rates[(slide - self.warm) // self.spell % len(self.rates)]


SCALES = {
    "small": Sizes(),
    "paper": Sizes("spark", rows=20_000, warm=20, spells=14, spell=20, rates=(0, 1)),
}


def measure(scale: str, note: Note = silent) -> Result:
    return measure_at(SCALES[scale], scale, note)


def measure_at(sizes: Sizes, scale: str, note: Note = silent) -> Result:
    with tempfile.TemporaryDirectory(prefix="sash-reading-") as folder:
        seen = _run(sizes, Path(folder), note)
        note("checking answers", 0.95)
        wrong = _wrong(sizes, seen.answers)
        recorded = read_history_file(Path(folder) / "history.jsonl")
        (history,) = recorded.histories
        found = classify(history)
        aborts = sum(isinstance(event, Aborted) for event in history.events)
    rows = [_row(sizes, seen, number) for number in range(sizes.spells)]
    return Result(NAME, TITLE, scale, rows, _claims(sizes, seen, found, wrong, aborts))


# ------------------------------------------------------------------ the run


@dataclass(slots=True)
class _Batch:
    slide: int
    seconds: float


@dataclass(slots=True)
class _Answered:
    """An answer; `seconds` that it took, and the slide in which it was asked."""

    question: str
    answer: OnceAnswer
    seconds: float
    slide: int


@dataclass(slots=True)
class _Seen(Silent):
    """Watches the run; the clock of a batch tells which slide it was."""

    batches: list[_Batch] = field(default_factory=list)
    answers: list[_Answered] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)

    def batch(self, report: BatchReport) -> None:
        newest = report.newest.get("p")
        if newest is not None:
            self.batches.append(_Batch(newest // 1_000_000, report.seconds))

    def of(self, slides: range) -> list[float]:
        """The times of batches, in seconds."""
        return [batch.seconds for batch in self.batches if batch.slide in slides]


def _second(sizes: Sizes, slide: int) -> pa.Table:
    """The rows of a second, the same for the same number."""
    random = np.random.default_rng(slide)
    first = slide * 1_000
    return pa.table(
        {
            "t": np.sort(random.integers(first, first + 1_000, sizes.rows)),
            "k": random.integers(0, 200, sizes.rows),
            "v": random.integers(0, 1_000, sizes.rows),
        }
    )


def _program(sizes: Sizes) -> Program:
    queries = [
        f"CREATE QUERY q{n} INTO 'noop:' AS SELECT k, SUM(v) AS v, COUNT(*) AS n "
        f"FROM p [RANGE {5 + n % 10} SEC SLIDE 1 SEC] GROUP BY k HAVING SUM(v) > {n * 1_000};\n"
        for n in range(sizes.queries)
    ]
    return bind_program(_STREAM + "".join(queries))


def _run(sizes: Sizes, folder: Path, note: Note) -> _Seen:
    arriving = folder / "arriving"
    arriving.mkdir()
    seen = _Seen()
    live = Live(
        _program(sizes),
        base_dir=folder,
        options={
            "runtime": sizes.runtime,
            "checkpoint": folder / "state",
            "record_history": folder / "history.jsonl",
        },
        monitor=seen,
        stop=threading.Event(),
        wake=lambda: None,
    )
    slide = 0
    over = threading.Event()

    def ask() -> None:
        """Asks one question after the other, as long as readers are wanted."""
        number, due = 0, time.perf_counter()
        while not over.wait(max(0.0, due - time.perf_counter())):
            rate = sizes.rate(slide)
            # Not in step with the slides; who is late does not make up for it.
            pause = 0.5 + number * _GOLDEN % 1
            due = max(due, time.perf_counter()) + pause * sizes.beat / (rate or 10)
            if not rate:
                continue
            text = _QUESTIONS[number % len(_QUESTIONS)]
            number += 1
            began, at = time.perf_counter(), slide
            try:
                answer = live.ask(bind_program(f"{_STREAM}{text};"))
            except UserError as failure:
                seen.failures.append(str(failure))
            else:
                seen.answers.append(_Answered(text, answer, time.perf_counter() - began, at))

    reader = threading.Thread(target=ask, name="sash-reader", daemon=True)
    live.start()
    reader.start()
    try:
        began = time.perf_counter()
        for slide in range(sizes.slides):
            note(f"{sizes.rate(slide)} questions a slide", slide / sizes.slides)
            pq.write_table(_second(sizes, slide), arriving / f"{slide:05d}.parquet.tmp")
            (arriving / f"{slide:05d}.parquet.tmp").rename(arriving / f"{slide:05d}.parquet")
            if slide == 0:
                _await(seen, 0, live)
                began = time.perf_counter()
            over.wait(max(0.0, began + (slide + 1) * sizes.beat - time.perf_counter()))
        _await(seen, sizes.slides - 1, live)
    finally:
        over.set()
        reader.join()
        live.close()
    if live.failure is not None:
        raise live.failure
    return seen


def _await(seen: _Seen, slide: int, live: Live) -> None:
    """Wait until a slide has been committed."""
    for _ in range(6_000):
        if not live.is_running or any(batch.slide >= slide for batch in seen.batches):
            return
        with suppress(InterruptedError):
            time.sleep(0.02)


# ------------------------------------------------------------------ what came out


def _wrong(sizes: Sizes, answers: Sequence[_Answered]) -> int:
    """How many answers are not those of the rows at their instant."""
    whole = pa.concat_tables([_second(sizes, slide) for slide in range(sizes.slides)])
    connection = duckdb.connect()
    connection.register("rows", whole)
    known: dict[tuple[str, int], list[tuple[object, ...]]] = {}
    wrong = 0
    for answered in answers:
        instant = answered.answer.instant
        if instant is None:
            wrong += answered.answer.table.num_rows > 0
            continue
        now = instant // 1_000
        key = answered.question, now
        if key not in known:
            known[key] = _recomputed(connection, answered.question, now)
        found = sorted(tuple(row.values()) for row in answered.answer.table.to_pylist())
        wrong += found != known[key]
    return wrong


def _recomputed(connection: duckdb.DuckDBPyConnection, question: str, now: int) -> list[tuple[object, ...]]:
    """The answer of a question at a millisecond, from all rows."""
    head, _, rest = question.partition("FROM p [RANGE ")
    seconds, _, tail = rest.partition(" SEC]")
    window = f"(SELECT * FROM rows WHERE t > {now - int(seconds) * 1_000} AND t <= {now})"
    found = connection.execute(f"{head.replace('SUM(v)', 'SUM(v)::BIGINT')} FROM {window} {tail}").fetchall()
    return sorted(found)


def _row(sizes: Sizes, seen: _Seen, number: int) -> Mapping[str, Cell]:
    slides = sizes.slides_of(number)
    times = seen.of(slides)
    taken = [answered.seconds for answered in seen.answers if answered.slide in slides]
    return {
        "spell": number + 1,
        "questions a slide": sizes.rate(slides[0]),
        "batches": len(times),
        "batch ms": 1e3 * _median(times),
        "slowest batch ms": 1e3 * max(times, default=0.0),
        "answers": len(taken),
        "answer ms": 1e3 * _median(taken) if taken else None,
    }


def _median(values: Sequence[float]) -> float:
    return statistics.median(values) if values else 0.0


def _claims(sizes: Sizes, seen: _Seen, found: Classification, wrong: int, aborts: int) -> list[Claim]:
    asked = [answered.seconds for answered in seen.answers]
    violation = found.violation
    return [
        Claim(
            "lws",
            "the recorded history is latest-window-serializable",
            "yes",
            f"{len(found.verdicts)} questions committed, {aborts} given up",
            found.is_latest_window_serializable
            and violation is None
            and len(found.verdicts) == len(asked) > 0,
            "" if violation is None else violation.broken,
        ),
        Claim(
            "true-answers",
            "no answer mixes two states: each is what recomputation from the rows gives at its instant",
            "all",
            f"{len(asked) - wrong} of {len(asked)}",
            wrong == 0 and not seen.failures and bool(asked),
            seen.failures[0] if seen.failures else "",
        ),
        *(_batch_time(sizes, seen, rate) for rate in sizes.rates if rate),
    ]


def _batch_time(sizes: Sizes, seen: _Seen, rate: int) -> Claim:
    """A spell with questions is compared with the nearest ones without: the machine's pace may drift."""
    medians = [_median(seen.of(sizes.slides_of(number))) for number in range(sizes.spells)]
    rates = [sizes.rate(sizes.slides_of(number)[0]) for number in range(sizes.spells)]
    ratios = []
    for number, median in enumerate(medians):
        if rates[number] == rate:
            before = [medians[n] for n in range(number) if not rates[n]][-1:]
            after = [medians[n] for n in range(number, sizes.spells) if not rates[n]][:1]
            ratios.append(median / statistics.mean(before + after))
    ratio = _median(ratios)
    asked = [answered.seconds for answered in seen.answers if sizes.rate(answered.slide) == rate]
    return Claim(
        f"batch-time-{rate}",
        f"at {rate} questions a slide batches take at most 10 % longer than without any",
        f"≤ {_SLOWER:.2f} ×",
        f"{ratio:.2f} ×",
        bool(ratios) and ratio <= _SLOWER,
        f"the median of {len(ratios)} spells, each against its neighbours without questions: "
        f"{', '.join(f'{each:.2f}' for each in ratios)}; {len(asked)} questions of "
        f"{1e3 * _median(asked):.0f} ms in the process of the run",
    )


def draw(result: Result, path: Path) -> None:
    rates = sorted({int(row["questions a slide"] or 0) for row in result.table})

    def line(rate: int, column: str) -> list[tuple[float, float]]:
        return [
            (float(row["spell"] or 0), float(row[column] or 0))
            for row in result.table
            if row["questions a slide"] == rate
        ]

    panels = [
        Panel(
            title,
            "spell",
            "milliseconds",
            {
                f"{rate} questions a slide": line(rate, column)
                for rate in rates
                if rate or column == "batch ms"
            },
            is_log_x=False,
            is_log_y=False,
        )
        for title, column in (
            ("median time of a batch", "batch ms"),
            ("median time of an answer", "answer ms"),
        )
    ]
    draw_lines(f"Questions while the window slides ({result.scale})", panels, path)
