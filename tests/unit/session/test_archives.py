"""Archives from Python: created before and during a run, asked while it goes on and afterwards."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
from tests.unit.session.kit import ENDLESS, session_over

from sash.errors import SashError
from sash.session import connect

KEPT = (
    "CREATE ARCHIVE kept KEY (k) USING REBUILD 2x2 EVERY 5 SEC INTO 'kept' AS "
    "SELECT k, v FROM s [RANGE 10 SEC]"
)


def test_an_archive_is_filled_shown_and_asked(tmp_path: Path) -> None:
    with session_over(tmp_path, 30) as session:
        session.sql(KEPT)
        assert session.sql("SHOW ARCHIVES").column("rows").to_pylist() == [None]
        session.start()
        session.wait()
        assert session.sql("SHOW ARCHIVES").column("technique").to_pylist() == ["rebuild 2x2"]
        answer = session.ask("SELECT v FROM kept WHERE k = 'a'")
        assert sorted(answer.column("v").to_pylist()) == [21, 24, 27, 30]
        metadata = dict(answer.schema.metadata)
        record = json.loads(metadata.pop(b"sash.record"))
        assert metadata == {b"sash.instant": b"30000000", b"sash.isolation": b"ws"}
        assert (record["instant"], record["is_complete"], record["bounds"]) == (30_000_000, True, {})
        assert session.sql("SELECT COUNT(*) AS n FROM kept [RANGE 4 SEC]").to_pylist() == [{"n": 4}]
        assert "REBUILD" not in session.explain("kept")
        assert "rebuild 2x2, every 5 SEC" in session.explain("kept")


def test_an_archive_comes_into_a_run_and_leaves_it(tmp_path: Path) -> None:
    with connect(base_dir=tmp_path, runtime="inline") as session:
        session.sql(ENDLESS)
        session.query(
            "SELECT COUNT(*) AS n FROM p [RANGE 1 SEC SLIDE 1 SEC]", into="noop:", max_pending=10**9
        )
        session.start()
        create = (
            "CREATE ARCHIVE sizes KEY (src) USING {} EVERY 1 SEC INTO 'sizes' AS "
            "SELECT src, length FROM p [RANGE 2 SEC]"
        )
        session.sql(create.format("NOREBUILD 2x2"))
        assert _first_rows(session) > 0
        session.sql(f"DROP ARCHIVE sizes; {create.format('REBUILD 3x2')}")
        assert _first_rows(session) > 0
        assert session.sql("SHOW ARCHIVES").column("technique")[0].as_py().endswith("rebuild 3x2")
        session.sql("DROP ARCHIVE sizes")
        with pytest.raises(SashError):
            session.ask("SELECT src FROM sizes")


def _first_rows(session) -> int:
    for _ in range(200):
        (row,) = session.ask("SELECT COUNT(*) AS n FROM sizes").to_pylist()
        if row["n"]:
            return int(row["n"])
        time.sleep(0.05)
    return 0
