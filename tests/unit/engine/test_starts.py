"""A query that comes into a run answers from the first instant at which its windows are whole."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sash.engine.observe.report import AnswerRecord
from sash.errors import BindError, UserError
from sash.lang import bind_program
from sash.plan.run_plan import plan_run
from sash.session import connect
from sash.session.answers import Answer

AT, UNTIL, RATE = 150, 260, 20
GROUPED = "SELECT k, COUNT(*) AS n FROM p [RANGE 60 SEC SLIDE 10 SEC] GROUP BY k"


def added(
    folder: Path, retain: str, query: str, **options: Any
) -> tuple[list[tuple[int, Any]], int | None, int]:
    """The answers of a query that comes when time is at 150, its `whole_from`, and how far time was."""
    rows = (f"{t},{'ab'[i % 2]},{t}\n" for t in range(1, UNTIL) for i in range(RATE))
    (folder / "p.csv").write_text("t,k,n\n" + "".join(rows))
    with connect(folder, runtime="inline", batch_rows=RATE, **options) as session:
        session.sql(
            f"CREATE STREAM p (t BIGINT, k STRING, n BIGINT) TIMESTAMP BY t {retain} FROM 'csv:p.csv'"
        )
        seconds = session.query("Istream(SELECT t FROM p [NOW])", max_pending=1)
        handle, came = None, 0
        for answer in seconds:
            if answer.at == AT:
                handle = session.query(query)
            came = answer.at if handle is None else came
        assert handle is not None
        found = [(answer.at, answer.rows.to_pylist()) for answer in handle]
        (row,) = [r for r in session.sql("SHOW QUERIES").to_pylist() if r["name"] == handle.name]
        assert row["whole_from"] == handle.whole_from
        return found, handle.whole_from, came


def record(answer: Answer) -> AnswerRecord:
    assert answer.record is not None
    return answer.record


@pytest.mark.parametrize("partitions", [None, 3])
@pytest.mark.parametrize("operator", ["Rstream", ""])
def test_kept_rows_make_windows_whole_at_once_and_the_past_is_not_answered(tmp_path, operator, partitions):
    """
    kept     30 |--------------------| 150
    window            100 |------------| 160
    """
    query = f"{operator}({GROUPED})" if operator else GROUPED
    found, whole, _ = added(tmp_path, "RETAIN 2 MIN", query, partitions=partitions)
    assert found[0][0] == whole == 160
    assert {row["n"] for _, rows in found for row in rows} == {60 * RATE // 2}


@pytest.mark.parametrize("partitions", [None, 3])
def test_without_kept_rows_windows_are_whole_when_so_much_time_has_passed(tmp_path, partitions):
    found, whole, came = added(tmp_path, "", f"Rstream({GROUPED})", partitions=partitions)
    assert found[0][0] == whole
    assert came + 60 <= found[0][0] <= AT + 3 + 60 + 10
    assert {row["n"] for _, rows in found for row in rows} == {60 * RATE // 2}


def test_a_partial_warm_up_answers_before_and_tells_until_when(tmp_path):
    query = f"Rstream({GROUPED}) WITH (warm_up = 'partial')"
    found, whole, _ = added(tmp_path, "", query)
    assert whole is not None
    assert found[0][0] < whole
    for at, rows in found:
        assert (rows[0]["n"] == 60 * RATE // 2) is (at >= whole)


@pytest.mark.parametrize("retain", ["", "RETAIN 2 MIN"])
def test_istream_tells_what_differs_after_its_first_instant(tmp_path, retain):
    (first, rows), *rest = added(
        tmp_path, retain, "Istream(SELECT MAX(n) AS m FROM p [RANGE 60 SEC SLIDE 10 SEC])"
    )[0]
    assert rows == [{"m": first}]
    assert [at for at, _ in rest] == list(range(first + 10, 260, 10))
    found, whole, _ = added(tmp_path, retain, "Istream(SELECT n FROM p WHERE k = 'a')")
    assert [(at, len(rows)) for at, rows in found] == [(at, RATE // 2) for at in range(found[0][0], UNTIL)]
    assert whole == found[0][0] - 1


@pytest.mark.parametrize(("retain", "is_at_once"), [("", False), ("RETAIN 2 MIN", True)])
def test_a_window_of_rows_is_whole_after_so_many_rows(tmp_path, retain, is_at_once):
    found, whole, came = added(tmp_path, retain, "SELECT COUNT(*) AS c, MIN(n) AS m FROM p [ROWS 100]")
    assert found[0] == (whole, [{"op": "+", "c": 100, "m": found[0][0] - 4}])
    assert whole is not None
    if is_at_once:
        assert whole <= AT + 6
    else:
        assert whole >= came + 100 // RATE


ROWS = [(1, "a"), (2, "a"), (3, "a"), (3, "b"), (3, "c"), (4, "d"), (6, "e"), (9, "f"), (10, "g"), (10, "h")]
# So many that the run is under way when queries come.
LATER = [(12, "i"), *((t, "jkl"[t % 3]) for t in range(13, 60))]


@pytest.mark.parametrize("partitions", [None, 2])
@pytest.mark.parametrize("size", [1, 2, 3])
@pytest.mark.parametrize("retain", ["", "RETAIN 2 SEC", "RETAIN 1 MIN"])
def test_a_query_that_comes_gives_nothing_of_the_past_and_waits_for_no_row_too_many(
    tmp_path, retain, size, partitions
):
    (tmp_path / "s.csv").write_text("t,k\n" + "".join(f"{t},{k}\n" for t, k in [*ROWS, *LATER]))
    windows = {"now": "[NOW]", "rows": "[ROWS 3]", "moves": "[ROWS 3 SLIDE 2]"}
    options: dict[str, Any] = {"runtime": "inline", "batch_rows": size, "partitions": partitions}
    with connect(tmp_path, **options) as session:
        session.sql(f"CREATE STREAM s (t BIGINT, k STRING) TIMESTAMP BY t {retain} FROM 'csv:s.csv'")
        handles: dict[str, Any] = {}
        for answer in session.query("Istream(SELECT k FROM s)", max_pending=1):
            if answer.at >= 2 and not handles:
                handles = {
                    name: session.query(f"Rstream(SELECT k FROM s {window})")
                    for name, window in windows.items()
                }
        found = {name: {a.at: a.rows.column("k").to_pylist() for a in h} for name, h in handles.items()}
    rows = [*ROWS, *LATER]
    for at, given in found["now"].items():
        assert given == [k for t, k in rows if t == at]
    for name, each in (("rows", 1), ("moves", 2)):
        for at, given in found[name].items():
            moved = len([t for t, _ in rows if t <= at]) // each * each
            assert given == sorted(k for _, k in rows[max(0, moved - 3) : moved])
    assert 59 in found["now"].keys() & found["rows"].keys()


@pytest.mark.parametrize(
    "query",
    [
        "SELECT COUNT(*) AS n FROM p",
        "SELECT SUM(n) AS s FROM p [PARTITION BY k ROWS 2]",
        "SELECT a.n FROM p [UNBOUNDED] a, p [RANGE 1 SEC] b WHERE a.k = b.k ALLOW UNBOUNDED STATE",
        "SELECT DISTINCT k FROM p ALLOW UNBOUNDED STATE",
    ],
)
def test_what_would_never_be_whole_is_refused_unless_the_stream_begins_now(tmp_path, query):
    with pytest.raises(UserError, match="rows of stream p are gone") as caught:
        added(tmp_path, "RETAIN 2 MIN", query)
    assert caught.value.id == "rows-are-gone"
    assert "start = 'now'" in str(caught.value.hint)
    body, allow, _ = query.partition(" ALLOW")
    found, whole, _ = added(tmp_path, "RETAIN 2 MIN", f"{body} WITH (start = 'now'){allow}{_}")
    assert found
    assert whole is not None


def test_a_query_of_the_first_program_is_whole_from_the_first_row(tmp_path):
    (tmp_path / "p.csv").write_text("t,k,n\n3,a,1\n5,b,2\n")
    with connect(tmp_path, runtime="inline") as session:
        session.sql("CREATE STREAM p (t BIGINT, k STRING, n BIGINT) TIMESTAMP BY t FROM 'csv:p.csv'")
        handles = [session.query(q) for q in (GROUPED, "SELECT n FROM p", "SELECT n FROM p [ROWS 5]")]
        session.wait()
        assert [handle.whole_from for handle in handles] == [3, 3, 3]


def test_an_answer_says_whether_its_windows_are_whole_and_how_far_off_it_can_be(tmp_path):
    """
    rows       1 |----------------------------------> 40
    query             10 |
    window               |---- 12 s, partial ---| whole from about 22 on
    """
    rows = "".join(f"{t},{t % 7}\n" for t in range(1, 41))
    (tmp_path / "p.csv").write_text("t,n\n" + rows)
    select = "SELECT APPROX_COUNT_DISTINCT(n) AS d, COUNT(*) AS c FROM p [RANGE 12 SEC SLIDE 1 SEC]"
    with connect(tmp_path, runtime="inline", batch_rows=1) as session:
        session.sql("CREATE STREAM p (t BIGINT, n BIGINT) TIMESTAMP BY t FROM 'csv:p.csv'")
        first = session.query(f"Rstream({select})", max_pending=1)
        late, seen = None, []
        for answer in first:
            seen.append(answer)
            if answer.at == 10:
                late = session.query(f"Rstream({select} WHERE n >= 0) WITH (warm_up = 'partial')")
        assert late is not None
        answers = list(late)
    assert all(answer.is_complete and record(answer).instant == answer.at for answer in seen)
    assert [column for column, _ in record(seen[0]).bounds] == ["d"]
    assert not record(seen[0]).is_exact
    whole = late.whole_from
    for answer in answers:
        assert answer.is_complete is (answer.at >= whole) is (answer.rows["c"][0].as_py() == 12)
        assert record(answer).lacking_until == (None if answer.is_complete else whole)
    assert not answers[0].is_complete
    assert answers[-1].is_complete


def test_unknown_ways_to_begin_are_errors():
    text = "CREATE STREAM p (t BIGINT) TIMESTAMP BY t FROM 'csv:p.csv'; CREATE QUERY q INTO 'noop:' AS {};"
    for option in ("warm_up = 'half'", "start = 'later'"):
        with pytest.raises(BindError, match="is not known"):
            plan_run(bind_program(text.format(f"SELECT COUNT(*) AS n FROM p [RANGE 1 SEC] WITH ({option})")))
