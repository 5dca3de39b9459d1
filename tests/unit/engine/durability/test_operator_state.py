"""Cells: state that is lost is read back from snapshots and logs, and nothing else is believed."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sash.engine.continuous.buffered_dataflow import BufferedDataflow
from sash.engine.durability.operator_state import OperatorState, Work
from sash.errors import CheckpointError
from sash.lang import bind_program
from sash.operators.build import build
from sash.operators.delta import NEVER, Delta
from sash.plan.run_plan import plan_run

PROGRAM = """
CREATE STREAM a (t BIGINT, k BIGINT) TIMESTAMP BY t FROM 'csv:a.csv' WITH (unit = 'us');
CREATE STREAM b (t BIGINT, k BIGINT) TIMESTAMP BY t FROM 'csv:b.csv' WITH (unit = 'us');
CREATE QUERY j INTO 'noop:' AS SELECT a.k, a.t FROM a [RANGE 20 US], b [RANGE 30 US] WHERE a.k = b.k;
CREATE QUERY n INTO 'noop:' AS SELECT k, COUNT(*) AS n FROM a [ROWS 7] GROUP BY k;
"""
PLAN = plan_run(bind_program(PROGRAM))


def cell_in(directory: Path) -> OperatorState:
    return OperatorState("c", BufferedDataflow(build(PLAN)), directory, durable=False)


def work(start: int, keys: list[int]) -> Work:
    """Rows of both streams, one a microsecond."""
    ts = np.arange(start, start + len(keys), dtype=np.int64)
    rows = []
    for scan in PLAN.scans:
        values = {"t": pa.array(ts), "k": pa.array(keys, pa.int64())}
        columns = tuple(values[field.name.rpartition(".")[2]] for field in scan.node.fields)
        rows.append((scan.name, 0, Delta(ts, np.full(len(ts), NEVER), columns)))
    return Work(tuple(rows), int(ts[-1]), {"a": 1, "b": 1})


def applied(cell: OperatorState, batch: int, given: Work) -> Counter[tuple[object, ...]]:
    found: Counter[tuple[object, ...]] = Counter()
    for query, delta in cell.apply(batch, given):
        columns = (column.to_pylist() for column in delta.columns)
        rows = zip(delta.ts.tolist(), delta.signs().tolist(), *columns, strict=True)
        found.update((query, *row) for row in rows)
    return found


KEYS = st.lists(st.integers(0, 4), min_size=1, max_size=30)


@given(batches=st.lists(KEYS, min_size=1, max_size=8), losses=st.sets(st.integers(0, 7)))
def test_a_cell_that_is_lost_now_and_then_gives_what_one_gives_that_is_not(tmp_path_factory, batches, losses):
    directory = tmp_path_factory.mktemp("lost")
    kept, lost = cell_in(tmp_path_factory.mktemp("kept")), cell_in(directory)
    start = 1
    for number, keys in enumerate(batches):
        given_work = work(start, keys)
        start += len(keys)
        if number in losses:
            fresh = cell_in(directory)
            fresh.load(number - 1, lost.files)
            lost.close()
            lost = fresh
        assert applied(lost, number, given_work) == applied(kept, number, given_work)
    for cell in (kept, lost):
        cell.close()


def test_small_input_over_large_state_is_logged_and_logs_do_not_outgrow_the_state(tmp_path):
    cell = cell_in(tmp_path)
    start, kinds = 1, []
    for batch in range(40):
        applied(cell, batch, work(start, [batch % 5] * 3))
        start += 3
        kinds.append(cell.files[-1].name.rpartition(".")[2])
        logs = [file.size for file in cell.files if file.name.endswith(".log")]
        assert sum(logs) <= cell.buffered.state_bytes
    assert set(kinds) == {"log", "state"}
    cell.close()


@pytest.mark.parametrize("harm", ["cut", "changed", "gone"])
def test_a_file_that_is_not_what_was_written_is_refused(tmp_path, harm):
    cell = cell_in(tmp_path)
    applied(cell, 0, work(1, [1, 2, 3]))
    cell.close()
    path = tmp_path / cell.files[0].name
    content = path.read_bytes()
    if harm == "gone":
        path.unlink()
    else:
        path.write_bytes(content[:-8] if harm == "cut" else content[:-1] + bytes([content[-1] ^ 1]))
    with pytest.raises(CheckpointError) as caught:
        cell_in(tmp_path).load(0, cell.files)
    assert path.name in str(caught.value)
    assert caught.value.hint is not None


def test_a_cell_without_a_directory_writes_nothing():
    cell = OperatorState("c", BufferedDataflow(build(PLAN)), None)
    applied(cell, 0, work(1, [1]))
    assert cell.files == ()
