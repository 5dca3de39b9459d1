"""Approximate aggregates: within their bounds, exact for few values, however the input comes."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sash
from sash.lang import bind_program
from sash.lang.types import Type
from sash.lang.values import AggregateCall, AggregateFunction, Scalar
from sash.plan.sketches import HASHES, POINTS, SketchKind, bound_of
from sash.state.fingerprints import hashes
from sash.synopses.b_int_qnt import ValueRows
from sash.synopses.thinning import thinned
from sash.testing.runs import run

RANGE, SLIDE, SECONDS = 10, 5, 25
WINDOW = f"[RANGE {RANGE} SEC SLIDE {SLIDE} SEC]"
STREAM = "CREATE STREAM p (ts BIGINT, g BIGINT, x DOUBLE, s STRING) TIMESTAMP BY ts FROM 'parquet:p.parquet';"
APPROXIMATE = f"""CREATE QUERY q INTO 'jsonl:{{out}}/q.jsonl' AS Rstream(
  SELECT g, APPROX_COUNT_DISTINCT(s) AS d, APPROX_QUANTILE(x, 0.3) AS low, APPROX_QUANTILE(x, 1) AS most,
    APPROX_TOP(s, 3) AS top FROM p {WINDOW} GROUP BY g);
CREATE QUERY v INTO 'jsonl:{{out}}/v.jsonl' AS
  SELECT APPROX_COUNT_DISTINCT(s) AS d, APPROX_QUANTILE(s, 0.5) AS m FROM p {WINDOW};"""
# Shares the groups, and has finer panes.
BESIDE = """CREATE QUERY other INTO 'noop:' AS
  SELECT g, APPROX_COUNT_DISTINCT(s) AS d, MEDIAN(x) AS m, COUNT(*) AS n
  FROM p [RANGE 3 SEC SLIDE 1 SEC] GROUP BY g;"""


def rows_of(values: list[tuple[int, int, int, int]]) -> ValueRows:
    slots, panes, items, counts = (np.array(column, dtype=np.int64) for column in zip(*values, strict=True))
    return ValueRows.of(slots, panes, items, counts)


@settings(max_examples=30)
@given(st.integers(0, 2**32), st.sampled_from((1, POINTS, POINTS + 1, 3 * POINTS)))
def test_points_stand_for_all_ranks_and_the_most_frequent_keep_their_counts(seed, distinct):
    rng = np.random.default_rng(seed)
    values = rng.choice(10**6, distinct, replace=False)
    counts = np.minimum(rng.zipf(1.5, distinct), 5000)
    own = [(0, 7, int(v), int(c)) for v, c in zip(values, counts, strict=True)]
    rows = rows_of([*own, (0, 8, 5, 2), (1, 7, 5, 3)])
    for kind in (SketchKind.RANKS, SketchKind.COUNTS):
        kept = thinned(kind, rows)
        mine = (kept.slots == 0) & (kept.panes == 7)
        assert [*zip(kept.slots[~mine], kept.panes[~mine], kept.counts[~mine], strict=True)] == [
            (1, 7, 3),
            (0, 8, 2),
        ]
        assert mine.sum() <= POINTS
        if distinct <= POINTS:
            assert kept is rows
        elif kind is SketchKind.COUNTS:
            most = sorted(own, key=lambda row: (-row[3], row[2]))[:POINTS]
            assert {*zip(kept.values[mine], kept.counts[mine], strict=True)} == {row[2:] for row in most}
        else:
            order = np.argsort(values)
            true = np.cumsum(counts[order])
            here = np.zeros(distinct, dtype=np.int64)
            here[np.searchsorted(values[order], kept.values[mine])] = kept.counts[mine]
            assert here.sum() == counts.sum()
            assert abs(np.cumsum(here) - true).max() <= counts.sum() / POINTS


def test_the_least_hashes_of_each_pane_are_kept():
    rng = np.random.default_rng(3)
    rows = rows_of([(int(i % 3), int(i % 2), int(h), 1) for i, h in enumerate(rng.choice(2**62, 30_000))])
    kept = thinned(SketchKind.DISTINCT, rows)
    for slot in range(3):
        for pane in range(2):
            own = np.sort(rows.values[(rows.slots == slot) & (rows.panes == pane)])
            mine = (kept.slots == slot) & (kept.panes == pane)
            assert kept.values[mine].tolist() == own[: HASHES + 1].tolist()


def test_hashes_are_spread_evenly_and_equal_for_equal_values():
    for column in (
        pa.array(range(20_000)),
        pa.array([f"host-{i}" for i in range(20_000)]),
        pa.array([-0.0, 0.0]),
    ):
        found = hashes(column)
        assert (found >= 0).all()
        if len(column) == 2:
            assert found[0] == found[1]
        else:
            assert len(np.unique(found)) == len(column)
            places = np.histogram(found, 10, (0, 2.0**63))[0]
            assert abs(places - 2000).max() < 6 * np.sqrt(2000)


@pytest.fixture(scope="module")
def packets(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Group 0 has more values than panes keep, group 1 few, NULL among them."""
    rng = np.random.default_rng(11)
    count = 60_000
    group = (rng.random(count) < 0.1).astype(np.int64)
    words = np.where(group == 0, rng.zipf(1.2, count) % 20_000, rng.integers(0, 40, count))
    numbers = np.where(group == 0, np.round(rng.normal(size=count), 4), rng.integers(0, 9, count))
    table = pa.table(
        {
            "ts": np.sort(rng.integers(1, SECONDS, count)),
            "g": group,
            "x": pa.array(numbers, mask=rng.random(count) < 0.05),
            "s": pa.array([f"w{i}" for i in words], mask=rng.random(count) < 0.05),
        }
    )
    folder = tmp_path_factory.mktemp("packets")
    pq.write_table(table, folder / "p.parquet", row_group_size=7_000)
    return folder


def answers(folder: Path, name: str, beside: str = "", **options: Any) -> dict[str, Any]:
    program = bind_program(STREAM + APPROXIMATE.format(out=name) + beside)
    outcome = run(program, folder, **options)
    return {query: [json.loads(line) for line in outcome.output(query).splitlines()] for query in "qv"}


def test_answers_are_near_and_do_not_depend_on_batches_restarts_or_other_queries(packets: Path) -> None:
    found = answers(packets, "whole")
    assert answers(packets, "cut", batch_rows=3_000) == found
    assert answers(packets, "stopped", batch_rows=8_000, interruptions=(3, 1)) == found
    assert answers(packets, "beside", beside=BESIDE) == found
    table = pq.read_table(packets / "p.parquet").to_pandas()
    assert len(found["q"]) == 2 * (SECONDS // SLIDE - 1)
    for row in found["q"]:
        own = table[(table.ts > row["ts"] - RANGE) & (table.ts <= row["ts"]) & (table.g == row["g"])]
        words, numbers = Counter(own.s.dropna()), np.sort(own.x.dropna())
        most = sorted(words.items(), key=lambda item: (-item[1], item[0]))[:3]
        rank = np.searchsorted(numbers, row["low"], side="right") / len(numbers)
        if row["g"] == 1:
            assert (row["d"], json.loads(row["top"])) == (len(words), [list(item) for item in most])
            assert row["low"] == numbers[-(-3 * len(numbers) // 10) - 1]
        assert abs(row["d"] / len(words) - 1) < 0.05
        assert abs(rank - 0.3) <= 1 / POINTS + 1 / len(numbers) or row["g"] == 1
        assert abs(row["most"] - numbers[-1]) <= numbers[-1] - numbers[-1 - len(numbers) // POINTS]
        for word, count in json.loads(row["top"]):
            assert 0 <= words[word] - count <= len(own) / POINTS
    assert max(row["d"] for row in found["q"]) > HASHES
    assert table[table.g == 0].groupby("ts").x.nunique().min() > POINTS
    # What a view takes back is what it gave.
    standing: dict[str, int] = defaultdict(int)
    for change in found["v"]:
        key = json.dumps([change["d"], change["m"]])
        standing[key] += 1 if change["op"] == "+" else -1
        assert standing[key] in (0, 1)


def test_the_bounds_are_in_the_metadata_of_the_answer_and_in_explain(packets: Path) -> None:
    select = f"""SELECT g, APPROX_COUNT_DISTINCT(s) AS d, APPROX_TOP(x, 2) AS t, COUNT(*) + 1 AS n
      FROM p {WINDOW} GROUP BY g"""
    nested = f"SELECT MAX(d) AS worst FROM ({select}) AS sub"
    wanted = {b"sash.error": "APPROX_COUNT_DISTINCT(s) ±3.1% of the number, 95% confidence".encode()}
    with sash.connect(base_dir=packets, runtime="inline") as session:
        session.sql(STREAM)
        query = session.query(select, name="q")
        (answer, *_) = list(query)
        for schema in (query.schema, answer.rows.schema, query.latest().schema, session.ask(select).schema):
            assert schema.field("d").metadata == wanted
            assert (
                b"APPROX_TOP(x, 2) \xc2\xb10.19% of the number of values, always"
                in schema.field("t").metadata[b"sash.error"]
            )
            assert schema.field("g").metadata is None
            assert schema.field("n").metadata is None
        assert session.ask(nested).schema.field("worst").metadata == wanted
        shown = session.explain("q")
    hashed = "s0d0 keeps per pane and g: hashes of the values of s, the 4,097 least; it answers "
    counted = "s0v0 keeps per pane and g: the 512 most frequent values of x, counted; it answers "
    assert f"{hashed}APPROX_COUNT_DISTINCT(s) ±3.1% of the number, 95% confidence" in shown
    assert f"{counted}APPROX_TOP(x, 2) ±0.19% of the number of values, always" in shown


def test_exact_aggregates_have_no_bound():
    argument = Scalar('"x"', Type.BIGINT, ("x",), "x", "x")
    for function in AggregateFunction:
        bound = bound_of(AggregateCall(function, argument, Type.BIGINT, parameter=1))
        assert (bound is not None) == function.value.startswith("APPROX_")
