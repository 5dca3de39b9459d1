"""scan-limit: how near do hundreds of standing queries come to merely reading the data?

One Parquet stream of packets is read by Spark into a no-op sink, and then by 1, 24 and 240 periodic
aggregates: sums, maxima, quantiles and top-k over six groupings (source, destination, pair, protocol, port,
protocol and port; up to 10,000 groups), windows of 20 to 100 s, slides of 1 to 10 s. Beside them Spark's own
sliding window of 100 s and 1 s, with one sum. Each is measured from the end of its first batch to the end of
its last, so start-up does not count, and scans and runs take turns, because a machine may become slower or
faster meanwhile. Only ratios mean anything elsewhere.

The same number of rows is read twice: as a stream of 100,000 rows a second, of which a run goes through many
seconds in one, and of 1,000,000, which is nearer to what such a run could follow live. The former has ten
times as many answers to give for a row.
"""

from __future__ import annotations

import itertools
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pyarrow.parquet as pq

from sash.connectors.sources import open_source, read
from sash.engine.observe.report import BatchReport, Silent
from sash.lang import bind_program
from sash.runtime.run import run_program
from sash.runtime.spark.scan import native_window, noop_scan
from sash.runtime.spark.session import spark_session
from sash_experiments.result import Claim, Note, Result, silent

NAME = "scan-limit"
TITLE = "rows a second with 1, 24 and 240 periodic aggregates, against a no-op scan"

_COLUMNS = "ts TIMESTAMP, src STRING, dst STRING, proto STRING, port BIGINT, length BIGINT"
_GROUPINGS = ("src", "dst", "src, dst", "proto", "port", "proto, port")
_LARGE = ("src", "dst", "src, dst")
_AGGREGATES = ("SUM(length)", "QUANTILE(length, 0.95)", "MAX(length)", "TOP")
_RANGES = (20, 40, 60, 80, 100)
_SLIDES = (1, 2, 5, 10)
_QUERIES = (1, 24, 240)
# Of all queries every so many-th, over and over: 24 of them have each aggregate of each grouping once, and
# windows and slides of all lengths.
_STEP = 73


@dataclass(frozen=True, slots=True)
class _Scale:
    files: int
    rows_a_file: int
    hosts: int = 100
    files_a_batch: int = 6

    @property
    def batch_rows(self) -> int:
        return self.files_a_batch * self.rows_a_file


# All windows are full for most of the way at the lower rate, with the large scale at both.
_SCALES = {"small": _Scale(72, 500_000), "paper": _Scale(240, 500_000)}
RATE = "stream's rows/s"
# Rows a second of stream time.
_RATES = (100_000, 1_000_000)
_TURNS = 2


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
        scans: dict[int, list[float]] = {rate: [] for rate in _RATES}
        runs: dict[tuple[int, int], list[_Timed]] = {key: [] for key in itertools.product(_RATES, _QUERIES)}
        for turn in range(_TURNS):
            begun = 0.15 + 0.7 * turn / _TURNS
            _scan(directory, log, sizes, scans, note, begun)
            # Spark scans as it does by default, and Sash runs as it does by default.
            with spark_session("local[2]", log):
                note("warming up", begun + 0.05)
                _run(directory, "warm", 240, warm)
                for number, ((rate, count), timed) in enumerate(runs.items()):
                    note(f"running {count} at once", begun + 0.1 + 0.04 * number)
                    timed.append(_run(directory, packets[rate].name, count, sizes))
        _scan(directory, log, sizes, scans, note, 0.85)
        with spark_session("local[2]", log, optimising=True):
            note("running Spark's own window", 0.9)
            native = native_window(directory / "warm", 2, max(_RANGES), min(_SLIDES))
    limits = {rate: float(np.mean(speeds)) for rate, speeds in scans.items()}
    speeds = {key: _throughput(timed) for key, timed in runs.items()}
    table: list[dict[str, str | int | float | None]] = []
    for rate in _RATES:
        table.append(_row("no-op scan", rate, 0, limits[rate], limits[rate]))
        for count in _QUERIES:
            name = "1 query" if count == 1 else f"{count} queries"
            memory = runs[rate, count][-1].memory[-1] / 1e6
            table.append(_row(name, rate, count, speeds[rate, count], limits[rate], memory))
    table.append(_row("Spark's window", _RATES[0], 1, native, limits[_RATES[0]]))
    claims = [
        *_claims(limits, speeds),
        _against_native(speeds[_RATES[0], 240] / native),
        _memory(runs[_RATES[0], 240][0]),
    ]
    return Result(NAME, TITLE, scale, table, claims)


def _scan(
    directory: Path, log: Path, sizes: _Scale, scans: Mapping[int, list[float]], note: Note, done: float
) -> None:
    note("scanning", done)
    with spark_session("local[2]", log, optimising=True):
        noop_scan(directory / "warm", 2)
        for rate, speeds in scans.items():
            speeds.append(noop_scan(directory / f"packets-{rate}", sizes.files_a_batch))


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


def _claims(limits: Mapping[int, float], speeds: Mapping[tuple[int, int], float]) -> Iterator[Claim]:
    for rate in _RATES:
        share, growth = speeds[rate, 240] / limits[rate], speeds[rate, 24] / speeds[rate, 240]
        stream = f"of a stream of {rate:,} rows a second"
        yield Claim(
            f"240-of-scan-{rate}",
            f"240 periodic aggregates {stream} run at 0.7 of the speed of the no-op scan or better",
            "≥ 0.7",
            f"{share:.2f}",
            share >= 0.7,
        )
        yield Claim(
            f"24-to-240-{rate}",
            f"ten times as many queries {stream} cost less than 1.3 times as much",
            "< 1.3",
            f"{growth:.2f}",
            growth < 1.3,
        )


def _against_native(times: float) -> Claim:
    return Claim(
        "240-against-native",
        "240 periodic aggregates run at ten times the speed of one sliding window of Spark's",
        "≥ 10",
        f"{times:.1f}",
        times >= 10,
    )


def _memory(run: _Timed) -> Claim:
    middle, end = run.memory_growth()
    return Claim(
        "driver-memory",
        "the driver's memory does not grow with the length of the input",
        "< 1.1 from a half of the input to its end",
        f"{end / middle:.2f}",
        end / middle < 1.1,
    )


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
    text.extend(queries[i] for i in sorted(_STEP * i % len(queries) for i in range(count)))
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

    def memory_growth(self) -> tuple[float, float]:
        """Memory around the middle of the run and at its end, smoothed over a few batches."""
        middle = len(self.memory) // 2
        return float(np.median(self.memory[middle - 1 : middle + 1])), float(np.median(self.memory[-2:]))


def _throughput(runs: Sequence[_Timed]) -> float:
    """Rows a second of several runs, their first batches not counted."""
    return sum(sum(run.rows[1:]) for run in runs) / sum(run.ends[-1] - run.ends[0] for run in runs)


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
    figure, axes = plt.subplots(figsize=(11, 4), layout="constrained")
    colors = ["#2f6f9f" if "quer" in str(row["run"]) else "#9aa5b1" for row in result.table]
    bars = axes.bar(names, shares, color=colors)
    axes.bar_label(bars, fmt="%.2f", padding=3)
    axes.axhline(0.7, color="#b5533c", linewidth=1, linestyle="--")
    axes.text(len(names) - 0.5, 0.71, "0.7", color="#b5533c", ha="right", va="bottom")
    axes.set_ylabel("throughput, no-op scan = 1")
    axes.set_title(f"Periodic aggregates against the scan limit ({result.scale})")
    axes.spines[["top", "right"]].set_visible(False)
    axes.set_ylim(0, max(shares) * 1.15)
    figure.savefig(path, dpi=150)
    plt.close(figure)
