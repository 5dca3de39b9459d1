"""Statements of a session: what they give, what they refuse, what stays of them."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from tests.unit.session.kit import (
    ENDLESS,
    PACKETS,
    STREAM,
    SUMS,
    logged,
    session_over,
)

import sash
from sash.errors import (
    CqlSyntaxError,
    DuplicateName,
    SinkError,
    UnknownName,
    UserError,
)
from sash.session import connect


@pytest.mark.parametrize("module", ["sash", "sash.cli.main"])
def test_importing_sash_imports_nothing_heavy(module):
    script = (
        f"import sys, {module}; "
        "print([m for m in ('pyarrow', 'duckdb', 'pyspark', 'numba', 'sqlglot') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    assert done.stdout.strip() == "[]", done.stderr


def test_the_public_names_are_these():
    assert sash.__all__ == ["Answer", "Query", "SashError", "Session", "__version__", "connect"]
    assert sash.connect is connect
    assert set(sash.__all__) <= set(dir(sash))
    with pytest.raises(AttributeError, match="no attribute 'conect'"):
        sash.conect  # noqa: B018


def test_statements_accumulate_and_give_what_the_last_of_them_gives(tmp_path):
    with session_over(tmp_path) as session:
        assert session.sql("CREATE QUERY a INTO 'jsonl:a.jsonl' AS " + SUMS) is None
        assert session.sql("SHOW QUERIES; SHOW STREAMS").to_pylist() == [{"name": "s", "source": "csv:s.csv"}]
        (shown,) = session.sql("SHOW QUERIES;").to_pylist()
        assert (shown["name"], shown["sink"], shown["rule"]) == ("a", "jsonl:a.jsonl", "own")
        assert session.sql("SELECT MAX(v) AS v FROM s -- the end\n").to_pylist() == [{"v": 30}]
        assert session.sql("EXPLAIN a").startswith("a\n")
        assert session.sql("") is None


def test_a_text_takes_effect_as_a_whole_or_not_at_all(tmp_path):
    with session_over(tmp_path) as session:
        with pytest.raises(UnknownName):
            session.sql(f"CREATE QUERY a AS {SUMS}; SELECT x FROM s;")
        assert session.sql("SHOW QUERIES").num_rows == 0


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("SELEC k FROM s", CqlSyntaxError),
        ("SELECT x FROM s [RANGE 1 SEC]", UnknownName),
        ("SELECT k FROM nowhere [RANGE 1 SEC]", UnknownName),
        (STREAM, DuplicateName),
        ("DROP QUERY nothing", UnknownName),
    ],
)
def test_errors_have_their_place(tmp_path, text, error):
    with session_over(tmp_path) as session, pytest.raises(error) as caught:
        session.sql(text)
    assert caught.value.place is not None


def test_the_place_of_an_error_is_in_what_was_typed(tmp_path):
    with session_over(tmp_path) as session:
        for call in (session.query, session.explain, session.ask):
            with pytest.raises(UnknownName) as caught:
                call("SELECT k,\n  size FROM s [RANGE 1 SEC]")
            assert caught.value.place is not None
            assert (caught.value.place.line, caught.value.place.column) == (2, 3)
            assert "2 |   size FROM s [RANGE 1 SEC]" in caught.value.render()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            {"text": "CREATE STREAM x (t BIGINT) TIMESTAMP BY t FROM 'csv:x'"},
            "takes a SELECT or a CREATE QUERY",
        ),
        ({"text": f"{SUMS}; {SUMS}"}, "takes one statement"),
        ({"text": ""}, "SELECT"),
        ({"text": f"CREATE QUERY a AS {SUMS}", "name": "b"}, "says its name"),
        ({"text": SUMS, "into": "nonsense:x"}, "unknown sink"),
        ({"text": SUMS, "into": "out.jsonl"}, "scheme"),
        ({"text": SUMS, "max_pending": 0}, "max_pending"),
    ],
)
def test_wrong_queries_are_refused_and_leave_no_trace(tmp_path, arguments, message):
    with session_over(tmp_path) as session:
        with pytest.raises(UserError) as caught:
            session.query(**arguments)
        assert message in caught.value.render()
        assert session.sql("SHOW QUERIES").num_rows == 0
        assert session.query(SUMS).name == "q1"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"runtime": "flink"}, "unknown runtime"),
        ({"batch_rows": 0}, "batch_rows"),
        ({"base_dir": "/nowhere/at/all"}, "no directory"),
    ],
)
def test_wrong_options_are_refused(options, message):
    with pytest.raises(UserError, match=message):
        connect(**options)


def test_a_name_that_is_taken(tmp_path):
    with session_over(tmp_path) as session:
        session.query(SUMS, name="Sums")
        with pytest.raises(DuplicateName, match="there is a query 'sums' already") as caught:
            session.query(SUMS, name="sums")
        assert caught.value.hint is not None
        odd = session.query(SUMS, name="select it's")
        assert odd.explain().startswith("select it's\n")


def test_a_sink_of_another_query_is_refused_when_the_run_starts(tmp_path):
    with session_over(tmp_path) as session:
        for _ in range(2):
            session.query(SUMS, into="jsonl:x.jsonl")
        with pytest.raises(SinkError):
            session.wait()


def test_there_must_be_a_query_to_run(tmp_path):
    with session_over(tmp_path) as session:
        for call in (session.start, session.wait):
            with pytest.raises(UserError, match="there is no query to run"):
                call()
        session.stop()


def test_a_query_that_is_dropped_before_the_start_gives_nothing(tmp_path):
    with session_over(tmp_path) as session:
        gone, stays = session.query(SUMS, name="gone"), session.query(SUMS, name="stays")
        session.sql("DROP QUERY gone")
        assert gone.is_dropped
        assert list(gone) == []
        assert session.state == "not started"
        assert logged(stays)
        again = session.query(SUMS, name="gone")
        assert not again.is_dropped


def test_a_question_about_a_stream_that_keeps_no_rows_is_refused_while_queries_run(tmp_path):
    with connect(base_dir=tmp_path, runtime="inline", batch_rows=500) as session:
        session.sql(ENDLESS)
        next(iter(session.query(PACKETS, name="n")))
        with pytest.raises(UserError, match="stream p keeps no rows") as caught:
            session.ask("SELECT COUNT(*) AS n FROM p [RANGE 1 SEC]")
        assert caught.value.id == "not-kept"


def test_the_handle_of_a_query_that_sql_created(tmp_path):
    with session_over(tmp_path, batch_rows=1) as session:
        session.sql(f"CREATE QUERY a AS {SUMS}; CREATE QUERY b AS {SUMS}")
        handle = session.handle("a")
        assert handle is session.handle("A")
        answers = iter(handle)
        next(answers)
        with pytest.raises(UnknownName):
            session.handle("c")
        assert len(list(answers)) == 29


def test_questions_are_answered_before_and_after_a_run(tmp_path):
    with session_over(tmp_path) as session:
        question = "SELECT k, COUNT(*) AS n FROM s [RANGE 6 SEC] GROUP BY k"
        before = session.ask(question)
        session.query(SUMS)
        session.wait()
        assert sorted(map(repr, before.to_pylist())) == sorted(map(repr, session.ask(question).to_pylist()))
        assert before.column("n").to_pylist() == [2, 2, 2]
        with pytest.raises(UserError, match="takes a SELECT"):
            session.ask("SHOW QUERIES")


def test_a_question_of_input_without_an_end_is_refused(tmp_path):
    with connect(base_dir=tmp_path, runtime="inline") as session:
        session.sql(ENDLESS)
        for call in (
            lambda: session.ask("SELECT COUNT(*) AS n FROM p"),
            lambda: session.explain(PACKETS, analyze=True),
        ):
            with pytest.raises(UserError, match="stream p has none"):
                call()


def test_plans_are_explained_in_every_form(tmp_path):
    with session_over(tmp_path) as session:
        query = session.query(SUMS, name="sums")
        text = query.explain()
        assert text == session.explain("sums") == repr(text)
        assert json.loads(session.explain(SUMS, format="json"))[0]["name"] == "explain 1"
        picture = query.explain(format="svg")
        assert picture._repr_svg_() == picture
        assert text._repr_svg_() is None
        assert "measured in" in session.explain(SUMS, analyze=True)
        assert query.plan.names == ("k", "v")
        with pytest.raises(UserError, match="unknown format 'png'"):
            query.explain(format="png")


def test_things_say_what_they_are(tmp_path):
    with session_over(tmp_path) as session:
        query = session.query(SUMS, name="sums")
        assert repr(session) == "<sash session on inline: 1 stream, 1 query; not started>"
        assert repr(query) == "<query sums (k STRING, v BIGINT)>"
        answers = list(query)
        assert repr(answers[0]) == "<answer at 1: 1 row of op, k, v>"
        assert repr(session).endswith("; ended>")
        assert repr(query) == "<query sums (k STRING, v BIGINT); 0 pending>"
    assert repr(session).endswith("; closed>")


def test_the_old_name_of_dead_letters_is_understood_with_a_warning(tmp_path):
    with pytest.warns(FutureWarning, match="dead_letters"):
        session = connect(tmp_path, runtime="inline", aside=tmp_path / "there")
    assert session._options["dead_letters"] == tmp_path / "there"
    session.close()
