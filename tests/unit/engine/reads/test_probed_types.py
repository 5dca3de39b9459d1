"""Questions that probe indexes of columns of every type, with NULLs and skew, against DuckDB."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sash.engine.reads import index_probe as probe
from sash.engine.reads.checkpoint_reader import CheckpointReader
from sash.lang import bind_program
from sash.runtime.run import run_program
from sash.state import pieces

STREAM = (
    "CREATE STREAM s (t BIGINT, n BIGINT, x DOUBLE, k STRING, b BOOLEAN, d TIMESTAMP) "
    "TIMESTAMP BY t RETAIN 1 HOUR FROM 'parquet:s.parquet';\n"
)
QUERY = "CREATE QUERY q INTO 'noop:' AS SELECT COUNT(*) AS n FROM s [RANGE 5 SEC SLIDE 5 SEC];\n"
EPOCH = datetime(2026, 1, 1)
CONDITIONS = [
    "n = 3",
    "n IN (1, 2, 9223372036854775807)",
    "n BETWEEN 5 AND 6",
    "n > 37",
    "n = 3 AND b",
    "n = 4 AND NOT b",
    "x = 0",
    "x >= 6.5",
    "x < -1.5",
    "x BETWEEN 2 AND 2.5",
    "k = 'b'",
    "k = ''",
    "k IN ('z', 'ä')",
    "k >= 'y'",
    "b = TRUE AND k = 'b'",
    "d = TIMESTAMP '2026-01-01 00:00:03'",
    "d < TIMESTAMP '2026-01-01 00:00:02'",
    "n = 12345",
]


def rows_of(seed: int) -> pa.Table:
    """Skewed, with NULLs; some stretches have no NULL, and there is a time without rows."""
    rng = random.Random(seed)

    def drawn(values: Sequence[object], place: int) -> object:
        if place > 500 and rng.random() < 0.15:
            return None
        common = rng.random() < 0.4
        return values[min(int(rng.paretovariate(1)) - 1, len(values) - 1)] if common else rng.choice(values)

    numbers = [7, 8, 9, *range(40), -(1 << 63), (1 << 63) - 1]
    doubles = [
        1.0,
        0.0,
        -0.0,
        2.0,
        2.5,
        3.5,
        -1.75,
        -math.inf,
        6.5,
        math.inf,
        math.nan,
        *map(float, range(30)),
    ]
    words = ["m", "n", "", "b", "ä", "z", "y", *(f"o{i}" for i in range(30))]
    instants = [EPOCH + timedelta(seconds=s) for s in (30, 31, 3, 1, *range(40, 70))]
    table: dict[str, list[object]] = {name: [] for name in ("t", "n", "x", "k", "b", "d")}
    for place in range(1_000):
        table["t"].append(place // 20 + (30 if place > 700 else 0))
        for name, values in (("n", numbers), ("x", doubles), ("k", words), ("d", instants)):
            table[name].append(drawn(values, place))
        table["b"].append(rng.choice([True, False, None]))
    types = (pa.int64(), pa.int64(), pa.float64(), pa.string(), pa.bool_(), pa.timestamp("us"))
    return pa.table({name: pa.array(table[name], type_) for name, type_ in zip(table, types, strict=True)})


def counted(table: pa.Table) -> Counter[str]:
    # By their texts, because NaN is not equal to itself; one zero.
    return Counter(
        repr([v + 0.0 if isinstance(v, float) else v for v in row.values()]) for row in table.to_pylist()
    )


@pytest.mark.parametrize(("kind", "seed"), [("T", 1), ("L OVER AGGR", 2), ("H OVER HASH", 3), ("G(40)", 4)])
def test_a_probe_of_any_type_finds_what_sql_finds(kind, seed, tmp_path: Path, monkeypatch):
    given = rows_of(seed)
    pq.write_table(given, tmp_path / "s.parquet", row_group_size=170)
    indexes = "".join(f"CREATE INDEX by_{c} ON s ({c}) USING {kind};\n" for c in ("n", "x", "k", "b", "d"))
    program = bind_program(STREAM + indexes + QUERY)
    run_program(program, base_dir=tmp_path, runtime="inline", checkpoint=tmp_path / "state", batch_rows=170)
    probed: list[int] = []

    def fetch_rows(files, slots, tuples, since):
        probed.extend(Counter((tuples >> 32).tolist()).values())
        return original(files, slots, tuples, since)

    original = pieces.fetch_rows
    monkeypatch.setattr(probe, "fetch_rows", fetch_rows)
    peek = CheckpointReader(tmp_path / "state")
    found_any = 0
    for condition in CONDITIONS:
        answer = peek.ask(f"SELECT * FROM s [RANGE 60 SEC] WHERE {condition}")
        assert answer.instant is not None
        since = answer.instant // 1_000_000 - 60
        with duckdb.connect(":memory:") as connection:
            relation = connection.from_arrow(given).filter(f"t > {since} AND ({condition})")
            expected = relation.to_arrow_table()
        # Answers say that their times are UTC.
        expected = expected.cast(answer.table.schema)
        assert counted(answer.table) == counted(expected), condition
        found_any += bool(expected.num_rows)
    assert found_any > len(CONDITIONS) // 2
    assert len(probed) > len(CONDITIONS)
