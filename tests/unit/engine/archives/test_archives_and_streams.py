"""Questions about archives together with windows of streams, and with relations."""

from __future__ import annotations

import json
from collections import Counter

import pytest
from tests.unit.engine.archives.archiving_kit import JOIN, folder, run, text_of

import sash
from sash.archive import open_snapshot
from sash.engine.reads.checkpoint_reader import CheckpointReader
from sash.errors import UserError
from sash.lang import bind_program
from sash.runtime.run import run_program

__all__ = ["folder"]
KEPT = text_of(JOIN).replace("FROM 'json:a.jsonl';", "RETAIN 15 SEC FROM 'json:a.jsonl';", 1)
OWNERS = """
CREATE RELATION owners (k BIGINT, owner STRING) KEY (k) FROM 'csv:owners.csv';
CREATE RELATION moods (ts BIGINT, k BIGINT, mood STRING) KEY (k) TIMESTAMP BY ts FROM 'json:moods.jsonl';
"""
MIXED = "SELECT x.v, y.v AS u FROM kept x, a [RANGE 5 SEC] y WHERE x.k = y.k AND x.k < 3"


def rows_of(folder, stream="a"):
    return [json.loads(line) for line in (folder / f"{stream}.jsonl").read_text().splitlines()]


def archived(folder):
    with open_snapshot(folder / "archives" / "kept") as snapshot:
        return snapshot.scan().to_pylist()


def expected(folder):
    """MIXED, from the archive and the rows of the stream."""
    window = [row for row in rows_of(folder) if 119 - 5 < row["ts"] <= 119]
    return Counter(
        (x["v"], y["v"]) for x in archived(folder) for y in window if x["k"] == y["k"] and x["k"] < 3
    )


def bag(table):
    return Counter(tuple(row.values()) for row in table.to_pylist())


def test_an_archive_is_joined_with_the_window_of_a_stream(folder):
    """With the checkpoint, in the program, and in a session, which reads the streams itself."""
    _, summary = run(folder, f"{KEPT}{MIXED};")
    wanted = expected(folder)
    assert len(wanted) > 3
    assert bag(summary.once["answer 1"]) == wanted
    answer = CheckpointReader(folder / "checkpoint").ask(MIXED)
    assert (bag(answer.table), answer.instant) == (wanted, 119_000_000)
    with sash.connect(base_dir=folder, runtime="inline") as session:
        session.sql(text_of(JOIN))
        assert bag(session.ask(MIXED)) == wanted
        counted = session.ask("SELECT COUNT(*) AS n FROM kept x, a [ROWS 3] y WHERE x.k = y.k")
    newest = Counter(row["k"] for row in rows_of(folder)[-3:])
    assert counted.to_pylist() == [{"n": sum(newest[row["k"]] for row in archived(folder))}]


def test_rows_of_an_archive_that_are_not_in_a_window(folder):
    run(folder, KEPT)
    text = (
        "SELECT DISTINCT x.k FROM kept x WHERE NOT EXISTS (SELECT y.k FROM a [RANGE 3 SEC] y WHERE y.k = x.k)"
    )
    window = {row["k"] for row in rows_of(folder) if row["ts"] > 116}
    wanted = Counter((k,) for k in {row["k"] for row in archived(folder)} - window)
    assert wanted
    assert bag(CheckpointReader(folder / "checkpoint").ask(text).table) == wanted


def test_an_archive_is_joined_with_relations(folder):
    """One that is read once, and one whose changes count up to the end."""
    (folder / "owners.csv").write_text("k,owner\n1,ann\n2,bob\n")
    changes = [
        {"ts": 0, "k": 1, "mood": "good"},
        {"ts": 2, "k": 2, "mood": "good"},
        {"ts": 50, "k": 1, "mood": "bad"},
    ]
    (folder / "moods.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in changes))
    run(folder, f"{OWNERS}{text_of(JOIN)}", checkpoint=False)
    counts = Counter(row["k"] for row in archived(folder))
    with sash.connect(base_dir=folder, runtime="inline") as session:
        session.sql(f"{OWNERS}{text_of(JOIN)}")
        owned = session.ask(
            "SELECT o.owner, COUNT(*) AS n FROM kept x, owners o WHERE x.k = o.k GROUP BY o.owner"
        )
        moods = session.ask(
            "SELECT m.mood, COUNT(*) AS n FROM kept x, a [NOW] y, moods m "
            "WHERE x.k = m.k AND y.ts >= 0 GROUP BY m.mood"
        )
    assert bag(owned) == Counter({("ann", counts[1]): 1, ("bob", counts[2]): 1})
    assert bag(moods) == Counter({("bad", counts[1]): 1, ("good", counts[2]): 1})


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        (f"{text_of(JOIN)}{MIXED};", "RETAIN"),
        (f"{KEPT}{MIXED.replace('[RANGE 5 SEC]', '[ROWS 5]')};", "ROWS"),
        (f"{KEPT}{MIXED.replace('a [RANGE', 'mortal [RANGE')};", "has to read it"),
    ],
)
def test_a_program_whose_question_cannot_be_answered_is_refused_before_it_runs(folder, text, hint):
    with pytest.raises(UserError) as refused:
        run_program(bind_program(text), base_dir=folder, runtime="inline")
    assert refused.value.id == "not-kept"
    assert hint in str(refused.value.hint)
    assert refused.value.place is not None
    assert not (folder / "archives").exists()
