"""Killed at any moment, an archive holds one whole version; done again, the update does the same."""

from __future__ import annotations

import fcntl
import multiprocessing
import os
import pickle
import random
import shutil
import stat
import threading
from pathlib import Path

import pytest
from tests.unit.archive.archive_kit import STRICT, bag
from tests.unit.archive.crash_kit import UPDATES, Countdown, kill_again_and_again, script

from sash.archive import ArchiveWriter, Update, lasting, net, open_snapshot, rewrite_slot
from sash.archive.versions import Versions


class Killed(BaseException):
    """Not an error that anybody handles."""


def kill():
    raise Killed


def held(root):
    """The batch of the current version and what it holds."""
    with open_snapshot(root) as snapshot:
        return snapshot.manifest.batch, bag(snapshot.scan())


def unnamed(root):
    """Files that no version needs."""
    versions = Versions(root)
    named: set[str] = set()
    for number in versions.numbers():
        manifest, lease = versions.lease(number)
        lease.close()
        named.update(manifest.files())
    return {f"data/{path.name}" for path in (root / "data").iterdir()} - named


@pytest.mark.parametrize("technique", ["rebuild", "norebuild"])
def test_killed_at_every_operation_of_an_update(technique, tmp_path, monkeypatch):
    steps = script(1)
    begun = tmp_path / "begun"
    with ArchiveWriter(begun, STRICT, technique, (2, 2)) as writer:
        for update, _ in steps[:8]:
            writer.update(update)
    expected = {7: steps[7][1], 8: steps[8][1]}
    seen = set()
    at = 0
    while True:
        root = tmp_path / f"at-{at}"
        shutil.copytree(begun, root)
        writer = ArchiveWriter(root, STRICT, technique, (2, 2))
        countdown = Countdown(at, kill)
        with monkeypatch.context() as patch:
            countdown.install(patch.setattr)
            try:
                writer.update(steps[8][0])
                is_done = True
            except Killed:
                is_done = False
        writer.close()
        batch, found = held(root)
        assert found == expected[batch]
        seen.add(batch)
        with ArchiveWriter(root, STRICT, technique, (2, 2)) as again:
            report = again.update(steps[8][0])
            assert report.is_repeated == (batch == 8)
            again.update(steps[9][0])
        assert held(root) == (9, steps[9][1])
        assert not unnamed(root)
        shutil.rmtree(root)
        if is_done:
            break
        at += 1
    assert at > 20
    assert seen == {7, 8}


def test_killed_fifty_times_at_random(tmp_path):
    """In a process of its own, which has no threads that a fork would leave behind."""
    process = multiprocessing.get_context("forkserver").Process(
        target=kill_again_and_again, args=(str(tmp_path), 50)
    )
    process.start()
    process.join()
    assert process.exitcode == 0


def test_a_batch_that_was_committed_does_nothing_again(tmp_path):
    steps = script(2)
    with ArchiveWriter(tmp_path, STRICT, "rebuild", (2, 2)) as writer:
        first = [writer.update(update) for update, _ in steps[:4]]
        version = writer.manifest.version
        again = writer.update(steps[3][0])
        assert again.is_repeated
        assert (again.inserted, again.scheduled) == (first[3].inserted, first[3].scheduled)
        assert writer.update(steps[1][0]).is_repeated
        assert writer.manifest.version == version
    assert held(tmp_path) == (3, steps[3][1])


@pytest.mark.parametrize("technique", ["rebuild", "lazynorebuild"])
def test_readers_beside_a_writer_see_whole_versions(technique, tmp_path):
    steps = script(3)
    expected = [after for _, after in steps]
    wrong: list[int] = []
    seen: set[int] = set()
    done = threading.Event()

    def read() -> None:
        while not done.is_set():
            batch, found = held(tmp_path)
            seen.add(batch)
            if found != expected[batch]:
                wrong.append(batch)

    with ArchiveWriter(tmp_path, STRICT, technique, (2, 2), durable=False) as writer:
        writer.update(steps[0][0])
        readers = [threading.Thread(target=read) for _ in range(2)]
        for reader in readers:
            reader.start()
        try:
            for update, _ in steps[1:]:
                writer.update(update)
                # Readers get a turn between any two versions.
                while update.batch not in seen and all(reader.is_alive() for reader in readers):
                    done.wait(0.001)
        finally:
            done.set()
            for reader in readers:
                reader.join()
    assert not wrong
    assert seen == set(range(UPDATES))


def test_a_version_stays_while_somebody_reads_it_and_goes_afterwards(tmp_path):
    steps = script(4)
    with ArchiveWriter(tmp_path, STRICT, "rebuild", (2, 2), durable=False) as writer:
        for update, _ in steps[:3]:
            writer.update(update)
        slow = writer.snapshot()
        for update, _ in steps[3:10]:
            writer.update(update)
        assert Versions(tmp_path).numbers() == [3, 9, 10]
        assert bag(slow.scan()) == steps[2][1]
        slow.close()
        writer.update(steps[10][0])
        assert Versions(tmp_path).numbers() == [10, 11]
        assert not unnamed(tmp_path)
        with open_snapshot(tmp_path, 10) as earlier:
            assert bag(earlier.scan()) == steps[9][1]


def test_a_version_gets_its_name_when_all_that_it_names_is_on_the_disk(tmp_path, monkeypatch):
    """Power may fail at any moment: files and their names are synced first, then the manifest."""
    steps = script(1)
    synced: set[int] = set()
    events: list[str] = []
    fsync, replace = os.fsync, os.replace

    def watched_sync(handle):
        synced.add(os.fstat(handle).st_ino)
        if stat.S_ISDIR(os.fstat(handle).st_mode):
            events.append(f"sync {Path(os.readlink(f'/proc/self/fd/{handle}')).name}")
        fsync(handle)

    def watched_replace(source, target):
        assert os.stat(source).st_ino in synced, target
        replace(source, target)
        events.append(f"name in {Path(target).parent.name}")

    with ArchiveWriter(tmp_path, STRICT, "rebuild", (2, 2)) as writer:
        monkeypatch.setattr(os, "fsync", watched_sync)
        monkeypatch.setattr(os, "replace", watched_replace)
        for update, _ in steps:
            events.clear()
            writer.update(update)
            *before, last, after = events
            assert (last, after) == ("name in versions", "sync versions")
            assert "name in versions" not in before
            assert (before or ["sync data"])[-1] == "sync data"
        assert writer.manifest.taken_rows is not None


def test_a_version_that_goes_while_a_reader_opens_it_is_not_taken(tmp_path, monkeypatch):
    steps = script(4)
    with ArchiveWriter(tmp_path, STRICT, "rebuild", (2, 2), durable=False) as writer:
        for update, _ in steps[:3]:
            writer.update(update)
    flock = fcntl.flock

    def raced(handle, operation):
        monkeypatch.setattr(fcntl, "flock", flock)
        max((tmp_path / "versions").iterdir()).unlink()
        flock(handle, operation)

    monkeypatch.setattr(fcntl, "flock", raced)
    assert held(tmp_path) == (1, steps[1][1])


def test_files_of_a_version_whose_manifest_is_damaged_stay_until_it_is_put_back(tmp_path):
    steps = script(4)
    with ArchiveWriter(tmp_path, STRICT, "rebuild", (2, 2), durable=False) as writer:
        for update, _ in steps[:3]:
            writer.update(update)
        older, newest = sorted((tmp_path / "versions").iterdir())[-2:]
        content = newest.read_text()
        newest.write_text(content[:50])
        writer.update(steps[3][0])
        assert not older.exists()
        newest.write_text(content)
        with open_snapshot(tmp_path, int(newest.name)) as snapshot:
            assert bag(snapshot.scan()) == steps[2][1]


def test_tasks_that_run_twice_and_in_any_order_write_the_same(tmp_path):
    """The three steps of an update, as a cluster would do them."""
    steps = script(5)
    with ArchiveWriter(tmp_path, STRICT, "norebuild", (2, 2), durable=False) as writer:
        for update, after in steps:
            rows = lasting(update.rows, STRICT, update.through)
            rows, taken = net(rows, update.taken_rows, update.taken_keys, STRICT, update.through)
            prepared = writer.prepare(update.batch, update.through, None, taken, update.taken_keys)
            parts = prepared.split(rows)
            tasks = pickle.loads(pickle.dumps(prepared.tasks))
            random.Random(update.batch).shuffle(tasks := list(tasks))
            for task in tasks[:2]:
                rewrite_slot(task, parts.get(task.key), prepared.taken_of(task))
            results = [rewrite_slot(t, parts.get(t.key), prepared.taken_of(t)) for t in tasks]
            writer.commit(prepared, pickle.loads(pickle.dumps(results)))
            assert held(tmp_path) == (update.batch, after)
        assert not unnamed(tmp_path)


def test_an_update_of_nothing_moves_time(tmp_path):
    steps = script(6)
    with ArchiveWriter(tmp_path, STRICT, "rebuild", (2, 2), durable=False) as writer:
        for update, _ in steps:
            writer.update(update)
        later = steps[-1][0].through + 1_000_000
        report = writer.update(Update(UPDATES, later, STRICT.schema.empty_table()))
        assert (report.opened, writer.manifest.rows, writer.manifest.taken_rows) == (0, 0, None)
        assert os.listdir(tmp_path / "data") != []
