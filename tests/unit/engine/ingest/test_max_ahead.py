"""MAX AHEAD: rows that are too far ahead are dead letters and move nothing, however the input is cut."""

from __future__ import annotations

import json
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sash.connectors.sources import REJECTS_SCHEMA, open_source
from sash.engine.ingest.feed import Entry, Feeder
from sash.engine.ingest.first_stage import Bar, ChunkResult, Judged, misjudged
from sash.engine.observe.report import BatchReport, Silent, Summary
from sash.errors import TimeJump
from sash.lang import bind_program
from sash.runtime.run import run_program
from sash.state import kernels
from sash.synopses import refresh

SLACK, AHEAD = 3, 10
INSTANTS = st.lists(st.integers(0, 60), max_size=12)
STREAM = "CREATE STREAM s (t BIGINT, n BIGINT) TIMESTAMP BY t{0} FROM 'csv:s.csv';\n"
COUNT = (
    "CREATE QUERY q INTO 'jsonl:q.jsonl' AS Rstream(SELECT COUNT(*) AS c FROM s [RANGE 5 SEC SLIDE 5 SEC]);\n"
)
ROWS = "CREATE QUERY r INTO 'jsonl:r.jsonl' AS Istream(SELECT n FROM s [NOW]);\n"


def by_definition(instants: list[int], newest: int | None) -> list[str]:
    """Each row is judged by the newest accepted row before it."""
    found = []
    for instant in instants:
        if newest is not None and instant < newest - SLACK:
            found.append("late")
        elif newest is not None and instant > newest + AHEAD:
            found.append("ahead")
        else:
            found.append("accepted")
            newest = instant if newest is None else max(newest, instant)
    return found


@given(INSTANTS, st.none() | st.integers(0, 40))
def test_rows_are_judged_as_if_they_came_one_by_one(instants, newest):
    far = kernels.far_ahead(
        np.array(instants, dtype=np.int64), newest or 0, newest is not None, True, SLACK, AHEAD
    )
    assert [ahead > 0 for ahead in far] == [what == "ahead" for what in by_definition(instants, newest)]


def result(sequence: int, instants: list[int], bar: Bar) -> ChunkResult:
    """What a task makes of a chunk."""
    ts = np.array(instants, dtype=np.int64)
    far = kernels.far_ahead(ts, bar.newest or 0, bar.newest is not None, bar.is_exact, SLACK, AHEAD)
    kept, newest = [], bar.newest
    for instant, ahead in zip(instants, far, strict=True):
        if ahead == 0 and (newest is None or instant >= newest - SLACK):
            kept.append(instant)
            newest = instant if newest is None else max(newest, instant)
    judged = Judged(AHEAD, bar.newest, bar.is_exact, kept[0] if kept else None, int((far > 0).sum()))
    least, most, none = min(kept, default=None), max(kept, default=None), REJECTS_SCHEMA.empty_table()
    return ChunkResult("s", sequence, len(kept), most, least, (), none, none, judged=judged)


@given(st.lists(INSTANTS, max_size=6), st.none() | st.integers(0, 40))
def test_chunks_are_run_again_until_they_are_judged_as_if_they_were_one(chunks, newest):
    bars = [Bar(newest, is_exact=number == 0) for number in range(len(chunks))]
    results = [result(number, rows, bars[number]) for number, rows in enumerate(chunks)]
    rounds = 0
    while wrong := misjudged(results, {"s": newest}, {"s": SLACK}):
        rounds += 1
        assert rounds <= len(chunks), "each round makes one more chunk right"
        for (_, number), before in wrong.items():
            results[number] = result(number, chunks[number], Bar(before))
    whole = by_definition([row for rows in chunks for row in rows], newest)
    right, start = [], 0
    for rows in chunks:
        right.append(whole[start : start + len(rows)].count("accepted"))
        start += len(rows)
    assert [one.accepted for one in results] == right


def test_input_without_wild_rows_is_not_read_twice_however_long_a_batch_is():
    chunks = [[1, 5, 9], [12, 20, 28], [30, 38, 45]]
    results = [result(number, rows, Bar(None, is_exact=number == 0)) for number, rows in enumerate(chunks)]
    assert misjudged(results, {"s": None}, {"s": SLACK}) == {}


# ---------------------------------------------------------------- runs


def run(folder: Path, text: str, **options: Any) -> Summary:
    return run_program(
        bind_program(text), base_dir=folder, runtime="inline", dead_letters=folder / "dead-letters", **options
    )


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def write(folder: Path, *instants: int) -> None:
    (folder / "s.csv").write_text("t,n\n" + "".join(f"{t},{i}\n" for i, t in enumerate(instants)))


@pytest.mark.parametrize("partitions", [None, 1, 3])
@pytest.mark.parametrize("batch_rows", [1, 3, 100])
def test_a_wild_row_is_a_dead_letter_and_moves_nothing(tmp_path, partitions, batch_rows):
    #  9000 and 700 are further ahead than 60 s of 4 and 8; 68 is not; 1 is late behind 68
    write(tmp_path, 1, 2, 4, 9000, 5, 8, 700, 68, 1, 70)
    summary = run(
        tmp_path,
        STREAM.format(" MAX AHEAD 1 MIN") + COUNT + ROWS,
        partitions=partitions,
        batch_rows=batch_rows,
    )
    counts = summary.streams["s"]
    assert (counts.accepted, counts.late, counts.rejected) == (7, 1, 2)
    assert [row["n"] for row in lines(tmp_path / "r.jsonl")] == [0, 1, 2, 4, 5, 7, 9]
    counted = {row["ts"]: row["c"] for row in lines(tmp_path / "q.jsonl")}
    assert counted[5] == 4
    assert counted[70] == 2
    assert max(counted) == 70
    rejected = lines(tmp_path / "dead-letters" / "s.rejects.jsonl")
    assert [(row["row"], row["reason"]) for row in rejected] == [
        (4, "ahead by 8996.000000 s, MAX AHEAD is 60.000000 s"),
        (7, "ahead by 692.000000 s, MAX AHEAD is 60.000000 s"),
    ]
    assert json.loads(rejected[0]["data"]) == {"t": 9000, "n": 3}


def test_the_first_row_of_a_stream_has_nobody_before_it(tmp_path):
    write(tmp_path, 1_000_000, 1_000_001)
    assert run(tmp_path, STREAM.format(" MAX AHEAD 1 SEC") + ROWS).streams["s"].accepted == 2


def test_bounded_input_has_no_bound_unless_it_is_written(tmp_path):
    write(tmp_path, 1, 4_000_000_000, 4_000_000_001)
    assert run(tmp_path, STREAM.format("") + ROWS).streams["s"].accepted == 3


class Stop(Silent):
    def __init__(self, rows: int) -> None:
        self.stop = threading.Event()
        self._left = rows
        timer = threading.Timer(20, self.stop.set)
        timer.daemon = True
        timer.start()

    def batch(self, report: BatchReport) -> None:
        self._left -= report.rows
        if self._left <= 0:
            self.stop.set()


@pytest.mark.parametrize(("clause", "accepted"), [("", 2), (" MAX AHEAD 3 HOUR", 3), (" MAX AHEAD 1 MIN", 1)])
def test_rows_of_live_input_are_compared_with_the_clock_on_the_wall(tmp_path, clause, accepted):
    now = int(time.time())
    (tmp_path / "in").mkdir()
    # Now, in half an hour, in two hours, in the year 2100.
    instants = (now, now + 1_800, now + 7_200, 4_102_444_800)
    (tmp_path / "in" / "1.csv").write_text("t,n\n" + "".join(f"{t},{i}\n" for i, t in enumerate(instants)))
    text = STREAM.format(clause).replace("'csv:s.csv'", "'csv:in' WITH (watch = true)")
    watch = Stop(4)
    summary = run(tmp_path, text + ROWS, monitor=watch, stop=watch.stop)
    assert summary.streams["s"].accepted == accepted
    assert summary.streams["s"].rejected == 4 - accepted


def test_the_clock_on_the_wall_is_in_the_entry_so_that_a_repeated_batch_has_the_same(tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "1.csv").write_text("t,n\n1,1\n")
    text = STREAM.format(" MAX AHEAD 5 SEC").replace("'csv:s.csv'", "'csv:in' WITH (watch = true)")
    (stream,) = bind_program(text + ROWS).streams
    feeder = Feeder({"s": open_source(stream, tmp_path)}, 10, 10, wall=lambda: 100.0)
    entry = feeder.next({"s": None})
    assert entry is not None
    assert entry.limits == {"s": 105_000_000}
    assert Entry.from_json(entry.to_json()) == entry
    assert entry.of(["s"], is_last=False).limits == entry.limits


def test_a_jump_in_time_names_the_row_its_place_and_the_option_each_time(tmp_path, monkeypatch):
    monkeypatch.setattr(refresh, "MOST_EMPTY_ANSWERS", 100)
    write(tmp_path, 1, 2, 3, 9_000, 4, 5)
    for _ in range(2):
        with pytest.raises(TimeJump) as caught:
            run(tmp_path, STREAM.format("") + COUNT, checkpoint=tmp_path / "state", batch_rows=2)
        assert caught.value.id == "time-jump"
        assert caught.value.got == f"row 4 of '{tmp_path / 's.csv'}' is 8,997 s later than the rows before it"
        assert "MAX AHEAD" in str(caught.value.hint)
    text = STREAM.format(" MAX AHEAD 1 HOUR") + COUNT
    summary = run(tmp_path, text, checkpoint=tmp_path / "state", batch_rows=2)
    assert summary.streams["s"].rejected == 1
    assert [(row["ts"], row["c"]) for row in lines(tmp_path / "q.jsonl")] == [(5, 5)]
