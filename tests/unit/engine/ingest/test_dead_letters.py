"""Side files: each late and rejected row once, over interruptions too."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from sash.connectors.sources import REJECTS_SCHEMA
from sash.engine.ingest.dead_letters import DeadLetters
from sash.engine.ingest.first_stage import ChunkResult
from sash.errors import SinkError
from sash.lang import bind_program
from sash.runtime.run import run_program
from sash.testing.runs import StopAfter


def result(late: int = 0, rejected: int = 0, start: int = 0) -> ChunkResult:
    def rows(count: int, reason: str) -> pa.Table:
        listed = [
            {"source": "f.csv", "row": start + i, "reason": reason, "data": f"é,{i}"} for i in range(count)
        ]
        return pa.Table.from_pylist(listed, schema=REJECTS_SCHEMA)

    return ChunkResult("s", 0, 0, None, None, (), rows(late, "late"), rows(rejected, "bad"))


def read(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_a_file_appears_with_its_first_row(tmp_path):
    dead_letters = DeadLetters(tmp_path / "dead-letters", durable=False)
    dead_letters.open(["s"], {})
    dead_letters.write([result()])
    assert not (tmp_path / "dead-letters").exists()
    dead_letters.write([result(late=2), result(rejected=1)])
    dead_letters.commit()
    dead_letters.close()
    assert [row["row"] for row in read(tmp_path / "dead-letters" / "s.late.jsonl")] == [0, 1]
    assert read(tmp_path / "dead-letters" / "s.rejects.jsonl") == [
        {"source": "f.csv", "row": 0, "reason": "bad", "data": "é,0"}
    ]


def test_files_of_an_earlier_run_are_removed_and_those_of_others_are_left(tmp_path):
    for name in ("s.late.jsonl", "s.rejects.jsonl", "other.late.jsonl"):
        (tmp_path / name).write_text("old\n")
    DeadLetters(tmp_path, durable=False).open(["s"], {})
    assert [path.name for path in tmp_path.iterdir()] == ["other.late.jsonl"]


def test_what_was_not_committed_is_taken_back(tmp_path):
    dead_letters = DeadLetters(tmp_path, durable=True)
    dead_letters.open(["s"], {})
    dead_letters.write([result(late=2)])
    committed = json.loads(json.dumps(dead_letters.commit()))
    dead_letters.write([result(late=3, rejected=1, start=2)])
    dead_letters.close()
    again = DeadLetters(tmp_path, durable=True)
    again.open(["s"], committed)
    assert not (tmp_path / "s.rejects.jsonl").exists()
    again.write([result(late=1, start=2)])
    again.commit()
    again.close()
    assert [row["row"] for row in read(tmp_path / "s.late.jsonl")] == [0, 1, 2]


def test_a_file_that_cannot_be_replaced_is_an_error_that_says_what_to_do(tmp_path):
    (tmp_path / "s.late.jsonl").mkdir()
    with pytest.raises(SinkError, match="cannot replace") as caught:
        DeadLetters(tmp_path, durable=False).open(["s"], {})
    assert "--dead-letters" in str(caught.value.hint)


LATE = """CREATE STREAM s (t BIGINT, n BIGINT) TIMESTAMP BY t SLACK 2 SEC MAX AHEAD 30 SEC FROM 'csv:s.csv';
CREATE QUERY q INTO 'noop:' AS SELECT n FROM s [RANGE 5 SEC];"""


def told_by_definition(times):
    """(row, reason) of late rows and of those too far ahead, by the newest accepted row before each."""
    late, ahead, newest = [], [], None
    for row, at in enumerate(times, 1):
        if newest is not None and at < newest - 2:
            late.append((row, f"late by {newest - 2 - at}.000000 s"))
        elif newest is not None and at > newest + 30:
            ahead.append((row, f"ahead by {at - newest}.000000 s, MAX AHEAD is 30.000000 s"))
        else:
            newest = at if newest is None else max(newest, at)
    return late, ahead


# The task that reads 3 knows nothing newer than 10.
@example([10, 1, 10, 10, 20, 20, 3, 30], 4, None, None)
@settings(max_examples=40)
@given(
    st.lists(st.integers(0, 60), min_size=4, max_size=25),
    st.integers(2, 12),
    st.sampled_from([None, 2]),
    st.sampled_from([None, 1, 2]),
)
def test_late_rows_tell_the_newest_row_before_them_however_the_input_is_cut(
    tmp_path_factory, times, batch_rows, partitions, batches
):
    folder = tmp_path_factory.mktemp("late")
    (folder / "s.csv").write_text("t,n\n" + "".join(f"{at},{i}\n" for i, at in enumerate(times)))
    for stop in (StopAfter(batches), StopAfter()):
        run_program(
            bind_program(LATE),
            base_dir=folder,
            runtime="inline",
            checkpoint=folder / "state",
            batch_rows=batch_rows,
            partitions=partitions,
            dead_letters=folder / "dead-letters",
            monitor=stop,
            stop=stop.stop,
        )
    for kind, expected in zip(("late", "rejects"), told_by_definition(times), strict=True):
        path = folder / "dead-letters" / f"s.{kind}.jsonl"
        found = [(row["row"], row["reason"]) for row in read(path)] if path.exists() else []
        assert found == expected
