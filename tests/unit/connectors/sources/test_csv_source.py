from __future__ import annotations

import csv
import gzip
import io
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.connectors.sources.source_kit import (
    B,
    D,
    F,
    S,
    T,
    chunks_of,
    read_all,
    rejects_of,
    stream_of,
    values_of,
)

from sash.connectors.sources import open_source, read, records
from sash.errors import SourceError

COLUMNS = {"ts": B, "name": S, "x": D}


def csv_file(tmp_path: Path, content: str | bytes, name: str = "in.csv") -> str:
    data = content.encode() if isinstance(content, str) else content
    (tmp_path / name).write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    return f"csv:{name}"


def test_reads_columns_by_header_name_in_schema_order(tmp_path: Path) -> None:
    source = csv_file(tmp_path, "X,extra,TS,Name\n1.5,?,1,a\n,?,2,\n")
    stream = stream_of(source, COLUMNS, unit=1_000_000)
    parts = read_all(stream, tmp_path)
    assert values_of(parts) == [(1_000_000, 0, 1, "a", 1.5), (2_000_000, 1, 2, None, None)]
    types = [("ts", pa.int64()), ("name", pa.string()), ("x", pa.float64())]
    assert parts[0].table.schema == pa.schema(types)
    assert values_of(read_all(stream, tmp_path, ["x"])) == [(1_000_000, 0, 1.5), (2_000_000, 1, None)]


def test_no_column_asked_still_gives_times(tmp_path: Path) -> None:
    stream = stream_of(csv_file(tmp_path, "ts,name,x\n1,a,1\nx,a,1\n3,a,1\n"), COLUMNS)
    (rows,) = read_all(stream, tmp_path, [])
    assert rows.ts.tolist() == [1, 3]


def test_a_bad_value_in_a_column_nobody_asked_for_rejects_the_row(tmp_path: Path) -> None:
    stream = stream_of(csv_file(tmp_path, "ts,name,x\n1,a,zz\n2,b,2\n"), COLUMNS)
    parts = read_all(stream, tmp_path, ["name"])
    assert values_of(parts) == [(2, 1, "b")]
    assert rejects_of(parts) == [(1, "x: 'zz' is not a DOUBLE", "1,a,zz")]


def test_quotes_embedded_line_ends_and_nulls(tmp_path: Path) -> None:
    text = 'ts,name,x\r\n1,"a ""b""\r\nc,d",1\r\n\r\n2,"",\r\n3,,2\r\n4,5" pipe,3\r\n5,"q"tail,4\r\n'
    stream = stream_of(csv_file(tmp_path, text), COLUMNS)
    assert [row[2:] for row in values_of(read_all(stream, tmp_path))] == [
        (1, 'a "b"\r\nc,d', 1.0),
        (2, "", None),
        (3, None, 2.0),
        (4, '5" pipe', 3.0),
        (5, "qtail", 4.0),
    ]


def test_options_header_delimiter_and_null(tmp_path: Path) -> None:
    source = csv_file(tmp_path, '1\tNA\t2\n2\t"NA"\tNA\n')
    stream = stream_of(source, COLUMNS, header=False, delimiter="tab", null="NA")
    assert [row[2:] for row in values_of(read_all(stream, tmp_path))] == [(1, None, 2.0), (2, "NA", None)]


@pytest.mark.parametrize("name", ["in.csv", "in.csv.gz"])
@pytest.mark.parametrize("content", [b"", b"ts,name,x\n", b"\xef\xbb\xbfts,name,x", b"\n\n"])
def test_files_without_rows(tmp_path: Path, name: str, content: bytes) -> None:
    stream = stream_of(csv_file(tmp_path, content, name), COLUMNS)
    open_source(stream, tmp_path).check()
    assert values_of(read_all(stream, tmp_path)) == []


@pytest.mark.parametrize("name", ["in.csv", "in.csv.gz"])
def test_bom_and_no_final_newline(tmp_path: Path, name: str) -> None:
    stream = stream_of(csv_file(tmp_path, b"\xef\xbb\xbfts,name,x\n1,a,1\n2,b,2", name), COLUMNS)
    assert values_of(read_all(stream, tmp_path)) == [(1, 0, 1, "a", 1.0), (2, 1, 2, "b", 2.0)]


def test_a_bad_byte_rejects_its_row_only(tmp_path: Path) -> None:
    stream = stream_of(csv_file(tmp_path, b"ts,name,x\n1,a,1\n2,\xff\xfe,2\n3,\xc3,3\n4,d,4\n"), COLUMNS)
    parts = read_all(stream, tmp_path)
    assert [row[0] for row in values_of(parts)] == [1, 4]
    assert [(row, why) for row, why, _ in rejects_of(parts)] == [
        (2, "bytes that are not UTF-8"),
        (3, "bytes that are not UTF-8"),
    ]


def test_wrong_number_of_fields_is_rejected_with_the_text(tmp_path: Path) -> None:
    stream = stream_of(csv_file(tmp_path, "ts,name,x\n1,a\n2,b,2\n3,c,3,4\n"), COLUMNS)
    parts = read_all(stream, tmp_path)
    assert [row[0] for row in values_of(parts)] == [2]
    assert rejects_of(parts) == [
        (1, "expected 3 fields, got 2", "1,a"),
        (3, "expected 3 fields, got 4", "3,c,3,4"),
    ]


@pytest.mark.parametrize("name", ["in.csv", "in.csv.gz"])
def test_a_quote_that_never_closes_costs_one_row(tmp_path: Path, name: str) -> None:
    stream = stream_of(csv_file(tmp_path, 'ts,name,x\n1,a,1\n2,"oops,2\n3,c,3\n4,d,4\n', name), COLUMNS)
    parts = read_all(stream, tmp_path)
    assert [row[0] for row in values_of(parts)] == [1, 3, 4]
    assert rejects_of(parts) == [(2, "a quote that never closes", '2,"oops,2')]


@pytest.mark.parametrize("name", ["in.csv", "in.csv.gz"])
def test_a_record_without_end_is_cut_at_its_first_line(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(records, "MAX_RECORD", 1000)
    text = "ts,name,x\n" + '1,"oops,1\n' + "2,b,2\n" * 300 + '3,"c",3\n'
    stream = stream_of(csv_file(tmp_path, text, name), COLUMNS)
    for target in (1 << 40, 7):
        parts = read_all(stream, tmp_path, target_rows=target)
        assert len(values_of(parts)) == 301
        assert [row for row, _, _ in rejects_of(parts)] == [1]


def test_a_value_of_one_megabyte(tmp_path: Path) -> None:
    big = "é" * (1 << 19)
    stream = stream_of(csv_file(tmp_path, f'ts,name,x\n1,a,1\n2,"{big}",2\n3,c,3\n'), COLUMNS)
    for target in (1, 100):
        assert values_of(read_all(stream, tmp_path, target_rows=target))[1][3] == big


def test_a_record_longer_than_a_block(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sash.connectors.sources.text.BLOCK_BYTES", 16)
    text = "ts,name,x\n" + "".join(f'{i},"{"y" * (i % 90)}\n",{i}\n' for i in range(200))
    stream = stream_of(csv_file(tmp_path, text), COLUMNS)
    assert [row[0] for row in values_of(read_all(stream, tmp_path, target_rows=3))] == list(range(200))


def test_timestamps_of_all_ages_and_all_types_null(tmp_path: Path) -> None:
    columns = {"ts": T, "a": B, "b": D, "c": S, "d": F, "e": T}
    text = (
        "ts,a,b,c,d,e\n1969-12-31T23:59:59.999999Z,,,,,\n9999-12-31 23:59:59,1,2,x,t,0001-01-01\n"
        "10000-01-01,,,,,\n,1,1,1,1,2020-01-01\n"
    )
    parts = read_all(stream_of(csv_file(tmp_path, text), columns), tmp_path)
    assert values_of(parts) == [
        (-1, 0, -1, None, None, None, None, None),
        (253_402_300_799_000_000, 1, 253_402_300_799_000_000, 1, 2.0, "x", True, -62_135_596_800_000_000),
    ]
    assert [why for _, why, _ in rejects_of(parts)] == [
        "ts: '10000-01-01' is not a TIMESTAMP",
        "ts: no timestamp",
    ]


def test_integer_times_out_of_range(tmp_path: Path) -> None:
    limit = 2**62 // 1_000_000
    text = f"ts\n{limit}\n{limit + 1}\n{-limit}\n{-limit - 1}\n"
    parts = read_all(stream_of(csv_file(tmp_path, text), {"ts": B}, unit=1_000_000), tmp_path)
    assert [row[0] for row in values_of(parts)] == [limit * 1_000_000, -limit * 1_000_000]
    assert [why for _, why, _ in rejects_of(parts)] == ["ts: out of range"] * 2


def test_all_reasons_of_a_row_are_given(tmp_path: Path) -> None:
    parts = read_all(stream_of(csv_file(tmp_path, "ts,name,x\n,a,b\n"), COLUMNS), tmp_path)
    assert rejects_of(parts) == [(1, "x: 'b' is not a DOUBLE; ts: no timestamp", ",a,b")]


def test_check_names_what_is_missing(tmp_path: Path) -> None:
    source = csv_file(tmp_path, "ts,name\n1,a\n")
    with pytest.raises(SourceError, match="no column 'x'") as caught:
        open_source(stream_of(source, COLUMNS), tmp_path).check()
    assert "header = false" in caught.value.render()
    with pytest.raises(SourceError, match="no option 'header_line'") as caught:
        open_source(stream_of(source, COLUMNS, header_line=1), tmp_path)
    assert "delimiter, header, heartbeat, null" in caught.value.render()
    with pytest.raises(SourceError, match="delimiter"):
        open_source(stream_of(source, COLUMNS, delimiter="ab"), tmp_path)


def test_gzip_is_one_chunk(tmp_path: Path) -> None:
    text = "ts,name,x\n" + "".join(f"{i},n,1\n" for i in range(1000))
    stream = stream_of(csv_file(tmp_path, text, "in.csv.gz"), COLUMNS)
    (chunk,) = chunks_of(stream, tmp_path, max_rows=10)
    assert chunk.rows == -1
    assert read(stream, chunk, None).ts.tolist() == list(range(1000))


def test_a_damaged_gzip_file_is_a_source_error(tmp_path: Path) -> None:
    data = gzip.compress(b"ts,name,x\n" + b"1,a,1\n" * 1000)
    (tmp_path / "in.csv.gz").write_bytes(data[:-20])
    stream = stream_of("csv:in.csv.gz", COLUMNS)
    with pytest.raises(SourceError, match="cannot read"):
        read_all(stream, tmp_path)


NASTY = st.text(st.sampled_from('a,"\n\r é'), max_size=6)


@settings(derandomize=True, deadline=None, max_examples=150)
@given(
    st.lists(st.tuples(st.integers(-5, 5), NASTY, st.sampled_from(["1", "2.5", "", "bad"])), max_size=30),
    st.integers(1, 12),
    st.integers(1, 12),
    st.booleans(),
)
def test_chunking_never_shows(
    tmp_path_factory: pytest.TempPathFactory,
    rows: list[tuple[int, str, str]],
    max_rows: int,
    target_rows: int,
    crlf: bool,
) -> None:
    base = tmp_path_factory.mktemp("csv")
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\r\n" if crlf else "\n", quoting=csv.QUOTE_ALL)
    writer.writerows([("ts", "name", "x"), *rows])
    # An empty bare field: csv.QUOTE_ALL has quoted it, and a quoted empty DOUBLE is no DOUBLE.
    text = out.getvalue().replace(',""\r\n', ",\r\n").replace(',""\n', ",\n")
    (base / "in.csv").write_bytes(text.encode())
    stream = stream_of("csv:in.csv", COLUMNS)
    whole = read_all(stream, base)
    parts = read_all(stream, base, max_rows=max_rows, target_rows=target_rows)
    assert values_of(parts) == values_of(whole)
    assert rejects_of(parts) == rejects_of(whole)
    expected: list[tuple[Any, ...]] = [(ts, name) for ts, name, x in rows if x != "bad"]
    assert [(row[2], row[3]) for row in values_of(whole)] == expected


@settings(derandomize=True, deadline=None, max_examples=300)
@given(st.binary(max_size=60).map(lambda b: bytes(b'1,"\n\rx\xff'[c % 7] for c in b)), st.integers(1, 5))
def test_garbage_is_cut_the_same_everywhere_and_every_row_is_accounted_for(
    tmp_path_factory: pytest.TempPathFactory, garbage: bytes, target_rows: int
) -> None:
    base = tmp_path_factory.mktemp("csv")
    (base / "in.csv").write_bytes(garbage)
    stream = stream_of("csv:in.csv", {"ts": B, "name": S}, header=False)
    whole = read_all(stream, base)
    parts = read_all(stream, base, max_rows=target_rows * 2, target_rows=target_rows)
    assert values_of(parts) == values_of(whole)
    assert rejects_of(parts) == rejects_of(whole)
    (base / "in.csv.gz").write_bytes(gzip.compress(garbage))
    packed = read_all(stream_of("csv:in.csv.gz", {"ts": B, "name": S}, header=False), base)
    assert values_of(packed) == values_of(whole)
    assert rejects_of(packed) == rejects_of(whole)


@pytest.mark.parametrize(
    ("content", "hint"),
    [
        (gzip.compress(b"ts,name,x\n", mtime=0), "compressed with gzip: give it a name that ends in .gz"),
        (b"PK\x03\x04rest", "a zip archive: unpack it"),
        (b"PAR1\x15\x04", "a Parquet file: write FROM 'parquet:"),
        ("ts,name,x\n".encode("utf-16"), "UTF-16: save it as UTF-8"),
        (b"ts,name,x,\xfc\n1,a,1,1\n", "save the file as UTF-8"),
        (b"ts;Name;x\n1;a;1\n", "separated by ;: say WITH (delimiter = ';')"),
        (b"x\ty\tts\tname\n", "separated by tab: say WITH (delimiter = 'tab')"),
        (b"1,a,1\n", "say WITH (header = false)"),
    ],
)
def test_a_file_that_is_something_else_is_refused_with_what_to_do(
    content: bytes, hint: str, tmp_path: Path
) -> None:
    stream = stream_of(csv_file(tmp_path, content), COLUMNS)
    with pytest.raises(SourceError) as caught:
        open_source(stream, tmp_path).check()
    assert hint in caught.value.render()


def test_a_header_without_an_end_is_refused(tmp_path: Path) -> None:
    for content, reason in (
        (b'ts,name,"x\n1,2,3\n', "a quote that never closes"),
        (b"ts,name,x," + b"y" * records.MAX_RECORD, "a record longer than 16 MiB"),
    ):
        stream = stream_of(csv_file(tmp_path, content), COLUMNS)
        with pytest.raises(SourceError, match=reason):
            open_source(stream, tmp_path).check()


def test_columns_that_cannot_be_shown_are_escaped(tmp_path: Path) -> None:
    stream = stream_of(csv_file(tmp_path, b"ts,name,a\x00b\n1,a,1\n"), COLUMNS)
    with pytest.raises(SourceError) as caught:
        open_source(stream, tmp_path).check()
    assert caught.value.got == r"ts, name, 'a\x00b'"
