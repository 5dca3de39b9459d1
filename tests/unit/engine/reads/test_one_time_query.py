"""One-time queries over the rows that streams keep: of a run that goes on, and of a checkpoint."""

from __future__ import annotations

import random
import threading
from pathlib import Path

import duckdb
import pytest

from sash.engine.control_channel import ControlChannel, Served
from sash.engine.reads.checkpoint_reader import CheckpointReader
from sash.engine.reads.one_time_query import look
from sash.errors import CheckpointError, UserError
from sash.lang import bind_program
from sash.runtime.run import run_program
from sash.session import connect
from sash.testing.runs import StopAfter

STREAM = (
    "CREATE STREAM s (t BIGINT, k STRING, n BIGINT) "
    "TIMESTAMP BY t SLACK 2 SEC RETAIN 20 SEC FROM 'csv:s.csv';\n"
)
OTHER = "CREATE STREAM o (t BIGINT, k STRING, n BIGINT) TIMESTAMP BY t FROM 'csv:o.csv';\n"
WORDS = "CREATE RELATION w (k STRING, word STRING) KEY (k) FROM 'csv:w.csv';\n"
FEED = (
    "CREATE RELATION f (t BIGINT, k STRING, op STRING, price BIGINT) KEY (k) "
    "TIMESTAMP BY t OP BY op FROM 'csv:f.csv';\n"
)
QUERY = "CREATE QUERY q INTO 'noop:' AS SELECT COUNT(*) AS n FROM s [RANGE 5 SEC SLIDE 1 SEC];\n"
PROGRAM = STREAM + OTHER + WORDS + FEED + QUERY + "CREATE QUERY r INTO 'noop:' AS SELECT n FROM o [NOW];\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    rng = random.Random(5)
    for name in "so":
        rows = [(max(0, t - rng.choice((0, 0, 1))), rng.choice("abcd"), rng.randrange(9)) for t in range(60)]
        (tmp_path / f"{name}.csv").write_text("t,k,n\n" + "".join(f"{t},{k},{n}\n" for t, k, n in rows))
    (tmp_path / "w.csv").write_text("k,word\na,ant\nb,bee\n")
    (tmp_path / "f.csv").write_text("t,k,op,price\n1,a,insert,5\n9,b,insert,6\n30,a,update,7\n40,b,delete,\n")
    return tmp_path


def stopped(folder: Path, batches: int | None, batch_rows: int = 9, **options: object) -> CheckpointReader:
    monitor = StopAfter(batches)
    run_program(
        bind_program(PROGRAM),
        base_dir=folder,
        runtime="inline",
        checkpoint=folder / "state",
        batch_rows=batch_rows,
        monitor=monitor,
        stop=monitor.stop,
        **options,  # type: ignore[arg-type]
    )
    return CheckpointReader(folder / "state")


def rows_of(folder: Path, name: str, through: int, span: int | None = None) -> list[tuple[int, str, int]]:
    """The rows of a file up to an instant, without those that are later than SLACK allows."""
    slack = {"s": 2, "o": 0}[name]
    found, newest = [], None
    for line in (folder / f"{name}.csv").read_text().splitlines()[1:]:
        t, k, n = line.split(",")
        newest = int(t) if newest is None else max(newest, int(t))
        if int(t) >= newest - slack and int(t) <= through and (span is None or int(t) > through - span):
            found.append((int(t), k, int(n)))
    return found


@pytest.mark.parametrize("batches", [2, 5, 9, None])
def test_a_question_is_answered_over_the_windows_of_its_instant(folder, batches):
    peek = stopped(folder, batches)
    answer = peek.ask("SELECT k, COUNT(*) AS c, SUM(n) AS n FROM s [RANGE 7 SEC] GROUP BY k;")
    assert answer.instant is not None
    through = answer.instant // 1_000_000
    rows = rows_of(folder, "s", through, 7)
    expected = (
        duckdb.connect()
        .execute(
            "SELECT k, COUNT(*)::BIGINT AS c, SUM(n)::BIGINT AS n FROM (VALUES "
            + ", ".join(map(str, rows))
            + ") AS v(t, k, n) GROUP BY k"
        )
        .fetchall()
    )
    assert sorted(tuple(row.values()) for row in answer.table.to_pylist()) == sorted(expected)
    assert answer.batch == (batches or 14) - 1 or batches is None


def test_joins_relations_and_feeds_are_as_they_are_at_the_instant(folder):
    peek = stopped(folder, 6)
    snapshot = peek.snapshot()
    reached = snapshot.through(["s"])
    assert reached is not None
    through = reached // 1_000_000
    rows = rows_of(folder, "s", through, 10)
    words = {"a": "ant", "b": "bee"}
    joined = peek.ask("SELECT s.n, w.word FROM s [RANGE 10 SEC] s, w WHERE s.k = w.k;").table.to_pylist()
    assert sorted((r["n"], r["word"]) for r in joined) == sorted(
        (n, words[k]) for _, k, n in rows if k in words
    )
    prices = {"a": 5} | ({"b": 6} if through >= 9 else {}) | ({"a": 7} if through >= 30 else {})
    if through >= 40:
        del prices["b"]
    priced = peek.ask("SELECT s.n, f.price FROM s [RANGE 10 SEC] s, f WHERE s.k = f.k;").table.to_pylist()
    assert sorted((r["n"], r["price"]) for r in priced) == sorted(
        (n, prices[k]) for _, k, n in rows if k in prices
    )
    pairs = peek.ask("SELECT a.n FROM s [RANGE 4 SEC] a, s [RANGE 4 SEC] b WHERE a.k = b.k;").table
    near = rows_of(folder, "s", through, 4)
    assert pairs.num_rows == sum(a[1] == b[1] for a in near for b in near)


def test_what_the_streams_do_not_keep_is_refused(folder):
    peek = stopped(folder, 9)
    for text, message in (
        (
            "SELECT COUNT(*) AS n FROM s [RANGE 30 SEC];",
            "keeps rows for 20 s, and the question needs those of 30 s",
        ),
        ("SELECT COUNT(*) AS n FROM s [ROWS 3];", "may need all of them"),
        ("SELECT COUNT(*) AS n FROM o [RANGE 1 SEC];", "stream o keeps no rows"),
    ):
        with pytest.raises(UserError, match=message) as caught:
            peek.ask(text)
        assert caught.value.id == "not-kept"
        assert "RETAIN" in str(caught.value.hint) or "RANGE" in str(caught.value.hint)
    with pytest.raises(UserError, match="one SELECT"):
        peek.ask("SHOW QUERIES;")


def test_as_long_as_nothing_is_gone_every_window_can_be_asked_about(folder):
    peek = stopped(folder, 2)
    through = peek.snapshot().through(["s"])
    assert through is not None
    (row,) = peek.ask("SELECT COUNT(*) AS n FROM s [UNBOUNDED];").table.to_pylist()
    assert row["n"] == len(rows_of(folder, "s", through // 1_000_000))
    assert peek.ask("SELECT n FROM s [ROWS 3];").table.num_rows == 3


def test_old_rows_are_let_go_of(folder):
    peek = stopped(folder, None, batch_rows=4)
    snapshot = peek.snapshot()
    assert snapshot.through(["s"]) == 59_000_000
    assert all(file.newest > 39_000_000 for file in snapshot.kept)
    names = {path.name for path in (folder / "state" / "retained").iterdir()}
    assert names == {file.name for file in snapshot.kept}
    assert {file.stream for file in snapshot.kept} == {"s"}


def test_a_directory_without_state_is_told(tmp_path):
    with pytest.raises(CheckpointError, match="no committed state") as caught:
        CheckpointReader(tmp_path / "none").ask("SELECT 1 AS x;")
    assert caught.value.id == "checkpoint-empty"


def test_a_damaged_file_of_kept_rows_is_told(folder):
    peek = stopped(folder, 9)
    for path in (folder / "state" / "retained").iterdir():
        path.write_bytes(b"no rows")
    with pytest.raises(CheckpointError, match="cannot read"):
        peek.ask("SELECT n FROM s [RANGE 3 SEC];")


class Asking(ControlChannel):
    """Asks before every batch."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.folder = folder
        self.asked = 0

    def serve(self, run: Served) -> None:
        super().serve(run)
        snapshot = None if self.registry is None else self.registry.latest
        through = None if snapshot is None else snapshot.through(["s"])
        if through is None:
            return
        text = STREAM + "SELECT SUM(n) AS n, COUNT(*) AS c FROM s [RANGE 6 SEC];"
        answer = look(bind_program(text), self.registry, self.folder)
        rows = rows_of(self.folder, "s", through // 1_000_000, 6)
        # Before the first row there is no answer.
        total = sum(n for _, _, n in rows)
        assert answer.table.to_pylist() == ([{"n": total, "c": len(rows)}] if rows else [])
        self.asked += 1


def test_a_run_without_a_checkpoint_can_be_asked(folder):
    control = Asking(folder)
    run_program(bind_program(PROGRAM), base_dir=folder, runtime="inline", batch_rows=5, control=control)
    assert control.asked > 10


def test_questions_of_a_session_while_its_pipeline_runs(tmp_path):
    stream = (
        "CREATE STREAM p (ts TIMESTAMP, src STRING, length BIGINT) TIMESTAMP BY ts RETAIN 2 SEC "
        "FROM 'generator:packets' WITH (rate = 2000)"
    )
    with connect(base_dir=tmp_path, runtime="inline", batch_rows=300) as session:
        session.sql(stream)
        counts = session.query("Rstream(SELECT COUNT(*) AS n FROM p [RANGE 1 SEC SLIDE 1 SEC])")
        answers = iter(counts)
        last = max(int(next(answers).at.timestamp() * 1_000_000) for _ in range(3))
        found: list[int] = []

        def ask() -> None:
            for _ in range(5):
                table = session.ask("SELECT COUNT(*) AS n FROM p [RANGE 1 SEC]")
                found.append(int(table.schema.metadata[b"sash.instant"]))
                assert 0 < table.column("n")[0].as_py() <= 2_001

        threads = [threading.Thread(target=ask) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
        assert len(found) == 15
        assert min(found) >= last
        with pytest.raises(UserError, match="keeps rows for 2 s"):
            session.ask("SELECT COUNT(*) AS n FROM p [RANGE 1 MIN]")
