"""overload: a live stream at rising rates on Spark, refreshed exactly and elastically by several policies.

Rows come as the clock on the wall goes, whether somebody has time for them or not. Exact refresh answers
every boundary, so where answers take longer than the time that they are of, it falls behind for good. Elastic
refresh gives answers the time that is left (002, section 8.4): periods get longer instead. Rates rise until
exact refresh falls behind, wherever that is on the machine at hand. Some answers are compared with DuckDB's
over the rows of the window.
"""

from __future__ import annotations

import random
import tempfile
import threading
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean

import numpy as np
import pyarrow as pa

from sash.connectors.sources import Chunk
from sash.connectors.sources.packets import read_packets
from sash.engine.observe.report import BatchReport, QueryRefreshStats, Silent
from sash.lang import bind_program
from sash.plan.refresh import ELASTIC, EXACT
from sash.runtime.run import run_program
from sash_experiments.charts import draw_bars
from sash_experiments.many_queries import Standing, check
from sash_experiments.result import Cell, Claim, Note, Result, silent

NAME = "overload"
TITLE = "A live stream at rising rates on Spark: exact and elastic refresh (002, section 8.4)"

_MODES = ((EXACT, ""), (ELASTIC, "edf"), (ELASTIC, "hybrid-late-pending"))
_BEST = _MODES[-1]
_PORTS = (443, 80, 53, 22, 123, 25, 3306, 5432)
_WINDOWS = ((5, 1), (10, 1), (10, 2), (20, 2), (30, 3))
# Whoever loses so much of the time of a run in its second half is overloaded.
_FAR_BEHIND = 0.1


@dataclass(frozen=True, slots=True)
class Sizes:
    """`seconds` on the wall are measured for each rate and kind of refresh; a batch has at most `span`.

    Rates begin with `first` and rise by `factor`, but not beyond `most`.
    """

    queries: int = 80
    hosts: int = 20_000
    first: int = 40_000
    factor: int = 4
    most: int = 2_560_000
    seconds: float = 10.0
    span: float = 3.0


_SCALES = {"small": Sizes(), "paper": Sizes(queries=400, seconds=60)}


@dataclass(slots=True)
class Watch(Silent):
    """Stops the run when it has lasted; keeps how it went, and an answer of each query now and then."""

    seconds: float
    stop: threading.Event = field(default_factory=threading.Event)
    reports: list[BatchReport] = field(default_factory=list)
    fares: list[Mapping[str, QueryRefreshStats]] = field(default_factory=list)
    answers: dict[str, dict[int, pa.Table]] = field(default_factory=lambda: defaultdict(dict))
    chance: random.Random = field(default_factory=lambda: random.Random(5))
    given: int = 0

    def batch(self, report: BatchReport) -> None:
        self.reports.append(report)
        self.fares.append(report.refresh())
        for name, table in report.answers.items():
            instants = table.column("ts").cast(pa.int64()).to_numpy()
            self.given += len(np.unique(instants))
            if self.chance.random() < 0.2:
                newest = int(instants[-1])
                found = table.filter(pa.array(instants == newest)).drop_columns(["ts"])
                self.answers[name] = {newest: found}
        if report.time - self.reports[0].time >= self.seconds:
            self.stop.set()

    @property
    def lag(self) -> float:
        """By how much more the clock on the wall has moved on than the rows that were read.

        In the second half of the run: at first the delay of a start is made up for.
        """
        middle, last = self.reports[len(self.reports) // 2], self.reports[-1]
        return last.time - middle.time - _moved(middle.newest, last.newest)

    def behind(self, query: str) -> float:
        """How far the answer of a query is behind the wall at the end, beyond the first batch's delay."""
        first, at = self.reports[0], self.fares[-1][query].at
        begun = min(instant for instant in first.newest.values() if instant is not None)
        return self.reports[-1].time - first.time - ((at if at is not None else begun) - begun) / 1e6


def _moved(before: Mapping[str, int | None], after: Mapping[str, int | None]) -> float:
    return min((after[name] or 0) - (instant or 0) for name, instant in before.items()) / 1e6


def measure(scale: str, note: Note = silent) -> Result:
    return measured(_SCALES[scale], "spark", scale, note)


def measured(sizes: Sizes, runtime: str, scale: str, note: Note = silent) -> Result:
    """The experiment at any size."""
    queries = workload(sizes)
    table: list[dict[str, Cell]] = []
    # The first run of a process is not measured: it starts Spark and compiles kernels.
    _run(queries, sizes, sizes.first, _BEST, runtime, 0.0)
    rates = list(_rising(sizes))
    for number, rate in enumerate(rates):
        for place, mode in enumerate(_MODES):
            note(f"{' '.join(mode).strip()} at {rate:,} rows a second", (number + place / 3) / len(rates))
            watch = _run(queries, sizes, rate, mode, runtime, sizes.seconds)
            table.append(_row(queries, sizes, rate, mode, watch))
        if float(table[-len(_MODES)]["lag s"] or 0) > _FAR_BEHIND * sizes.seconds:
            break
    return Result(NAME, TITLE, scale, table, _claims(table, rate))


def _rising(sizes: Sizes) -> Iterator[int]:
    rate = sizes.first
    while rate <= sizes.most:
        yield rate
        rate *= sizes.factor


def workload(sizes: Sizes) -> list[Standing]:
    """Queries by port and window, in turn: those with the same port read one synopsis."""
    return [
        Standing(
            f"q{number}",
            "packets",
            "src",
            "COUNT(*) AS c0, MAX(length) AS c1",
            f"port = {_PORTS[number % len(_PORTS)]}",
            *_WINDOWS[number // len(_PORTS) % len(_WINDOWS)],
        )
        for number in range(sizes.queries)
    ]


def _declared(sizes: Sizes, rate: int) -> str:
    return (
        "CREATE STREAM packets (ts TIMESTAMP, src STRING, port BIGINT, length BIGINT) TIMESTAMP BY ts "
        f"FROM 'generator:packets' WITH (rate = {rate}, hosts = {sizes.hosts}, skew = 0.5, pace = true);\n"
    )


def _run(
    queries: list[Standing], sizes: Sizes, rate: int, mode: tuple[str, str], runtime: str, seconds: float
) -> Watch:
    refresh, policy = mode
    watch = Watch(seconds)
    with tempfile.TemporaryDirectory(prefix="sash-overload-") as folder:
        run_program(
            bind_program(_declared(sizes, rate) + "".join(query.text for query in queries)),
            base_dir=Path(folder),
            runtime=runtime,
            master="local[2]",
            batch_rows=round(sizes.span * rate),
            refresh=refresh,
            policy=policy or None,
            monitor=watch,
            stop=watch.stop,
        )
    return watch


def _row(
    queries: list[Standing], sizes: Sizes, rate: int, mode: tuple[str, str], watch: Watch
) -> dict[str, Cell]:
    fares = watch.fares[-1]
    middle = watch.fares[len(watch.fares) // 2]
    read = watch.reports[-1].streams["packets"].read
    checked, wrong = check(queries, {"packets": _rows(sizes, rate, read)}, watch.answers)
    stretched = [each.granted / each.period for each in fares.values() if each.granted is not None]
    return {
        "rate": rate,
        "refresh": " ".join(mode).strip(),
        "batches": len(watch.reports),
        "rows": read,
        "lag s": watch.lag,
        "waiting rows": max(0, round(watch.lag * rate)),
        "answer behind s": fmean(watch.behind(query.name) for query in queries),
        "late s": fmean(each.late for each in fares.values()),
        "worst s": max(each.worst for each in fares.values()),
        "granted / asked": fmean(stretched) if stretched else None,
        "answers": watch.given,
        "left out": sum(fares[name].at == each.at for name, each in middle.items()),
        "state MB": max(report.held.bytes for report in watch.reports) / 1e6,
        "driver MB": max(report.memory or 0 for report in watch.reports) / 1e6,
        "checked": checked,
        "wrong": wrong,
    }


def _rows(sizes: Sizes, rate: int, count: int) -> pa.Table:
    """The rows that a run has read, made once more."""
    (stream,) = bind_program(_declared(sizes, rate)).streams
    chunk = Chunk(stream.name, 0, stream.source, 0, count, 0, count)
    rows = read_packets(stream, chunk, ("src", "port", "length"))
    return rows.table.append_column("us", pa.array(rows.ts))


def _claims(table: list[dict[str, Cell]], rate: int) -> list[Claim]:
    at = {str(row["refresh"]): row for row in table if row["rate"] == rate}
    exact, best, edf = at[EXACT], at[" ".join(_BEST)], at[f"{ELASTIC} edf"]
    elastic = [row for row in table if row["refresh"] != EXACT]
    wrong, checked, left = (
        sum(int(row[name] or 0) for row in rows)
        for rows, name in ((table, "wrong"), (table, "checked"), (elastic, "left out"))
    )

    def figure(row: Mapping[str, Cell], name: str) -> float:
        return float(row[name] or 0)

    return [
        Claim(
            "answers",
            "each answer is right for its instant",
            "0 wrong",
            f"{wrong} of {checked:,} checked",
            wrong == 0 and checked > 0,
        ),
        Claim(
            "pace",
            "at the highest rate elastic refresh falls behind less than exact refresh",
            "002, 8.4.1: periods get longer",
            f"{figure(best, 'lag s'):.1f} s and {figure(exact, 'lag s'):.1f} s",
            figure(best, "lag s") < figure(exact, "lag s"),
            f"{best['answers']:,} answers were given, and {exact['answers']:,}; periods are "
            f"{figure(best, 'granted / asked'):.1f} times as long as asked for",
        ),
        Claim(
            "all",
            "no query is left out",
            "002, 8.4.2: who is latest is next",
            f"{left} had no answer in the second half of a run",
            left == 0,
        ),
        Claim(
            "late-pending",
            "at the highest rate late-pending sharing has less lateness than EDF",
            "002, 8.4.5: the overload is cleared sooner",
            f"{figure(best, 'late s'):.1f} s and {figure(edf, 'late s'):.1f} s on the average",
            figure(best, "late s") < figure(edf, "late s"),
        ),
    ]


def draw(result: Result, path: Path) -> None:
    rates = [f"{rate:,}" for rate in dict.fromkeys(row["rate"] for row in result.table)]
    bars: dict[str, list[float]] = defaultdict(list)
    for row in result.table:
        bars[str(row["refresh"])].append(float(row["answer behind s"] or 0))
    draw_bars(f"Answers behind the clock ({result.scale})", "seconds", rates, bars, path)
