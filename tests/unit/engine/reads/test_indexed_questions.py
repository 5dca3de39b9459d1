"""CREATE INDEX on a stream that keeps its rows: questions probe it, and get what they got without it."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import pytest

from sash.engine.control_channel import ControlChannel, Served
from sash.engine.ingest import retained_files as retained
from sash.engine.reads import index_probe as probe
from sash.engine.reads.checkpoint_reader import CheckpointReader
from sash.engine.reads.one_time_query import look
from sash.lang import bind_program
from sash.runtime.run import run_program
from sash.session import connect
from sash.state import pieces
from sash.testing.runs import StopAfter

STREAM = (
    "CREATE STREAM s (t BIGINT, k STRING, n BIGINT, x DOUBLE) "
    "TIMESTAMP BY t SLACK 2 SEC RETAIN 30 SEC FROM 'csv:s.csv';\n"
)
RELATION = "CREATE RELATION w (k STRING, word STRING) KEY (k) FROM 'csv:w.csv';\n"
QUERY = "CREATE QUERY q INTO 'noop:' AS SELECT COUNT(*) AS n FROM s [RANGE 5 SEC SLIDE 1 SEC];\n"
KINDS = ["AUTO", "UH(3)", "RING AUX ON G(16)"]
QUESTIONS = [
    "SELECT * FROM s [RANGE 20 SEC] WHERE k = 'b'",
    "SELECT t, x FROM s [RANGE 20 SEC] WHERE n = 7 AND x > 0.3",
    "SELECT k, COUNT(*) AS c FROM s [RANGE 9 SEC] WHERE n BETWEEN 3 AND 4 GROUP BY k",
    "SELECT n FROM s [RANGE 20 SEC] WHERE n >= 38",
    "SELECT n FROM s [RANGE 20 SEC SLIDE 4 SEC] WHERE n IN (1, 5, 99) OR n = 2",
    "SELECT n FROM s [RANGE 20 SEC] WHERE n IN (1, 5, 99)",
    "SELECT s.n, w.word FROM s [RANGE 20 SEC] s, w WHERE s.k = w.k AND s.k = 'a'",
    "SELECT a.n FROM s [RANGE 5 SEC] a, s [RANGE 8 SEC] b WHERE a.n = b.n AND a.k = 'c' AND b.n < 3",
    "SELECT n FROM s [RANGE 20 SEC] WHERE k > 'd'",
    "SELECT n FROM s [RANGE 20 SEC] WHERE n = 1000",
    "SELECT n FROM s [RANGE 20 SEC OFFSET 5 SEC] WHERE k = 'a'",
]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    rng = random.Random(11)
    # Few rows with k = 'a', and every tenth value is NULL.
    keys, weights = ["a", "b", "c", "d", "e", ""], [1, 2, 3, 10, 10, 3]
    rows = (
        (max(0, i // 20 - rng.choice((0, 0, 1))), rng.choices(keys, weights)[0], rng.randrange(44))
        for i in range(1200)
    )
    lines = (f"{t},{k},{n if n < 40 else ''},{rng.random():.3f}\n" for t, k, n in rows)
    (tmp_path / "s.csv").write_text("t,k,n,x\n" + "".join(lines))
    (tmp_path / "w.csv").write_text("k,word\na,ant\nb,bee\n")
    return tmp_path


def indexes(kind: str) -> str:
    return f"CREATE INDEX by_k ON s (k) USING {kind};\nCREATE INDEX by_n ON s (n) USING {kind};\n"


def run(
    folder: Path,
    state: str,
    more: str = "",
    batches: int | None = None,
    control: ControlChannel | None = None,
) -> CheckpointReader:
    monitor = StopAfter(batches)
    if batches == 0:
        monitor.stop.set()
    run_program(
        bind_program(STREAM + RELATION + more + QUERY),
        base_dir=folder,
        runtime="inline",
        checkpoint=folder / state,
        batch_rows=150,
        monitor=monitor,
        stop=monitor.stop,
        control=control,
    )
    return CheckpointReader(folder / state)


def rows(table):
    return Counter(tuple(row.values()) for row in table.to_pylist())


@pytest.fixture
def probed(monkeypatch) -> list[int]:
    """How many rows each look-up in a file has found."""
    found: list[int] = []

    def fetch_rows(files, slots, tuples, since):
        found.extend(Counter((tuples >> 32).tolist()).values())
        return original(files, slots, tuples, since)

    original = pieces.fetch_rows
    monkeypatch.setattr(probe, "fetch_rows", fetch_rows)
    return found


@pytest.mark.parametrize("kind", KINDS)
def test_a_question_gets_from_an_index_what_it_gets_from_all_rows(folder, kind, probed):
    plain = run(folder, "plain", batches=6)
    indexed = run(folder, "indexed", indexes(kind), batches=6)
    for text in QUESTIONS:
        expected, found = plain.ask(text), indexed.ask(text)
        assert rows(found.table) == rows(expected.table), text
        assert found.instant == expected.instant
    assert probed
    # With ranges of values more is found than is wanted.
    assert max(probed) <= 75 // 8


def test_what_is_not_selective_is_read_as_a_whole(folder, probed):
    peek = run(folder, "state", indexes("T"), batches=4)
    assert sum(rows(peek.ask("SELECT n FROM s [RANGE 20 SEC] WHERE k >= 'a'").table).values()) > 300
    assert probed == []


def test_indexes_live_and_go_with_the_rows(folder):
    peek = run(folder, "state", indexes("T"))
    kept = peek.snapshot().kept
    assert 0 < len(kept) < 16
    names = {path.name for path in (folder / "state" / "retained").iterdir()}
    assert names == {name for file in kept for name in (file.name, file.index(1), file.index(2))}


def test_a_run_that_goes_on_may_have_other_indexes(folder, probed):
    peek = run(folder, "state", batches=3)
    text = "SELECT t, n FROM s [RANGE 10 SEC] WHERE k = 'a'"
    before = rows(peek.ask(text).table)
    assert probed == []
    specs = {}
    for kind in ("H", "G(3)"):
        # Not a row more: only the indexes of what is there are made.
        peek = run(folder, "state", f"CREATE INDEX i ON s (k) USING {kind};\n", batches=0)
        assert rows(peek.ask(text).table) == before
        (first, *_) = peek.snapshot().kept
        found = retained.open_index(folder / "state" / "retained", first, 1)
        assert found is not None
        specs[kind] = found.spec
    assert specs == {"H": "H OVER LIST", "G(3)": "G(3) OVER GROUP"}
    assert probed
    run(folder, "state", batches=0)
    assert not list((folder / "state" / "retained").glob("*.index"))


class Asking(ControlChannel):
    """Makes an index after some batches, drops it later, and asks before every batch."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.folder = folder
        self.answers: list[tuple[int, Counter[tuple[object, ...]]]] = []
        self.files: list[int] = []

    def serve(self, served: Served) -> None:
        super().serve(served)
        number = len(self.answers)
        if number in (3, 6):
            more = indexes("AUTO") if number == 3 else ""
            served.change(bind_program(STREAM + RELATION + more + QUERY))
        if served.registry is not None and served.registry.latest is not None:
            text = STREAM + "SELECT t, n FROM s [RANGE 10 SEC] WHERE k = 'a' AND n < 30;"
            answer = look(bind_program(text), served.registry, self.folder)
            assert answer.instant is not None
            self.answers.append((answer.instant // 1_000_000, rows(answer.table)))
        else:
            self.answers.append((-1, Counter()))
        self.files.append(len(list((self.folder / "state" / "retained").glob("*.index"))))


def test_an_index_that_comes_and_goes_while_the_run_does_changes_no_answer(folder, probed):
    control = Asking(folder)
    run(folder, "state", control=control)
    lines = [line.split(",") for line in (folder / "s.csv").read_text().splitlines()[1:]]
    for instant, found in control.answers:
        expected = Counter(
            (int(t), int(n))
            for t, k, n, _ in lines
            if k == "a" and n and int(n) < 30 and instant - 10 < int(t) <= instant
        )
        assert found == expected
    assert any(found for _, found in control.answers)
    assert probed
    assert control.files[2] == 0 < control.files[3] <= control.files[5]
    assert control.files[6] == 0


def test_a_session_shows_explains_and_uses_indexes(folder, probed):
    with connect(folder, runtime="inline", batch_rows=200) as session:
        session.sql(STREAM)
        handle = session.query("SELECT COUNT(*) AS n FROM s [RANGE 5 SEC SLIDE 20 SEC]", max_pending=1)
        session.sql("CREATE INDEX by_k ON s (k) USING AUTO; CREATE INDEX by_n ON s (n) USING H;")
        assert session.sql("SHOW INDEXES").to_pylist() == [
            {"name": "by_k", "stream": "s", "column": "k", "using": "RING DB ON T"},
            {"name": "by_n", "stream": "s", "column": "n", "using": "H OVER LIST"},
        ]
        plan = session.explain("SELECT n FROM s [RANGE 20 SEC] WHERE k = 'a'")
        assert "index by_k on s (k) USING RING DB ON T is probed for a value of k" in plan
        next(iter(handle))
        # The run waits for the reader.
        found = session.ask("SELECT t, n FROM s [RANGE 20 SEC] WHERE k = 'a'")
        assert found.num_rows > 0
        assert probed
        session.sql("DROP INDEX by_k; DROP INDEX by_n")
        assert session.sql("SHOW INDEXES").num_rows == 0
