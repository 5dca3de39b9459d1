"""What the name of a Spark master tells: local or a cluster, how many cores, who must reach the driver."""

from __future__ import annotations

import os
import re
import socket
from pathlib import Path

from sash.errors import SetupError, UserError

NICENESS = "SASH_TASK_NICENESS"
"""Where workers are told by how much they give way to others."""
# How often a task is tried. Spark's local mode tries once unless it is told otherwise.
_ATTEMPTS = 8
_LOCAL = re.compile(r"local(?:\[\s*(\d+|\*)\s*(?:,\s*(\d+)\s*)?\])?")
# Seconds to wait for a master to take a connection.
_PATIENCE = 5.0


def is_local(master: str) -> bool:
    """Whether the tasks run on this machine, in the process of the driver."""
    return _LOCAL.fullmatch(master) is not None


def cores(master: str) -> int:
    """How many tasks run at a time; of a cluster nobody knows before it has been asked."""
    found = _LOCAL.fullmatch(master)
    count = "*" if found is None else found.group(1) or "1"
    return os.cpu_count() or 1 if count == "*" else int(count)


def with_retries(master: str) -> str:
    """A local master that tries a failed task again, as a cluster does."""
    found = _LOCAL.fullmatch(master)
    if found is None or found.group(2) is not None:
        return master
    return f"local[{found.group(1) or 1},{_ATTEMPTS}]"


def is_on_loopback(master: str) -> bool:
    """Whether all executors run on this machine, so that the driver need not be seen from elsewhere."""
    if is_local(master) or master.startswith("local-cluster["):
        return True
    hosts = [host for host, _ in _addresses(master)]
    return bool(hosts) and all(host == "localhost" or host.startswith("127.") for host in hosts)


def check_master(master: str) -> None:
    """Raise SetupError if no master listens there: Spark itself would try for a minute and say little."""
    failures: list[str] = []
    for address in _addresses(master):
        try:
            socket.create_connection(address, _PATIENCE).close()
            return
        except OSError as failure:
            failures.append(failure.strerror or str(failure) or "no answer")
    if failures:
        raise SetupError(
            f"the Spark master '{master}' cannot be reached",
            got=failures[-1].lower(),
            hint="is it running? Its web page shows its URL; or run here, with --master 'local[*]'",
            id="master-unreachable",
        )


def require_shared_state(master: str, checkpoint: Path | None) -> None:
    """Raise UserError unless the state of a cluster is on a path that can be shared."""
    if checkpoint is None and not is_local(master):
        raise UserError(
            f"a run on a cluster ('{master}') needs --checkpoint DIR",
            expected="a folder on a path that all machines of the cluster share",
            hint="executors keep their state there; the scratch folder of this machine is not theirs",
            id="cluster-checkpoint",
        )


def _addresses(master: str) -> list[tuple[str, int]]:
    """Host and port of each standalone master in a URL such as spark://one:7077,two:7077."""
    if not master.startswith("spark://"):
        return []
    found = (part.rpartition(":") for part in master.removeprefix("spark://").split(","))
    return [(host.strip("[]"), int(port)) for host, _, port in found if host and port.isdigit()]
