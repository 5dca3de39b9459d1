"""What a session tells of queries that share, and of how they are refreshed."""

from __future__ import annotations

from pathlib import Path

import pytest

import sash
from sash.errors import SashError, UserError

STREAM = "CREATE STREAM s (t BIGINT, k STRING, n BIGINT) TIMESTAMP BY t FROM 'csv:s.csv' WITH (rate = 100);"
SELECT = "SELECT COUNT(*) AS c FROM s [RANGE 4 SEC SLIDE 2 SEC] WHERE {}".format


def written(directory: Path) -> Path:
    lines = "".join(f"{t},{'ab'[t % 2]},{t}\n" for t in range(41))
    (directory / "s.csv").write_text("t,k,n\n" + lines)
    return directory


def test_show_queries_tells_what_is_shared_and_how_queries_are_refreshed(tmp_path):
    with sash.connect(written(tmp_path), runtime="inline") as session:
        session.sql(STREAM)
        for name, where in (("one", "k = 'a'"), ("other", "k = 'b'"), ("both", "k IN ('a', 'b')")):
            session.sql(f"CREATE QUERY {name} INTO 'noop:' AS {SELECT(where)};")
        session.sql("CREATE QUERY rows INTO 'noop:' AS SELECT n FROM s [NOW];")
        planned = {row["name"]: row for row in session.sql("SHOW QUERIES").to_pylist()}
        assert planned["both"]["rule"] == "SS4"
        assert planned["both"]["synopses"] == "s0 + s1"
        assert planned["both"]["shared_with"] == ["one", "other"]
        assert planned["one"]["shared_with"] == ["both"]
        assert planned["one"]["group"] is not None
        assert planned["one"]["at"] is None
        assert planned["rows"]["rule"] is None
        assert planned["rows"]["refresh"] is None
        assert (planned["one"]["refresh"], planned["one"]["policy"], planned["one"]["priority"]) == (
            "exact",
            None,
            0,
        )
        session.wait()
        ran = {row["name"]: row for row in session.sql("SHOW QUERIES").to_pylist()}
        assert ran["both"]["at"] == 40_000_000
        assert (ran["both"]["period"], ran["both"]["granted"], ran["both"]["skipped"]) == (2.0, 2.0, 0)


def test_queries_over_one_join_tell_the_synopsis_that_they_read(tmp_path):
    windows = "s [RANGE {0} SEC SLIDE 2 SEC] a, s [RANGE 4 SEC SLIDE 2 SEC] b"
    join = f"SELECT COUNT(*) AS c FROM {windows} WHERE a.k = b.k"
    with sash.connect(written(tmp_path), runtime="inline") as session:
        session.sql(STREAM)
        for name, length in (("short", 4), ("long", 6)):
            session.sql(f"CREATE QUERY {name} INTO 'noop:' AS {join.format(length)};")
        planned = {row["name"]: row for row in session.sql("SHOW QUERIES").to_pylist()}
        assert [planned[name]["synopses"] for name in ("short", "long")] == ["j0", "j0"]
        assert {planned[name]["rule"] for name in ("short", "long")} == {"own", "SS3"}
        assert planned["long"]["shared_with"] == ["short"]
        session.wait()
        ran = {row["name"]: row for row in session.sql("SHOW QUERIES").to_pylist()}
        assert (ran["long"]["at"], ran["long"]["period"], ran["long"]["rule"]) == (40_000_000, 2.0, "SS3")
        told = session.explain("long")
        assert "looked up in j0" in told
        assert "in the run: answered at 40" in told


def test_a_join_query_that_comes_while_a_run_goes_on_tells_from_when_its_windows_are_whole(tmp_path):
    join = (
        "SELECT COUNT(*) AS c FROM packets [RANGE {0} SEC SLIDE 10 SEC] a, "
        "packets [RANGE {0} SEC SLIDE 10 SEC] b WHERE a.src = b.src"
    )
    with sash.connect(tmp_path, runtime="inline", batch_rows=20) as session:
        session.sql(
            "CREATE STREAM packets (ts TIMESTAMP, src STRING) TIMESTAMP BY ts "
            "FROM 'generator:packets' WITH (rate = 2, hosts = 5);"
        )
        first = session.query(join.format(10), name="first")
        next(iter(first))
        longer = session.query(join.format(40), name="longer")
        answer = next(iter(longer))
        rows = {row["name"]: row for row in session.sql("SHOW QUERIES").to_pylist()}
        assert rows["first"]["whole_from"] == first.whole_from == 1_767_225_600_000_000
        assert rows["longer"]["synopses"] == rows["first"]["synopses"]
        begun = int(answer.at.timestamp() * 1_000_000)
        # Its first answer is that of the first slide at which its windows are whole.
        assert rows["longer"]["whole_from"] == longer.whole_from == begun


def test_elastic_refresh_skips_boundaries_and_says_so(tmp_path):
    with sash.connect(written(tmp_path), runtime="inline", batch_rows=10, refresh="elastic") as session:
        session.sql(STREAM)
        select = "Rstream(" + SELECT("k = 'a'") + ")"
        elastic = session.query(select, name="elastic")
        exact = session.query(f"{select} WITH (refresh = 'exact', priority = 3)", name="exact")
        session.wait()
        right = {answer.at: answer.rows.to_pylist() for answer in exact}
        assert list(right) == list(range(0, 41, 2))
        given = {answer.at: answer.rows.to_pylist() for answer in elastic}
        assert 1 < len(given) < 10
        assert all(right[at] == rows for at, rows in given.items())
        fares = {row["name"]: row for row in session.sql("SHOW QUERIES").to_pylist()}
        assert fares["exact"]["skipped"] == 0
        assert fares["elastic"]["skipped"] > 10
        assert [fares[name]["policy"] for name in ("elastic", "exact")] == ["hybrid-late-pending", None]
        assert fares["exact"]["priority"] == 3
        assert fares["elastic"]["worst"] > 0
        told = session.explain("elastic")
        assert "policy hybrid-late-pending" in told
        assert "in the run: answered at 40, period granted" in told


def test_more_queries_than_are_allowed_are_refused(tmp_path):
    with sash.connect(written(tmp_path), runtime="inline", max_queries=1) as session:
        session.sql(STREAM)
        session.query(SELECT("k = 'a'"))
        session.query(SELECT("k = 'b'"))
        with pytest.raises(UserError, match="2 queries") as refused:
            session.wait()
        assert refused.value.id == "max-queries"


@pytest.mark.parametrize(
    ("options", "what"),
    [
        ({"refresh": "sometimes"}, "unknown refresh 'sometimes'"),
        ({"policy": "luck"}, "unknown policy 'luck'"),
    ],
)
def test_ways_to_refresh_that_do_not_exist_are_refused(tmp_path, options, what):
    with pytest.raises(UserError, match=what):
        sash.connect(tmp_path, runtime="inline", **options)


@pytest.mark.parametrize(
    ("query", "what"),
    [
        (SELECT("n > 0") + " WITH (refresh = 'never')", "refresh = 'never' is not known"),
        (SELECT("n > 0") + " WITH (priority = 'high')", "a priority is a whole number"),
        ("SELECT n FROM s [NOW] WITH (refresh = 'elastic')", "kept up row by row"),
        ("SELECT n FROM s [NOW] WITH (priority = 2)", "priority is not for"),
        (
            "SELECT FREQUENT(n, 2) AS f FROM s [RANGE 4 SEC SLIDE 2 SEC] WITH (refresh = 'elastic')",
            "not for FREQUENT",
        ),
    ],
)
def test_options_of_queries_that_cannot_be_are_refused(tmp_path, query, what):
    with sash.connect(tmp_path, runtime="inline") as session:
        session.sql(STREAM)
        with pytest.raises(SashError, match=what):
            session.query(query)


def test_answers_over_a_live_stream_say_how_late_they_are(tmp_path):
    with sash.connect(tmp_path, runtime="inline", batch_rows=200, refresh="elastic") as session:
        session.sql(
            "CREATE STREAM packets (ts TIMESTAMP, src STRING, length BIGINT) TIMESTAMP BY ts "
            "FROM 'generator:packets' WITH (rate = 20, hosts = 5);"
        )
        query = session.query(
            "Rstream(SELECT COUNT(*) AS c FROM packets [RANGE 20 SEC SLIDE 10 SEC])", name="q"
        )
        answers = [answer for answer, _ in zip(query, range(3), strict=False)]
        assert all(isinstance(answer.late, float) for answer in answers)
        (row,) = session.sql("SHOW QUERIES").to_pylist()
        assert row["behind"] is not None
        assert row["at"] % 10_000_000 == 0
