"""A window join with many results: seconds, and the memory of all processes of the run.

    python benchmarks/fan_out.py [--rows 200000] [--runtime inline] [--runtime spark] [--sash PATH]

Two programs over the same stream (500 rows a second, windows of 10 seconds) count the results of a join
every second: one that gives some 250 results a row (49 million at 200,000 rows), one that gives hardly any.
Memory is the proportional set size, summed over the process tree and sampled ten times a second. `--sash`
measures another installation.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

PROGRAM = """
CREATE STREAM pkt (ts TIMESTAMP, src BIGINT, dst BIGINT, us BIGINT) TIMESTAMP BY ts
  FROM 'parquet:pkt.parquet';
CREATE QUERY q INTO 'jsonl:{name}.jsonl' AS
  SELECT COUNT(*) FROM (Istream(
    SELECT a.src, a.us, b.us AS other FROM pkt [RANGE 10 SEC] a, pkt [RANGE 10 SEC] b
    WHERE a.src = b.src AND a.dst % 2 = 0 AND b.dst % 2 = 1{more})) [RANGE 1 SEC SLIDE 1 SEC];
"""
PROGRAMS = {"few": " AND a.us = b.us", "many": ""}
RATE, HOSTS = 500, 10


def write(folder: Path, rows: int) -> int:
    """The stream; gives how many pairs the join has."""
    rng = np.random.default_rng(5)
    numbers = np.arange(rows)
    ts = 1_700_000_000_000_000 + numbers * (1_000_000 // RATE)
    src, dst = rng.integers(0, HOSTS, rows), rng.integers(0, 100, rows)
    table = {"ts": pa.array(ts, pa.timestamp("us")), "src": src, "dst": dst, "us": numbers}
    pq.write_table(pa.table(table), folder / "pkt.parquet")
    pairs, window = 0, 10 * RATE
    for host in range(HOSTS):
        even, odd = (numbers[(src == host) & (dst % 2 == half)] for half in (0, 1))
        pairs += int((np.searchsorted(odd, even + window) - np.searchsorted(odd, even - window + 1)).sum())
    return pairs


def tree(root: int) -> Iterator[int]:
    """A process and all that come from it."""
    children: dict[int, list[int]] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            parent = int(path.read_text().rpartition(")")[2].split()[1])
            children.setdefault(parent, []).append(int(path.parent.name))
    waiting = [root]
    while waiting:
        process = waiting.pop()
        yield process
        waiting += children.get(process, [])


def memory(processes: Iterator[int]) -> int:
    """Their proportional set size in bytes."""
    total = 0
    for process in processes:
        with suppress(OSError, StopIteration):
            lines = Path(f"/proc/{process}/smaps_rollup").read_text().splitlines()
            total += 1024 * int(next(line.split()[1] for line in lines if line.startswith("Pss:")))
    return total


def measure(command: list[str], folder: Path) -> tuple[float, int]:
    """Seconds and the most memory of a run."""
    started, most = time.monotonic(), 0
    process = subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL)
    ended = threading.Event()

    def watch() -> None:
        nonlocal most
        while not ended.wait(0.1):
            most = max(most, memory(tree(process.pid)))

    watcher = threading.Thread(target=watch)
    watcher.start()
    code = process.wait()
    seconds = time.monotonic() - started
    ended.set()
    watcher.join()
    if code:
        sys.exit(f"{' '.join(command)} ended with {code}")
    return seconds, most


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--runtime", action="append", choices=("inline", "spark"))
    parser.add_argument("--sash", default=str(Path(sys.executable).parent / "sash"))
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=os.environ.get("TMPDIR")) as name:
        folder = Path(name)
        print(f"{options.rows:,} rows, {write(folder, options.rows):,} pairs")
        for runtime in options.runtime or ("inline", "spark"):
            base = 0
            for name, more in PROGRAMS.items():
                (folder / f"{name}.cql").write_text(PROGRAM.format(name=name, more=more))
                command = [options.sash, "run", f"{name}.cql", "--runtime", runtime, "--quiet"]
                seconds, most = measure(command, folder)
                more_than = f", {(most - base) / 1e9:.2f} GB more" if base else ""
                print(f"{runtime:7} {name:5} {seconds:6.1f} s, {most / 1e9:5.2f} GB{more_than}", flush=True)
                base = most


if __name__ == "__main__":
    main()
