"""Every option that docs/sources-and-sinks.md and docs/cql.md name can be written as they write it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from sash.connectors.sources import open_source
from sash.lang import bind_program
from sash.lang.parse import parse, unparse
from sash.runtime.run import run_program

DOCS = Path(__file__).parents[4] / "docs"
ROW = re.compile(r"^\| `(\w+)` \|", re.MULTILINE)


def documented(page: str, begin: str, end: str) -> list[str]:
    text = (DOCS / page).read_text()
    return ROW.findall(text[text.index(begin) : text.index(end)])


OF_FILES = documented("sources-and-sinks.md", "### Options", "### Silent streams")
OF_PACKETS = documented("sources-and-sinks.md", "### generator:packets", "### Rejected rows")
VALUES = {
    "watch": "true", "unit": "'ms'", "heartbeat": "5", "header": "true", "delimiter": "'tab'", "null": "'-'",
    "rate": "1000", "rows": "10", "seed": "1", "hosts": "20", "skew": "1.1", "bursts": "0.1",
    "start": "'2026-01-01T00:00:00Z'", "burst_factor": "5", "disorder": "1.5", "disorder_share": "0.2",
    "late_share": "0.01", "bad_share": "0.01", "pace": "false",
}  # fmt: skip


def test_the_tables_of_options_are_found() -> None:
    assert {*OF_FILES, *OF_PACKETS} == {*VALUES}


@pytest.mark.parametrize("option", OF_FILES)
@pytest.mark.parametrize("spelling", [str.lower, str.upper])
def test_an_option_of_files(option: str, spelling: object, tmp_path: Path) -> None:
    assert callable(spelling)
    place = "in" if option in ("watch", "heartbeat") else "in.csv"
    (tmp_path / "in").mkdir()
    (tmp_path / "in.csv").write_text(
        "ms\tname\n1\t-\n2\tb\n" if option == "delimiter" else "ms,name\n1,-\n2,b\n"
    )
    watched = "watch = true, " if option == "heartbeat" else ""
    text = (
        f"CREATE STREAM s (ms BIGINT, name STRING) TIMESTAMP BY ms FROM 'csv:{place}' "
        f"WITH ({watched}{spelling(option)} = {VALUES[option]});"
    )
    open_source(bind_program(text).streams[0], tmp_path).check()
    (statement,) = parse(text)
    again = bind_program(f"{unparse(statement.node)};").streams[0]
    assert (again.options, again.unit) == (
        bind_program(text).streams[0].options,
        bind_program(text).streams[0].unit,
    )


@pytest.mark.parametrize("option", OF_PACKETS)
def test_an_option_of_the_generator(option: str, tmp_path: Path) -> None:
    others = "" if option == "rows" else "rows = 10, "
    others += {"burst_factor": "bursts = 0.1, ", "disorder_share": "disorder = 1, "}.get(option, "")
    program = bind_program(
        f"""CREATE STREAM s (ts TIMESTAMP, src STRING) TIMESTAMP BY ts SLACK 2 SEC FROM 'generator:packets'
          WITH ({others}{option} = {VALUES[option]}, distinct_src = 5, selectivity_src = 0.5);
        CREATE QUERY q INTO 'noop:' AS SELECT src FROM s [RANGE 1 SEC];"""
    )
    counts = run_program(program, base_dir=tmp_path, runtime="inline").streams["s"]
    assert counts.read == 10


def test_another_spelling_of_null(tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_text('t,name,n\n1,-,-\n2,"-",5\n')
    program = bind_program(
        """CREATE STREAM s (t BIGINT, name STRING, n INT) TIMESTAMP BY t FROM 'csv:in.csv' WITH (null = '-');
        CREATE QUERY q INTO 'csv:q.csv' AS Istream(SELECT name, n FROM s [NOW]);"""
    )
    run_program(program, base_dir=tmp_path, runtime="inline")
    assert (tmp_path / "q.csv").read_text() == "ts,name,n\n1,,\n2,-,5\n"


@pytest.mark.parametrize(
    "options",
    [
        "refresh = 'exact'", "refresh = 'elastic'", "priority = 5", "state = 'driver'",
        "state = 'partitioned'", "strategy = 'upa'", "strategy = 'nt'", "strategy = 'direct'",
        "join = 'eager'", "join = 'eager-lazy'", "join = 'lazy'", "join = 'lazy-restore'",
        "refresh = 'elastic', priority = 5",
    ],
)  # fmt: skip
def test_an_option_of_queries(options: str, tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_text("t,k\n1,a\n2,a\n30,b\n")
    window = "[RANGE 10 SEC SLIDE 5 SEC]"
    select = f"SELECT k, COUNT(*) AS n FROM s {window} GROUP BY k"
    if options.startswith("join"):
        slide = " SLIDE 5 SEC" if "lazy" in options else ""
        select = f"SELECT p.k FROM s [RANGE 10 SEC{slide}] p, s [RANGE 10 SEC{slide}] q WHERE p.k = q.k"
    elif options.startswith("strategy"):
        select = "SELECT DISTINCT k FROM s [RANGE 10 SEC]"
    program = bind_program(
        f"""CREATE STREAM s (t BIGINT, k STRING) TIMESTAMP BY t FROM 'csv:in.csv';
        CREATE QUERY q INTO 'csv:q.csv' AS {select} WITH ({options});"""
    )
    run_program(program, base_dir=tmp_path, runtime="inline", partitions=2)
    assert (tmp_path / "q.csv").read_text().count("\n") >= 2
