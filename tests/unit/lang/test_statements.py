"""Relations, archives, indexes, one-time queries, DROP, SHOW and EXPLAIN: what they define."""

from __future__ import annotations

import pytest
import sqlglot
from tests.unit.lang.plan_kit import CATALOG, outline

from sash.errors import BindError, CqlSyntaxError, DuplicateName, UnknownName
from sash.lang import Known, bind_program
from sash.lang.bound import DropDefinition, ShowDefinition
from sash.lang.dialect import Cql
from sash.lang.indexing import IndexSpec


def last(text):
    return bind_program(CATALOG + text).statements[-1]


def test_a_relation_is_read_once_or_is_a_feed_of_changes():
    static = last("CREATE RELATION x (k INT, name STRING) KEY (k, k) FROM 'csv:x' WITH (header = TRUE);")
    assert (static.key, static.is_retroactive, static.is_static) == (("k",), True, True)
    assert static.options == (("header", True),)
    feed = last(
        "CREATE RELATION x (k INT, o STRING, at INT) KEY (k) NON RETROACTIVE TIMESTAMP BY at OP BY o"
        " FROM 'csv:x' WITH (unit = 'ms');"
    )
    assert (feed.timestamp, feed.unit, feed.operation) == ("at", 1000, "o")
    assert (feed.is_retroactive, feed.is_static) == (False, False)
    assert feed.visible.names == ("k", "at")


def test_a_one_time_query_says_which_isolation_it_wants():
    assert last("SELECT a FROM s [NOW];").isolation is None
    for written in ("ws", "LWS"):
        asked = last(f"SELECT a FROM s [NOW] WITH (isolation = '{written}');")
        assert asked.isolation == written.lower()
        assert asked.plan == last("SELECT a FROM s [NOW];").plan
    for options, error in (
        ("isolation = 'serial'", BindError),
        ("isolation = 1", BindError),
        ("strategy = 'upa'", UnknownName),
        ("isolation = 'ws', isolation = 'lws'", DuplicateName),
    ):
        with pytest.raises(error):
            last(f"SELECT a FROM s [NOW] WITH ({options});")
    tree = sqlglot.parse_one("SELECT a FROM s [NOW] WITH (isolation = 'ws')", dialect=Cql)
    assert tree.sql(dialect=Cql) == "SELECT a FROM s [NOW] WITH (isolation = 'ws')"


def test_a_stream_may_retain_rows_and_give_them_lifetimes():
    stream = last(
        "CREATE STREAM x (t INT, l INT) TIMESTAMP BY t RETAIN 2 MIN LIFETIME BY l MAX LIFETIME 1 HOUR"
        " FROM 'csv:x' WITH (unit = 'ms');"
    )
    assert (stream.retain, stream.lifetime, stream.max_lifetime) == (120_000_000, "l", 3_600_000_000)
    assert stream.lifetime_unit == 1000


def test_an_archive_has_a_key_of_its_columns_a_technique_and_a_grid():
    archive = last(
        "CREATE ARCHIVE pairs KEY (src) USING LazyRebuild 4x8 EVERY 2 MIN INTO 'archive/pairs' AS "
        "SELECT x.a AS src, y.e FROM s [RANGE 16 MIN] x, u [RANGE 16 MIN] y WHERE x.a = y.a;"
    )
    assert (archive.key, archive.technique, archive.grid) == (("src",), "lazyrebuild", (4, 8))
    assert (archive.every, archive.sink) == (120_000_000, "archive/pairs")
    assert archive.plan.names == ("src", "e")


@pytest.mark.parametrize("written", ["AUTO", "Chr-Rebuild 2x2", "random-norebuild 3x3", "WATA", "r-exp 4x4"])
def test_an_archive_may_choose_its_technique_and_take_any_published_one(written):
    archive = last(
        f"CREATE ARCHIVE x KEY (a) USING {written} EVERY 2 MIN INTO 'x' AS SELECT a FROM s [RANGE 1 MIN];"
    )
    assert archive.technique == written.split()[0].lower()


def test_an_archive_without_a_technique_chooses_one():
    archive = last("CREATE ARCHIVE x KEY (a) EVERY 2 MIN INTO 'x' AS SELECT a FROM s [RANGE 1 MIN];")
    assert (archive.technique, archive.grid) == ("auto", None)


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("REBUILD 4x4 EVERY", "USING or EVERY"),
        ("USING EVERY", "a technique, such as REBUILD 4x4, or AUTO"),
        ("USING REBUILD 4x4", "EVERY"),
        ("USING REBUILD 4 EVERY", "a grid, such as 4x4"),
    ],
)
def test_an_archive_says_what_may_stand_after_its_key(written, expected):
    with pytest.raises(CqlSyntaxError) as refused:
        last(f"CREATE ARCHIVE x KEY (a) {written} 2 MIN INTO 'x' AS SELECT a FROM s [RANGE 1 MIN];")
    assert refused.value.expected == expected


def test_an_index_is_on_a_column_of_a_stream():
    index = last("CREATE INDEX i ON s (a) USING T-INDEX;")
    assert (index.stream, index.column, index.spec) == ("s", "a", IndexSpec())


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("T", "T OVER LIST"),
        ("l", "L OVER LIST"),
        ("H-index over hash", "H OVER HASH"),
        ("UH(5)", "UH(5) OVER LIST"),
        ("G(50)", "G(50) OVER GROUP"),
        ("G-INDEX(10)", "G(10) OVER GROUP"),
        ("RING", "RING ON T"),
        ("RING DB", "RING DB ON T"),
        ("ring aux on h", "RING AUX ON H"),
        ("BW", "RING BW ON T"),
        ("DB ON G(7)", "RING DB ON G(7)"),
    ],
)
def test_an_index_has_the_short_and_the_long_names_of_the_paper(written, meant):
    assert str(last(f"CREATE INDEX i ON s (a) USING {written};").spec) == meant


def test_an_index_may_choose_for_itself():
    assert last("CREATE INDEX i ON s (a) USING AUTO;").spec is None


def test_a_query_keeps_its_options_and_need_not_have_a_sink():
    query = last("CREATE QUERY q AS SELECT DISTINCT a FROM s WITH (strategy = 'nt') ALLOW UNBOUNDED STATE;")
    assert (query.sink, query.options, query.allow_unbounded) == ("", (("strategy", "nt"),), True)
    assert query.select is None


def test_a_one_time_query_may_read_relations_archives_and_whole_streams():
    for text in (
        "SELECT name FROM r ORDER BY name;",
        "SELECT a FROM kept;",
        "Rstream(SELECT DISTINCT a FROM s);",
        "SELECT a AS ts FROM s [ROWS 5] LIMIT 1;",
    ):
        assert last(text).plan.fields


def test_a_program_holds_every_statement_in_order_and_what_is_defined_at_its_end():
    program = bind_program(
        CATALOG
        + "CREATE QUERY q AS SELECT a FROM u [NOW]; SHOW QUERIES; SELECT k FROM r; EXPLAIN q; DROP QUERY q;"
        "CREATE QUERY p AS SELECT a FROM s [NOW]; DROP STREAM u;"
    )
    kinds = [type(statement).__name__ for statement in program.statements[-7:]]
    assert kinds == [
        "QueryDefinition",
        "ShowDefinition",
        "OneTimeQuery",
        "ExplainDefinition",
        "DropDefinition",
        "QueryDefinition",
        "DropDefinition",
    ]
    assert [query.name for query in program.queries] == ["p"]
    assert [stream.name for stream in program.streams] == ["s", "v"]
    assert [relation.name for relation in program.relations] == ["r", "n", "w"]
    assert [archive.name for archive in program.archives] == ["kept"]
    assert program.shows == (ShowDefinition("query"),)
    assert program.statements[-1] == DropDefinition("stream", "u")
    assert len(program.one_time) == 1


def test_explain_takes_a_query_or_the_name_of_one():
    program = bind_program(
        CATALOG + "CREATE QUERY q AS SELECT a FROM s [NOW]; EXPLAIN ANALYZE FORMAT SVG q;"
        "EXPLAIN SELECT a FROM s [NOW]; EXPLAIN SELECT k FROM r;"
    )
    by_name, by_text, relation = program.explains
    assert (by_name.query, by_name.analyze, by_name.format) == ("q", True, "svg")
    assert (by_text.query, by_text.analyze, by_text.format) == (None, False, "text")
    assert by_name.plan == by_text.plan
    assert outline(relation.plan) == 'Project(r | k: "r.k")'


def test_statements_go_on_from_what_is_known():
    known = Known()
    bind_program(CATALOG, known)
    assert bind_program("SELECT a FROM s [NOW];", known).one_time
    bind_program("DROP RELATION r;", known)
    with pytest.raises(UnknownName):
        bind_program("SELECT k FROM r;", known)
