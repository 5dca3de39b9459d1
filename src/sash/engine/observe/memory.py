"""How much memory there is, and how much of it this process has."""

from __future__ import annotations

import os
import resource
import sys
from pathlib import Path

_PAGE = os.sysconf("SC_PAGE_SIZE")
# Where a container's bound is written, in both versions of control groups.
_BOUNDS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")


def resident_bytes() -> int:
    """What this process has in memory now; where the system does not say, the most that it ever had."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * _PAGE
    except (OSError, ValueError, IndexError):
        most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return most if sys.platform == "darwin" else most * 1024


def machine_bytes() -> int:
    """The memory of the machine, or of the container if that has less."""
    sizes = [os.sysconf("SC_PHYS_PAGES") * _PAGE]
    for name in _BOUNDS:
        try:
            sizes.append(int(Path(name).read_text()))
        except (OSError, ValueError):
            # No such bound: the file is missing, or says "max".
            continue
    return min(sizes)
