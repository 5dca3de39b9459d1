"""What the name of a Spark master tells."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from sash.errors import SetupError, UserError
from sash.runtime.spark.masters import (
    check_master,
    cores,
    is_local,
    is_on_loopback,
    require_shared_state,
    with_retries,
)


@pytest.mark.parametrize(
    ("master", "retrying", "count"),
    [
        ("local", "local[1,8]", 1),
        ("local[3]", "local[3,8]", 3),
        ("local[*]", "local[*,8]", os.cpu_count()),
        ("local[3,1]", "local[3,1]", 3),
        ("local[*, 2]", "local[*, 2]", os.cpu_count()),
        ("local-cluster[2,1,1024]", "local-cluster[2,1,1024]", os.cpu_count()),
        ("spark://host:7077", "spark://host:7077", os.cpu_count()),
    ],
)
def test_local_masters_try_a_failed_task_again_unless_told_otherwise(
    master: str, retrying: str, count: int
) -> None:
    assert with_retries(master) == retrying
    assert cores(master) == cores(retrying) == count


@pytest.mark.parametrize(
    ("master", "local", "loopback"),
    [
        ("local", True, True),
        ("local[2,4]", True, True),
        ("local-cluster[2,1,1024]", False, True),
        ("spark://127.0.0.1:7077", False, True),
        ("spark://localhost:7077", False, True),
        ("spark://127.0.0.1:7077,far:7077", False, False),
        ("spark://far:7077", False, False),
        ("k8s://https://far:443", False, False),
        ("yarn", False, False),
    ],
)
def test_only_masters_on_this_machine_are_on_loopback(master: str, local: bool, loopback: bool) -> None:
    assert is_local(master) == local
    assert is_on_loopback(master) == loopback


def test_a_master_that_does_not_listen_is_named_at_once() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        # Bound and not listening: nobody else can take the port meanwhile.
        master = f"spark://127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(SetupError, match=master) as caught:
            check_master(master)
    assert caught.value.id == "master-unreachable"
    assert caught.value.got == "connection refused"


def test_one_of_several_masters_is_enough_and_others_are_not_asked() -> None:
    with socket.socket() as dead, socket.create_server(("127.0.0.1", 0)) as alive:
        dead.bind(("127.0.0.1", 0))
        check_master(f"spark://127.0.0.1:{dead.getsockname()[1]},127.0.0.1:{alive.getsockname()[1]}")
    check_master("local[2]")
    check_master("yarn")


def test_a_cluster_needs_a_checkpoint_and_this_machine_does_not() -> None:
    with pytest.raises(UserError, match="--checkpoint") as caught:
        require_shared_state("spark://far:7077", None)
    assert caught.value.id == "cluster-checkpoint"
    require_shared_state("spark://far:7077", Path("/shared"))
    require_shared_state("local[*]", None)
