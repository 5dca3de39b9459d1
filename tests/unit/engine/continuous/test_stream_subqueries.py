"""Sub-queries that select, project and unite streams are streams: windows over them need no Istream."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sash.lang import bind_program
from sash.runtime.run import run_program
from sash.session import connect
from sash.testing.runs import StopAfter

A = [(0, "X", 5), (0, "Y", 1), (1, "X", -2), (3, "Y", 7), (3, "X", 2), (3, "Y", 4), (8, "Z", 9)]
B = [(0, "Y", 6), (2, "X", 3), (3, "Z", 8), (9, "Z", 1)]
PROGRAM = """
CREATE STREAM a (t BIGINT, k STRING, n BIGINT) TIMESTAMP BY t RETAIN 1 MIN FROM 'csv:a.csv';
CREATE STREAM b (t BIGINT, k STRING, n BIGINT) TIMESTAMP BY t RETAIN 1 MIN FROM 'csv:b.csv';
"""


def ask(folder: Path, query: str, *, partitions: int | None = None, batch_rows: int | None = None) -> str:
    """The lines of a query's output: instants with their rows, in order."""
    for name, rows in (("a", A), ("b", B)):
        lines = [f"{t},{k},{n}" for t, k, n in rows]
        (folder / f"{name}.csv").write_text("\n".join(["t,k,n", *lines]) + "\n")
    program = bind_program(f"{PROGRAM}CREATE QUERY q INTO 'jsonl:q.jsonl' AS {query};")
    run_program(
        program,
        base_dir=folder,
        runtime="inline",
        partitions=partitions,
        batch_rows=batch_rows,
        dead_letters=folder / "dead-letters",
        monitor=StopAfter(),
    )
    answers = map(json.loads, (folder / "q.jsonl").read_text().splitlines())
    return "; ".join(" ".join(str(value) for value in answer.values()) for answer in answers)


@pytest.mark.parametrize("partitions", [None, 3])
class TestAWindowOverASubQuery:
    def test_that_filters_holds_the_rows_that_pass(self, tmp_path, partitions):
        given = ask(tmp_path, "SELECT n FROM (SELECT n FROM a WHERE n > 4) [ROWS 1]", partitions=partitions)
        assert given == "0 + 5; 3 - 5; 3 + 7; 8 - 7; 8 + 9"

    def test_that_unites_streams_holds_the_rows_of_both(self, tmp_path, partitions):
        query = """SELECT k, COUNT(*) AS c FROM (SELECT k FROM a UNION ALL SELECT k FROM b WHERE n > 2)
          [RANGE 4 SEC SLIDE 4 SEC] GROUP BY k"""
        # (-4, 0]: X Y, Y    (0, 4]: X Y X Y, X Z    (4, 8]: Z
        right = "0 + X 1; 0 + Y 2; 4 - X 1; 4 + X 3; 4 + Z 1; 8 - X 3; 8 - Y 2"
        given = ask(tmp_path, query, partitions=partitions).split("; ")
        assert sorted(given) == sorted(right.split("; "))

    def test_counts_rows_in_the_order_of_time_branch_and_arrival(self, tmp_path, partitions):
        query = "SELECT k, n FROM (SELECT k, n FROM b UNION ALL SELECT k, n FROM a) [ROWS 1]"
        # At 0 the rows are Y 6 of b, then X 5 and Y 1 of a; at 3 Z 8 of b, then those of a.
        right = "0 + Y 1; 1 - Y 1; 1 + X -2; 2 - X -2; 2 + X 3; 3 - X 3; 3 + Y 4; 8 - Y 4; 8 + Z 9; "
        right += "9 - Z 9; 9 + Z 1"
        assert ask(tmp_path, query, partitions=partitions, batch_rows=2) == right

    def test_may_be_nested(self, tmp_path, partitions):
        query = """SELECT m FROM (SELECT m + 1 AS m
            FROM (SELECT n AS m, k FROM a UNION ALL SELECT n, k FROM b)
          WHERE k <> 'Z') [PARTITION BY m ROWS 1 SLIDE 2] WHERE m > 2"""
        assert ask(tmp_path, query, partitions=partitions) == ""
        query = query.replace("ROWS 1 SLIDE 2", "ROWS 1")
        right = "0 + 6; 0 + 7; 2 + 4; 3 + 3; 3 + 5; 3 + 8"
        assert sorted(ask(tmp_path, query, partitions=partitions).split("; ")) == right.split("; ")

    def test_may_have_an_offset_be_joined_and_stand_in_exists(self, tmp_path, partitions):
        query = """Istream(SELECT u.n, b.n AS m
          FROM (SELECT n, k FROM a WHERE n > 0) [RANGE 5 SEC OFFSET 2 SEC] u, b [RANGE 5 SEC] WHERE u.k = b.k
          AND EXISTS (
            SELECT 1 FROM (SELECT n FROM a UNION ALL SELECT n FROM b) [ROWS 4] e WHERE e.n = u.n - 1
          ))"""
        # X 5 lives on [2, 5), and 4 is among the last four rows from 3 on.
        assert ask(tmp_path, query, partitions=partitions) == "3 5 3"


def test_a_sub_query_of_all_results_is_a_stream_of_them(tmp_path):
    inner = "SELECT c * 10 AS c FROM (Istream(SELECT COUNT(*) AS c FROM b [RANGE 3 SEC]))"
    query = f"SELECT c FROM ({inner}) [ROWS 1]"
    by_hand = "SELECT c FROM (Istream(SELECT COUNT(*) * 10 AS c FROM b [RANGE 3 SEC])) [ROWS 1]"
    assert ask(tmp_path, query) == ask(tmp_path, by_hand) != ""


def test_archives_questions_and_plans_have_such_windows(tmp_path):
    united = "(SELECT k, n FROM a WHERE n > 4 UNION ALL SELECT k, n FROM b)"
    with connect(base_dir=tmp_path, runtime="inline", checkpoint=tmp_path / "checkpoint") as session:
        ask(tmp_path, f"SELECT k FROM {united} [NOW]")
        session.sql(PROGRAM)
        session.sql(
            f"CREATE ARCHIVE kept KEY (k) EVERY 5 SEC INTO 'kept' AS SELECT k, n FROM {united} [RANGE 6 SEC]"
        )
        # The scan of b is in two windows, of which the longer one counts.
        both = f"SELECT COUNT(*) AS c FROM {united} [RANGE 8 SEC] x, b [RANGE 1 SEC] y"
        before = session.ask(both).to_pylist()
        session.start()
        session.wait()
        assert sorted(session.ask("SELECT n FROM kept").column("n").to_pylist()) == [3, 5, 6, 7, 8]
        assert session.ask(f"SELECT n FROM {united} [ROWS 2]").num_rows == 2
        assert session.ask(both).to_pylist() == before == [{"c": 5}]
        shown = session.explain(f"SELECT n FROM {united} [ROWS 2]")
        assert "[ROWS 2]" in str(shown)
