"""One database a process, one connection a thread."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor

from sash.duck import connection


def test_threads_have_connections_of_their_own_to_the_same_database():
    connection().execute("CREATE TABLE shared AS SELECT 42 AS n")
    try:
        with ThreadPoolExecutor(1) as pool:
            other = pool.submit(connection).result()
            assert other is not connection()
            assert other.execute("SELECT n FROM shared").fetchall() == [(42,)]
        assert connection() is connection()
    finally:
        connection().execute("DROP TABLE shared")


def test_a_forked_process_has_a_database_of_its_own():
    connection().execute("CREATE TABLE inherited AS SELECT 1 AS n")
    try:
        child = os.fork()
        if child == 0:
            found = connection().execute("SELECT COUNT(*) FROM duckdb_tables()").fetchall()
            os._exit(0 if found == [(0,)] else 1)
        _, status = os.waitpid(child, 0)
        assert os.waitstatus_to_exitcode(status) == 0
    finally:
        connection().execute("DROP TABLE inherited")
