from __future__ import annotations

import csv
import errno
import io
import json
import math
import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sash.connectors.sinks import open_sink, text_file
from sash.connectors.sources import open_source, read
from sash.errors import SinkError
from sash.lang.bound import StreamDefinition
from sash.lang.types import Column, Schema, Type

SCHEMA = pa.schema(
    [
        ("ts", pa.timestamp("us", "UTC")),
        ("op", pa.string()),
        ("name", pa.string()),
        ("n", pa.int64()),
        ("x", pa.float64()),
        ("ok", pa.bool_()),
        ("at", pa.timestamp("us")),
    ]
)


def table(*rows: tuple[Any, ...]) -> pa.Table:
    columns = list(zip(*rows, strict=True)) or [()] * len(SCHEMA)
    return pa.table([pa.array(c, f.type) for c, f in zip(columns, SCHEMA, strict=True)], schema=SCHEMA)


ROW = (10_000_000, "+", 'a"b\\c\n\x01é😀', 2**63 - 1, 0.1, True, -1)
NULLS = (10_000_001, "-", None, None, None, None, None)


def written(base: Path, uri: str, *tables: pa.Table) -> str:
    sink = open_sink(uri, tables[0].schema, base)
    sink.check()
    sink.open(None)
    for part in tables:
        sink.write(part)
    sink.commit()
    sink.close()
    return (base / uri.partition(":")[2]).read_bytes().decode()


@settings(max_examples=30)
@given(st.lists(st.tuples(st.sampled_from(["jsonl", "csv"]), st.booleans(), st.integers(0, 5)), max_size=6))
def test_files_that_are_written_together_are_as_if_each_were_written_alone(tmp_path_factory, parts):
    base = tmp_path_factory.mktemp("sinks")
    tables = []
    for number, (_, is_narrow, rows) in enumerate(parts):
        made = table(*((10 * number + row, "+", "é" * row, row, None, True, row) for row in range(rows)))
        tables.append(made.select(["ts", "n"]) if is_narrow else made)
    alone = [
        written(base, f"{kind}:alone/{number}", given_)
        for number, ((kind, _, _), given_) in enumerate(zip(parts, tables, strict=True))
    ]
    sinks = [
        open_sink(f"{kind}:{number}", given_.schema, base)
        for number, ((kind, _, _), given_) in enumerate(zip(parts, tables, strict=True))
    ]
    texts = [sink for sink in sinks if isinstance(sink, text_file.TextFileSink)]
    for sink in texts:
        sink.open(None)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(text_file, "ROWS_AT_ONCE", 3)
        text_file.write_together(zip(texts, tables, strict=True))
    for sink in texts:
        sink.commit()
        sink.close()
    assert [(base / str(number)).read_text() for number in range(len(parts))] == alone


def test_jsonl_to_the_letter(tmp_path: Path) -> None:
    assert written(tmp_path, "jsonl:out/a.jsonl", table(ROW, NULLS), table()) == (
        '{"ts":"1970-01-01T00:00:10.000000Z","op":"+","name":"a\\"b\\\\c\\n\\u0001é😀",'
        '"n":9223372036854775807,"x":0.1,"ok":true,"at":"1969-12-31T23:59:59.999999Z"}\n'
        '{"ts":"1970-01-01T00:00:10.000001Z","op":"-","name":null,"n":null,"x":null,"ok":null,"at":null}\n'
    )


def test_csv_to_the_letter(tmp_path: Path) -> None:
    rows = table((0, "+", 'a "b",\nc', 1, 1.0, False, 0), (1, "-", "", None, math.inf, None, None), NULLS)
    assert written(tmp_path, "csv:a.csv", rows) == (
        "ts,op,name,n,x,ok,at\n"
        '1970-01-01T00:00:00.000000Z,+,"a ""b"",\nc",1,1.0,false,1970-01-01T00:00:00.000000Z\n'
        '1970-01-01T00:00:00.000001Z,-,"",,Infinity,,\n'
        "1970-01-01T00:00:10.000001Z,-,,,,,\n"
    )


def test_integer_time_dictionaries_and_chunked_tables(tmp_path: Path) -> None:
    names = pa.chunked_array([pa.array(["b", "a"]).dictionary_encode(), pa.array(["c"]).dictionary_encode()])
    rows = pa.table({"ts": [1, 2, 3], "k'\"": names})
    lines = [json.loads(line) for line in written(tmp_path, "jsonl:a", rows).splitlines()]
    assert lines == [{"ts": 1, "k'\"": "b"}, {"ts": 2, "k'\"": "a"}, {"ts": 3, "k'\"": "c"}]
    assert next(csv.reader(io.StringIO(written(tmp_path, "csv:b", rows)))) == ["ts", "k'\""]


@pytest.mark.parametrize(
    ("x", "text"),
    [
        (1.0, "1.0"),
        (-0.0, "-0.0"),
        (1e22, "1e+22"),
        (math.nan, '"NaN"'),
        (math.inf, '"Infinity"'),
        (-math.inf, '"-Infinity"'),
        (123456789012345680.0, "1.2345678901234568e+17"),
    ],
)
def test_doubles_in_json(tmp_path: Path, x: float, text: str) -> None:
    assert written(tmp_path, "jsonl:a", pa.table({"ts": [1], "x": [x]})) == f'{{"ts":1,"x":{text}}}\n'


def test_times_beyond_the_calendar_of_arrow(tmp_path: Path) -> None:
    rows = table((2**62, "+", None, None, None, None, 253_402_300_800_000_000), NULLS)
    line = json.loads(written(tmp_path, "jsonl:a", rows).splitlines()[0])
    assert line["ts"] == "148108-07-06T14:00:27.387904Z"
    assert line["at"] == "10000-01-01T00:00:00.000000Z"


def test_many_rows_are_written_in_slices(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sash.connectors.sinks.text_file.ROWS_AT_ONCE", 3)
    rows = pa.table({"ts": list(range(10)), "s": [str(i) for i in range(10)]})
    assert [json.loads(line)["ts"] for line in written(tmp_path, "jsonl:a", rows).splitlines()] == list(
        range(10)
    )


TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)


@settings(derandomize=True, deadline=None, max_examples=150)
@given(st.lists(st.tuples(st.none() | TEXT, st.none() | st.floats(), st.none() | st.booleans()), max_size=8))
def test_json_round_trip(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[str | None, float | None, bool | None]]
) -> None:
    answer = table(*[(i, "+", s, i, x, b, i) for i, (s, x, b) in enumerate(rows)])
    text = written(tmp_path_factory.mktemp("sink"), "jsonl:a", answer)
    lines = [json.loads(line) for line in text.split("\n")[:-1]]
    assert len(lines) == len(rows)
    for line, (s, x, b) in zip(lines, rows, strict=True):
        assert line["name"] == s
        assert line["ok"] is b
        assert repr(None if line["x"] is None else float(line["x"])) == repr(x)


@settings(derandomize=True, deadline=None, max_examples=100)
@given(st.lists(st.tuples(st.none() | TEXT, st.none() | st.floats()), max_size=8))
def test_what_the_csv_sink_writes_the_csv_source_reads(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[str | None, float | None]]
) -> None:
    base = tmp_path_factory.mktemp("sink")
    answer = table(*[(i, "+", s, i, x, None, i) for i, (s, x) in enumerate(rows)])
    written(base, "csv:a.csv", answer)
    columns = (Column("ts", Type.TIMESTAMP), Column("name", Type.STRING), Column("x", Type.DOUBLE))
    stream = StreamDefinition("s", Schema(columns), "ts", 1, 0, "csv:a.csv", ())
    back = [read(stream, chunk) for chunk in open_source(stream, base).plan({}, 100).chunks]
    assert [s for part in back for s in part.table["name"].to_pylist()] == [s for s, _ in rows]
    assert [repr(x) for part in back for x in part.table["x"].to_pylist()] == [repr(x) for _, x in rows]


@pytest.mark.parametrize("scheme", ["jsonl", "csv"])
def test_going_on_takes_back_what_was_not_committed(tmp_path: Path, scheme: str) -> None:
    #  write A | commit ── kept ──> write B | (commit not kept) | kill -9 | open(kept) | write C
    uri = f"{scheme}:out"
    sink = open_sink(uri, SCHEMA, tmp_path)
    sink.open(None)
    sink.write(table(ROW))
    kept = json.loads(json.dumps(sink.commit()))
    sink.write(table(NULLS, NULLS))
    sink.commit()
    with (tmp_path / "out").open("ab") as torn:
        torn.write(b'{"ts":"19')
    sink.close()
    again = open_sink(uri, SCHEMA, tmp_path)
    again.open(kept)
    again.write(table(NULLS))
    again.commit()
    again.close()
    resumed = (tmp_path / "out").read_text()
    assert resumed == written(tmp_path, f"{scheme}:whole", table(ROW), table(NULLS))


def test_starting_anew_replaces_the_file(tmp_path: Path) -> None:
    written(tmp_path, "jsonl:a", table(ROW, ROW, ROW))
    assert written(tmp_path, "jsonl:a", table(NULLS)).count("\n") == 1


@pytest.mark.parametrize("scheme", ["jsonl", "csv"])
def test_a_file_that_is_gone_or_short_is_refused(tmp_path: Path, scheme: str) -> None:
    sink = open_sink(f"{scheme}:out", SCHEMA, tmp_path)
    with pytest.raises(SinkError, match="gone") as caught:
        sink.open({"size": 5})
    assert "start anew" in caught.value.render()
    (tmp_path / "out").write_text("abc")
    with pytest.raises(SinkError, match="not what the checkpoint says"):
        sink.open({"size": 5})
    assert (tmp_path / "out").read_text() == "abc"


def test_targets_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(SinkError, match="is not a directory"):
        open_sink("jsonl:file/out.jsonl", SCHEMA, tmp_path).check()
    with pytest.raises(SinkError, match="cannot create"):
        open_sink("jsonl:file/out.jsonl", SCHEMA, tmp_path).open(None)
    with pytest.raises(SinkError, match="is a directory"):
        open_sink(f"jsonl:{tmp_path}", SCHEMA, tmp_path).check()
    monkeypatch.setattr(os, "access", lambda *_: False)
    for uri in ("jsonl:new/out.jsonl", "parquet:new/out"):
        with pytest.raises(SinkError, match="cannot be written"):
            open_sink(uri, SCHEMA, tmp_path).check()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file"]


def test_a_full_disk_is_a_sink_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    sink = open_sink("jsonl:out", SCHEMA, tmp_path)
    sink.open(None)
    with monkeypatch.context() as patch:
        patch.setattr(os, "write", full)
        with pytest.raises(SinkError, match="cannot write") as caught:
            sink.write(table(ROW))
        assert "the disk is full" in caught.value.render()
        patch.setattr(os, "fsync", full)
        with pytest.raises(SinkError, match="cannot write to disk"):
            sink.commit()
    sink.close()


def test_short_writes_are_finished(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.write
    monkeypatch.setattr(os, "write", lambda handle, data: real(handle, data[:7]))
    assert len(written(tmp_path, "jsonl:a", table(ROW, NULLS)).splitlines()) == 2


def test_unknown_schemes_list_the_known_ones(tmp_path: Path) -> None:
    for uri in ("kafka:x", "out.jsonl"):
        with pytest.raises(SinkError, match="unknown sink") as caught:
            open_sink(uri, SCHEMA, tmp_path)
        assert "console, csv, jsonl, noop, parquet" in caught.value.render()
    with pytest.raises(SinkError, match="names no file"):
        open_sink("csv:", SCHEMA, tmp_path)
