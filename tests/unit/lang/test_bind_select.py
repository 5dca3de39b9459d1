"""SELECT over one stream to what the periodic runtime takes."""

from __future__ import annotations

import pytest

from sash.errors import BindError, DuplicateName, NotYet, TypeMismatch, UnknownName
from sash.lang import bind_program
from sash.lang.bound import AggregateFunction, OutputOperator, Window
from sash.lang.types import Type

STREAM = (
    "CREATE STREAM packets (at TIMESTAMP, src STRING, port INT, length BIGINT, load DOUBLE, ok BOOLEAN)"
    " TIMESTAMP BY at FROM 'csv:p.csv';\n"
)
W = "FROM packets [RANGE 1 MIN SLIDE 10 SEC]"


def bind(select):
    (explain,) = bind_program(f"{STREAM}EXPLAIN {select};").explains
    return explain.select


def refusal(select, error):
    with pytest.raises(error) as caught:
        bind(select)
    assert type(caught.value) is error
    place = caught.value.place
    assert place.line == 2
    return caught.value, place.text[place.start : place.end]


def sql(select):
    return [(output.name, output.scalar.sql) for output in select.outputs]


def test_a_grouped_select_has_keys_aggregates_and_outputs_over_them():
    bound = bind(
        "SELECT src, SUM(length) AS bytes, SUM(length) / COUNT(*) AS mean "
        "FROM packets [RANGE 1 MIN SLIDE 10 SEC] p WHERE p.length > 10 "
        "GROUP BY src HAVING SUM(p.length) > 100"
    )
    assert (bound.stream, bound.window) == ("packets", Window(60_000_000, 10_000_000))
    assert bound.where is not None
    assert bound.where.sql == '"length" > CAST(10 AS BIGINT)'
    assert bound.where.inputs == ("length",)
    assert [key.sql for key in bound.keys] == ['"src"']
    assert [(a.function, a.argument and a.argument.column, a.type) for a in bound.aggregates] == [
        (AggregateFunction.SUM, "length", Type.BIGINT),
        (AggregateFunction.COUNT, None, Type.BIGINT),
    ]
    assert bound.having is not None
    assert bound.having.sql == '"a0" > CAST(100 AS BIGINT)'
    assert sql(bound) == [
        ("src", '"k0"'),
        ("bytes", '"a0"'),
        ("mean", 'CAST("a0" AS DOUBLE) / NULLIF(CAST("a1" AS DOUBLE), 0.0e0)'),
    ]
    assert bound.schema == (("src", Type.STRING), ("bytes", Type.BIGINT), ("mean", Type.DOUBLE))
    assert bound.is_grouped
    assert bound.operator is OutputOperator.VIEW


def test_a_select_that_groups_nothing_has_its_expressions_as_keys_each_once():
    bound = bind(f"Rstream(SELECT DISTINCT src, port + 1 AS next, packets.src AS again {W})")
    assert [key.sql for key in bound.keys] == ['"src"', '"port" + CAST(1 AS BIGINT)']
    assert sql(bound) == [("src", '"k0"'), ("next", '"k1"'), ("again", '"k0"')]
    assert (bound.is_grouped, bound.distinct, bound.operator) == (False, True, OutputOperator.RSTREAM)
    assert [output.scalar.column for output in bound.outputs] == ["k0", "k1", "k0"]


def test_a_star_expands_to_the_columns_of_the_stream():
    assert [name for name, _ in bind(f"SELECT * {W}").schema] == ["at", "src", "port", "length", "load", "ok"]


def test_an_aggregate_without_group_by_has_no_keys():
    bound = bind(f"SELECT COUNT(*), MAX(at), AVG(port), 1 AS one {W}")
    assert bound.keys == ()
    assert bound.schema == (
        ("count", Type.BIGINT),
        ("max_at", Type.TIMESTAMP),
        ("avg_port", Type.DOUBLE),
        ("one", Type.BIGINT),
    )


@pytest.mark.parametrize("key", ["port % 10", "MOD(port, 10)", "(packets.port % 10)", "1", "tens"])
def test_group_by_takes_expressions_aliases_and_ordinals(key):
    bound = bind(f"SELECT port % 10 AS tens, (PORT % 10) * 2 AS twice, COUNT(*) AS n {W} GROUP BY {key}, src")
    assert [k.sql for k in bound.keys] == ['"port" % CAST(10 AS BIGINT)', '"src"']
    assert sql(bound)[:2] == [("tens", '"k0"'), ("twice", '"k0" * CAST(2 AS BIGINT)')]


def test_a_repeated_key_is_one_key():
    assert len(bind(f"SELECT src, COUNT(*) {W} GROUP BY src, 1, packets.src").keys) == 1


def test_having_may_use_output_names_but_a_grouped_column_comes_first():
    bound = bind(
        f"SELECT src, SUM(length) AS length, MAX(port) AS top {W} GROUP BY src HAVING length > 1 AND top < 9"
    )
    assert bound.having is not None
    assert bound.having.sql == '("a0" > CAST(1 AS BIGINT)) AND ("a1" < CAST(9 AS BIGINT))'
    bound = bind(f"SELECT UPPER(src) AS src, COUNT(*) {W} GROUP BY src HAVING src = 'x'")
    assert bound.having is not None
    assert bound.having.sql == "\"k0\" = 'x'"


def test_having_may_use_an_aggregate_that_is_not_selected():
    bound = bind(f"SELECT src {W} GROUP BY src HAVING COUNT(*) > 1")
    assert [a.function for a in bound.aggregates] == [AggregateFunction.COUNT]


def test_outputs_without_a_name_get_one_from_their_words():
    bound = bind(
        "SELECT SUM(length), SUM(packets.length) + 8, SUM(length) - 8, COUNT(*), 'ts', 7, "
        f"COUNT(src) AS count {W}"
    )
    assert [name for name, _ in bound.schema] == [
        "sum_length",
        "sum_length_8",
        "sum_length_8_2",
        "count_2",
        "ts_2",
        "column_7",
        "count",
    ]


def test_the_same_meaning_gives_the_same_bound_select():
    first = bind(f"SELECT Src AS s, SUM(length*8) AS bits {W} WHERE port != 80 GROUP BY src")
    second = bind(
        "SELECT p.src AS s, sum( LENGTH * 8 ) AS bits FROM packets [WINDOW 60 s SLIDE 10000 ms] AS p "
        "WHERE port <> 080 GROUP BY 1 -- by source\n"
    )
    assert first == second


@pytest.mark.parametrize(
    ("select", "error", "place", "hint"),
    [
        (f"SELECT nope {W}", UnknownName, "nope", None),
        (f"SELECT q.src {W}", UnknownName, "q", None),
        (f"SELECT SUM(lenght) {W}", UnknownName, "lenght", "did you mean 'length'?"),
        (f"SELECT median_of(src) {W}", UnknownName, "median_of", None),
        (
            "SELECT src FROM packet [RANGE 1 MIN SLIDE 1 SEC]",
            UnknownName,
            "packet",
            "did you mean 'packets'?",
        ),
        (f"SELECT EXTRACT(century FROM at) {W}", UnknownName, "century", None),
        (f"SELECT src, COUNT(*) {W}", BindError, "src", "add it to GROUP BY"),
        (f"SELECT length + MAX(port) {W} GROUP BY src", BindError, "length", "add it to GROUP BY"),
        (f"SELECT * {W} GROUP BY src", BindError, "*", "add it to GROUP BY"),
        (f"SELECT src {W} GROUP BY src HAVING port > 1", BindError, "port", "add it to GROUP BY"),
        (f"SELECT src {W} WHERE SUM(length) > 1", BindError, "SUM", "WHERE is applied to rows"),
        (f"SELECT src {W} GROUP BY MAX(port)", BindError, "MAX", "group by the columns"),
        (f"SELECT MAX(port) {W} GROUP BY 1", BindError, "MAX", "group by the columns"),
        (f"SELECT SUM(MAX(port)) {W}", BindError, "MAX", "aggregate once"),
        (f"SELECT src {W} HAVING src = 'x'", BindError, "src = 'x'", "use WHERE"),
        (f"SELECT src {W} HAVING COUNT(*) > 1", BindError, "COUNT(*) > 1", "add GROUP BY"),
        (f"SELECT src {W} GROUP BY 2", BindError, "2", None),
        (f"SELECT src {W} GROUP BY 0", BindError, "0", None),
        (f"SELECT SUM(*) {W}", BindError, "*", "only COUNT"),
        (f"SELECT ABS(*) {W}", BindError, "*", "only COUNT"),
        (f"SELECT COUNT() {W}", BindError, "COUNT", None),
        (f"SELECT SUM(port, port) {W}", BindError, "SUM", None),
        (f"SELECT ABS(port, port) {W}", BindError, "ABS", None),
        (f"SELECT NULL AS x {W}", TypeMismatch, "NULL", "compare with IS NULL"),
        (f"SELECT 9223372036854775808 AS x {W}", BindError, "9223372036854775808", "write it with a decimal"),
        (f"SELECT 1e999 AS x {W}", BindError, "1e999", None),
        (f"SELECT TIMESTAMP 'yesterday' AS x {W}", BindError, "'yesterday'", None),
        (f"SELECT src, port AS src {W}", DuplicateName, "src", "give one of them"),
        (f'SELECT src, port AS "SRC" {W}', DuplicateName, '"SRC"', "give one of them"),
        (f"SELECT at AS ts {W}", DuplicateName, "ts", "rename it"),
        (f"SELECT src AS op {W}", DuplicateName, "op", "rename it"),
        (f"SELECT CAST(src AS TIMESTAMP) {W}", NotYet, "src", "declare the column"),
        ("SELECT src FROM packets [RANGE 0 SEC SLIDE 1 SEC]", BindError, "0 SEC", None),
        ("SELECT src FROM packets [RANGE 1 SEC SLIDE 0 MIN]", BindError, "0 MIN", None),
        ("SELECT src FROM packets [RANGE 200000 DAYS SLIDE 1 SEC]", BindError, "200000 DAYS", None),
    ],
)
def test_what_does_not_fit_is_refused_at_its_place_with_a_hint(select, error, place, hint):
    caught, pointed_at = refusal(select, error)
    assert pointed_at == place
    if hint is not None:
        assert caught.hint.startswith(hint)


@pytest.mark.parametrize(
    ("expression", "place", "expected", "got"),
    [
        ("src + 1", "src", "BIGINT or DOUBLE", "STRING"),
        ("1 - ok", "ok", "BIGINT or DOUBLE", "BOOLEAN"),
        ("port * at", "at", "BIGINT or DOUBLE", "TIMESTAMP"),
        ("port / src", "src", "DOUBLE", "STRING"),
        ("load DIV 2", "load", "BIGINT", "DOUBLE"),
        ("-src", "src", "BIGINT or DOUBLE", "STRING"),
        ("port || 'x'", "port", "STRING", "BIGINT"),
        ("src = port", "port", "STRING", "BIGINT"),
        ("at > '2026-01-01'", "'2026-01-01'", "TIMESTAMP", "STRING"),
        ("port = NULL", "NULL", "an operand with a type", "NULL"),
        ("port AND ok", "port", "BOOLEAN", "BIGINT"),
        ("NOT src", "src", "BOOLEAN", "STRING"),
        ("port IN (1, 'x')", "'x'", "BIGINT", "STRING"),
        ("src BETWEEN 'a' AND 3", "3", "STRING", "BIGINT"),
        ("port LIKE 'x'", "port", "STRING", "BIGINT"),
        ("src IS TRUE", "src", "BOOLEAN", "STRING"),
        ("CASE WHEN port THEN 1 END", "port", "BOOLEAN", "BIGINT"),
        ("CASE WHEN ok THEN 1 ELSE 'x' END", "'x'", "BIGINT", "STRING"),
        ("CASE port WHEN 'x' THEN 1 END", "'x'", "BIGINT", "STRING"),
        ("COALESCE(port, src)", "src", "BIGINT", "STRING"),
        ("LENGTH(port)", "port", "STRING", "BIGINT"),
        ("SUBSTRING(src, load)", "load", "BIGINT", "DOUBLE"),
        ("ROUND(load, port)", "port", "a whole number from -15 to 15", "BIGINT"),
        ("SQRT(src)", "src", "DOUBLE", "STRING"),
        ("CAST(at AS BIGINT)", "at", "BIGINT, DOUBLE, STRING, BOOLEAN", "TIMESTAMP"),
        ("CAST(port AS TIMESTAMP)", "port", "TIMESTAMP", "BIGINT"),
        ("EXTRACT(HOUR FROM port)", "port", "TIMESTAMP", "BIGINT"),
        ("SUM(src)", "src", "BIGINT or DOUBLE", "STRING"),
        ("AVG(ok)", "ok", "BIGINT or DOUBLE", "BOOLEAN"),
    ],
)
def test_a_wrong_type_is_refused_at_the_operand_with_what_was_expected(expression, place, expected, got):
    error, pointed_at = refusal(f"SELECT {expression} AS x {W}", TypeMismatch)
    assert (pointed_at, error.expected, error.got) == (place, expected, got)


@pytest.mark.parametrize("clause", ["WHERE port", "GROUP BY src HAVING MAX(port)"])
def test_conditions_are_boolean(clause):
    assert refusal(f"SELECT src {W} {clause}", TypeMismatch)[0].expected == "BOOLEAN"


def test_op_is_free_where_the_answer_is_no_view():
    assert bind(f"Istream(SELECT src AS op {W})").schema == (("op", Type.STRING),)


def test_a_slide_is_a_multiple_of_the_unit_of_integer_time():
    stream = "CREATE STREAM s (t INT) TIMESTAMP BY t FROM 'csv:x';\n"
    with pytest.raises(BindError) as caught:
        bind_program(stream + "EXPLAIN SELECT t FROM s [RANGE 2 SEC SLIDE 1500 MS];")
    place = caught.value.place
    assert place is not None
    assert place.text[place.start : place.end] == "1500 MS"
    assert caught.value.expected == "a multiple of 1 SEC"


def test_nesting_that_multiplies_is_refused_before_it_is_run():
    deep = "1 / (" * 20 + "load + 1" + ")" * 20
    assert "nested too deeply" in refusal(f"SELECT {deep} AS x {W}", BindError)[0].message


def test_an_unknown_function_lists_the_functions_there_are():
    error, _ = refusal(f"SELECT uper(src) {W}", UnknownName)
    assert error.hint == "did you mean 'upper'?"
    assert "coalesce" in error.expected
