"""The process that Spark forks its Python workers from, with everything a task needs loaded already.

Without it each worker imports Arrow, numba and DuckDB anew, which takes longer than a small batch.
"""

from pyspark.daemon import manager

import sash.runtime.spark.holder
import sash.runtime.stage  # noqa: F401

if __name__ == "__main__":
    manager()
