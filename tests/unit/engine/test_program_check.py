"""What `check` accepts a run begins, with and without partitions; what it refuses a run refuses alike."""

from __future__ import annotations

import random
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sash.engine.program_check import check_program
from sash.errors import RunError, SashError
from sash.lang import bind_program
from sash.runtime.run import run_program
from sash.testing.programs import durable_programs

STREAMS = """
CREATE STREAM s (t BIGINT, k STRING, v BIGINT) TIMESTAMP BY t FROM 'csv:s.csv';
CREATE STREAM r (t BIGINT, k STRING, v BIGINT) TIMESTAMP BY t FROM 'csv:r.csv';
CREATE RELATION f (k STRING, w BIGINT, at BIGINT) KEY (k) TIMESTAMP BY at FROM 'csv:f.csv';
"""
JOIN = "s [RANGE 5 SEC] s, r [RANGE 5 SEC] r WHERE s.k = r.k"
SELECT = "SELECT k FROM s [NOW]"
GROUPED = "SELECT k, COUNT(*) AS n FROM s [RANGE 5 SEC SLIDE 5 SEC] GROUP BY k"


def query(text: str) -> str:
    return f"CREATE QUERY q INTO 'jsonl:q.jsonl' AS {text};"


def archive(more: str = "", select: str = "SELECT k FROM s [RANGE 5 SEC]", using: str = "") -> str:
    return f"CREATE ARCHIVE a KEY (k) {using} EVERY 2 SEC INTO 'a' AS {select} {more};"


def stream(source: str, options: str) -> str:
    head = f"CREATE STREAM g (ts BIGINT, src STRING) TIMESTAMP BY ts FROM '{source}' WITH ({options});"
    return head + query("SELECT src FROM g [NOW]")


def relation(source: str, options: str) -> str:
    head = f"CREATE RELATION b (k STRING) FROM '{source}' WITH ({options});"
    return head + query("SELECT s.k FROM s [NOW], b WHERE s.k = b.k")


def refusal(program: object, folder: Path, partitions: int | None = None) -> str | None:
    """Why a run does not begin; that it fails over its data is no refusal."""
    try:
        run_program(program, base_dir=folder, runtime="inline", partitions=partitions)  # type: ignore[arg-type]
    except RunError:
        return None
    except SashError as error:
        return error.render()
    return None


def of_check(program: object, folder: Path) -> str | None:
    try:
        check_program(program, folder)  # type: ignore[arg-type]
    except SashError as error:
        return error.render()
    return None


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in "sr":
        (tmp_path / f"{name}.csv").write_text("t,k,v\n1,a,1\n2,b,2\n9,a,3\n")
    (tmp_path / "f.csv").write_text("k,w,at\na,1,1\n")
    (tmp_path / "b.csv").write_text("k\na\n")
    (tmp_path / "g.csv").write_text("ts,src\n1,a\n")
    (tmp_path / "watched").mkdir()
    return tmp_path


REFUSED = [
    # What only the building of operators finds.
    (query(f"SELECT FREQUENT(s.v, 3) AS f FROM {JOIN}"), "FREQUENT is not run over these rows yet"),
    (query("SELECT FREQUENT(v, 3) AS f FROM s [PARTITION BY k ROWS 5]"), "FREQUENT is not run"),
    (f"SELECT FREQUENT(s.v, 3) AS f FROM {JOIN};", "FREQUENT is not run over these rows yet"),
    (query("SELECT s.k FROM s [ROWS 5] s, f WHERE s.k = f.k"), "relation 'f' stands above"),
    # The program as a whole.
    ("", "there is no query to run"),
    (f"CREATE QUERY q AS {SELECT};", "query q has no output"),
    (query(SELECT) + query(SELECT).replace("QUERY q", "QUERY p"), "write to the same place 'q.jsonl'"),
    (f"CREATE QUERY q INTO 'csv:s.csv' AS {SELECT};", "writes to 's.csv', which stream s reads"),
    (query(SELECT).replace("q.jsonl", "a/q.jsonl") + archive(), "the directory of the archive a"),
    # Archives, and questions about them.
    (archive(using="USING WATA 1x1"), "WATA needs at least two partitions"),
    (archive(select="SELECT k, v AS sash_ts FROM s [RANGE 5 SEC]"), "cannot have a column 'sash_ts'"),
    (archive() + "SELECT COUNT(*) FROM a, s [NOW] x WHERE a.k = x.k;", "stream s keeps no rows"),
    (archive("WITH (foo = 1)"), "unknown option of an archive 'foo'"),
    (archive("WITH (refresh = 'elastic')"), "a: refresh is not for a query that is kept up row by row"),
    (archive("WITH (priority = 1)"), "a: priority is not for"),
    (archive("WITH (state = 'driver')"), "a: state is not for"),
    (archive("WITH (warm_up = 'partial')"), "a: warm_up is not for an archive"),
    (archive("WITH (start = 'now')"), "a: start is not for an archive"),
    (archive("WITH (join = 'eager')"), "join is not for a query without a join of windows"),
    # Sources.
    (stream("csv:g.csv", "foo = 1"), "csv has no option 'foo'"),
    (stream("parquet:g.parquet", "header = true"), "parquet has no option 'header'"),
    (stream("csv:g.csv", "heartbeat = 5"), "option 'heartbeat' is for live input"),
    (stream("csv:watched", "watch = true, heartbeat = 'often'"), "option 'heartbeat' has a wrong value"),
    (stream("csv:g.csv", "distinct_x = 5"), "unknown column in option distinct_x"),
    (stream("csv:", "header = true"), "'csv:' names no file"),
    (stream("generator:packets", "rows = 9, bad = 1"), "generator:packets has no option 'bad'"),
    (stream("generator:packets", "rows = 9, burst_factor = 2"), "does nothing without 'bursts'"),
    (stream("generator:packets", "rows = 9, disorder_share = 1"), "does nothing without 'disorder'"),
    (stream("generator:packets", "rows = 9").replace("src ", "host ").replace(" src", " host"), "'host'"),
    (relation("csv:b.csv", "foo = 1"), "csv has no option 'foo'"),
    (relation("csv:b.csv", "heartbeat = 5"), "option 'heartbeat' is for live input"),
    (relation("csv:watched", "watch = true"), "a relation that is read once needs input that ends"),
    # Options that do nothing for a query.
    (query(f"{GROUPED} WITH (foo = 1)"), "unknown option of a query 'foo'"),
    (query(f"{SELECT} WITH (join = 'lazy')"), "join is not for a query without a join of windows"),
    (query("SELECT s.k FROM s [NOW], f WHERE s.k = f.k WITH (join = 'lazy')"), "relations are looked up"),
    (query(f"SELECT s.k FROM {JOIN} WITH (join = 'lazy')"), "join = 'lazy' is not for a query without SLIDE"),
    (query(f"SELECT s.k FROM {JOIN} WITH (join = 'lazy-restore')"), "is not for a query without SLIDE"),
    (
        query(f"SELECT s.k FROM {JOIN} WITH (strategy = 'nt')".replace("5 SEC]", "5 SEC INTERNAL]", 1)),
        "strategy = 'nt' is not for a query of which only some windows are INTERNAL",
    ),
    (
        query(f"SELECT s.k FROM {JOIN} WITH (join = 'eager')".replace("5 SEC]", "5 SEC INTERNAL]", 1)),
        "join is not for a query of which only some windows are INTERNAL",
    ),
    (query(f"{SELECT} WITH (refresh = 'exact')"), "q: refresh is not for"),
    (query(f"{SELECT} WITH (priority = 1)"), "q: priority is not for"),
    (query(f"{SELECT} WITH (state = 'driver')"), "q: state is not for"),
    (query(f"{GROUPED} WITH (strategy = 'upa', state = 'driver')"), "q: state is not for"),
    (
        query("SELECT COUNT(*) FROM s [RANGE 5 SEC SLIDE 5 SEC] WITH (state = 'driver')"),
        "q: a query without GROUP BY has one group",
    ),
    (
        query(f"{GROUPED} WITH (state = 'partitioned', refresh = 'elastic')"),
        "q: state = 'partitioned' is not for a query that is refreshed elastically",
    ),
    (
        query(f"{GROUPED} WITH (start = 'now', warm_up = 'partial')"),
        "q: warm_up = 'partial' is not for a query with start = 'now'",
    ),
]


@pytest.mark.parametrize(("text", "why"), REFUSED)
def test_check_refuses_what_a_run_refuses_with_the_same_words(text: str, why: str, folder: Path) -> None:
    before = sorted(folder.iterdir())
    program = bind_program(STREAMS + text)
    found = of_check(program, folder)
    assert found is not None
    assert why in found
    assert sorted(folder.iterdir()) == before
    assert refusal(program, folder) == refusal(program, folder, partitions=2) == found


@pytest.mark.parametrize(
    "text",
    [
        f"EXPLAIN {SELECT} WITH (foo = 1);{query(SELECT)}",
        f"CREATE RELATION b (k STRING) FROM 'csv:b.csv' WITH (foo = 1);{query(SELECT)}",
        f"CREATE STREAM b (t BIGINT) TIMESTAMP BY t FROM 'csv:b.csv' WITH (foo = 1);{query(SELECT)}",
    ],
)
def test_check_also_refuses_options_of_what_a_run_passes_over(text: str, folder: Path) -> None:
    program = bind_program(STREAMS + text)
    assert refusal(program, folder) is None
    assert "option" in (of_check(program, folder) or "")


@pytest.mark.parametrize(
    "text",
    [
        query(f"{GROUPED} WITH (refresh = 'elastic', priority = 2, warm_up = 'partial')"),
        query(f"{GROUPED} WITH (state = 'partitioned', start = 'now', warm_up = 'whole')"),
        query(f"SELECT s.k FROM {JOIN} WITH (join = 'eager-lazy', strategy = 'direct')"),
        archive("WITH (strategy = 'direct')"),
        archive("WITH (join = 'eager')", f"SELECT s.k FROM {JOIN}"),
        f"EXPLAIN {SELECT};{query(SELECT)}",
    ],
)
def test_files_need_not_be_there_and_none_is_made(text: str, tmp_path: Path) -> None:
    check_program(bind_program(STREAMS + text), tmp_path)
    assert list(tmp_path.iterdir()) == []


# ------------------------------------------------------------------------------------- random programs

OPTIONS = (
    "join = 'eager'", "join = 'eager-lazy'", "join = 'lazy'", "join = 'lazy-restore'", "strategy = 'nt'",
    "strategy = 'direct'", "refresh = 'exact'", "refresh = 'elastic'", "priority = 3", "state = 'driver'",
    "state = 'partitioned'", "warm_up = 'partial'", "start = 'now'", "foo = 1",
)  # fmt: skip
WINDOWS = (
    "[RANGE 20 SEC]", "[RANGE 20 SEC SLIDE 10 SEC]", "[RANGE 25 SEC SLIDE 10 SEC]", "[ROWS 3]", "[NOW]",
    "[ROWS 4 SLIDE 2]", "[PARTITION BY g ROWS 2]", "[RANGE 20 SEC OFFSET 10 SEC]",
)  # fmt: skip
FREQUENT = (
    "SELECT FREQUENT(n, 2) AS c0 FROM s0 {}", "SELECT g, FREQUENT(n, 2) AS c0 FROM s0 {} GROUP BY g",
    "SELECT FREQUENT(a.n, 2) AS c0 FROM s0 {} a, s0 {} b WHERE a.g = b.g",
    "SELECT FREQUENT(n, 2) AS c0 FROM (SELECT DISTINCT n FROM s0 {}) a",
)  # fmt: skip


@st.composite
def texts(draw: st.DrawFn) -> tuple[object, str]:
    """A scenario; its text with options that queries may not have, or a query that operators may refuse."""
    scenario = draw(durable_programs(least_rows=1, most_rows=6, most_queries=3))
    text = scenario.text
    # Each as often as it stands there, which Hypothesis would not see to.
    chance = random.Random(draw(st.integers(0, 1 << 32)))
    options = {option.split()[0]: option for option in chance.choices(OPTIONS, k=chance.randint(0, 2))}
    queries = [each for each in scenario.queries if each.startswith("CREATE QUERY")]
    if options and queries and "\n  WITH (" not in queries[0]:
        changed = queries[0].removesuffix(";\n") + f"\n  WITH ({', '.join(options.values())});\n"
        text = text.replace(queries[0], changed)
    if not scenario.queries or chance.random() < 0.2:
        select = chance.choice(FREQUENT).format(*[chance.choice(WINDOWS)] * 2)
        text += chance.choice((query(select).replace("q.jsonl", "f.jsonl"), f"{select};"))
    return scenario, text.replace("QUERY q INTO", "QUERY f INTO")


@settings(max_examples=80)
@given(made=texts())
def test_random_programs_are_accepted_and_refused_by_both_alike(made: tuple[object, str]) -> None:
    scenario, text = made
    try:
        program = bind_program(text)
    except SashError:
        return
    with tempfile.TemporaryDirectory() as made_folder:
        folder = Path(made_folder)
        found = of_check(program, folder)
        for source in scenario.sources:  # type: ignore[attr-defined]
            source.write(folder)
        assert of_check(program, folder) == found
        assert refusal(program, folder) == found, text
        assert refusal(program, folder, partitions=2) == found, text
