"""Input that keeps coming, and input or data that fails while the run is under way."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.spark.kit import Watching, run, tuples, write_csv

from sash.engine.durability.feed_log import FeedLog
from sash.engine.engine import Engine
from sash.engine.ingest.feed import Entry
from sash.engine.observe.report import BatchReport
from sash.errors import DataError, SashError, SourceError


def test_a_watched_directory_is_answered_as_files_appear_until_the_stop(tmp_path: Path) -> None:
    #  files     0: 1 4 10     1: 11 15 20     2: 21 25 30      (no end: 30 is not known to be complete)
    #  boundaries known complete after file 1: 10, after file 2: 20
    inbox = tmp_path / "inbox"
    inbox.mkdir()
    seconds = [(1, 4, 10), (11, 15, 20), (21, 25, 30)]
    stop = threading.Event()

    def drop(number: int) -> None:
        unfinished = inbox / f"{number}.csv.tmp"
        write_csv(unfinished, "t,x", [(t, t) for t in seconds[number]])
        os.rename(unfinished, inbox / f"{number}.csv")

    def after(report: BatchReport) -> None:
        following = len(watching.reports)
        if following < len(seconds):
            # Later, so that the run finds nothing to read for a while.
            threading.Timer(0.2, drop, (following,)).start()
        else:
            stop.set()

    watching = Watching(after)
    threading.Timer(0.5, drop, (0,)).start()
    summary = run(
        tmp_path,
        """CREATE STREAM s (t BIGINT, x BIGINT) TIMESTAMP BY t FROM 'csv:inbox' WITH (watch = true);
        CREATE QUERY q INTO 'jsonl:q.jsonl' AS
          Rstream(SELECT SUM(x) AS total FROM s [RANGE 10 SEC SLIDE 10 SEC]);""",
        monitor=watching,
        stop=stop,
    )
    assert summary.interrupted
    assert summary.batches == 3
    assert summary.streams["s"].accepted == 9
    assert [report.progress for report in watching.reports] == [None] * 3
    assert [list(report.answers) for report in watching.reports] == [[], ["q"], ["q"]]
    assert tuples(tmp_path / "q.jsonl") == [(10, 15), (20, 46)]


HUGE = 1 << 62


@pytest.mark.parametrize(
    ("selected", "batch_rows"),
    [("SUM(x * 4) AS total", 100), ("SUM(x) AS total", 100), ("SUM(x) AS total", 1)],
    ids=["in-an-expression", "of-a-sum-inside-one-chunk", "of-a-sum-over-several-batches"],
)
def test_an_integer_overflow_is_a_data_error_of_one_sentence(
    tmp_path: Path, selected: str, batch_rows: int
) -> None:
    write_csv(tmp_path / "s.csv", "t,x", [(1, HUGE), (2, HUGE), (3, HUGE), (11, 0)])
    with pytest.raises(DataError) as caught:
        run(
            tmp_path,
            f"""CREATE STREAM s (t BIGINT, x BIGINT) TIMESTAMP BY t FROM 'csv:s.csv';
            CREATE QUERY q INTO 'jsonl:q.jsonl' AS
              Rstream(SELECT {selected} FROM s [RANGE 10 SEC SLIDE 10 SEC]);""",
            batch_rows=batch_rows,
        )
    assert_is_one_sentence(caught.value)
    assert caught.value.exit_code == 1


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_a_file_that_vanishes_between_planning_and_reading_is_a_source_error_that_names_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    path = tmp_path / f"s.{kind}"
    if kind == "csv":
        write_csv(path, "t,x", [(t, t) for t in range(1, 30)])
    else:
        pq.write_table(pa.table({"t": pa.array(range(1, 30), pa.int64()), "x": [1] * 29}), path)
    planned = Engine.next_entry

    def then_remove(engine: Engine) -> Entry | None:
        entry = planned(engine)
        path.unlink(missing_ok=True)
        return entry

    monkeypatch.setattr(Engine, "next_entry", then_remove)
    with pytest.raises(SourceError, match=path.name) as caught:
        run(
            tmp_path,
            f"""CREATE STREAM s (t BIGINT, x BIGINT) TIMESTAMP BY t FROM '{kind}:s.{kind}';
            CREATE QUERY q INTO 'jsonl:q.jsonl' AS
              Rstream(SELECT SUM(x) AS total FROM s [RANGE 10 SEC SLIDE 10 SEC]);""",
        )
    assert_is_one_sentence(caught.value)


def test_spark_may_ask_for_a_batch_as_soon_as_the_feed_has_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_csv(tmp_path / "s.csv", "t,x", [(t, t) for t in range(1, 31)])
    publish = FeedLog.publish

    def then_dawdle(log: FeedLog, number: int, text: str) -> None:
        publish(log, number, text)
        time.sleep(0.3)

    monkeypatch.setattr(FeedLog, "publish", then_dawdle)
    run(
        tmp_path,
        """CREATE STREAM s (t BIGINT, x BIGINT) TIMESTAMP BY t FROM 'csv:s.csv';
        CREATE QUERY q INTO 'jsonl:q.jsonl' AS
          Rstream(SELECT SUM(x) AS total FROM s [RANGE 10 SEC SLIDE 10 SEC]);""",
        batch_rows=10,
    )
    assert tuples(tmp_path / "q.jsonl") == [(10, 55), (20, 155), (30, 255)]


def assert_is_one_sentence(error: SashError) -> None:
    text = error.render()
    assert "\n" not in error.message
    for noise in ("Traceback", "org.apache", "java.", "py4j", 'File "', "PySpark"):
        assert noise not in text, text
