from __future__ import annotations

import errno
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.unit.connectors.sources.source_kit import B, chunks_of, plan_all, read_all, stream_of, values_of

from sash.connectors.sources import Plan, Position, open_source, read
from sash.errors import SourceError
from sash.lang.bound import StreamDefinition


def csv(directory: Path, name: str, *values: int, mtime: int | None = None) -> Path:
    directory.mkdir(exist_ok=True)
    path = directory / name
    path.write_text("ts\n" + "".join(f"{value}\n" for value in values))
    if mtime is not None:
        os.utime(path, ns=(mtime, mtime))
    return path


def stream(source: str, **options: bool) -> StreamDefinition:
    return stream_of(source, {"ts": B}, **options)


def times(definition: StreamDefinition, base: Path, **limits: int) -> list[int]:
    return [row[0] for row in values_of(read_all(definition, base, None, **limits))]


def planned(
    definition: StreamDefinition, base: Path, position: Position, rows: int = 100
) -> tuple[list[int], Plan]:
    """What a new process plans from a position that went through JSON, read at once."""
    plan = open_source(definition, base).plan(json.loads(json.dumps(position)), rows)
    return [int(ts) for chunk in plan.chunks for ts in read(definition, chunk, None).ts], plan


def test_globs_and_directories_are_read_in_path_order(tmp_path: Path) -> None:
    csv(tmp_path / "d", "b.csv", 3, 4)
    csv(tmp_path / "d", "a.csv", 1, 2)
    csv(tmp_path / "d", "_c.csv", 9)
    csv(tmp_path / "d", ".d.csv", 9)
    csv(tmp_path / "d", "e.csv.tmp", 9)
    csv(tmp_path / "d", "f.other", 9)
    for source in ("csv:d/*.csv", "csv:d", f"csv:{tmp_path}/d/[ab].csv"):
        assert times(stream(source), tmp_path) == [1, 2, 3, 4]
        assert times(stream(source), tmp_path, max_rows=3) == [1, 2, 3, 4]


def test_max_rows_is_exact_across_files_and_the_end_is_seen_at_once(tmp_path: Path) -> None:
    csv(tmp_path, "a.csv", 1, 2, 3)
    csv(tmp_path, "b.csv")
    csv(tmp_path, "c.csv", 4, 5, 6)
    plans = plan_all(open_source(stream("csv:*.csv"), tmp_path), max_rows=2)
    assert [(plan.rows, plan.ended) for plan in plans] == [(2, False), (2, False), (2, True)]
    progress = [open_source(stream("csv:*.csv"), tmp_path).progress(plan.position) for plan in plans]
    assert progress[-1] == 1.0
    assert progress == sorted(progress, key=lambda share: share or 0.0)


def test_a_new_process_goes_on_from_any_position(tmp_path: Path) -> None:
    csv(tmp_path, "a.csv", 1, 2, 3)
    csv(tmp_path, "b.csv", 4, 5)
    definition = stream("csv:*.csv")
    position: Position = {}
    seen: list[int] = []
    for _ in range(5):
        values, plan = planned(definition, tmp_path, position, rows=1)
        seen += values
        position = plan.position
    assert seen == [1, 2, 3, 4, 5]
    assert plan.ended
    assert planned(definition, tmp_path, position)[0] == []


def test_bounded_input_that_changes_is_refused(tmp_path: Path) -> None:
    csv(tmp_path, "b.csv", 1, 2)
    csv(tmp_path, "c.csv", 3)
    definition = stream("csv:*.csv")
    _, plan = planned(definition, tmp_path, {}, rows=1)
    csv(tmp_path, "a.csv", 0)
    with pytest.raises(SourceError, match="not those that the run began with"):
        planned(definition, tmp_path, plan.position)


def test_what_is_not_there_is_said(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    for source, message in {
        "csv:none.csv": "no such file",
        "csv:none*.csv": "matches no file",
        "csv:empty": "holds no file",
        "csv:": "names no file",
    }.items():
        with pytest.raises(SourceError, match=message):
            open_source(stream(source), tmp_path).check()
    with pytest.raises(SourceError, match="cannot watch"):
        open_source(stream("csv:none", watch=True), tmp_path).check()
    open_source(stream("csv:empty", watch=True), tmp_path).check()


def test_unknown_schemes_list_the_known_ones(tmp_path: Path) -> None:
    for source in ("kafka:x", "in.csv"):
        with pytest.raises(SourceError, match="unknown source") as caught:
            open_source(stream(source), tmp_path)
        assert "csv, generator, json, parquet" in caught.value.render()


def test_an_unreadable_file_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    csv(tmp_path, "a.csv", 1)
    monkeypatch.setattr(os, "access", lambda *_: False)
    with pytest.raises(SourceError, match="cannot read"):
        open_source(stream("csv:a.csv"), tmp_path).check()


def test_a_watched_directory_goes_by_discovery(tmp_path: Path) -> None:
    definition = stream("csv:in", watch=True)
    inbox = tmp_path / "in"
    csv(inbox, "z.csv", 1, mtime=10)
    csv(inbox, "a.csv", 2, 3, mtime=20)
    csv(inbox, "b.csv", 4, mtime=20)
    source = open_source(definition, tmp_path)
    assert not source.bounded
    values, plan = planned(definition, tmp_path, {}, rows=2)
    assert (values, plan.ended, source.progress(plan.position)) == ([1, 2], False, None)
    # Older than everything so far, and it arrives while a file is half read.
    csv(inbox, "old.csv", 5, mtime=5)
    values, plan = planned(definition, tmp_path, plan.position)
    assert values == [3, 5, 4]
    assert planned(definition, tmp_path, plan.position)[0] == []
    csv(inbox, "older.csv", 6, mtime=1)
    values, plan = planned(definition, tmp_path, plan.position)
    assert values == [6]
    assert [chunk.sequence for chunk in plan.chunks] == [5]


def test_the_position_of_a_watched_directory_forgets_files_that_are_gone(tmp_path: Path) -> None:
    definition = stream("csv:in", watch=True)
    paths = [csv(tmp_path / "in", f"{i}.csv", i) for i in range(50)]
    _, plan = planned(definition, tmp_path, {})
    assert len(json.dumps(plan.position)) < 50 * 19 + 100
    for path in paths:
        path.unlink()
    _, plan = planned(definition, tmp_path, plan.position)
    assert plan.position["done"] == ""


def test_an_empty_file_waits_and_a_file_that_grows_after_reading_is_an_error(tmp_path: Path) -> None:
    definition = stream("csv:in", watch=True)
    (tmp_path / "in").mkdir()
    path = tmp_path / "in" / "a.csv"
    path.touch()
    values, plan = planned(definition, tmp_path, {})
    assert values == []
    csv(tmp_path / "in", "a.csv", 1)
    values, plan = planned(definition, tmp_path, plan.position)
    assert values == [1]
    csv(tmp_path / "in", "a.csv", 1, 2)
    with pytest.raises(SourceError, match="changed after it was read") as caught:
        planned(definition, tmp_path, plan.position)
    assert "rename" in caught.value.render()


def test_chunks_are_numbered_through_all_files(tmp_path: Path) -> None:
    csv(tmp_path, "a.csv", 1, 2, 3)
    csv(tmp_path, "b.csv", 4)
    chunks = chunks_of(stream("csv:*.csv"), tmp_path, target_rows=2)
    assert [(Path(chunk.path).name, chunk.first_row, chunk.rows) for chunk in chunks] == [
        ("a.csv", 0, 2),
        ("a.csv", 2, 1),
        ("b.csv", 0, 1),
    ]


def test_a_file_that_is_moved_away_while_its_directory_is_listed_is_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in "ab":
        (tmp_path / f"{name}.csv").write_text("t\n1\n")
    scan = os.scandir

    @contextmanager
    def scandir(path: str) -> Iterator[Iterator[os.DirEntry[str]]]:
        with scan(path) as entries:
            listed = list(entries)
        (tmp_path / "a.csv").unlink()
        yield iter(listed)

    monkeypatch.setattr(os, "scandir", scandir)
    source = open_source(stream_of("csv:.", {"t": B}, watch=True), tmp_path)
    assert [os.path.basename(chunk.path) for chunk in source.plan({}, 10).chunks] == ["b.csv"]


def test_what_cannot_be_listed_or_read_is_the_users_to_mend(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    os.mkfifo(tmp_path / "pipe.csv")
    with pytest.raises(SourceError, match="neither a file nor a directory"):
        open_source(stream_of("csv:pipe.csv", {"t": B}), tmp_path).check()

    def refuse(path: str) -> list[str]:
        raise PermissionError(errno.EACCES, "Permission denied", path)

    (tmp_path / "in").mkdir()
    monkeypatch.setattr(os, "listdir", refuse)
    with pytest.raises(SourceError, match="cannot list the directory 'in'") as caught:
        open_source(stream_of("csv:in", {"t": B}), tmp_path).check()
    assert "permission denied" in caught.value.render()
