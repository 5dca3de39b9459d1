from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
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
    plan_all,
    read_all,
    rejects_of,
    stream_of,
    values_of,
)

from sash.connectors.sources import open_source
from sash.errors import DataError, SourceError

COLUMNS = {"ts": T, "name": S, "x": B}
SOURCE = "parquet:in.parquet"


def write(tmp_path: Path, table: pa.Table, **options: Any) -> None:
    pq.write_table(table, tmp_path / "in.parquet", **options)


def times(values: list[int | None], unit: str = "us", zone: str | None = None) -> pa.Array:
    return pa.array(values, pa.timestamp(unit, zone))


def test_types_are_widened(tmp_path: Path) -> None:
    columns = {"ts": T, "a": B, "b": B, "c": D, "d": D, "e": S, "f": F, "g": T, "h": T, "i": T}
    write(
        tmp_path,
        pa.table(
            {
                "TS": times([-1, None], "ms", "Europe/Vienna"),
                "a": pa.array([1, None], pa.int8()),
                "b": pa.array([2**32 - 1, None], pa.uint32()),
                "c": pa.array([0.5, None], pa.float32()),
                "d": pa.array([7, None], pa.int16()),
                "e": pa.array(["x", None], pa.large_string()),
                "f": pa.array([True, None]),
                "g": times([-1, None], "ns"),
                "h": pa.array([dt.date(1969, 12, 31), None]),
                "i": times([1, None], "ms"),
                "unused": pa.array([1, 2]),
            }
        ),
    )
    stream = stream_of(SOURCE, columns)
    open_source(stream, tmp_path).check()
    parts = read_all(stream, tmp_path)
    assert values_of(parts) == [
        (-1000, 0, -1000, 1, 2**32 - 1, 0.5, 7.0, "x", True, -1, -86_400_000_000, 1000)
    ]
    ((row, why, data),) = rejects_of(parts)
    assert (row, why) == (2, "ts: no timestamp")
    assert data.startswith('{"TS": null, "a": null')


@pytest.mark.parametrize("use_dictionary", [True, False])
def test_strings_are_dictionaries_where_the_file_has_them_so(tmp_path: Path, use_dictionary: bool) -> None:
    table = pa.table({"ts": times([1, 2, 3]), "name": ["a", None, "a"], "x": [1, 2, 3]})
    write(tmp_path, table, use_dictionary=use_dictionary)
    (rows,) = read_all(stream_of(SOURCE, COLUMNS), tmp_path)
    expected = pa.dictionary(pa.int32(), pa.string()) if use_dictionary else pa.string()
    assert rows.table.schema.field("name").type == expected
    assert rows.table["name"].to_pylist() == ["a", None, "a"]


def test_only_asked_columns_come_in_the_asked_order(tmp_path: Path) -> None:
    write(tmp_path, pa.table({"ts": times([5]), "name": ["a"], "x": [1]}))
    stream = stream_of(SOURCE, COLUMNS)
    assert read_all(stream, tmp_path, ["x", "ts"])[0].table.column_names == ["x", "ts"]
    (rows,) = read_all(stream, tmp_path, [])
    assert rows.ts.tolist() == [5]


@pytest.mark.parametrize(
    ("name", "column"),
    [
        ("x", pa.array([Decimal("1.5")])),
        ("x", pa.array([1], pa.uint64())),
        ("x", pa.array([1.5])),
        ("name", pa.array([b"a"])),
        ("ts", pa.array([1])),
    ],
)
def test_incompatible_types_are_refused(tmp_path: Path, name: str, column: pa.Array) -> None:
    table = pa.table({"ts": times([1]), "name": ["a"], "x": [1]})
    write(tmp_path, table.set_column(table.column_names.index(name), name, column))
    with pytest.raises(SourceError, match=f"column '{name}' cannot be read as") as caught:
        open_source(stream_of(SOURCE, COLUMNS), tmp_path).check()
    assert str(column.type) in caught.value.render()


def test_missing_column_and_no_parquet_at_all(tmp_path: Path) -> None:
    write(tmp_path, pa.table({"ts": times([1]), "name": ["a"]}))
    with pytest.raises(SourceError, match="no column 'x'"):
        open_source(stream_of(SOURCE, COLUMNS), tmp_path).check()
    (tmp_path / "in.parquet").write_bytes(b"PAR1 not really")
    with pytest.raises(SourceError, match="as Parquet"):
        open_source(stream_of(SOURCE, COLUMNS), tmp_path).check()


def test_times_that_do_not_fit_are_rejected_also_in_columns_nobody_asked_for(tmp_path: Path) -> None:
    far = 2**62
    table = pa.table(
        {"ts": times([1, far, far + 1, 4]), "t2": times([1, 2, 3, 2**60], "ms"), "x": [1, 2, 3, 4]}
    )
    write(tmp_path, table)
    stream = stream_of(SOURCE, {"ts": T, "t2": T, "x": B})
    for columns in (None, ["x"]):
        parts = read_all(stream, tmp_path, columns)
        assert [row[0] for row in values_of(parts)] == [1, far]
        assert [why for _, why, _ in rejects_of(parts)] == ["ts: out of range", "t2: out of range"]


def test_strings_that_are_not_utf8_stop_the_run(tmp_path: Path) -> None:
    bad = pa.array([b"\xff"]).view(pa.string())
    write(tmp_path, pa.table({"ts": times([1]), "name": bad, "x": [1]}))
    with pytest.raises(DataError, match="not UTF-8"):
        read_all(stream_of(SOURCE, COLUMNS), tmp_path)


def test_an_empty_file_and_integer_times(tmp_path: Path) -> None:
    write(tmp_path, pa.table({"ts": pa.array([], pa.int32())}))
    stream = stream_of(SOURCE, {"ts": B}, unit=1000)
    assert values_of(read_all(stream, tmp_path)) == []
    write(tmp_path, pa.table({"ts": pa.array([2, None], pa.int32())}))
    parts = read_all(stream, tmp_path)
    assert values_of(parts) == [(2000, 0, 2)]
    assert [why for _, why, _ in rejects_of(parts)] == ["ts: no timestamp"]


def test_row_groups_are_kept_whole_where_they_fit(tmp_path: Path) -> None:
    write(tmp_path, pa.table({"ts": times(list(range(100)))}), row_group_size=10)
    stream = stream_of(SOURCE, {"ts": T})
    assert [chunk.rows for chunk in chunks_of(stream, tmp_path, target_rows=25)] == [20] * 5
    assert [chunk.rows for chunk in chunks_of(stream, tmp_path, target_rows=6)] == [10] * 10
    assert [chunk.rows for chunk in chunks_of(stream, tmp_path, target_rows=3)][:3] == [3, 7, 3]
    plans = plan_all(open_source(stream, tmp_path), max_rows=7)
    assert max(plan.rows for plan in plans) <= 7
    source = open_source(stream, tmp_path)
    assert [source.progress(plan.position) for plan in plans][-1] == 1.0


@settings(derandomize=True, deadline=None, max_examples=60)
@given(
    st.lists(st.tuples(st.one_of(st.none(), st.integers(-99, 99)), st.sampled_from("abc")), max_size=40),
    st.integers(1, 9),
    st.integers(1, 50),
    st.integers(1, 50),
)
def test_chunking_never_shows(
    tmp_path_factory: pytest.TempPathFactory,
    rows: list[tuple[int | None, str]],
    group: int,
    max_rows: int,
    target_rows: int,
) -> None:
    base = tmp_path_factory.mktemp("parquet")
    table = pa.table(
        {"ts": times([ts for ts, _ in rows]), "name": pa.array([n for _, n in rows], pa.string())}
    )
    write(base, table, row_group_size=group)
    stream = stream_of(SOURCE, {"ts": T, "name": S})
    parts = read_all(stream, base, max_rows=max_rows, target_rows=target_rows)
    good = [(ts, i, ts, name) for i, (ts, name) in enumerate(rows) if ts is not None]
    assert values_of(parts) == good
    assert [row for row, _, _ in rejects_of(parts)] == [i + 1 for i, (ts, _) in enumerate(rows) if ts is None]
