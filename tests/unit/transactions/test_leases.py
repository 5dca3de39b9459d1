"""Leases keep files for readers in other processes, and die with them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from sash.transactions.leases import Graveyard, Lease, oldest_leased

_READER = """
import sys, time
from pathlib import Path
from sash.transactions.leases import Lease
with Lease(Path(sys.argv[1])) as lease:
    lease.hold(7)
    print("holding", flush=True)
    time.sleep(60)
"""


@pytest.fixture
def leases(tmp_path: Path) -> Path:
    return tmp_path / "leases"


def test_nobody_reads(leases):
    assert oldest_leased(leases) is None
    with Lease(leases):
        pass
    assert oldest_leased(leases) is None
    assert os.listdir(leases) == []


def test_a_lease_holds_everything_until_it_knows_its_batch(leases):
    with Lease(leases) as first, Lease(leases) as second:
        assert oldest_leased(leases) == -1
        first.hold(5)
        assert oldest_leased(leases) == -1
        second.hold(9)
        assert oldest_leased(leases) == 5
    assert oldest_leased(leases) is None


def test_files_are_deleted_when_no_lease_needs_them(leases, tmp_path):
    old, new = tmp_path / "old", tmp_path / "new"
    old.touch()
    new.touch()
    graveyard = Graveyard(leases)
    with Lease(leases) as lease:
        lease.hold(4)
        graveyard.bury([old], 3)
        graveyard.bury([new], 4)
        graveyard.sweep()
        assert not old.exists()
        assert new.exists()
        assert graveyard.waiting == 1
    graveyard.sweep()
    assert not new.exists()
    assert graveyard.waiting == 0


def test_a_reader_that_is_killed_holds_nothing(leases):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    process = subprocess.Popen(
        [sys.executable, "-c", _READER, str(leases)], stdout=subprocess.PIPE, text=True, env=environment
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "holding\n"
        assert oldest_leased(leases) == 7
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait(30)
        assert process.stdout is not None
        process.stdout.close()
    assert oldest_leased(leases) is None
    assert os.listdir(leases) == []


def test_a_lease_that_is_being_made_survives_a_sweep(leases):
    stop = threading.Event()

    def sweep():
        while not stop.is_set():
            oldest_leased(leases)

    sweeper = threading.Thread(target=sweep)
    sweeper.start()
    try:
        for _ in range(300):
            with Lease(leases) as lease:
                assert oldest_leased(leases) == -1
                lease.hold(3)
                assert oldest_leased(leases) == 3
    finally:
        stop.set()
        sweeper.join(30)
    assert not sweeper.is_alive()
