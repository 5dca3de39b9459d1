"""The process that Spark forks its Python workers from, with everything a task needs loaded already.

Without it each worker imports Arrow, numba and DuckDB anew, which takes longer than a small batch. Where
tasks share their cores with the driver they give way to it: answers come one batch after the other, and the
tasks of the next batch must not hold them up.
"""

import os
from contextlib import suppress

from pyspark.daemon import manager

from sash.runtime.spark.masters import NICENESS

with suppress(Exception):
    # What cannot be loaded here cannot be loaded in a task either, and there the driver hears why.
    import sash.runtime.spark.stages  # noqa: F401

if __name__ == "__main__":
    os.nice(int(os.environ.get(NICENESS, "0")))
    manager()
