"""The process that Spark forks its Python workers from, with everything a task needs loaded already.

Without it each worker imports Arrow, numba and DuckDB anew, which takes longer than a small batch. Where
tasks share their cores with the driver they give way to it: answers come one batch after the other, and the
tasks of the next batch must not hold them up.
"""

import atexit
import ctypes
import gc
import os
from contextlib import suppress

from pyspark.daemon import manager

from sash.runtime.spark.masters import NICENESS

with suppress(Exception):
    # What cannot be loaded here cannot be loaded in a task either, and there the driver hears why.
    import sash.runtime.spark.stages  # noqa: F401

# Parameters of glibc's mallopt, and the greatest size that it takes for the second.
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
_MOST_KEPT, _LARGEST = 1 << 29, 1 << 25


def keep_memory() -> None:
    """Let the arrays of a chunk lie where those of the last one lay: pages anew cost a tenth of a task."""
    with suppress(AttributeError, OSError):
        # Another C library does without.
        allocator = ctypes.CDLL(None)
        allocator.mallopt(_MMAP_THRESHOLD, _LARGEST)
        allocator.mallopt(_TRIM_THRESHOLD, _MOST_KEPT)


def keep_modules() -> None:
    """Let what is loaded be no garbage: Spark has a worker look through all of it after every task."""
    gc.collect()
    gc.freeze()
    atexit.register(gc.unfreeze)


if __name__ == "__main__":
    keep_memory()
    keep_modules()
    os.nice(int(os.environ.get(NICENESS, "0")))
    manager()
