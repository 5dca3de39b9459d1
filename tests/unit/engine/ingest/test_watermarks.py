"""A query's watermark is that of the streams and timed relations which it reads; others do not touch it."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import pytest

from sash.engine.observe.report import BatchReport, Silent, Summary
from sash.lang import bind_program
from sash.runtime.run import run_program

STREAM = "CREATE STREAM {0} (t BIGINT, n BIGINT) TIMESTAMP BY t FROM 'csv:{0}'{1};\n"
WATCHED = " WITH (watch = true)"
PARTITIONS = pytest.mark.parametrize("partitions", [None, 1, 3])


def query(name: str, select: str) -> str:
    return f"CREATE QUERY {name} INTO 'jsonl:{name}.jsonl' AS {select};\n"


def rows(folder: Path, name: str, *instants: int) -> None:
    (folder / name).mkdir(exist_ok=True)
    (folder / name / "1.csv").write_text("t,n\n" + "".join(f"{t},{t}\n" for t in instants))


def answers(folder: Path, name: str) -> list[tuple[object, ...]]:
    path = folder / f"{name}.jsonl"
    return [tuple(json.loads(line).values()) for line in path.read_text().splitlines()]


def run(folder: Path, text: str, partitions: int | None = None, monitor: Until | None = None) -> Summary:
    return run_program(
        bind_program(text),
        base_dir=folder,
        runtime="inline",
        batch_rows=4,
        checkpoint=folder / "state",
        partitions=partitions,
        monitor=monitor or Silent(),
        stop=None if monitor is None else monitor.stop,
    )


class Until(Silent):
    """Stops the run when a query has been answered up to an instant, or after a while."""

    def __init__(self, query: str, instant: int) -> None:
        self.stop = threading.Event()
        self.watermarks: dict[str, int | None] = {}
        self._query, self._instant = query, instant * 1_000_000
        timer = threading.Timer(20, self.stop.set)
        timer.daemon = True
        timer.start()

    def batch(self, report: BatchReport) -> None:
        self.watermarks = dict(report.watermarks)
        if (self.watermarks[self._query] or 0) >= self._instant:
            self.stop.set()


@PARTITIONS
def test_a_silent_stream_holds_back_only_the_queries_that_read_it(tmp_path, partitions):
    #  g  1 2 3 … 20                 complete through 19 (a row at 20 may still come)
    #  w                             nothing: who reads it has no watermark
    rows(tmp_path, "g", *range(1, 21))
    (tmp_path / "w").mkdir()
    watch = Until("counted", 19)
    run(
        tmp_path,
        STREAM.format("g", WATCHED)
        + STREAM.format("w", WATCHED)
        + query("counted", "Rstream(SELECT COUNT(*) AS c FROM g [RANGE 5 SEC SLIDE 5 SEC])")
        + query("seen", "Istream(SELECT n FROM g [NOW])")
        + query("silent", "SELECT COUNT(*) AS c FROM w [RANGE 5 SEC SLIDE 5 SEC]"),
        partitions,
        watch,
    )
    assert answers(tmp_path, "counted") == [(5, 5), (10, 5), (15, 5)]
    assert [n for _, n in answers(tmp_path, "seen")] == list(range(1, 20))
    assert watch.watermarks == {"counted": 19_999_999, "seen": 19_999_999, "silent": None}


@PARTITIONS
def test_who_reads_the_silent_stream_too_waits_for_it_and_goes_on_when_it_speaks(tmp_path, partitions):
    rows(tmp_path, "g", *range(1, 21))
    rows(tmp_path, "h", *range(1, 21))
    (tmp_path / "w").mkdir()
    text = (
        "".join(STREAM.format(name, WATCHED) for name in "ghw")
        + query("alone", "Rstream(SELECT COUNT(*) AS c FROM h [RANGE 5 SEC SLIDE 5 SEC])")
        + query("both", "SELECT g.n FROM g [NOW], w [NOW] WHERE g.n = w.n")
    )
    watch = Until("alone", 19)
    run(tmp_path, text, partitions, watch)
    assert watch.watermarks == {"alone": 19_999_999, "both": None}
    rows(tmp_path, "w", 3, 7, 30)
    watch = Until("both", 19)
    run(tmp_path, text, partitions, watch)
    assert watch.watermarks["both"] == 19_999_999
    assert [(ts, op) for ts, op, _ in answers(tmp_path, "both") if op == "+"] == [(3, "+"), (7, "+")]
    assert answers(tmp_path, "alone") == [(5, 5), (10, 5), (15, 5)], "nothing came twice"


@PARTITIONS
def test_a_longer_stream_adds_nothing_to_the_answers_of_others(tmp_path, partitions):
    rows(tmp_path, "g", 1, 2, 3)
    rows(tmp_path, "h", *range(1, 100))
    text = (
        STREAM.format("g", "")
        + STREAM.format("h", "")
        + query("short", "SELECT COUNT(*) AS c FROM g [RANGE 2 SEC SLIDE 1 SEC]")
        + query("rows", "SELECT n FROM g [RANGE 2 SEC]")
        + query("long", "SELECT COUNT(*) AS c FROM h [RANGE 2 SEC SLIDE 1 SEC]")
    )
    summary = run(tmp_path, text, partitions)
    assert [ts for ts, *_ in answers(tmp_path, "short")][-1] == 2, "two rows at 2 and still at 3"
    assert answers(tmp_path, "rows") == [(1, "+", 1), (2, "+", 2), (3, "-", 1), (3, "+", 3)]
    assert summary.watermarks == {"short": 3_000_000, "rows": 3_000_000, "long": 99_000_000}


@PARTITIONS
def test_of_two_streams_the_longer_one_ends_a_query(tmp_path, partitions):
    rows(tmp_path, "g", 1, 2, 3)
    rows(tmp_path, "h", 2, 9)
    text = STREAM.format("g", "") + STREAM.format("h", "")
    text += query("either", "SELECT n FROM g [RANGE 5 SEC] UNION ALL SELECT n FROM h [RANGE 5 SEC]")
    run(tmp_path, text, partitions)
    assert answers(tmp_path, "either")[-1][0] == 9
    assert (8, "-", 3) in answers(tmp_path, "either")


@PARTITIONS
def test_changes_of_a_relation_after_the_last_row_count_for_who_reads_it(tmp_path, partitions):
    #  g  1 2 3
    #  r  1: insert 2      6: delete 2     9: insert 3
    rows(tmp_path, "g", 1, 2, 3)
    (tmp_path / "r.csv").write_text("t,op,n\n1,insert,2\n6,delete,2\n9,insert,3\n")
    text = (
        STREAM.format("g", "")
        + "CREATE RELATION r (t BIGINT, op STRING, n BIGINT) KEY (n) TIMESTAMP BY t OP BY op\n"
        + "  FROM 'csv:r.csv';\n"
        + query("with_r", "SELECT g.n FROM g [RANGE 20 SEC], r WHERE g.n = r.n")
        + query("without", "SELECT n FROM g [RANGE 5 SEC]")
        + "SELECT n FROM r;\n"
    )
    summary = run(tmp_path, text, partitions)
    assert answers(tmp_path, "with_r") == [(2, "+", 2), (6, "-", 2), (9, "+", 3)]
    assert [ts for ts, *_ in answers(tmp_path, "without")] == [1, 2, 3], "time stops at 3 here"
    assert [table.to_pylist() for table in summary.once.values()] == [[{"n": 3}]]
    assert summary.streams["r"].accepted == 3, "its changes are read once for all queries"
