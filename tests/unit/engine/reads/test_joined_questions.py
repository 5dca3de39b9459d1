"""One-time joins over kept rows: the keys of one side lead to the rows of the other, and answers stay."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import pytest

from sash.engine.reads import join_probe as links
from sash.engine.reads.checkpoint_reader import CheckpointReader
from sash.engine.reads.one_time_query import Question
from sash.lang import bind_program
from sash.plan.key_conditions import Among
from sash.runtime.run import run_program
from sash.session import connect
from sash.testing.runs import StopAfter
from sash.transactions.events import Isolation

CATALOG = """
CREATE STREAM s (t BIGINT, k STRING, n BIGINT, x DOUBLE)
  TIMESTAMP BY t SLACK 1 SEC RETAIN 60 SEC FROM 'csv:s.csv';
CREATE STREAM a (t BIGINT, k STRING, n BIGINT) TIMESTAMP BY t RETAIN 60 SEC FROM 'csv:a.csv';
CREATE RELATION w (k STRING, word STRING) KEY (k) FROM 'csv:w.csv';
CREATE QUERY q INTO 'noop:' AS SELECT COUNT(*) AS n FROM s [RANGE 5 SEC SLIDE 1 SEC];
CREATE QUERY r INTO 'noop:' AS SELECT COUNT(*) AS n FROM a [RANGE 5 SEC SLIDE 1 SEC];
"""
INDEXES = "CREATE INDEX by_k ON s (k) USING {0}; CREATE INDEX by_n ON s (n) USING {0};\n"

# Each with what is probed: so many keys at most are looked up in s (None: all of s is read).
QUESTIONS = {
    "SELECT s.n, w.word FROM s [RANGE 40 SEC] s, w WHERE s.k = w.k": 4,
    "SELECT s.n, w.word FROM s [RANGE 40 SEC] s, w WHERE s.k = w.k AND w.word = 'bee'": 1,
    "SELECT s.n, w.word FROM s [RANGE 40 SEC] s, w WHERE s.k = w.k AND w.word = 'none'": 0,
    "SELECT s.n, w.word FROM s [RANGE 40 SEC] s LEFT JOIN w ON s.k = w.k": None,
    "SELECT n FROM s [RANGE 40 SEC] WHERE k IN (SELECT k FROM w WHERE word < 'b')": 1,
    "SELECT n FROM s [RANGE 40 SEC] WHERE k NOT IN (SELECT k FROM w)": None,
    "SELECT s.x, a.n FROM s [RANGE 40 SEC] s, a [RANGE 4 SEC] a WHERE s.n = a.n": 6,
    "SELECT s.x, a.n FROM s [RANGE 40 SEC] s, a [RANGE 40 SEC] a WHERE s.n = a.n AND a.k = 'c'": 6,
    "SELECT s.k, COUNT(*) AS c FROM s [RANGE 40 SEC SLIDE 3 SEC] s, a [RANGE 6 SEC SLIDE 3 SEC] a, w "
    "WHERE s.k = a.k AND a.k = w.k AND s.x > 0.5 GROUP BY s.k": 9,
    "SELECT n FROM s [RANGE 40 SEC] s WHERE EXISTS (SELECT * FROM a [RANGE 3 SEC] a WHERE a.n = s.n)": 6,
    "SELECT n FROM a [RANGE 3 SEC] a WHERE NOT EXISTS (SELECT * FROM s [RANGE 40 SEC] s WHERE a.n = s.n)": 6,
    "SELECT n FROM s [RANGE 9 SEC] s WHERE NOT EXISTS (SELECT n FROM a [NOW] a WHERE a.n = s.n)": None,
    "SELECT u.x FROM s [RANGE 40 SEC] u, s [RANGE 2 SEC] v WHERE u.n = v.n": None,
    "SELECT u.x FROM s [RANGE 40 SEC] u, s [RANGE 2 SEC] v WHERE u.n = v.n AND v.k = 'b'": 6,
    "SELECT s.x, a.n FROM s [RANGE 40 SEC] s, a [RANGE 40 SEC] a WHERE s.n = a.n AND a.n > 99": 14,
    "SELECT s.x, a.n FROM s [RANGE 40 SEC] s, a [RANGE 4 SEC] a WHERE s.n + 1 = a.n": None,
}


# No such word; a NULL among the words' keys; no such number in s.
EMPTY = ("'none'", "NOT IN", "> 99")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    rng = random.Random(5)

    def line(i: int, rows: int, kinds: int) -> str:
        key = rng.choice(["a", "b", "b", "c", "", *"defghij" * 3])
        return f"{i // rows},{key},{rng.randrange(kinds) if rng.random() < 0.9 else ''}"

    s = [f"{line(i, 20, 90)},{rng.random():.3f}" for i in range(1600)]
    a = [line(i, 1, 200) for i in range(80)]
    (tmp_path / "s.csv").write_text("\n".join(["t,k,n,x", *s]) + "\n")
    (tmp_path / "a.csv").write_text("\n".join(["t,k,n", *a]) + "\n")
    (tmp_path / "w.csv").write_text("k,word\na,ant\nb,bee\nc,cow\n,none at all\n")
    return tmp_path


def run(folder: Path, state: str, more: str = "", batches: int | None = None) -> CheckpointReader:
    monitor = StopAfter(batches)
    run_program(
        bind_program(CATALOG + more),
        base_dir=folder,
        runtime="inline",
        checkpoint=folder / state,
        batch_rows=300,
        monitor=monitor,
        stop=monitor.stop,
    )
    return CheckpointReader(folder / state)


@pytest.fixture
def probed(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many keys were looked up for each side of a join."""
    found: list[int] = []
    original = links.Link.condition

    def condition(link, read, rows, through):
        placed = original(link, read, rows, through)
        if placed is not None:
            assert isinstance(placed[1], Among)
            found.append(len(placed[1].values))
        return placed

    monkeypatch.setattr(links.Link, "condition", condition)
    return found


def rows(table):
    return Counter(tuple(row.values()) for row in table.to_pylist())


@pytest.mark.parametrize("kind", ["AUTO", "H", "G(20)"])
def test_a_join_gets_from_an_index_what_it_gets_from_all_rows(folder, kind, probed):
    plain = run(folder, "plain", batches=5)
    indexed = run(folder, "indexed", INDEXES.format(kind), batches=5)
    for text, keys in QUESTIONS.items():
        expected = plain.ask(text)
        probed.clear()
        found = indexed.ask(text)
        assert rows(found.table) == rows(expected.table), text
        assert found.instant == expected.instant
        assert (len(probed) > 0 and min(probed) <= keys) if keys is not None else not probed, (text, probed)
        assert (found.table.num_rows == 0) == any(part in text for part in EMPTY), text


def question(folder: Path, text: str) -> Question:
    program = bind_program(CATALOG.split("CREATE QUERY")[0] + INDEXES.format("T") + text + ";")
    return Question(program, folder, {}, {})


@pytest.mark.parametrize(("rows_a_key", "begins_by_reading_all"), [(4, False), (200, True)])
def test_rows_that_come_find_all_matches(folder, probed, rows_a_key, begins_by_reading_all, monkeypatch):
    """A newer state overtakes the question: its rows may have the keys of some that it had no use for."""
    monkeypatch.setattr(links, "ROWS_A_KEY", rows_a_key)
    text = "SELECT s.x, a.n, a.t FROM s [RANGE 40 SEC] s, a [RANGE 25 SEC] a WHERE s.n = a.n"
    overtaken = question(folder, text)
    answers, probes = [], []
    for batches in (3, 1, 1):
        peek = run(folder, "state", INDEXES.format("T"), batches=batches)
        probed.clear()
        overtaken.evaluate(peek.snapshot())
        probes.append(len(probed))
        fresh = question(folder, text)
        fresh.evaluate(peek.snapshot())
        answers.append(rows(overtaken.answer(Isolation.LWS).table))
        assert answers[-1] == rows(fresh.answer(Isolation.LWS).table)
    assert probes == [0 if begins_by_reading_all else 1] * 3
    assert all(answers)
    assert answers[0] != answers[1] != answers[2]


def test_explain_tells_which_index_a_join_probes(folder):
    with connect(folder, runtime="inline") as session:
        session.sql(CATALOG + INDEXES.format("AUTO"))
        plan = session.explain("SELECT s.x, w.word FROM s [RANGE 40 SEC] s, w WHERE s.k = w.k")
        assert (
            "asked once: index by_k on s (k) USING RING DB ON T is probed for the values of w.k, if" in plan
        )
        plan = session.explain("SELECT s.x, w.word FROM s [RANGE 40 SEC] s LEFT JOIN w ON s.k = w.k")
        assert "asked once: all kept rows of s are read" in plan
