"""Pre-aggregation against a loop over rows, on both its dense and its hashed paths."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from sash.lang import bind_program
from sash.operators import preaggregate as module
from sash.operators.preaggregate import Partial, preaggregate
from sash.operators.summary import Summary
from sash.plan.periodic import PeriodicPlan, SynopsisSpec, plan_periodic
from sash.state.layout import Layout
from sash.state.ordering import ordinal_to_double

STREAM = (
    "CREATE STREAM s (t BIGINT, k STRING, g BIGINT, n BIGINT, x DOUBLE, b BOOLEAN) "
    "TIMESTAMP BY t FROM 'csv:s' WITH (unit = 'us');\n"
)
Int64Array = npt.NDArray[np.int64]
Key = tuple[object, ...]
Measured = tuple[object, ...]
MEASURED = "COUNT(*) AS a, COUNT(n) AS b, SUM(n) AS c, SUM(x) AS d, MIN(n) AS e, MAX(x) AS f, MIN(k) AS h"


def plan_of(*selects: str) -> PeriodicPlan:
    queries = (f"CREATE QUERY q{i} INTO 'noop:q{i}' AS {select};\n" for i, select in enumerate(selects))
    program = bind_program(STREAM + "".join(queries))
    return plan_periodic(program.streams, program.queries)


def random_table(rows: int, seed: int) -> tuple[Int64Array, pa.Table]:
    rng = np.random.default_rng(seed)

    def some(values: npt.NDArray[Any], type_: pa.DataType) -> pa.Array:
        return pa.array(values, type_, mask=rng.random(rows) < 0.15)

    ts = rng.integers(-50, 50, rows) if seed % 2 else rng.integers(-(10**14), 10**14, rows)
    table = pa.table(
        {
            "t": pa.array(ts),
            "k": some(rng.choice(["a", "b", "", "é"], rows), pa.string()).dictionary_encode(),
            "g": some(rng.integers(0, 5 if seed % 3 else 10**9, rows), pa.int64()),
            "n": some(rng.integers(-(2**62), 2**62, rows), pa.int64()),
            "x": some(rng.normal(size=rows), pa.float64()),
            "b": some(rng.random(rows) < 0.5, pa.bool_()),
        }
    )
    return ts, table


def naive(plan: PeriodicPlan, ts: Int64Array, table: pa.Table, keys: list[str]) -> dict[Key, Measured]:
    (spec,) = plan.synopses
    groups: dict[Key, list[dict[str, Any]]] = defaultdict(list)
    for time, row in zip(ts.tolist(), table.to_pylist(), strict=True):
        groups[spec.panes.number_at(time), *(row[key] for key in keys)].append(row)
    result: dict[Key, Measured] = {}
    for key, rows in groups.items():
        n = [row["n"] for row in rows if row["n"] is not None]
        x = [row["x"] for row in rows if row["x"] is not None]
        k = [row["k"] for row in rows if row["k"] is not None]
        result[key] = (
            len(rows),
            len(rows) - len(n),
            sum(n),
            math.fsum(x),
            min(n, default=None),
            max(x, default=None),
            min(k, default=None),
        )
    return result


def measured(plan: PeriodicPlan, partial: Partial) -> dict[Key, Measured]:
    """The partial by (pane, key…), measures as Python values."""
    (spec,) = plan.synopses
    layout = Layout.of(spec.measures)
    at = {str(measure): layout.ints[i] for i, measure in enumerate(spec.measures)}
    first = layout.floats[[str(measure) for measure in spec.measures].index("sum(x)")]
    words = partial.words[at["min(k)"]].to_pylist()
    keys = [column.to_pylist() for column in partial.keys]
    result: dict[Key, Measured] = {}
    for i, (pane, group) in enumerate(zip(partial.panes.tolist(), partial.groups.tolist(), strict=True)):
        key = (pane, *(column[group] for column in keys))
        assert key not in result, "one row per pane and group"
        row = [int(value) for value in partial.ints[i]]
        has_x = row[0] > row[at["nulls(x)"]]
        result[key] = (
            row[0],
            row[at["nulls(n)"]],
            row[at["sum(n)"]] * 2**32 + row[at["sum(n)"] + 1],
            float(partial.floats[i, first] + partial.floats[i, first + 1]),
            row[at["min(n)"]] if row[0] > row[at["nulls(n)"]] else None,
            float(ordinal_to_double(partial.ints[i, [at["max(x)"]]])[0]) if has_x else None,
            words[row[at["min(k)"]]] if row[0] > row[at["nulls(k)"]] else None,
        )
    return result


@pytest.mark.parametrize("dense", [True, False], ids=["dense", "hashed"])
@pytest.mark.parametrize("keys", [[], ["k"], ["g"], ["k", "g"], ["b", "k"]], ids=str)
@pytest.mark.parametrize("seed", range(4))
def test_measures_per_pane_and_group_are_those_of_a_loop_over_the_rows(monkeypatch, dense, keys, seed):
    if not dense:
        monkeypatch.setattr(module, "_DENSE_LEAST", 0)
        monkeypatch.setattr(module, "_DENSE_FACTOR", 0)
        monkeypatch.setattr(module, "_CLOSE_FACTOR", 0)
    grouping = f" GROUP BY {', '.join(keys)}" if keys else ""
    plan = plan_of(f"SELECT {MEASURED} FROM s [RANGE 17 US SLIDE 5 US]{grouping}")
    ts, table = random_table(200, seed)
    (partial,) = preaggregate(ts, table, plan.synopses)
    assert measured(plan, partial) == naive(plan, ts, table, keys)


def test_synopses_whose_filter_no_row_passes_give_no_partial():
    window = "FROM s [RANGE 5 US SLIDE 5 US]"
    plan = plan_of(f"SELECT COUNT(*) AS a {window} WHERE g > 1000", f"SELECT COUNT(*) AS a {window}")
    ts, table = random_table(20, 1)
    assert [partial.synopsis for partial in preaggregate(ts, table, plan.synopses)] == ["s1"]


def test_a_filter_keeps_the_rows_that_pass_with_their_own_times():
    plan = plan_of("SELECT SUM(n) AS a FROM s [RANGE 10 US SLIDE 10 US] WHERE n > 1 AND k = 'a'")
    table = pa.table(
        {
            "n": pa.array([1, 2, 3, None, 5]),
            "k": pa.array(["a", "a", "b", "a", "a"]),
        }
    )
    (partial,) = preaggregate(np.array([1, 11, 12, 13, 25]), table, plan.synopses)
    assert partial.panes.tolist() == [1, 2]
    assert partial.ints[:, 0].tolist() == [1, 1]


def test_words_of_several_dictionaries_are_grouped_by_value():
    plan = plan_of("SELECT k, COUNT(*) AS a FROM s [RANGE 10 US SLIDE 10 US] GROUP BY k")
    chunks = [pa.array(["b", "a", None]).dictionary_encode(), pa.array(["a", "c"]).dictionary_encode()]
    (partial,) = preaggregate(np.ones(5, np.int64), pa.table({"k": pa.chunked_array(chunks)}), plan.synopses)
    keys = partial.keys[0].to_pylist()
    counts = {keys[group]: int(row[0]) for group, row in zip(partial.groups, partial.ints, strict=True)}
    assert counts == {"a": 2, "b": 1, "c": 1, None: 1}


FINER = (
    "SELECT g, k, SUM(n) AS a, MAX(n) AS b, SUM(x) AS c FROM s [RANGE 12 US SLIDE 2 US] GROUP BY g, k",
    "SELECT k, g, TOP(n, 3) AS a FROM s [RANGE 12 US SLIDE 2 US] GROUP BY k, g",
)
COARSER = (
    "SELECT k, SUM(n) AS a, SUM(x) AS b FROM s [RANGE 12 US SLIDE 4 US] GROUP BY k",
    "SELECT g, MAX(n) AS a, COUNT(DISTINCT k) AS b FROM s [RANGE 6 US SLIDE 2 US] GROUP BY g",
    "SELECT COUNT(*) AS a, TOP(k, 2) AS b FROM s [RANGE 4 US SLIDE 4 US]",
    "SELECT k, TOP(n, 3) AS a, APPROX_COUNT_DISTINCT(g) AS b FROM s [RANGE 6 US SLIDE 6 US] GROUP BY k",
)


def spelled(partial: Partial) -> dict[Key, tuple[object, ...]]:
    """The rows of a partial by pane, keys and value."""
    keys = [column.to_pylist() for column in partial.keys]
    result: dict[Key, tuple[object, ...]] = {}
    for row, owner in enumerate(partial.owners.tolist()):
        places = [int(partial.groups[owner])] * len(keys)
        if partial.values is not None:
            places[-1] = int(partial.values[row])
        key = (int(partial.panes[owner]), *(column[at] for column, at in zip(keys, places, strict=True)))
        assert key not in result
        sums = [float(high + low) for high, low in partial.floats[row].reshape(-1, 2)]
        result[key] = (*map(int, partial.ints[row]), *sums)
    return result


@pytest.mark.parametrize("dense", [True, False], ids=["dense", "hashed"])
@pytest.mark.parametrize("seed", range(4))
def test_groupings_are_the_same_from_finer_ones_as_from_the_rows(monkeypatch, dense, seed):
    if not dense:
        monkeypatch.setattr(module, "_DENSE_LEAST", 0)
        monkeypatch.setattr(module, "_DENSE_FACTOR", 0)
        monkeypatch.setattr(module, "_CLOSE_FACTOR", 0)
    plan = plan_of(*FINER, *COARSER)
    ts, table = random_table(400, 1 if seed % 2 else 5)
    ts = np.sort(ts) if seed > 1 else ts
    table = table.set_column(3, "n", pc.bit_wise_and(table.column("n"), 3))
    derived: list[str] = []

    def chosen(summaries: list[Summary], spec: SynopsisSpec, rows: int) -> Summary | None:
        found = [summary for summary in summaries if summary.contains(spec)]
        derived.extend([spec.name] if found else [])
        return min(found, key=len, default=None)

    monkeypatch.setattr(module, "smallest", chosen)
    from_finer = [spelled(partial) for partial in preaggregate(ts, table, plan.synopses)]
    monkeypatch.setattr(module, "smallest", lambda summaries, spec, rows: None)
    from_rows = [spelled(partial) for partial in preaggregate(ts, table, plan.synopses)]
    assert from_finer == from_rows
    assert len(derived) >= 5


@pytest.mark.parametrize("keys", [[], ["k"]], ids=str)
@pytest.mark.parametrize("spread", [1, 3_000, 1 << 40])
@pytest.mark.parametrize("nulls", [0.0, 0.2])
def test_values_are_counted_per_pane_and_group_as_a_loop_counts_them(keys, spread, nulls):
    """Values that lie close together, and far apart; panes come in any order."""
    rng = np.random.default_rng(5)
    ts = rng.integers(-50, 50, 400)
    numbers = pa.array(rng.zipf(1.4, 400) % 90 * spread - 7, mask=rng.random(400) < nulls)
    words = pa.array(rng.choice(["a", "b"], 400))
    table = pa.table({"t": ts, "k": words, "n": numbers})
    grouping = f" GROUP BY {', '.join(keys)}" if keys else ""
    plan = plan_of(f"SELECT MEDIAN(n) AS m FROM s [RANGE 17 US SLIDE 5 US]{grouping}")
    (spec,) = (each for each in plan.synopses if each.of is not None)
    (partial,) = preaggregate(ts, table, [spec])
    expected: Counter[Key] = Counter()
    for time, word, number in zip(ts.tolist(), words.to_pylist(), numbers.to_pylist(), strict=True):
        expected[spec.panes.number_at(time), *([word] if keys else []), number] += 1
    assert spelled(partial) == {key: (count,) for key, count in expected.items()}


def test_many_values_of_few_groups_are_counted_like_few():
    plan = plan_of("SELECT k, TOP(n, 3) AS a FROM s [RANGE 20 US SLIDE 10 US] GROUP BY k")
    random = np.random.default_rng(3)
    ts = np.sort(random.integers(1, 500, 4000))
    ks, ns = random.choice(["a", "b", "c"], 4000), random.integers(-900, 900, 4000)
    table = pa.table({"k": pa.array(ks.tolist()), "n": pa.array(ns)})
    *_, values = preaggregate(ts, table, plan.synopses)
    panes = plan.synopses[0].panes.number_of(ts)
    right = Counter(zip(panes.tolist(), ks.tolist(), ns.tolist(), strict=True))
    assert {key: count for key, (count,) in spelled(values).items()} == right
