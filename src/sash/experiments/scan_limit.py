"""scan-limit: how near do hundreds of standing queries come to merely reading the data?

One Parquet stream of packets is read by Spark into a no-op sink, and then by 1, 24 and 240 periodic
aggregates: sums, maxima, quantiles and top-k over six groupings (source, destination, pair, protocol, port,
protocol and port; up to 10,000 groups), windows of 20 to 100 s, slides of 1 to 10 s. Beside them Spark's own
sliding window of 100 s and 1 s, with one sum. All runs share one Spark session; each is measured from the end
of its first batch to the end of its last, so start-up does not count. Only ratios mean anything elsewhere.

The same number of rows is read twice: as a stream of 100,000 rows a second, of which a run goes through many
seconds in one, and of 1,000,000, which is nearer to what such a run could follow live. Claims are of the
former, which has ten times as many answers to give for a row.
"""

from __future__ import annotations

import itertools
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pyarrow.parquet as pq

from sash.experiments.result import Claim, Note, Result, silent
from sash.lang import bind_program
from sash.runtime.report import BatchReport, Silent
from sash.runtime.run import run_program
from sash.runtime.sources import open_source, read
from sash.runtime.spark.scan import native_window, noop_scan
from sash.runtime.spark.session import spark_session

NAME = "scan-limit"
TITLE = "rows a second with 1, 24 and 240 periodic aggregates, against a no-op scan"

_COLUMNS = "ts TIMESTAMP, src STRING, dst STRING, proto STRING, port BIGINT, length BIGINT"
_GROUPINGS = ("src", "dst", "src, dst", "proto", "port", "proto, port")
_LARGE = ("src", "dst", "src, dst")
_AGGREGATES = ("SUM(length)", "QUANTILE(length, 0.95)", "MAX(length)", "TOP")
_RANGES = (20, 40, 60, 80, 100)
_SLIDES = (1, 2, 5, 10)
_QUERIES = (1, 24, 240)


@dataclass(frozen=True, slots=True)
class _Scale:
    files: int
    rows_a_file: int
    hosts: int = 100
    files_a_batch: int = 6

    @property
    def batch_rows(self) -> int:
        return self.files_a_batch * self.rows_a_file


_SCALES = {"small": _Scale(24, 500_000), "paper": _Scale(240, 500_000)}
RATE = "stream's rows/s"
# Rows a second of stream time; claims are of the first.
_RATES = (100_000, 1_000_000)


def measure(scale: str, note: Note = silent) -> Result:
    sizes = _SCALES[scale]
    warm = _Scale(4, sizes.rows_a_file, files_a_batch=2)
    with tempfile.TemporaryDirectory(prefix="sash-scan-limit-") as folder:
        directory, log = Path(folder), Path(folder) / "spark.log"
        packets = {rate: directory / f"packets-{rate}" for rate in _RATES}
        note("making packets", 0.0)
        _write_packets(directory / "warm", warm, _RATES[0])
        for rate, path in packets.items():
            _write_packets(path, sizes, rate)
        # Spark scans by itself as it does by default, and Sash runs as it does by default.
        with spark_session("local[2]", log, optimising=True):
            note("scanning", 0.2)
            noop_scan(directory / "warm", 2)
            before = {rate: noop_scan(path, sizes.files_a_batch) for rate, path in packets.items()}
        with spark_session("local[2]", log):
            note("warming up", 0.3)
            _run(directory, "warm", 240, warm)
            runs: dict[tuple[int, int], _Timed] = {}
            for number, (rate, count) in enumerate(itertools.product(_RATES, _QUERIES)):
                note(f"running {count} at once", 0.4 + 0.07 * number)
                runs[rate, count] = _run(directory, packets[rate].name, count, sizes)
        with spark_session("local[2]", log, optimising=True):
            note("scanning again", 0.85)
            noop_scan(directory / "warm", 2)
            after = {rate: noop_scan(path, sizes.files_a_batch) for rate, path in packets.items()}
            note("running Spark's own window", 0.9)
            native = native_window(directory / "warm", 2, max(_RANGES), min(_SLIDES))
    # The machine may speed up or slow down meanwhile: the scans before and after stand for it.
    limits = {rate: (before[rate] + after[rate]) / 2 for rate in _RATES}
    table: list[dict[str, str | int | float | None]] = []
    for rate in _RATES:
        table.append(_row("no-op scan", rate, 0, limits[rate], limits[rate]))
        for count in _QUERIES:
            run = runs[rate, count]
            name = "1 query" if count == 1 else f"{count} queries"
            table.append(_row(name, rate, count, run.throughput, limits[rate], run.memory[-1] / 1e6))
    claimed = _RATES[0]
    table.append(_row("Spark's window", claimed, 1, native, limits[claimed]))
    own = {count: runs[claimed, count] for count in _QUERIES}
    return Result(NAME, TITLE, scale, table, _claims(limits[claimed], native, own))


def _row(
    run: str, rate: int, queries: int, speed: float, limit: float, memory: float | None = None
) -> dict[str, str | int | float | None]:
    return {
        "run": run,
        RATE: rate,
        "queries": queries,
        "rows/s": speed,
        "of the scan": speed / limit,
        "driver MB": memory,
    }


def _claims(limit: float, native: float, runs: Mapping[int, _Timed]) -> list[Claim]:
    share, times = runs[240].throughput / limit, runs[240].throughput / native
    growth = runs[24].throughput / runs[240].throughput
    third, end = runs[240].memory_growth()
    return [
        Claim(
            "240-of-scan",
            "240 periodic aggregates run at 0.7 of the speed of the no-op scan or better",
            "≥ 0.7",
            f"{share:.2f}",
            share >= 0.7,
        ),
        Claim(
            "240-against-native",
            "240 periodic aggregates run at ten times the speed of one sliding window of Spark's",
            "≥ 10",
            f"{times:.1f}",
            times >= 10,
        ),
        Claim(
            "24-to-240",
            "ten times as many queries cost less than 1.3 times as much",
            "< 1.3",
            f"{growth:.2f}",
            growth < 1.3,
        ),
        Claim(
            "driver-memory",
            "the driver's memory does not grow with the length of the input",
            "< 1.1 from a half of the input to its end",
            f"{end / third:.2f}",
            end / third < 1.1,
        ),
    ]


def program(source: str, count: int) -> str:
    """CQL of `count` queries; the first ones are a fair sample of all."""
    text = [f"CREATE STREAM packets ({_COLUMNS}) TIMESTAMP BY ts FROM 'parquet:{source}';"]
    queries = []
    shapes = itertools.product(_RANGES, _SLIDES, range(2), _GROUPINGS)
    for number, (range_, slide, _, grouping) in enumerate(shapes):
        # Every window of a grouping comes twice, with two of the four aggregates in turn.
        aggregate = (number // len(_GROUPINGS)) % len(_AGGREGATES)
        select = _selected(
            grouping, _AGGREGATES[aggregate], f"[RANGE {range_} SEC SLIDE {slide} SEC]", range_
        )
        queries.append(f"CREATE QUERY q{number} INTO 'jsonl:out/q{number}.jsonl' AS {select};")
    if count > len(queries):
        raise ValueError("so many different queries are not defined")
    step = len(queries) / count
    text.extend(queries[int(i * step)] for i in range(count))
    return "\n".join(text)


def _selected(grouping: str, aggregate: str, window: str, range_: int) -> str:
    if aggregate == "TOP":
        # The most frequent ones of the grouping; of two columns, those of the second for each of the first.
        *keys, ranked = grouping.split(", ")
        listed, by = "".join(f"{key}, " for key in keys), f" GROUP BY {keys[0]}" if keys else ""
        return f"SELECT {listed}TOP({ranked}, 10) AS value FROM packets {window}{by}"
    # Users of hundreds of queries ask for what stands out, not for ten thousand rows a second.
    having = f" HAVING SUM(length) > {300_000 * range_}" if grouping in _LARGE else ""
    return f"SELECT {grouping}, {aggregate} AS value FROM packets {window} GROUP BY {grouping}{having}"


def _write_packets(directory: Path, sizes: _Scale, rate: int) -> None:
    directory.mkdir()
    options = f"rows = {sizes.files * sizes.rows_a_file}, rate = {rate}, hosts = {sizes.hosts}, seed = 7"
    text = f"CREATE STREAM packets ({_COLUMNS}) TIMESTAMP BY ts FROM 'generator:packets' WITH ({options});"
    stream = bind_program(text).streams[0]
    source = open_source(stream, directory)
    plan = source.plan({}, sizes.files * sizes.rows_a_file, sizes.rows_a_file)
    for chunk in plan.chunks:
        pq.write_table(read(stream, chunk, None).table, directory / f"{chunk.sequence:04d}.parquet")


@dataclass
class _Timed(Silent):
    """Watches a run: when its batches ended, how many rows they had, how large the driver was."""

    ends: list[float] = field(default_factory=list)
    rows: list[int] = field(default_factory=list)
    memory: list[int] = field(default_factory=list)

    def batch(self, report: BatchReport) -> None:
        self.ends.append(time.perf_counter())
        self.rows.append(report.rows)
        self.memory.append(_resident_bytes())

    @property
    def throughput(self) -> float:
        return sum(self.rows[1:]) / (self.ends[-1] - self.ends[0])

    def memory_growth(self) -> tuple[float, float]:
        """Memory around the middle of the run and at its end, smoothed over a few batches."""
        middle = len(self.memory) // 2
        return float(np.median(self.memory[middle - 1 : middle + 1])), float(np.median(self.memory[-2:]))


def _resident_bytes() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096


def _run(directory: Path, source: str, count: int, sizes: _Scale) -> _Timed:
    timed = _Timed()
    run_program(
        bind_program(program(source, count)),
        base_dir=directory,
        master="local[2]",
        batch_rows=sizes.batch_rows,
        monitor=timed,
    )
    return timed


def draw(result: Result, path: Path) -> None:
    names = [f"{row['run']}\n{int(row[RATE] or 0) // 1000} k/s" for row in result.table]
    shares = [float(row["of the scan"] or 0) for row in result.table]
    figure, axes = plt.subplots(figsize=(10, 4), layout="constrained")
    colors = ["#2f6f9f" if "quer" in str(row["run"]) else "#9aa5b1" for row in result.table]
    bars = axes.bar(names, shares, color=colors)
    axes.bar_label(bars, fmt="%.2f", padding=3)
    axes.axhline(0.7, color="#b5533c", linewidth=1, linestyle="--")
    axes.text(-0.55, 0.71, "0.7", color="#b5533c", ha="left", va="bottom")
    axes.set_ylabel("throughput, no-op scan = 1")
    axes.set_title(f"Periodic aggregates against the scan limit ({result.scale})")
    axes.spines[["top", "right"]].set_visible(False)
    axes.set_ylim(0, max(shares) * 1.15)
    figure.savefig(path, dpi=150)
    plt.close(figure)
