from __future__ import annotations

import errno
import io
import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sash.connectors.sinks import Sink, open_sink
from sash.connectors.sinks.parquet_parts import ParquetSink
from sash.errors import SinkError

SCHEMA = pa.schema([("ts", pa.timestamp("us", "UTC")), ("name", pa.string()), ("n", pa.int64())])


def rows(*values: int) -> pa.Table:
    return pa.table([list(values), [f"n{v}" for v in values], list(values)], schema=SCHEMA)


def names(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


def killed(sink: Sink) -> None:
    """What the end of its process does to a sink."""
    assert isinstance(sink, ParquetSink)
    assert sink._handle is not None
    os.close(sink._handle)


def numbers(directory: Path) -> list[int]:
    parts = sorted(directory.glob("part-*.parquet"))
    return [n for part in parts for n in pq.read_table(part)["n"].to_pylist()]


def test_parts_appear_whole_at_commit_and_never_empty(tmp_path: Path) -> None:
    sink = open_sink("parquet:out", SCHEMA, tmp_path)
    sink.check()
    sink.open(None)
    assert sink.commit()["parts"] == 0
    sink.write(rows(1, 2))
    sink.write(rows(3))
    assert list((tmp_path / "out").glob("part-*")) == []
    committed = sink.commit()
    assert committed["parts"] == 1
    assert committed["bytes"] == (tmp_path / "out" / "part-000000.parquet").stat().st_size
    sink.write(rows())
    assert sink.commit() == committed
    sink.write(rows(4))
    sink.close()
    assert names(tmp_path / "out") == ["part-000000.parquet"]
    assert numbers(tmp_path / "out") == [1, 2, 3]
    assert pq.read_table(tmp_path / "out" / "part-000000.parquet").schema == SCHEMA


def test_going_on_deletes_what_was_not_committed(tmp_path: Path) -> None:
    sink = open_sink("parquet:out", SCHEMA, tmp_path)
    sink.open(None)
    sink.write(rows(1))
    kept = sink.commit()
    sink.write(rows(2))
    sink.commit()
    sink.write(rows(3))
    killed(sink)
    (tmp_path / "out" / "notes.txt").touch()
    again = open_sink("parquet:out", SCHEMA, tmp_path)
    again.open(kept)
    assert names(tmp_path / "out") == ["notes.txt", "part-000000.parquet"]
    again.write(rows(4))
    assert again.commit()["parts"] == 2
    again.close()
    assert numbers(tmp_path / "out") == [1, 4]
    fresh = open_sink("parquet:out", SCHEMA, tmp_path)
    fresh.open(None)
    assert names(tmp_path / "out") == ["notes.txt"]
    with pytest.raises(SinkError, match="not what the checkpoint says"):
        fresh.open(kept)


def test_disk_errors_are_sink_errors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    (tmp_path / "file").touch()
    with pytest.raises(SinkError, match="not a directory"):
        open_sink("parquet:file", SCHEMA, tmp_path).check()
    with pytest.raises(SinkError, match="cannot prepare"):
        open_sink("parquet:file", SCHEMA, tmp_path).open(None)
    sink = open_sink("parquet:out", SCHEMA, tmp_path)
    sink.open(None)
    sink.write(rows(1))
    monkeypatch.setattr(os, "fsync", broken)
    with pytest.raises(SinkError, match="cannot write to disk"):
        sink.commit()


def test_console_lines_are_aligned() -> None:
    out = io.StringIO()
    sink = open_sink("console:", SCHEMA, Path(), console=out)
    sink.check()
    sink.open(None)
    sink.write(rows())
    sink.write(pa.table([[0, 1], ["a\nb", None], [5, 1000]], schema=SCHEMA))
    sink.write(rows(2))
    assert sink.commit() == {"rows": 3}
    sink.close()
    assert out.getvalue() == (
        "ts                           name     n\n"
        "1970-01-01T00:00:00.000000Z  a\\nb     5\n"
        "1970-01-01T00:00:00.000001Z  NULL  1000\n"
        "1970-01-01T00:00:00.000002Z  n2       2\n"
    )


def test_console_prints_to_standard_output_and_shortens_cells(capsys: pytest.CaptureFixture[str]) -> None:
    sink = open_sink("console:", pa.schema([("s", pa.string())]), Path())
    sink.open(None)
    sink.write(pa.table({"s": ["x" * 100]}))
    assert capsys.readouterr().out.splitlines()[1] == "x" * 39 + "…"


def test_noop_counts_and_drops() -> None:
    sink = open_sink("noop:", SCHEMA, Path())
    sink.check()
    sink.open({"rows": 2})
    sink.write(rows(1, 2, 3))
    assert sink.commit() == {"rows": 5}
    sink.close()
