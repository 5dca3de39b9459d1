"""How a column of a stream finds its column in a file: as it is spelled if quoted, else in any case."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.unit.connectors.sources.source_kit import read_all

from sash.connectors.sources import open_source
from sash.errors import SourceError
from sash.lang import bind_program
from sash.lang.bound import StreamDefinition
from sash.runtime.run import run_program

Write = Callable[[Path, list[str], list[list[Any]]], str]


def write_csv(base: Path, names: list[str], rows: list[list[Any]]) -> str:
    lines = [",".join(names), *(",".join(map(str, row)) for row in rows)]
    (base / "in.csv").write_text("\n".join(lines) + "\n")
    return "csv:in.csv"


def write_json(base: Path, names: list[str], rows: list[list[Any]]) -> str:
    (base / "in.jsonl").write_text(
        "".join(json.dumps(dict(zip(names, row, strict=True))) + "\n" for row in rows)
    )
    return "json:in.jsonl"


def write_parquet(base: Path, names: list[str], rows: list[list[Any]]) -> str:
    columns = [pa.array(values) for values in zip(*rows, strict=True)]
    pq.write_table(pa.Table.from_arrays(columns, names=names), base / "in.parquet")
    return "parquet:in.parquet"


every_format = pytest.mark.parametrize("write", [write_csv, write_json, write_parquet])


def stream(columns: str, source: str) -> StreamDefinition:
    text = f"CREATE STREAM s ({columns}) TIMESTAMP BY ms FROM '{source}' WITH (unit = 'ms');"
    return bind_program(text).streams[0]


def read(columns: str, source: str, base: Path) -> list[dict[str, Any]]:
    return [row for rows in read_all(stream(columns, source), base) for row in rows.table.to_pylist()]


@every_format
def test_a_quoted_name_is_found_as_it_is_spelled(write: Write, tmp_path: Path) -> None:
    source = write(tmp_path, ["User", "user", "ms"], [["a", "x", 1], ["b", "y", 2]])
    assert read('"User" STRING, ms BIGINT', source, tmp_path) == [
        {"User": "a", "ms": 1},
        {"User": "b", "ms": 2},
    ]
    assert read("user STRING, ms BIGINT", source, tmp_path) == [
        {"user": "x", "ms": 1},
        {"user": "y", "ms": 2},
    ]


@every_format
def test_other_names_are_found_in_any_case(write: Write, tmp_path: Path) -> None:
    source = write(tmp_path, ["USER", "Ms"], [["a", 1]])
    assert read("User STRING, MS BIGINT", source, tmp_path) == [{"user": "a", "ms": 1}]


@every_format
def test_a_name_that_could_be_two_columns_is_refused(write: Write, tmp_path: Path) -> None:
    source = write(tmp_path, ["User", "USER", "ms"], [["a", "b", 1]])
    with pytest.raises(SourceError, match="two columns 'user'") as caught:
        open_source(stream("user STRING, ms BIGINT", source), tmp_path).check()
    assert "got: 'User', 'USER'" in caught.value.render()
    assert 'double quotes, such as "User"' in caught.value.render()


@pytest.mark.parametrize("write", [write_csv, write_parquet])
def test_a_missing_column_lists_those_that_there_are(write: Write, tmp_path: Path) -> None:
    source = write(tmp_path, ["User", "ms", "Page"], [["a", 1, "/"]])
    with pytest.raises(SourceError, match="no column 'USER'") as caught:
        open_source(stream('"USER" STRING, ms BIGINT', source), tmp_path).check()
    assert "got: User, ms, Page" in caught.value.render()
    assert "in double quotes must be spelled as in the file" in caught.value.render()
    with pytest.raises(SourceError, match="no column 'pgae'") as caught:
        open_source(stream("pgae STRING, ms BIGINT", source), tmp_path).check()
    assert "did you mean 'Page'?" in caught.value.render()


def test_a_header_with_the_same_name_twice_is_refused_where_it_is_read(tmp_path: Path) -> None:
    source = write_csv(tmp_path, ["user", "user", "ms"], [["a", "b", 1]])
    with pytest.raises(SourceError, match="two columns 'user'"):
        open_source(stream("user STRING, ms BIGINT", source), tmp_path).check()
    assert read("ms BIGINT", source, tmp_path) == [{"ms": 1}]


@every_format
def test_a_relation_finds_its_columns_in_the_same_way(write: Write, tmp_path: Path) -> None:
    source = write(tmp_path, ["User", "OWNER", "ms"], [["a", "Ada", 1]])
    program = bind_program(
        f"""CREATE RELATION owners ("User" STRING, owner STRING) KEY ("User") FROM '{source}';
        CREATE STREAM s ("User" STRING, ms BIGINT) TIMESTAMP BY ms FROM '{source}' WITH (unit = 'ms');
        CREATE QUERY q INTO 'jsonl:q.jsonl' AS
          Istream(SELECT s."User", owner FROM s [RANGE 1 SEC] JOIN owners ON s."User" = owners."User");"""
    )
    run_program(program, base_dir=tmp_path, runtime="inline")
    assert (tmp_path / "q.jsonl").read_text() == '{"ts":1,"User":"a","owner":"Ada"}\n'


def test_an_error_calls_a_relation_a_relation(tmp_path: Path) -> None:
    (tmp_path / "s.csv").write_text("ms,k\n1,a\n")
    program = bind_program(
        """CREATE RELATION r (k STRING, v BIGINT) KEY (k) FROM 'csv:r.csv';
        CREATE STREAM s (ms BIGINT, k STRING) TIMESTAMP BY ms FROM 'csv:s.csv';
        CREATE QUERY q INTO 'noop:' AS SELECT v FROM s [NOW] JOIN r ON s.k = r.k;"""
    )
    for text, wrong in (
        (None, "no such file"),
        ("k,w\n", "no column 'v'"),
        ("k,v\na,x\n", "row 1 does not fit"),
    ):
        if text is not None:
            (tmp_path / "r.csv").write_text(text)
        with pytest.raises(SourceError, match=f"^relation 'r': .*{wrong}"):
            run_program(program, base_dir=tmp_path, runtime="inline")
