"""Questions by index while files come, are put together and go, and indexes are dropped and made anew."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sash.engine.control_channel import ControlChannel, Served
from sash.engine.reads import index_probe as probe
from sash.engine.reads.one_time_query import look
from sash.lang import bind_program
from sash.runtime.run import run_program
from sash.state import pieces

STREAM = (
    "CREATE STREAM s (t BIGINT, k STRING, n BIGINT, x DOUBLE, b BOOLEAN) "
    "TIMESTAMP BY t RETAIN 20 SEC FROM 'parquet:s.parquet' WITH (unit = 'ms');\n"
)
QUERY = "CREATE QUERY q INTO 'noop:' AS SELECT COUNT(*) AS n FROM s [RANGE 5 SEC SLIDE 5 SEC];\n"
KINDS = ("AUTO", "T", "H", "UH(3)", "G(7)")
BATCH = 25
Row = dict[str, Any]
QUESTIONS: dict[str, Callable[[Row], bool]] = {
    "n = 3": lambda row: row["n"] == 3,
    "n > 3 AND n <= 4": lambda row: row["n"] is not None and 3 < row["n"] <= 4,
    "n >= 38": lambda row: row["n"] is not None and row["n"] >= 38,
    "n IN (5, 99, 7, 5)": lambda row: row["n"] in (5, 7),
    "k = 'rare'": lambda row: row["k"] == "rare",
    "k = 'nobody'": lambda row: False,
    "k BETWEEN 'p' AND 'q'": lambda row: row["k"] is not None and "p" <= row["k"] <= "q",
    "k = 'é' AND n < 20 AND b": lambda row: bool(
        row["k"] == "é" and row["n"] is not None and row["n"] < 20 and row["b"]
    ),
    "x < 0.05": lambda row: row["x"] < 0.05,
}


def made(seed: int) -> list[Row]:
    """Bursts of sixteen batches in two seconds, ten seconds apart: eight files of one are put together."""
    rng = random.Random(seed)
    words = ["rare", "é", "", "p", "pq", None, *("m", "n", "o") * 4]
    rows = []
    for place in range(3 * 16 * BATCH):
        burst, within = divmod(place, 16 * BATCH)
        number = rng.choice([None, *range(40)])
        # Some stretches have no NULL.
        word = rng.choice(words) if burst else rng.choice(words[:5])
        t = 12_000 * burst + within * 2_000 // (16 * BATCH)
        rows.append({"t": t, "k": word, "n": number, "x": rng.random(), "b": rng.choice([True, False, None])})
    return rows


class Asking(ControlChannel):
    """Asks some questions before every batch, and has other indexes every few."""

    def __init__(self, folder: Path, rows: list[Row], seed: int) -> None:
        super().__init__()
        self.folder, self.rows = folder, rows
        self.rng = random.Random(seed)
        self.batches = self.found = 0
        self.chunks: set[int] = set()
        self.has_let_go = False

    def serve(self, served: Served) -> None:
        super().serve(served)
        self.batches += 1
        if self.batches % 6 == 2:
            wanted = [(column, self.rng.choice((None, *KINDS))) for column in ("k", "n", "x")]
            made = (f"CREATE INDEX by_{c} ON s ({c}) USING {kind};\n" for c, kind in wanted if kind)
            served.change(bind_program(STREAM + "".join(made) + QUERY))
        if served.registry is None or served.registry.latest is None:
            return
        self.chunks.update(file.chunks for file in served.registry.latest.kept)
        self.has_let_go |= not served.registry.latest.is_whole("s")
        for condition in self.rng.sample(list(QUESTIONS), 2):
            span = self.rng.choice([1, 11, 20])
            text = f"{STREAM}SELECT * FROM s [RANGE {span} SEC] WHERE {condition};"
            answer = look(bind_program(text), served.registry, self.folder)
            assert answer.instant is not None
            through = answer.instant // 1_000
            expected = Counter(
                tuple(row.values())
                for row in self.rows
                if through - 1_000 * span < row["t"] <= through and QUESTIONS[condition](row)
            )
            assert Counter(tuple(row.values()) for row in answer.table.to_pylist()) == expected, text
            self.found += sum(expected.values())


def test_answers_are_those_of_all_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = made(seed=1)
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "s.parquet", row_group_size=16 * BATCH)
    fetched: list[int] = []

    def fetch_rows(files, slots, tuples, since):
        found = original(files, slots, tuples, since)
        fetched.append(len(found[0]))
        return found

    original = pieces.fetch_rows
    monkeypatch.setattr(probe, "fetch_rows", fetch_rows)
    control = Asking(tmp_path, rows, seed=1)
    run_program(
        bind_program(STREAM + QUERY),
        base_dir=tmp_path,
        runtime="inline",
        checkpoint=tmp_path / "state",
        batch_rows=BATCH,
        control=control,
    )
    assert control.batches >= 32
    assert control.chunks == {1, 8}
    assert control.has_let_go
    assert sum(fetched) > 100
    assert control.found > 500
