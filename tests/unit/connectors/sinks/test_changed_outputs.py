"""Outputs that somebody else truncates, replaces or writes to: noticed before rows are lost in silence."""

from __future__ import annotations

import errno
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from sash.connectors.sinks import Sink, open_sink
from sash.engine.outputs import Outputs
from sash.errors import SinkError

SCHEMA = pa.schema([("ts", pa.int64()), ("n", pa.int64())])


def rows(*values: int) -> pa.Table:
    return pa.table([list(values), list(values)], schema=SCHEMA)


def numbers(path: Path) -> list[int]:
    return [json.loads(line)["n"] for line in path.read_text().splitlines()]


def opened(base: Path, uri: str = "jsonl:out") -> Sink:
    sink = open_sink(uri, SCHEMA, base)
    sink.check()
    sink.lock()
    sink.open(None)
    return sink


def truncate(path: Path) -> None:
    os.truncate(path, 0)


def refill(path: Path) -> None:
    path.write_bytes(b"x" * path.stat().st_size)


def replace(path: Path) -> None:
    content = path.read_bytes()
    path.rename(path.with_name("moved"))
    path.write_bytes(content)


def extend(path: Path) -> None:
    with path.open("ab") as file:
        file.write(b"other\n")


CHANGES: dict[Callable[[Path], None], str] = {
    truncate: "0 bytes",
    refill: "other content",
    replace: "it was replaced",
    extend: "bytes",
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_before_a_commit_ends_the_run_and_leaves_the_file_as_it_is(
    tmp_path: Path, change: Callable[[Path], None]
) -> None:
    #  write | commit | write | change | commit
    sink = opened(tmp_path)
    sink.write(rows(1, 2))
    sink.commit()
    sink.write(rows(3))
    change(tmp_path / "out")
    left = (tmp_path / "out").read_bytes()
    with pytest.raises(SinkError, match="changed by somebody else") as caught:
        sink.commit()
    shown = caught.value.render()
    assert str(tmp_path / "out") in shown
    assert "expected" in shown
    assert CHANGES[change] in shown
    assert "put back what was there" in shown
    sink.close()
    assert (tmp_path / "out").read_bytes() == left


def test_a_truncated_file_gets_no_hole(tmp_path: Path) -> None:
    sink = opened(tmp_path)
    sink.write(rows(*range(100)))
    sink.commit()
    truncate(tmp_path / "out")
    with pytest.raises(SinkError, match="changed by somebody else"):
        sink.write(rows(100))
    sink.close()
    assert (tmp_path / "out").read_bytes() == b""


@pytest.mark.parametrize("change", [truncate, refill, replace, extend])
def test_a_change_after_the_last_row_is_seen_at_the_end(
    tmp_path: Path, change: Callable[[Path], None]
) -> None:
    sink = opened(tmp_path)
    sink.write(rows(1, 2))
    sink.commit()
    sink.check_unchanged()
    change(tmp_path / "out")
    # Nothing was written since: ten thousand outputs are not looked at in each batch.
    sink.commit()
    with pytest.raises(SinkError, match="changed by somebody else"):
        sink.check_unchanged()
    sink.close()


@pytest.mark.parametrize("change", [truncate, refill])
@pytest.mark.parametrize("beyond", [0, 100])
def test_a_restart_refuses_a_file_that_was_truncated_or_filled_again(
    tmp_path: Path, change: Callable[[Path], None], beyond: int
) -> None:
    sink = opened(tmp_path)
    sink.write(rows(*range(1000)))
    kept = json.loads(json.dumps(sink.commit()))
    sink.close()
    change(tmp_path / "out")
    with (tmp_path / "out").open("ab") as file:
        file.write(b"y" * beyond)
    left = (tmp_path / "out").read_bytes()
    again = open_sink("jsonl:out", SCHEMA, tmp_path)
    with pytest.raises(SinkError, match="not what the checkpoint says") as caught:
        again.open(kept)
    assert str(tmp_path / "out") in caught.value.render()
    again.close()
    assert (tmp_path / "out").read_bytes() == left


@pytest.mark.parametrize("uri", ["jsonl:out", "csv:out", "parquet:out"])
def test_a_second_run_on_the_same_output_is_refused_and_touches_nothing(tmp_path: Path, uri: str) -> None:
    first = opened(tmp_path, uri)
    first.write(rows(1))
    kept = first.commit()
    for committed in (None, kept):
        second = open_sink(uri, SCHEMA, tmp_path)
        second.check()
        with pytest.raises(SinkError, match="another run is writing to") as caught:
            second.lock()
        assert caught.value.id == "output-busy"
        with pytest.raises(SinkError, match="another run is writing to"):
            second.open(committed)
        second.close()
    first.write(rows(2))
    kept = first.commit()
    first.close()
    again = open_sink(uri, SCHEMA, tmp_path)
    again.open(kept)
    again.close()


def test_all_outputs_are_locked_before_one_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "free").write_text("of the last run")
    held = opened(tmp_path, "jsonl:held")
    outputs = Outputs(tmp_path, durable=False, in_background=False)
    outputs.add({name: open_sink(f"jsonl:{name}", SCHEMA, tmp_path) for name in ("free", "held")})
    with pytest.raises(SinkError, match="another run"):
        outputs.open({})
    assert (tmp_path / "free").read_text() == "of the last run"
    held.close()


def test_a_disk_that_is_full_in_the_middle_of_a_row_leaves_the_rows_of_the_last_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, budget = os.write, 20

    def write(handle: int, data: memoryview) -> int:
        nonlocal budget
        if not budget:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        taken = min(budget, len(data))
        budget -= taken
        return real(handle, data[:taken])

    sink = opened(tmp_path)
    sink.write(rows(1, 2))
    sink.commit()
    with monkeypatch.context() as patch:
        patch.setattr(os, "write", write)
        with pytest.raises(SinkError, match="cannot write"):
            sink.write(rows(3, 4))
    sink.close()
    assert numbers(tmp_path / "out") == [1, 2]


@pytest.mark.parametrize("schemes", [("jsonl", "csv", "jsonl"), ("parquet", "jsonl", "parquet")])
def test_a_batch_that_one_output_cannot_commit_is_in_none_of_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, schemes: tuple[str, ...]
) -> None:
    names = {f"{scheme}{number}": scheme for number, scheme in enumerate(schemes)}
    outputs = Outputs(tmp_path, durable=False, in_background=False)
    sinks = {name: open_sink(f"{scheme}:{name}", SCHEMA, tmp_path) for name, scheme in names.items()}
    outputs.add(sinks)
    outputs.answered.update(dict.fromkeys(names, 0))
    outputs.open({})
    states: list[object] = []

    def write_and_commit(value: int) -> None:
        outputs.write(dict.fromkeys(names, rows(value)))
        outputs.commit(dict.fromkeys(names), {}, is_last=False)

    def content() -> object:
        return {
            path.relative_to(tmp_path): path.read_bytes()
            for path in sorted(tmp_path.rglob("*"))
            if path.is_file() and not path.name.startswith(".")
        }

    for value in (1, 2):
        write_and_commit(value)
        states.append(content())

    def broken() -> object:
        raise SinkError("the disk is full")

    monkeypatch.setattr(sinks[list(names)[1]], "commit", broken)
    with pytest.raises(SinkError):
        write_and_commit(3)
    outputs.revert()
    for sink in sinks.values():
        sink.close()
    assert content() == states[-1]


def test_parts_that_others_change_are_noticed(tmp_path: Path) -> None:
    sink = opened(tmp_path, "parquet:out")
    first = part(tmp_path, 0)
    sink.write(rows(1))
    kept = sink.commit()
    (tmp_path / "out" / "part-000001.parquet").write_bytes(b"of somebody else")
    sink.write(rows(2))
    with pytest.raises(SinkError, match="changed by somebody else") as caught:
        sink.commit()
    assert "part-000001.parquet" in caught.value.render()
    sink.close()
    first.rename(tmp_path / "gone")
    for content, shown in (
        (None, "no part-000000"),
        (b"x" * kept["bytes"], "other content"),
        (b"", "0 bytes"),
    ):
        if content is not None:
            first.write_bytes(content)
        with pytest.raises(SinkError, match="not what the checkpoint says") as caught:
            open_sink("parquet:out", SCHEMA, tmp_path).verify(kept)
        assert shown in caught.value.render()
    first.unlink()
    (tmp_path / "gone").rename(first)
    open_sink("parquet:out", SCHEMA, tmp_path).verify(kept)


@pytest.mark.parametrize("is_back", [False, True])
def test_a_directory_of_parts_that_is_moved_away_is_noticed(tmp_path: Path, is_back: bool) -> None:
    sink = opened(tmp_path, "parquet:out")
    sink.write(rows(1))
    (tmp_path / "out").rename(tmp_path / "moved")
    if is_back:
        (tmp_path / "out").mkdir()
    with pytest.raises(SinkError, match="changed by somebody else"):
        sink.commit()
    sink.close()


@pytest.mark.parametrize("is_begun", [False, True])
def test_a_directory_of_parts_that_is_removed_is_told_as_a_change(tmp_path: Path, is_begun: bool) -> None:
    sink = opened(tmp_path, "parquet:out")
    sink.write(rows(1))
    sink.commit()
    if is_begun:
        sink.write(rows(2))
    shutil.rmtree(tmp_path / "out")
    with pytest.raises(SinkError, match="changed by somebody else") as caught:
        sink.commit() if is_begun else sink.write(rows(2))
    assert "no such file or directory" in caught.value.render()
    sink.close()
    assert not (tmp_path / "out").exists()


def part(base: Path, number: int) -> Path:
    return base / "out" / f"part-{number:06d}.parquet"


def with_parts(base: Path, count: int) -> Sink:
    sink = opened(base, "parquet:out")
    for number in range(count):
        sink.write(rows(number))
        sink.commit()
    return sink


def remove(path: Path) -> None:
    path.unlink()


def put_other_content(path: Path) -> None:
    """Some file systems give the number of the file that was removed to the new one."""
    size = path.stat().st_size
    path.unlink()
    path.write_bytes(b"x" * size)


def swap_with_the_next(path: Path) -> None:
    other = path.with_name("part-000001.parquet")
    assert path.stat().st_size == other.stat().st_size
    path.rename(path.with_name("between"))
    other.rename(path)
    path.with_name("between").rename(other)


PART_CHANGES: dict[Callable[[Path], None], str] = {
    remove: "no such file or directory",
    truncate: "0 bytes",
    extend: "bytes",
    refill: "other content",
    put_other_content: "other content",
    swap_with_the_next: "another file of the same size",
}


@pytest.mark.parametrize("change", PART_CHANGES)
@pytest.mark.parametrize("is_resumed", [False, True])
def test_any_part_that_others_change_is_noticed_at_the_end(
    tmp_path: Path, change: Callable[[Path], None], is_resumed: bool
) -> None:
    #  commit 0 | commit 1 | commit 2 (| restart) | change of 0 | commit 3 | end
    sink = with_parts(tmp_path, 3)
    if is_resumed:
        kept = sink.commit()
        sink.close()
        sink = open_sink("parquet:out", SCHEMA, tmp_path)
        sink.open(kept)
    sink.check_unchanged()
    change(part(tmp_path, 0))
    sink.write(rows(3))
    sink.commit()
    with pytest.raises(SinkError, match="changed by somebody else") as caught:
        sink.check_unchanged()
    assert PART_CHANGES[change] in caught.value.render()
    assert "part-00000" in caught.value.render()
    sink.close()


@pytest.mark.parametrize("change", [each for each in PART_CHANGES if each is not swap_with_the_next])
def test_the_last_part_is_looked_at_when_the_next_one_is_committed(
    tmp_path: Path, change: Callable[[Path], None]
) -> None:
    sink = with_parts(tmp_path, 3)
    change(part(tmp_path, 2))
    # Nothing was written since: ten thousand outputs are not looked at in each batch.
    sink.commit()
    sink.write(rows(3))
    with pytest.raises(SinkError, match="changed by somebody else") as caught:
        sink.commit()
    assert PART_CHANGES[change] in caught.value.render()
    assert "part-000002" in caught.value.render()
    sink.close()
    assert not part(tmp_path, 3).exists()


def test_a_part_that_nobody_has_written_is_noticed_at_the_end(tmp_path: Path) -> None:
    sink = with_parts(tmp_path, 2)
    part(tmp_path, 5).write_bytes(part(tmp_path, 0).read_bytes())
    (tmp_path / "out" / "notes.txt").touch()
    with pytest.raises(SinkError, match="changed by somebody else") as caught:
        sink.check_unchanged()
    assert "part-000005" in caught.value.render()
    sink.close()


def test_a_part_with_a_new_number_and_the_same_end_is_as_it_was(tmp_path: Path) -> None:
    """As some network file systems give them, and as a backup that is put back."""
    sink = with_parts(tmp_path, 2)
    for number in (0, 1):
        replace(part(tmp_path, number))
    sink.write(rows(2))
    sink.commit()
    sink.check_unchanged()
    sink.close()
