"""Files of kept rows: small ones are put together, and questions are answered as before."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sash.engine.ingest import retained_files as retained
from sash.engine.reads.checkpoint_reader import CheckpointReader
from sash.engine.reads.one_time_query import Question
from sash.errors import CheckpointError
from sash.lang import bind_program
from sash.runtime.run import run_program
from sash.testing.runs import StopAfter
from sash.transactions.events import Isolation

STREAM = """
    CREATE STREAM s (t BIGINT, k STRING, v DOUBLE) TIMESTAMP BY t RETAIN {retain} FROM '{source}';
"""
INDEXES = "CREATE INDEX by_k ON s (k) USING AUTO;\nCREATE INDEX by_v ON s (v) USING T;\n"
QUERY = "CREATE QUERY q INTO 'noop:' AS SELECT COUNT(*) AS n FROM s [RANGE 1 SEC SLIDE 1 SEC];\n"
QUESTIONS = [
    "SELECT * FROM s [RANGE 1 HOUR]",
    "SELECT * FROM s [RANGE 90 SEC]",
    "SELECT t, v FROM s [RANGE 1 HOUR] WHERE k = 'b'",
    "SELECT t, k FROM s [RANGE 70 SEC] WHERE v BETWEEN 0.2 AND 0.3",
    "SELECT k, COUNT(*) AS n, MAX(t) AS t FROM s [RANGE 1 HOUR] GROUP BY k",
]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    rng = random.Random(3)
    rows = [(i, rng.choice(["a", "b", "c", None]), round(rng.random(), 2)) for i in range(150)]
    lines = [f"{t},{k or ''},{v}" for t, k, v in rows]
    (tmp_path / "s.csv").write_text("\n".join(["t,k,v", *lines]) + "\n")
    table = pa.table(dict(zip(("t", "k", "v"), map(list, zip(*rows, strict=True)), strict=True)))
    pq.write_table(table, tmp_path / "s.parquet")
    return tmp_path


def run(
    folder: Path, state: str, source: str, retain: str = "1 HOUR", rows: int = 1, batches: int | None = None
) -> CheckpointReader:
    monitor = StopAfter(batches)
    text = STREAM.format(retain=retain, source=source) + INDEXES + QUERY
    run_program(
        bind_program(text),
        base_dir=folder,
        runtime="inline",
        checkpoint=folder / state,
        batch_rows=rows,
        monitor=monitor,
        stop=monitor.stop,
    )
    return CheckpointReader(folder / state)


def counted(table: pa.Table) -> Counter[tuple[object, ...]]:
    return Counter(tuple(row.values()) for row in table.to_pylist())


@pytest.mark.parametrize("source", ["csv:s.csv", "parquet:s.parquet"])
def test_files_of_small_batches_become_few(folder, source):
    whole, parts = run(folder, "whole", source, rows=1_000), run(folder, "parts", source)
    kept = retained.in_order(parts.snapshot().kept)
    assert [file.chunks for file in kept] == [64] * 2 + [8] * 2 + [1] * 6
    assert [file.rows for file in kept] == [file.chunks for file in kept]
    for file in kept:
        ts = retained.open_kept(folder / "parts" / "retained" / file.name).column(0).to_pylist()
        assert (file.oldest, file.newest) == (min(ts), max(ts))
    names = {path.name for path in (folder / "parts" / "retained").iterdir()}
    assert names == {file.name for file in kept} | {file.index(place) for file in kept for place in (1, 2)}
    for text in QUESTIONS:
        found = parts.ask(text).table
        assert found.num_rows
        assert counted(found) == counted(whole.ask(text).table), text


def test_a_file_does_not_outlive_most_of_its_rows(folder):
    parts = run(folder, "parts", "csv:s.csv", retain="100 SEC")
    kept = retained.in_order(parts.snapshot().kept)
    # Eight rows are seven seconds, more than a sixteenth of the hundred.
    assert {file.chunks for file in kept} == {1}
    assert len(kept) == 100
    parts = run(folder, "longer", "csv:s.csv", retain="112 SEC")
    kept = retained.in_order(parts.snapshot().kept)
    assert {file.chunks for file in kept} == {1, 8}
    # The rows after 149 - 112, and those in a file with one of them.
    assert sum(file.rows for file in kept) == 150 - 32


def test_questions_are_overtaken_while_files_are_put_together(folder):
    source = "csv:s.csv"
    catalog = STREAM.format(retain="1 HOUR", source=source) + INDEXES
    overtaken = {text: Question(bind_program(f"{catalog}{text};"), folder, {}, {}) for text in QUESTIONS}
    for batches in (6, 1, 1, 1, 55, 1):
        peek = run(folder, "state", source, batches=batches)
        for text, question in overtaken.items():
            question.evaluate(peek.snapshot())
            answer = counted(question.answer(Isolation.LWS).table)
            assert answer == counted(peek.ask(text).table), text
    assert [file.chunks for file in retained.in_order(peek.snapshot().kept)] == [64, 1]
    assert answer


def test_files_that_are_damaged_stay_as_they_are(folder):
    parts = run(folder, "parts", "csv:s.csv", batches=7)
    (folder / "parts" / "retained" / parts.snapshot().kept[2].name).write_bytes(b"nothing")
    parts = run(folder, "parts", "csv:s.csv")
    chunks = [file.chunks for file in retained.in_order(parts.snapshot().kept)]
    assert sum(chunks) == 150
    assert chunks[:3] == [1, 1, 1]
    assert 8 in chunks


def replace(path: Path, table: pa.Table) -> None:
    """Put another file there; who has mapped the old one keeps it."""
    with pa.ipc.new_file(path.with_suffix(".new"), table.schema) as file:
        file.write_table(table)
    path.with_suffix(".new").replace(path)


@pytest.mark.parametrize(("index", "cell"), [(1, "ends"), (2, "ends"), (2, "rows")])
@pytest.mark.parametrize("wrong", [-1, 1_000_000])
def test_an_index_that_leads_out_of_its_file_is_refused(folder, index, cell, wrong):
    parts = run(folder, "parts", "csv:s.csv", rows=200)
    kept, *_ = parts.snapshot().kept
    path = folder / "parts" / "retained" / kept.index(index)
    table = retained.open_kept(path)
    column = table.column(cell).chunk(0)
    values = column.values.to_pylist()
    # The first place of all, or the last.
    values[0 if wrong < 0 else -1] = wrong
    harmed = pa.LargeListArray.from_arrays(column.offsets, pa.array(values, column.values.type))
    table = table.set_column(table.column_names.index(cell), cell, harmed)
    replace(path, table)
    with pytest.raises(CheckpointError, match="cannot read") as refused:
        parts.ask("SELECT t FROM s [RANGE 1 HOUR] WHERE " + ("k = 'b'" if index == 1 else "v < 0.05"))
    assert refused.value.got == "an index that leads out of its file"


def test_a_file_with_other_rows_than_were_kept_is_refused(folder):
    parts = run(folder, "parts", "csv:s.csv", rows=200)
    kept, *_ = parts.snapshot().kept
    path = folder / "parts" / "retained" / kept.name
    table = retained.open_kept(path)
    replace(path, table.slice(0, 40))
    with pytest.raises(CheckpointError, match="cannot read") as refused:
        parts.ask("SELECT t FROM s [RANGE 1 HOUR] WHERE k = 'b'")
    assert refused.value.got == f"40 of {kept.rows} rows"
