"""Bounds: a warning before, a refusal above, and a run that goes on when there is more room."""

from __future__ import annotations

import threading
import time

import pyarrow as pa
import pytest

from sash.connectors.sinks.jsonl import JsonLinesSink
from sash.engine.engine import Engine
from sash.engine.observe import limits
from sash.engine.observe.memory import machine_bytes, resident_bytes
from sash.engine.options import Options
from sash.engine.sizes import parse_size
from sash.errors import LimitError, UserError
from sash.lang import bind_program
from sash.runtime.inline.pipeline import Inline
from sash.runtime.run import run_program
from sash.testing.scenario import StopAfter

STREAM = "CREATE STREAM s (t BIGINT, k BIGINT, n BIGINT) TIMESTAMP BY t FROM 'csv:s.csv';\n"
SMALL = "CREATE QUERY small INTO 'jsonl:small.jsonl' AS SELECT n FROM s [RANGE 1 SEC] WHERE n < 10;\n"
JOIN = """CREATE QUERY pairs INTO 'jsonl:pairs.jsonl' AS
  SELECT a.n AS x, b.n AS y FROM s [RANGE 1000 SEC] AS a, s [RANGE 1000 SEC] AS b
  WHERE a.k = b.k AND a.n <> b.n;
"""
SUMS = """CREATE QUERY sums INTO 'jsonl:sums.jsonl' AS
  SELECT n, COUNT(*) AS c FROM s [RANGE 1000 SEC SLIDE 1 SEC] GROUP BY n;
"""
ROWS, BATCH = 3_000, 500


class Watching(StopAfter):
    def __init__(self, batches=None):
        super().__init__(batches)
        self.warnings: list[str] = []

    def warning(self, text):
        self.warnings.append(text)


def run(folder, queries, monitor=None, **options):
    (folder / "s.csv").write_text("t,k,n\n" + "".join(f"{i},{i % 997},{i}\n" for i in range(ROWS)))
    return run_program(
        bind_program(STREAM + queries),
        base_dir=folder,
        runtime="inline",
        batch_rows=BATCH,
        monitor=monitor or Watching(),
        **options,
    )


def whole_run(folder, queries, **options):
    folder.mkdir()
    watching = Watching()
    run(folder, queries, watching, **options)
    return watching


@pytest.mark.parametrize(("queries", "largest"), [(SMALL + JOIN, "pairs"), (SMALL + SUMS, "sums")])
def test_a_run_that_holds_too_much_is_warned_refused_and_goes_on_with_more_room(tmp_path, queries, largest):
    whole = whole_run(tmp_path / "whole", queries)
    sizes = [report.held.bytes for report in whole.reports]
    limit = max(sizes) - 1
    folder = tmp_path / "run"
    folder.mkdir()
    watching = Watching()
    with pytest.raises(LimitError, match="more than --max-state allows") as caught:
        run(folder, queries, watching, checkpoint=folder / "state", max_state=limit)
    error = caught.value
    assert error.id == "state-limit"
    assert error.exit_code == 1
    assert str(error.got).startswith(f"query {largest} holds ")
    assert "Window" in str(error.got) or "Join" in str(error.got)
    assert "--max-state" in str(error.hint)
    assert "the same command goes on" in str(error.hint)
    # The batch that was too much is committed: it is reported, and not repeated.
    refused = len(watching.reports)
    assert sizes[refused - 1] > limit
    assert refused < len(whole.reports)
    assert watching.warnings == [] or f"query {largest}" in watching.warnings[0]
    again = Watching()
    run(folder, queries, again, checkpoint=folder / "state", max_state=10 * limit)
    assert again.reports[0].number == refused
    for path in (tmp_path / "whole").glob("*.jsonl"):
        assert (folder / path.name).read_text() == path.read_text()


def test_the_warning_comes_once_at_four_fifths(tmp_path):
    sizes = [report.held.bytes for report in whole_run(tmp_path / "whole", JOIN).reports]
    watching = whole_run(tmp_path / "run", JOIN, max_state=int(max(sizes) / 0.9))
    assert len(watching.warnings) == 1
    assert "query pairs holds" in watching.warnings[0]
    assert whole_run(tmp_path / "roomy", JOIN, max_state=2 * max(sizes)).warnings == []


def test_a_partition_is_named(tmp_path):
    with pytest.raises(LimitError, match=r"the state of partition [01] is") as caught:
        whole_run(tmp_path / "run", JOIN, max_state=20_000, partitions=2)
    assert "more --partitions" in str(caught.value.hint)
    assert "query pairs holds" in str(caught.value.got)


def test_rows_that_wait_for_the_clock_count_and_are_named(tmp_path):
    slow = STREAM.replace("TIMESTAMP BY t", "TIMESTAMP BY t SLACK 100000 SEC")
    (tmp_path / "s.csv").write_text("t,k,n\n" + "".join(f"{i},{i},{i}\n" for i in range(ROWS)))
    with pytest.raises(LimitError, match="the state of the driver") as caught:
        run_program(
            bind_program(slow + JOIN), base_dir=tmp_path, runtime="inline", batch_rows=BATCH, max_state=60_000
        )
    assert "wait for the clock" in str(caught.value.got)


def test_the_last_batch_is_not_refused(tmp_path):
    (tmp_path / "run").mkdir()
    run(tmp_path / "run", JOIN, max_state=1_000_000_000)
    watching = Watching()
    (tmp_path / "one").mkdir()
    (tmp_path / "one" / "s.csv").write_text("t,k,n\n1,1,1\n")
    run_program(
        bind_program(STREAM + JOIN),
        base_dir=tmp_path / "one",
        runtime="inline",
        monitor=watching,
        max_state=1,
    )
    assert len(watching.reports) == 1


def test_memory_of_the_process_is_bounded_in_the_same_way(tmp_path):
    with pytest.raises(LimitError, match="more than --max-memory allows") as caught:
        whole_run(tmp_path / "run", JOIN, max_memory=1_000_000)
    assert caught.value.id == "memory-limit"
    watching = whole_run(tmp_path / "near", JOIN, max_memory=int(resident_bytes() / 0.85))
    assert [text.split(" of memory")[0].startswith("the process takes") for text in watching.warnings] == [
        True
    ]


def test_without_a_bound_of_the_user_s_it_is_half_of_the_machine(monkeypatch):
    monkeypatch.setattr(limits, "machine_bytes", lambda: 16_000)
    assert limits.default_state("local[4]", 4) == 2_000
    assert limits.default_state(None, 1) == 8_000
    assert limits.default_state("spark://host:7077", 4) is None


def test_no_bound_is_none(tmp_path, monkeypatch):
    monkeypatch.setattr(limits, "machine_bytes", lambda: 1_000)
    with pytest.raises(LimitError):
        whole_run(tmp_path / "bound", JOIN)
    whole_run(tmp_path / "free", JOIN, max_state=0)


def test_a_machine_has_memory():
    assert 1_000_000 < resident_bytes() < machine_bytes()


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("2GB", 2_000_000_000), ("1.5 kB", 1_500), ("512MiB", 512 << 20), ("7", 7), ("none", 0),
    ],
)  # fmt: skip
def test_sizes_are_read_as_people_write_them(text, size):
    assert parse_size(text, "--max-state") == size


@pytest.mark.parametrize("text", ["", "GB", "-1GB", "2XB", "0", "1e9", "two"])
def test_what_is_no_size_is_refused(text):
    with pytest.raises(UserError, match=r"--max-state: '.*' is no size"):
        parse_size(text, "--max-state")


# ------------------------------------------------------------------------ a slow sink slows the source


@pytest.mark.parametrize("overlap", [False, True])
def test_a_slow_sink_slows_the_source(tmp_path, monkeypatch, overlap):
    """While batch n is being written, at most batch n + 1 has been decided and read.

    decided    0 1 . . 2 . . 3 . .
    written    0 . . 1 . . 2 . .
    """
    (tmp_path / "s.csv").write_text("t,k,n\n" + "".join(f"{i},{i},{i}\n" for i in range(100)))
    program = bind_program(STREAM + "CREATE QUERY q INTO 'jsonl:q.jsonl' AS SELECT n FROM s [NOW];\n")
    engine = Engine(program, Options(base_dir=tmp_path, batch_rows=10), "inline", 1, overlap=overlap)
    decided, ahead = 0, []
    real = JsonLinesSink.append

    def slow(self: JsonLinesSink, lines: pa.Array) -> None:
        before = decided
        time.sleep(0.05)
        ahead.append((before, decided, engine.committed))
        real(self, lines)

    monkeypatch.setattr(JsonLinesSink, "append", slow)
    engine.load()
    engine.open_outputs()
    inline = Inline(engine)
    while not engine.is_finished:
        entry = engine.next_entry()
        assert entry is not None
        decided += 1
        engine.take(entry, inline.batch)
    engine.finish(interrupted=False)
    # Of batch `committed` + 1, which is being written, and of those decided before and after the pause.
    assert len(ahead) == 10
    most = 2 if overlap else 1
    assert all(after <= committed + 1 + most for _, after, committed in ahead)
    if overlap:
        assert any(after == committed + 3 for _, after, committed in ahead), "it does read ahead"


def test_a_batch_that_fails_while_the_source_is_idle_is_heard_of(tmp_path, monkeypatch):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.csv").write_text("t,k,n\n1,1,1\n2,2,2\n")
    text = STREAM.replace("FROM 'csv:s.csv'", "FROM 'csv:in' WITH (watch = true)")
    program = bind_program(text + "CREATE QUERY q INTO 'jsonl:q.jsonl' AS SELECT n FROM s [NOW];\n")
    engine = Engine(program, Options(base_dir=tmp_path), "inline", 1, overlap=True)
    failed = threading.Event()

    def fail(self: JsonLinesSink, table: pa.Table) -> None:
        failed.set()
        raise LimitError("full")

    monkeypatch.setattr(JsonLinesSink, "append", fail)
    engine.load()
    engine.open_outputs()
    entry = engine.next_entry()
    assert entry is not None
    engine.take(entry, Inline(engine).batch)
    assert failed.wait(5)
    time.sleep(0.05)
    with pytest.raises(LimitError, match="full"):
        engine.next_entry()
    engine.close()
