"""The process that Spark forks its Python workers from, with everything a task needs loaded already.

Without it each worker imports Arrow, numba and DuckDB anew, which takes longer than a small batch.
"""

from contextlib import suppress

from pyspark.daemon import manager

with suppress(Exception):
    # What cannot be loaded here cannot be loaded in a task either, and there the driver hears why.
    import sash.runtime.spark.stages  # noqa: F401

if __name__ == "__main__":
    manager()
