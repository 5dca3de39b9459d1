"""Damage, a full disk, wrong definitions and wrong data: told in words, and the last good version remains."""

from __future__ import annotations

import errno
import os
import random
import zlib

import pyarrow.parquet as pq
import pytest
from tests.unit.archive.archive_kit import COUNTED, SPEC, STRICT, Row, bag, random_rows, table
from tests.unit.archive.crash_kit import script

from sash import files
from sash.archive import ArchiveSpec, ArchiveWriter, Update, open_snapshot
from sash.archive.segment import _opened
from sash.errors import ArchiveError, DataError
from sash.lang.types import Column, Schema, Type


@pytest.fixture
def archive(tmp_path):
    """An archive after eight updates, and what it holds."""
    steps = script(1)
    with ArchiveWriter(tmp_path, STRICT, "rebuild", (2, 2), durable=False) as writer:
        for update, _ in steps[:8]:
            writer.update(update)
    _opened.cache_clear()
    return tmp_path


def segments(root):
    with open_snapshot(root) as snapshot:
        return snapshot.files()


def flip(path, place):
    content = bytearray(path.read_bytes())
    content[place] ^= 0xFF
    path.write_bytes(content)


def refused(root):
    """The error of reading all of an archive."""
    with pytest.raises(ArchiveError) as failure, open_snapshot(root) as snapshot:
        snapshot.scan()
    shown = failure.value.render()
    assert str(root) in shown
    assert "hint: " in shown
    return failure.value


def test_a_file_that_is_missing(archive):
    segments(archive)[0].unlink()
    assert refused(archive).id == "archive-missing"


def test_a_file_with_wrong_bytes_is_refused_or_does_not_matter(archive):
    """Bytes that nobody reads, such as statistics of a page, have no checksum."""
    path = max(segments(archive), key=lambda path: path.stat().st_size)
    content = path.read_bytes()
    outcomes = []
    for place in range(4, len(content), len(content) // 60):
        flip(path, place)
        _opened.cache_clear()
        try:
            with open_snapshot(archive) as snapshot:
                assert (
                    bag(snapshot.scan(columns=snapshot.spec.schema.names).select(["k", "name", "x"]))
                    == script(1)[7][1]
                )
            outcomes.append("harmless")
        except ArchiveError as failure:
            outcomes.append(failure.id)
        path.write_bytes(content)
    assert set(outcomes) <= {"harmless", "archive-damaged"}
    assert outcomes.count("archive-damaged") > 40


@pytest.mark.parametrize("size", [0, 3, 100])
def test_a_file_that_is_cut_off(archive, size):
    path = segments(archive)[0]
    path.write_bytes(path.read_bytes()[:size])
    assert refused(archive).id == "archive-damaged"


def test_pages_are_checked_also_after_a_file_was_opened_before(archive):
    with open_snapshot(archive) as snapshot:
        snapshot.scan()
    path = max(segments(archive), key=lambda path: path.stat().st_size)
    flip(path, 40)
    assert refused(archive).id == "archive-damaged"


def test_a_list_of_what_is_taken_back_that_is_damaged(archive):
    with open_snapshot(archive) as snapshot:
        assert snapshot.manifest.taken_rows is not None
        path = archive / snapshot.manifest.taken_rows.name
    flip(path, 50)
    assert refused(archive).id == "archive-damaged"
    path.unlink()
    assert refused(archive).id == "archive-missing"


def test_a_damaged_manifest_leaves_the_version_before(archive):
    newest = max((archive / "versions").iterdir())
    flip(newest, 100)
    failure = refused(archive)
    assert failure.id == "archive-damaged"
    assert "earlier version" in (failure.hint or "")
    with pytest.raises(ArchiveError, match="damaged"):
        ArchiveWriter(archive, STRICT, "rebuild", (2, 2))
    with open_snapshot(archive, int(newest.name) - 1) as snapshot:
        assert bag(snapshot.scan()) == script(1)[6][1]


def test_a_version_of_another_format(archive):
    newest = max((archive / "versions").iterdir())
    with open_snapshot(archive) as snapshot:
        text = snapshot.manifest.to_text().replace('"format": 1', '"format": 99')
    body = text.rpartition("\n")[0].rpartition("\n")[0]
    newest.write_text(f"{body}\n{zlib.crc32(body.encode()):08x}\n")
    assert refused(archive).id == "archive-format"


def test_no_archive_and_no_such_version(archive, tmp_path):
    assert refused(tmp_path / "nowhere").id == "archive-missing"
    with pytest.raises(ArchiveError, match="no version 3") as failure:
        open_snapshot(archive, 3)
    assert failure.value.expected == "one of: 7, 8"


def test_an_update_that_meets_damage_leaves_the_last_version(archive):
    with ArchiveWriter(archive, STRICT, "rebuild", (2, 2)) as writer:
        touched = {segment.name for task in writer.prepare(8, 90).tasks for segment in task.merged}
        name = sorted(touched)[0]
        content = (archive / name).read_bytes()
        (archive / name).unlink()
        with pytest.raises(ArchiveError, match="missing"):
            writer.update(script(1)[8][0])
        assert writer.manifest.batch == 7
        (archive / name).write_bytes(content)
        writer.update(script(1)[8][0])
    with open_snapshot(archive) as snapshot:
        assert bag(snapshot.scan()) == script(1)[8][1]


def full(*arguments, **named):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.mark.parametrize(
    ("owner", "name"),
    [
        (pq.ParquetWriter, "write_table"),
        (pq.ParquetWriter, "close"),
        (files, "_fill"),
        (os, "replace"),
        (os, "fsync"),
    ],
)
def test_a_full_disk(archive, owner, name, monkeypatch):
    steps = script(1)
    with ArchiveWriter(archive, STRICT, "rebuild", (2, 2)) as writer:
        with monkeypatch.context() as patch:
            patch.setattr(owner, name, full)
            with pytest.raises(ArchiveError, match="cannot write") as failure:
                writer.update(steps[8][0])
        assert (failure.value.id, failure.value.got) == ("archive-disk", "the disk is full")
        assert "make room on the disk" in (failure.value.hint or "")
        with open_snapshot(archive) as snapshot:
            assert bag(snapshot.scan()) == steps[7][1]
        assert not [path for path in (archive / "data").iterdir() if path.name.endswith(".tmp")]
        writer.update(steps[8][0])
        with writer.snapshot() as snapshot:
            assert bag(snapshot.scan()) == steps[8][1]


def test_a_disk_that_fills_up_for_real(archive):
    """/dev/full refuses every byte, and Arrow says so with the number of the error."""
    rows = table(random_rows(random.Random(1), 0, 10, 100_000))
    with (
        pytest.raises(OSError, match="No space left") as failure,
        pq.ParquetWriter("/dev/full", rows.schema) as w,
    ):
        w.write_table(rows)
    assert failure.value.errno == errno.ENOSPC


def test_a_second_writer_is_refused(archive):
    with ArchiveWriter(archive, STRICT, "rebuild", (2, 2)):
        with pytest.raises(ArchiveError, match="another run") as failure:
            ArchiveWriter(archive, STRICT, "rebuild", (2, 2))
        assert failure.value.id == "archive-busy"
    ArchiveWriter(archive, STRICT, "rebuild", (2, 2)).close()


def test_a_directory_that_cannot_be_made(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ArchiveError, match="cannot make"):
        ArchiveWriter(tmp_path / "file" / "archive", SPEC, "rebuild")


def test_another_definition_is_refused_and_says_what_differs(archive):
    other = ArchiveSpec(STRICT.columns, ("name",), STRICT.every, STRICT.span, is_strict=True)
    with pytest.raises(ArchiveError, match="another definition") as failure:
        ArchiveWriter(archive, other, "rebuild", (2, 2))
    assert (failure.value.expected, failure.value.got) == ("key ['name']", "key ['k']")


def test_a_lifetime_beyond_the_maximum(archive, tmp_path):
    with ArchiveWriter(tmp_path / "new", SPEC, "rebuild", (2, 2)) as writer:
        writer.update(Update(0, 10, table([Row((1, "a", 0.0), 5, 65)])))
        with pytest.raises(DataError, match="longer than the archive allows") as failure:
            writer.update(Update(1, 20, table([Row((2, "b", 0.0), 15, 40), Row((3, "c", 0.0), 15, 76)])))
        assert failure.value.id == "archive-lifetime"
        assert (failure.value.expected, failure.value.got) == ("at most 60 microseconds", "61 microseconds")
        with writer.snapshot() as snapshot:
            assert snapshot.manifest.batch == 0
            assert snapshot.scan().num_rows == 1


def test_names_that_the_files_need_themselves():
    with pytest.raises(ArchiveError, match="sash_exp") as failure:
        ArchiveSpec(Schema((Column("sash_exp", Type.BIGINT),)), ("sash_exp",), 1, 1)
    assert failure.value.id == "archive-column"


def test_lazy_techniques_do_not_hold_guessed_expirations(tmp_path):
    with pytest.raises(ArchiveError, match="LAZYREBUILD") as failure:
        ArchiveWriter(tmp_path, COUNTED, "lazyrebuild", (2, 2))
    assert "COUNTREBUILD" in (failure.value.expected or "")
