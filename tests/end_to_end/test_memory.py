"""Memory follows the state and what comes in, not how many results that gives."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

PROGRAM = """
CREATE STREAM p (ts TIMESTAMP, host BIGINT, half BIGINT, n BIGINT) TIMESTAMP BY ts FROM 'parquet:p.parquet';
CREATE QUERY q INTO 'jsonl:{name}.jsonl' AS {query};
"""
PAIRS = (
    "SELECT a.host, a.n, b.n AS m FROM p [RANGE 10 SEC] a, p [RANGE 10 SEC] b "
    "WHERE a.host = b.host AND a.half = 0 AND b.half = 1 AND a.n {operator} b.n"
)
COUNTED = "SELECT COUNT(*) AS n FROM (Istream({pairs})) [RANGE 1 SEC SLIDE 1 SEC]"
ROWS, HOSTS = 12_000, 10
# One batch gives some three million pairs, which would take two gigabytes if they were there at once.
MORE = 400 << 10

MEASURE = """
import resource, sys
from sash.cli.main import main
sys.argv = ["sash", *sys.argv[1:]]
try:
    main()
finally:
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, file=sys.stderr)
"""


def peak(folder: Path, name: str, query: str, *options: str) -> int:
    """Runs a query; gives the most memory that the process has had, in kilobytes."""
    (folder / f"{name}.cql").write_text(PROGRAM.format(name=name, query=query))
    command = [
        sys.executable,
        "-c",
        MEASURE,
        "run",
        f"{name}.cql",
        "--runtime",
        "inline",
        "--quiet",
        *options,
    ]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    return int(done.stderr.split()[-1])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    rng = np.random.default_rng(5)
    numbers = np.arange(ROWS)
    table = pa.table(
        {
            "ts": pa.array(1_700_000_000_000_000 + numbers * 2_000, pa.timestamp("us")),
            "host": rng.integers(0, HOSTS, ROWS),
            "half": rng.integers(0, 2, ROWS),
            "n": numbers,
        }
    )
    pq.write_table(table, tmp_path / "p.parquet")
    return tmp_path


@pytest.mark.parametrize("options", [(), ("--partitions", "2")])
@pytest.mark.parametrize("shape", ["{pairs}", COUNTED])
def test_a_join_with_many_results_takes_hardly_more_memory_than_one_with_few(folder, shape, options):
    few = peak(folder, "few", shape.format(pairs=PAIRS.format(operator="=")), *options)
    many = peak(folder, "many", shape.format(pairs=PAIRS.format(operator="<>")), *options)
    assert many - few < MORE
    assert (folder / "many.jsonl").stat().st_size > 0


def test_all_pairs_are_counted(folder):
    peak(folder, "many", COUNTED.format(pairs=PAIRS.format(operator="<>")))
    table = pq.read_table(folder / "p.parquet")
    host, half = (np.asarray(table.column(name)) for name in ("host", "half"))
    ts = np.asarray(table.column("ts").cast(pa.int64()))
    expected: dict[int, int] = {}
    for i in range(ROWS):
        first = int(np.searchsorted(ts, ts[i] - 10_000_000, side="right"))
        pairs = int(((host[first:i] == host[i]) & (half[first:i] != half[i])).sum())
        second = int(-(-ts[i] // 1_000_000))
        expected[second] = expected.get(second, 0) + pairs
    given = {}
    for line in (folder / "many.jsonl").read_text().splitlines():
        row = json.loads(line)
        if row["op"] == "+":
            given[int(np.datetime64(row["ts"][:-1], "us").astype(np.int64)) // 1_000_000] = row["n"]
    # The query begins with the first pair, and after the last boundary nothing is answered.
    last = max(expected)
    assert given == {second: n for second, n in expected.items() if n and second < last}
