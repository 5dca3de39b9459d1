from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.connectors.sources.source_kit import B, D, F, S, T, read_all, rejects_of, stream_of, values_of

from sash.connectors.sources import open_source

COLUMNS = {"ts": B, "name": S, "x": D}


def json_file(tmp_path: Path, content: bytes | str, name: str = "in.jsonl") -> str:
    data = content.encode() if isinstance(content, str) else content
    (tmp_path / name).write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    return f"json:{name}"


@pytest.mark.parametrize("name", ["in.jsonl", "in.jsonl.gz"])
def test_members_missing_members_and_nested_values(tmp_path: Path, name: str) -> None:
    text = (
        '\ufeff{"ts":1,"name":"a\\n\\"é","x":1.5}\r\n\r\n{"ts":2}\n\n'
        '{"ts":"3","name":{"k":[1, 2]},"x":null}\n{"ts":4,"name":true,"x":"inf"}'
    )
    stream = stream_of(json_file(tmp_path, text, name), COLUMNS)
    open_source(stream, tmp_path).check()
    assert values_of(read_all(stream, tmp_path)) == [
        (1, 0, 1, 'a\n"é', 1.5),
        (2, 1, 2, None, None),
        (3, 2, 3, '{"k":[1,2]}', None),
        (4, 3, 4, "true", float("inf")),
    ]


def test_lines_that_are_no_objects_are_rejected_with_their_text(tmp_path: Path) -> None:
    text = b'{"ts":1}\n[1]\n{"ts":\n{"ts":"\xff"}\n7\n{"ts":2,"x":"y"}\n{"name":"z"}\n{"ts":1.5}\n'
    parts = read_all(stream_of(json_file(tmp_path, text), COLUMNS), tmp_path)
    assert [row[0] for row in values_of(parts)] == [1]
    assert rejects_of(parts) == [
        (2, "not a JSON object", "[1]"),
        (3, "not a JSON object", '{"ts":'),
        (4, "bytes that are not UTF-8", '{"ts":"\ufffd"}'),
        (5, "not a JSON object", "7"),
        (6, "x: 'y' is not a DOUBLE", '{"ts":2,"x":"y"}'),
        (7, "ts: no timestamp", '{"name":"z"}'),
        (8, "ts: '1.5' is not a BIGINT", '{"ts":1.5}'),
    ]


def test_member_names_keep_their_case_as_the_first_line_spells_them(tmp_path: Path) -> None:
    text = '{"TS":1,"Name":"a","x":1}\n{"TS":2,"Name":"b","X":5}\n'
    parts = read_all(stream_of(json_file(tmp_path, text), COLUMNS), tmp_path, target_rows=1)
    assert [row[2:] for row in values_of(parts)] == [(1, "a", 1.0), (2, "b", None)]


def test_odd_column_names(tmp_path: Path) -> None:
    columns = {"ts": B, "a.b": S, "it's": S, 'q"q': S, "$": S}
    row = {"ts": 1, "a.b": "1", "it's": "2", 'q"q': "3", "$": "4"}
    parts = read_all(stream_of(json_file(tmp_path, json.dumps(row)), columns), tmp_path)
    assert values_of(parts) == [(1, 0, 1, "1", "2", "3", "4")]


@pytest.mark.parametrize("content", [b"", b"\n\r\n\n", b"\xef\xbb\xbf"])
def test_files_without_rows(tmp_path: Path, content: bytes) -> None:
    assert values_of(read_all(stream_of(json_file(tmp_path, content), COLUMNS), tmp_path)) == []


def test_every_type_and_a_value_of_one_megabyte(tmp_path: Path) -> None:
    columns = {"ts": T, "a": B, "b": D, "c": S, "d": F}
    big = "x" * (1 << 20)
    line = {"ts": "1960-02-29T12:00:00+01:00", "a": -(2**63), "b": 1e-300, "c": big, "d": False}
    null = {"ts": "9999-12-31", "a": None, "b": None, "c": None, "d": None}
    text = json.dumps(line) + "\n" + json.dumps(null) + "\n"
    first, second = values_of(read_all(stream_of(json_file(tmp_path, text), columns), tmp_path))
    assert first[0] == -310_482_000_000_000
    assert first[3:] == (-(2**63), 1e-300, big, False)
    assert second[3:] == (None, None, None, None)


NO_ROWS = ("nonsense", "[]", '{"ts":"x"}', '{"ts":1,"x":{}}')
LINES = st.one_of(
    st.fixed_dictionaries(
        {"ts": st.integers(-9, 9)},
        optional={"name": st.one_of(st.none(), st.text(max_size=5)), "x": st.floats(allow_nan=False)},
    ).map(lambda d: json.dumps(d, ensure_ascii=False)),
    st.sampled_from(["", *NO_ROWS]),
)


@settings(derandomize=True, deadline=None, max_examples=60)
@given(st.lists(LINES, max_size=25), st.integers(1, 10), st.integers(1, 10))
def test_chunking_never_shows(
    tmp_path_factory: pytest.TempPathFactory, lines: list[str], max_rows: int, target_rows: int
) -> None:
    base = tmp_path_factory.mktemp("json")
    (base / "in.jsonl").write_bytes("\n".join(lines).encode())
    stream = stream_of("json:in.jsonl", COLUMNS)
    whole = read_all(stream, base)
    parts = read_all(stream, base, max_rows=max_rows, target_rows=target_rows)
    assert values_of(parts) == values_of(whole)
    assert rejects_of(parts) == rejects_of(whole)
    assert len(values_of(whole)) + len(rejects_of(whole)) == sum(line != "" for line in lines)
    good = [json.loads(line) for line in lines if line not in ("", *NO_ROWS)]
    assert [row[3] for row in values_of(whole)] == [line.get("name") for line in good]
    assert [row[4] for row in values_of(whole)] == [line.get("x") for line in good]


def test_a_whole_number_is_a_bigint_however_it_is_spelled(tmp_path: Path) -> None:
    spellings = ["1.0", "1e3", "-2.0E1", "-0.0", '"4.0"', "9007199254740991.0", "7", "9223372036854775807"]
    lines = [f'{{"ts": {at}, "n": {text}}}' for at, text in enumerate(spellings)]
    (tmp_path / "in.jsonl").write_text("\n".join(lines))
    parts = read_all(stream_of("json:in.jsonl", {"ts": B, "n": B}), tmp_path)
    assert [row[-1] for row in values_of(parts)] == [
        1, 1000, -20, 0, 4, 9007199254740991, 7, 9223372036854775807,
    ]  # fmt: skip


def test_a_number_that_is_not_whole_or_cannot_be_told_apart_is_rejected(tmp_path: Path) -> None:
    spellings = ["1.5", "1e-1", "9007199254740993.0", "1e300", "1e999", "NaN", '"abc"', '""', "true"]
    lines = [f'{{"ts": {at}, "n": {text}}}' for at, text in enumerate(spellings)]
    (tmp_path / "in.jsonl").write_text("\n".join(lines))
    parts = read_all(stream_of("json:in.jsonl", {"ts": B, "n": B}), tmp_path)
    assert values_of(parts) == []
    assert [reason for _, reason, _ in rejects_of(parts)] == [
        f"n: '{shown}' is not a BIGINT"
        for shown in ("1.5", "0.1", "9007199254740992.0", "1e+300", "1e999", "NaN", "abc", "", "true")
    ]
