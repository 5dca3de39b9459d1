"""The disk fails, files vanish: a clear message, and after the cause is mended the same answers.

Every test runs a program with a checkpoint, lets one thing fail at one moment, and runs it again. What the
sinks and the side files hold then must be what an undisturbed run gives.
"""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from sash import files
from sash.connectors.sources.files import FileSource
from sash.engine.observe.report import BatchReport, Silent
from sash.errors import CheckpointError, SashError, SetupError, SinkError, SourceError
from sash.files import Buffer
from sash.lang import bind_program
from sash.runtime.run import run_program

PROGRAM = """CREATE STREAM s (t BIGINT, k BIGINT, n BIGINT) TIMESTAMP BY t SLACK 1 SEC FROM '{source}';
CREATE QUERY sums INTO 'jsonl:out/sums.jsonl' AS
  SELECT k, COUNT(*) AS c FROM s [RANGE 6 SEC SLIDE 2 SEC] GROUP BY k;
CREATE QUERY pairs INTO 'csv:out/pairs.csv' AS
  SELECT a.n AS x, b.n AS y FROM s [RANGE 5 SEC] AS a, s [RANGE 5 SEC] AS b WHERE a.k = b.k;
CREATE QUERY kinds INTO 'parquet:out/kinds' AS SELECT DISTINCT k FROM s [RANGE 3 SEC];
"""
ROWS = 60


def write_rows(folder: Path, begin: int = 0, end: int = ROWS, name: str = "s.csv") -> None:
    """A row a second; every seventh is too late, every eleventh is none."""
    lines = ["t,k,n"]
    for i in range(begin, end):
        t = "x" if i % 11 == 10 else str(i - 5 if i % 7 == 6 else i)
        lines.append(f"{t},{i % 4},{i}")
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text("\n".join(lines) + "\n")


class Then(Silent):
    """Does something after a batch."""

    def __init__(self, number: int, action: Callable[[], object]) -> None:
        self._number = number
        self._action = action

    def batch(self, report: BatchReport) -> None:
        if report.number == self._number:
            self._action()


def run(folder: Path, monitor: Silent | None = None, source: str = "csv:s.csv", **options: object) -> None:
    given = {"runtime": "inline", "batch_rows": 8, "partitions": 2, "checkpoint": folder / "state", **options}
    program = bind_program(PROGRAM.format(source=source))
    run_program(program, base_dir=folder, monitor=monitor or Silent(), **given)  # type: ignore[arg-type]


def results(folder: Path, base: Path | None = None) -> dict[str, list[str]]:
    """All rows with their instants, sorted: their order within an instant is free."""
    texts = [*(folder / "out").glob("*.*"), *(folder / "state" / "dead-letters").iterdir()]
    found = {
        path.name: sorted(path.read_text().replace(str(base or folder), "").splitlines()) for path in texts
    }
    found["kinds"] = sorted(str(row) for row in pq.read_table(folder / "out" / "kinds").to_pylist())
    return found


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    folder = tmp_path_factory.mktemp("undisturbed")
    write_rows(folder)
    run(folder)
    found = results(folder)
    assert set(found) == {"sums.jsonl", "pairs.csv", "kinds", "s.late.jsonl", "s.rejects.jsonl"}
    assert all(found.values())
    return found


def assert_clear(error: SashError, *parts: str) -> None:
    """It names the file, says why in words and what to do."""
    text = error.render()
    for part in parts:
        assert part in text, text
    assert error.hint
    for noise in ("Errno", "Traceback", "OSError"):
        assert noise not in text, text


# ------------------------------------------------------------------------ a disk that refuses


class Refusal:
    """The n-th write to a file of a kind fails, and so does every later one."""

    def __init__(self, patch: pytest.MonkeyPatch, part: str, nth: int, number: int) -> None:
        self._part, self._left, self._number = part, nth, number
        fill, write, write_table = files._fill, os.write, pq.ParquetWriter.write_table

        def refuse_fill(path: Path, parts: Sequence[Buffer], *, durable: bool) -> None:
            if self.hits(path):
                path.write_bytes(bytes(parts[0])[: len(parts[0]) // 2])
                raise self.error(path)
            fill(path, parts, durable=durable)

        def refuse_write(handle: int, data: memoryview) -> int:
            if self.hits(Path(os.readlink(f"/proc/self/fd/{handle}"))):
                if len(data) > 1:
                    # A disk that fills up takes what it can.
                    self._left = 0
                    return write(handle, data[: len(data) // 2])
                raise self.error(None)
            return write(handle, data)

        def refuse_table(writer: pq.ParquetWriter, *arguments: object) -> None:
            if self.hits(Path("out/kinds")):
                raise self.error(None)
            write_table(writer, *arguments)

        patch.setattr(files, "_fill", refuse_fill)
        patch.setattr(os, "write", refuse_write)
        patch.setattr(pq.ParquetWriter, "write_table", refuse_table)

    def hits(self, path: Path) -> bool:
        if self._part not in str(path):
            return False
        self._left -= 1
        return self._left < 0

    def error(self, path: Path | None) -> OSError:
        return OSError(self._number, os.strerror(self._number), None if path is None else str(path))


KINDS = [
    ("out/sums.jsonl", SinkError),
    ("out/pairs.csv", SinkError),
    ("out/kinds", SinkError),
    ("s.late.jsonl", SinkError),
    ("s.rejects.jsonl", SinkError),
    ("state/format.json", CheckpointError),
    ("state/.manifest.json", CheckpointError),
    ("state/panes/", CheckpointError),
    ("state/cells/.0.1.", CheckpointError),
    ("state/cells/.0.answers", CheckpointError),
    ("state/feed/.0", CheckpointError),
    ("state/feed/.count", CheckpointError),
]


@pytest.mark.parametrize("nth", [0, 3])
@pytest.mark.parametrize(("part", "kind"), KINDS, ids=[part for part, _ in KINDS])
def test_a_full_disk_loses_nothing(tmp_path, expected, part, kind, nth):
    if part == "state/format.json":
        part, nth = "state/.format.json", 0
    write_rows(tmp_path)
    with pytest.MonkeyPatch.context() as patch:
        Refusal(patch, part, nth, errno.ENOSPC)
        with pytest.raises(kind) as caught:
            run(tmp_path)
    assert_clear(caught.value, "the disk is full", "make room on the disk", Path(part).name.lstrip("."))
    assert not list((tmp_path / "state").rglob("*.tmp")), "half files give their room back"
    run(tmp_path)
    assert results(tmp_path) == expected


@pytest.mark.parametrize(
    ("number", "reason", "hint"),
    [
        (errno.EACCES, "permission denied", "check the permissions"),
        (errno.EROFS, "can only be read", "check the permissions"),
        (errno.EDQUOT, "quota", "make room"),
        (errno.EIO, "reports an error", "check the path and the disk"),
        (errno.EMFILE, "too many files", "ulimit -n"),
    ],
)
@pytest.mark.parametrize("part", ["out/sums.jsonl", "state/.manifest.json", "state/cells/"])
def test_every_refusal_is_told_in_words(tmp_path, expected, part, number, reason, hint):
    write_rows(tmp_path)
    with pytest.MonkeyPatch.context() as patch:
        Refusal(patch, part, 2, number)
        with pytest.raises((SinkError, CheckpointError)) as caught:
            run(tmp_path)
    assert_clear(caught.value, reason, hint)
    run(tmp_path)
    assert results(tmp_path) == expected


@pytest.mark.parametrize("place", ["fsync", "replace"])
def test_a_disk_that_fails_at_the_last_step_loses_nothing(tmp_path, expected, monkeypatch, place):
    write_rows(tmp_path)
    real = getattr(os, place)

    def fail(*arguments):
        if place == "replace" and "manifest" not in str(arguments[0]):
            return real(*arguments)
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    def break_disk():
        monkeypatch.setattr(os, place, fail)

    with pytest.raises((SinkError, CheckpointError)) as caught:
        run(tmp_path, Then(2, break_disk))
    assert_clear(caught.value, "the disk reports an error")
    monkeypatch.setattr(os, place, real)
    run(tmp_path)
    assert results(tmp_path) == expected


def test_a_failure_lets_go_of_the_lock_and_is_not_hidden_by_another(tmp_path, expected, monkeypatch):
    write_rows(tmp_path)
    with pytest.MonkeyPatch.context() as patch:
        Refusal(patch, "out/kinds", 1, errno.ENOSPC)
        real = pq.ParquetWriter.close

        def fail(writer):
            real(writer)
            raise OSError(errno.EIO, "on closing")

        patch.setattr(pq.ParquetWriter, "close", fail)
        with pytest.raises(SinkError, match="cannot write"):
            run(tmp_path)
    run(tmp_path)


def test_without_room_for_temporary_files_the_run_does_not_begin(tmp_path, monkeypatch):
    def full(**_: object) -> str:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    write_rows(tmp_path)
    monkeypatch.setattr(tempfile, "mkdtemp", full)
    with pytest.raises(SetupError, match="temporary folder") as caught:
        run(tmp_path, checkpoint=None)
    assert_clear(caught.value, "the disk is full", "TMPDIR")


# ------------------------------------------------------------------------ things that are removed


@pytest.mark.parametrize(
    "place", ["out", "out/sums.jsonl", "out/pairs.csv", "out/kinds", "state/dead-letters"]
)
def test_an_output_that_is_moved_away_is_noticed_and_the_run_goes_on_when_it_is_back(
    tmp_path, expected, place
):
    write_rows(tmp_path)
    away = tmp_path / "away"
    with pytest.raises(SinkError) as caught:
        run(tmp_path, Then(2, lambda: shutil.move(tmp_path / place, away)))
    assert_clear(caught.value, "no such file or directory", "put back")
    with pytest.raises(SinkError):
        run(tmp_path)
    shutil.rmtree(tmp_path / place, ignore_errors=True)
    shutil.move(away, tmp_path / place)
    run(tmp_path)
    assert results(tmp_path) == expected


def test_an_output_that_is_replaced_is_noticed(tmp_path):
    write_rows(tmp_path)
    path = tmp_path / "out" / "sums.jsonl"

    def replace() -> None:
        path.rename(tmp_path / "away")
        path.write_text("")

    with pytest.raises(SinkError, match="was changed by somebody else while the run was writing to it"):
        run(tmp_path, Then(2, replace))


@pytest.mark.parametrize("place", ["state", "state/panes", "state/cells", "state/feed"])
def test_a_checkpoint_that_is_moved_away_is_noticed_and_the_run_goes_on_when_it_is_back(
    tmp_path, expected, place
):
    write_rows(tmp_path)
    away = tmp_path / "away"
    with pytest.raises((CheckpointError, SinkError)) as caught:
        run(tmp_path, Then(2, lambda: shutil.move(tmp_path / place, away)))
    assert_clear(caught.value, "no such file or directory", "put back")
    shutil.rmtree(tmp_path / place, ignore_errors=True)
    shutil.move(away, tmp_path / place)
    run(tmp_path)
    assert results(tmp_path) == expected


@pytest.mark.parametrize("moment", ["planning", "reading"])
def test_a_source_file_that_vanishes_is_named_and_the_run_goes_on_when_it_is_back(
    tmp_path, expected, monkeypatch, moment
):
    write_rows(tmp_path)
    path, away = tmp_path / "s.csv", tmp_path / "away"
    if moment == "planning":
        with pytest.raises(SourceError) as caught:
            run(tmp_path, Then(2, lambda: path.rename(away)))
    else:
        planned = FileSource.plan

        def then_remove(self, position, *arguments):
            plan = planned(self, position, *arguments)
            if position.get("row", 0) > 20:
                path.rename(away)
            return plan

        with monkeypatch.context() as patch:
            patch.setattr(FileSource, "plan", then_remove)
            with pytest.raises(SourceError) as caught:
                run(tmp_path)
    assert_clear(caught.value, str(path))
    with pytest.raises(SourceError, match="no such file"):
        run(tmp_path)
    away.rename(path)
    run(tmp_path)
    assert results(tmp_path) == expected


@pytest.mark.parametrize("name", ["b", "c"])
def test_one_of_many_files_that_vanishes_is_named_and_missed_until_it_is_back(tmp_path, name):
    for number, each in enumerate("abc"):
        write_rows(tmp_path, 20 * number, 20 * number + 20, f"in/{each}.csv")
    run(tmp_path, source="csv:in/*.csv", checkpoint=tmp_path / "whole" / "state")
    (tmp_path / "out").rename(tmp_path / "whole" / "out")
    path, away = tmp_path / "in" / f"{name}.csv", tmp_path / "away"
    with pytest.raises(SourceError, match=f"{name}.csv"):
        run(tmp_path, Then(0, lambda: path.rename(away)), source="csv:in/*.csv")
    with pytest.raises(SourceError, match="are not those that the run began with"):
        run(tmp_path, source="csv:in/*.csv")
    away.rename(path)
    run(tmp_path, source="csv:in/*.csv")
    assert results(tmp_path) == results(tmp_path / "whole", tmp_path)


def test_a_watched_directory_that_goes_away_is_told(tmp_path):
    write_rows(tmp_path, 0, 40, "in/a.csv")
    away = tmp_path / "away"
    with pytest.raises(SourceError, match="went away") as caught:
        run(
            tmp_path,
            Then(1, lambda: (tmp_path / "in").rename(away)),
            source="csv:in' WITH (watch = true); --",
        )
    assert_clear(caught.value, "put it back")
