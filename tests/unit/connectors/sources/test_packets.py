from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.connectors.sources.source_kit import (
    B,
    S,
    T,
    chunks_of,
    read_all,
    rejects_of,
    stream_of,
    values_of,
)

from sash.connectors.sources import Rows, open_source
from sash.connectors.sources.packets import OFFERED
from sash.errors import SourceError
from sash.lang.bound import StreamDefinition
from sash.lang.types import Type

HERE = Path()
START = 1_767_225_600_000_000


def packets(columns: dict[str, Type] | None = None, unit: int = 1, **options: Any) -> StreamDefinition:
    return stream_of("generator:packets", columns or dict(OFFERED), unit, **options)


def one(stream: StreamDefinition) -> Rows:
    (rows,) = read_all(stream, HERE)
    return rows


def test_a_seed_gives_the_same_rows_and_another_seed_others() -> None:
    first, again, other = (one(packets(rows=20_000, seed=seed)) for seed in (1, 1, 2))
    assert first.table.equals(again.table)
    assert not first.table["src"].equals(other.table["src"])
    assert first.ts.tolist() == [START + 1000 * i for i in range(20_000)]
    assert first.table.schema.field("src").type == pa.dictionary(pa.int32(), pa.string())
    assert set(first.table["proto"].to_pylist()) == {"tcp", "udp", "icmp"}
    lengths = first.table["length"].to_numpy()
    assert (lengths.min(), lengths.max()) == (40, 1500)


def test_hosts_are_skewed() -> None:
    names, counts = np.unique(
        one(packets(rows=50_000, hosts=100)).table["src"].to_numpy(), return_counts=True
    )
    assert len(names) == 100
    assert counts.max() > 50_000 / 5.5
    assert counts[names == "10.0.0.0"] == counts.max()


def test_integer_time_in_the_unit_of_the_stream() -> None:
    rows = one(packets({"ts": B}, unit=1_000_000, rows=4, rate=2, start="1970-01-01T00:00:00Z"))
    assert rows.table["ts"].to_pylist() == [0, 0, 1, 1]
    assert rows.ts.tolist() == [0, 0, 1_000_000, 1_000_000]


def test_bursts_make_seconds_busier_and_time_never_goes_back() -> None:
    rows = one(packets({"ts": T}, rows=200_000, rate=100, bursts=0.2, burst_factor=5))
    per_second = np.bincount((rows.ts - START) // 1_000_000)[:-1]
    assert (np.diff(rows.ts) >= 0).all()
    assert set(per_second.tolist()) == {100, 500}
    assert (per_second[:1000] == 500).sum() == 200


def test_disorder_late_and_bad_rows() -> None:
    options: dict[str, Any] = {"disorder": "2 s", "disorder_share": 0.2, "late_share": 0.05, "bad_share": 0.1}
    rows = one(packets(rows=20_000, **options))
    back = START + rows.row_numbers * 1000 - rows.ts
    assert rows.rejects.num_rows == pytest.approx(2000, rel=0.15)
    assert ((back > 0) & (back <= 2_000_000)).sum() == pytest.approx(4000, rel=0.15)
    assert (back >= 30_000_000).sum() == pytest.approx(1000, rel=0.2)
    assert not ((back > 2_000_000) & (back < 30_000_000)).any()
    _, why, data = rejects_of([rows])[0]
    assert why == "ts: no timestamp"
    assert json.loads(data)["ts"] is None
    assert json.loads(data)["src"].startswith("10.0.")


def test_pace_follows_the_clock_and_a_new_process_goes_on_from_its_row() -> None:
    clock = [100.0]
    stream = packets(rate=10, pace=True)
    source = open_source(stream, HERE, now=lambda: clock[0])
    assert not source.bounded
    plan = source.plan({}, 1000)
    assert (plan.rows, plan.ended) == (0, False)
    clock[0] += 2.5
    plan = source.plan(plan.position, 1000)
    assert plan.rows == 25
    assert source.progress(plan.position) is None
    again = open_source(stream, HERE, now=lambda: clock[0])
    assert again.plan(plan.position, 1000).rows == 0
    clock[0] += 1
    assert again.plan(plan.position, 1000).chunks[0].first_row == 25


def test_bounded_plans_end_and_tell_progress() -> None:
    source = open_source(packets(rows=10), HERE)
    plan = source.plan({}, 4)
    assert (plan.rows, plan.ended, source.progress(plan.position)) == (4, False, 0.4)
    plan = source.plan(plan.position, 6)
    assert (plan.rows, plan.ended, source.progress(plan.position)) == (6, True, 1.0)
    assert [chunk.rows for chunk in chunks_of(packets(rows=10), HERE, target_rows=4)] == [4, 4, 2]


def test_errors_list_what_there_is() -> None:
    with pytest.raises(SourceError, match="no column 'flags'") as caught:
        open_source(packets({"ts": T, "flags": S}), HERE).check()
    assert "src STRING" in caught.value.render()
    with pytest.raises(SourceError, match="wrong type"):
        open_source(packets({"ts": T, "length": Type.DOUBLE}), HERE).check()
    with pytest.raises(SourceError, match="'ts'"):
        open_source(packets({"port": B}), HERE).check()
    with pytest.raises(SourceError, match="no option 'speed'"):
        open_source(packets(speed=1), HERE)
    wrong: dict[str, Any] = {"rate": 0, "seed": -1, "start": "soon", "bursts": 2, "hosts": "many"}
    for option, value in wrong.items():
        with pytest.raises(SourceError, match=option):
            open_source(packets(**{option: value}), HERE)
    with pytest.raises(SourceError, match="unknown generator"):
        open_source(stream_of("generator:sheep", {"ts": T}), HERE)


@settings(derandomize=True, deadline=None, max_examples=40)
@given(
    st.integers(0, 30_000),
    st.integers(1, 20_000),
    st.integers(1, 20_000),
    st.sampled_from([1000, 0.3, 7, 1e6]),
    st.sampled_from([0.0, 0.3]),
)
def test_chunking_never_shows(rows: int, max_rows: int, target_rows: int, rate: float, share: float) -> None:
    stream = packets(
        rows=rows, rate=rate, bursts=share, late_share=share / 3, bad_share=share / 3, disorder=2
    )
    whole = read_all(stream, HERE)
    parts = read_all(stream, HERE, max_rows=max_rows + 2000, target_rows=target_rows + 500)
    assert values_of(parts) == values_of(whole)
    assert rejects_of(parts) == rejects_of(whole)
