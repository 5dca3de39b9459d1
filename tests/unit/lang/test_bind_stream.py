"""CREATE STREAM and whole programs: what they define and what is refused."""

from __future__ import annotations

import pytest

from sash.errors import BindError, DuplicateName, TypeMismatch, UnknownName
from sash.lang import bind_program
from sash.lang.types import Column, Schema, Type

STREAM = "CREATE STREAM s (t BIGINT, a INT) TIMESTAMP BY t FROM 'csv:s.csv';"
QUERY = "CREATE QUERY q INTO 'jsonl:q' AS SELECT a FROM s [RANGE 1 MIN SLIDE 1 SEC];"


def stream(text):
    (definition,) = bind_program(text).streams
    return definition


def refusal(text, error):
    with pytest.raises(error) as caught:
        bind_program(text)
    assert type(caught.value) is error
    place = caught.value.place
    return caught.value, place.text[place.start : place.end]


def test_a_stream_is_defined_by_its_text():
    text = (
        "CREATE STREAM Packets (ts TIMESTAMP, src VARCHAR, port INTEGER, load REAL, ok BOOL)\n"
        "  TIMESTAMP BY ts SLACK 2 SEC FROM 'parquet:t/*.parquet'\n"
        "  WITH (header = TRUE, sep = ';', n = -3, x = 1.5);"
    )
    definition = stream(text)
    assert definition.name == "packets"
    assert definition.schema == Schema(
        (
            Column("ts", Type.TIMESTAMP),
            Column("src", Type.STRING),
            Column("port", Type.BIGINT),
            Column("load", Type.DOUBLE),
            Column("ok", Type.BOOLEAN),
        )
    )
    assert (definition.timestamp, definition.unit, definition.slack) == ("ts", 1, 2_000_000)
    assert definition.source == "parquet:t/*.parquet"
    assert definition.options == (("header", True), ("sep", ";"), ("n", -3), ("x", 1.5))
    assert definition.text == text


@pytest.mark.parametrize(
    ("option", "unit"),
    [("", 1_000_000), ("unit = 's'", 1_000_000), ("unit = 'ms'", 1_000), ("unit = 'us'", 1)],
)
def test_integer_time_counts_seconds_unless_a_unit_is_given(option, unit):
    with_ = f"WITH ({option})" if option else ""
    definition = stream(f"CREATE STREAM s (t INT) TIMESTAMP BY t FROM 'csv:x' {with_};")
    assert definition.unit == unit
    assert definition.options == ()
    assert definition.has_integer_time


@pytest.mark.parametrize(
    ("text", "error", "place"),
    [
        ("CREATE STREAM s (t INT) TIMESTAMP BY u FROM 'csv:x';", UnknownName, "u"),
        ("CREATE STREAM s (t STRING) TIMESTAMP BY t FROM 'csv:x';", TypeMismatch, "t"),
        ("CREATE STREAM s (t INT, a INT, \"A\" INT) TIMESTAMP BY t FROM 'csv:x';", DuplicateName, '"A"'),
        ("CREATE STREAM s (t INT) TIMESTAMP BY t FROM 'x.csv';", BindError, "'x.csv'"),
        ("CREATE STREAM s (t INT) TIMESTAMP BY t FROM 'csv:x' WITH (unit = 'h');", BindError, "'h'"),
        ("CREATE STREAM s (t INT) TIMESTAMP BY t FROM 'csv:x' WITH (unit = 1);", BindError, "1"),
        (
            "CREATE STREAM s (t TIMESTAMP) TIMESTAMP BY t FROM 'csv:x' WITH (unit = 's');",
            BindError,
            "unit = 's'",
        ),
        ("CREATE STREAM s (t INT) TIMESTAMP BY t FROM 'csv:x' WITH (a = 1, a = 2);", DuplicateName, "a"),
    ],
)
def test_a_stream_that_does_not_fit_is_refused_at_its_place(text, error, place):
    assert refusal(text, error)[1] == place


def test_a_program_holds_streams_queries_and_explains_in_order():
    program = bind_program(
        STREAM
        + QUERY
        + "EXPLAIN SELECT a FROM s [RANGE 1 MIN SLIDE 1 SEC];"
        + QUERY.replace("QUERY q", "QUERY r")
    )
    assert [s.name for s in program.streams] == ["s"]
    assert [q.name for q in program.queries] == ["q", "r"]
    assert program.queries[0].text == QUERY
    assert program.queries[0].sink == "jsonl:q"
    assert program.explains[0].text == "EXPLAIN SELECT a FROM s [RANGE 1 MIN SLIDE 1 SEC];"
    assert program.explains[0].select == program.queries[0].select


def test_names_are_unique_per_kind_only():
    assert refusal(STREAM + STREAM.replace("STREAM s", "STREAM S"), DuplicateName)[1] == "S"
    assert refusal(STREAM + QUERY + QUERY, DuplicateName)[1] == "q"
    assert bind_program(STREAM + QUERY.replace("QUERY q", "QUERY s")).queries[0].name == "s"


def test_a_stream_is_created_before_its_use():
    error, place = refusal(QUERY + STREAM, UnknownName)
    assert place == "s"
    assert error.expected == "there is no stream yet"
    error, place = refusal(STREAM + QUERY.replace("FROM s", "FROM ss"), UnknownName)
    assert (error.expected, error.hint) == ("one of: s", "did you mean 's'?")


def test_the_first_error_in_the_text_is_the_one_reported():
    assert refusal(STREAM + QUERY.replace("SELECT a", "SELECT zz") + "garbage", UnknownName)[1] == "zz"


def test_places_are_offsets_into_the_whole_program():
    text = STREAM + "\n\n-- a comment\n" + QUERY.replace("SELECT a", "SELECT\n   zz")
    error, _ = refusal(text, UnknownName)
    assert (error.place.line, error.place.column) == (5, 4)
    assert error.render() == (
        "error[unknown-name]: unknown column 'zz' (line 5, column 4)\n"
        "5 |    zz FROM s [RANGE 1 MIN SLIDE 1 SEC];\n"
        "       ^^\n"
        "  expected: one of: t, a"
    )
