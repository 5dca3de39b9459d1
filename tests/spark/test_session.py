"""A Python session on Spark: its run has a thread of its own and takes the Spark session that there is."""

from __future__ import annotations

import threading
from pathlib import Path

from tests.spark.kit import MASTER, write_csv

from sash.session import Session, connect

VIEW = "SELECT k, SUM(v) AS v FROM s [RANGE 10 SEC SLIDE 2 SEC] GROUP BY k"
PAIRS = "SELECT a.v, b.v AS w FROM s [RANGE 2 SEC] a, s [RANGE 4 SEC] b WHERE a.k = b.k"


def answers(session: Session, *, stop_at: int | None = None) -> tuple[list[str], list[list[str]]]:
    """The log of the view, and the contents of both queries at the end."""
    session.sql("CREATE STREAM s (t BIGINT, k STRING, v BIGINT) TIMESTAMP BY t FROM 'csv:s.csv'")
    view = session.query(VIEW, max_pending=2)
    pairs = session.query(PAIRS)
    log = []
    for answer in view:
        log += sorted(f"{answer.at} {row}" for row in answer.rows.to_pylist())
        if answer.at == stop_at:
            session.stop()
    assert session.summary is not None
    return log, [sorted(map(str, query.latest().to_pylist())) for query in (view, pairs)]


def test_a_session_on_spark_gives_the_answers_of_one_inline_and_goes_on_from_its_checkpoint(
    tmp_path: Path,
) -> None:
    write_csv(tmp_path / "s.csv", "t,k,v", [(t, "abc"[t % 3], t) for t in range(1, 61)])
    with connect(tmp_path, runtime="inline") as session:
        expected, contents = answers(session)
    log: list[str] = []
    for stop_at in (20, None):
        options = {"master": MASTER, "batch_rows": 8, "checkpoint": tmp_path / "state"}
        with connect(tmp_path, **options) as session:  # type: ignore[arg-type]
            more, found = answers(session, stop_at=stop_at)
            assert more
            log += more
    assert log == expected
    assert found == contents
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("sash")]
