"""Queries with thresholds in HAVING: whoever is answered together, and by whatever index, answers alike."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.synopses.synopsis_kit import Fed, Row, partials_of, plan_of
from tests.unit.synopses.test_answer_from import plain
from tests.unit.synopses.test_basic_interval import row

from sash.engine.periodic.groups import QueryGroup
from sash.errors import DataError
from sash.state.layout import Layout
from sash.synopses.collective.filters import Filters
from sash.synopses.families import families_of
from sash.synopses.selection import Passing, Selection

# Conditions with one place for a threshold; those of a line make a family.
CONDITIONS = (
    "COUNT(*) > {}",
    "COUNT(n) <= {}",
    "SUM(n) >= {}",
    "SUM(x) < {}",
    "MAX(x) > {}.5",
    "MIN(n) < {}",
    "{} > MAX(n)",
    "AVG(x) >= {}",
    "SUM(n) > {}.5",
    "COUNT(DISTINCT n) > {}",
    "COUNT(*) > {} AND MAX(n) >= 2",
    "SUM(x) BETWEEN {} AND 4",
    "COUNT(*) > {} AND g > 1",
)
SHOWN = (
    "COUNT(*) AS c",
    "SUM(n) AS c",
    "MAX(x) AS c",
    "MIN(k) AS c",
    "AVG(n) AS c",
    "MEDIAN(n) AS c",
    "1 AS c",
)
OPERATORS = ("{}", "Istream({})", "Dstream({})", "Rstream({})")


@st.composite
def workloads(draw: st.DrawFn) -> list[str]:
    """Some families over one window or two, and perhaps a query that asks for every group."""
    selects = []
    for _ in range(draw(st.integers(1, 2))):
        condition, shown = draw(st.sampled_from(CONDITIONS)), draw(st.sampled_from(SHOWN))
        keys = draw(st.sampled_from(("g, ", "")))
        window = draw(st.sampled_from(("RANGE 12 US SLIDE 4 US", "RANGE 7 US SLIDE 5 US")))
        operator = draw(st.sampled_from(OPERATORS))
        for threshold in draw(st.lists(st.integers(-1, 6), min_size=1, max_size=6)):
            having = condition.format(threshold)
            selects.append(
                operator.format(f"SELECT {keys}{shown} FROM s [{window}] GROUP BY g HAVING {having}")
            )
    if draw(st.booleans()):
        selects.append("SELECT g, SUM(n) AS c FROM s [RANGE 12 US SLIDE 4 US] GROUP BY g")
    return selects


def filters_of(group: QueryGroup) -> Filters:
    """Indexes for all windows that select groups by conditions that have indexes."""
    chosen = {r: r.selection for r in group.refreshers if r.selection and r.selection.is_indexed}
    return Filters(group.kept.layout, max((r.width for r in chosen), default=1), chosen.values())


@settings(max_examples=25)
@given(workloads(), st.integers(0, 2**32))
def test_thresholds_give_what_the_oracle_recomputes(selects, seed):
    rng = np.random.default_rng(seed)
    fed = Fed(*selects)
    time = int(rng.integers(-20, 20))
    for _ in range(6):
        for group in fed.executor.groups.values():
            if rng.random() < 0.6:
                group.kept.find_by(filters_of(group) if rng.random() < 0.8 else None)
        rows: list[Row] = []
        for _ in range(int(rng.integers(0, 12))):
            time += int(rng.choice([0, 0, 1, 2, 9]))
            rows.append(plain(row(time, rng, 4)))
        fed.feed(rows)
    fed.feed([plain(row(time + 1, rng, 4))], end=True)
    fed.check()


def queries_of(*selects: str):
    return Fed(*selects).plan.queries


def having(condition: str, shown: str = "COUNT(*) AS c") -> str:
    return f"SELECT g, {shown} FROM s [RANGE 12 US SLIDE 4 US] GROUP BY g HAVING {condition}"


def test_queries_that_differ_in_thresholds_alone_are_a_family():
    counts = [having(f"COUNT(*) > {v}") for v in (1, 2, 3, 4)]
    ranges = [having(f"COUNT(*) BETWEEN {v} AND 9") for v in (1, 2, 3, 4)]
    others = [having(f"COUNT(*) > {v}", "SUM(n) AS c") for v in (1, 2)]
    families, alone = families_of(queries_of(*counts, *ranges, *others, having("COUNT(*) = 2")))
    assert [[query.name for query in family.queries] for family in families] == [
        [f"q{i}" for i in range(8)],
    ], "a range is a threshold from both sides"
    assert [query.name for query in alone] == ["q8", "q9", "q10"]


def selection(*conditions: str) -> list[str] | None:
    found = Selection.of([query.select for query in queries_of(*map(having, conditions))])
    return None if found is None else [str(probe) for probe in found.probes]


def test_the_loosest_threshold_of_each_aggregate_selects_groups():
    assert selection("COUNT(*) > 7", "COUNT(*) >= 4", "SUM(n) < 3", "SUM(n) <= 3") == [
        "COUNT(*) >= 4",
        "SUM(n) <= 3",
    ]
    assert selection("COUNT(*) > 7 AND SUM(n) < 3", "MIN(x) < 2 AND COUNT(n) < 1") == [
        "COUNT(*) > 7",
        "MIN(x) < 2.0",
    ], "one condition of each query is enough: what few groups pass, as a rule"


# What holds for a group with some values, NULL among them; a comparison with NULL does not.
WHOLE_NUMBERS = {
    "COUNT(*) > {}": lambda v, rows, some: rows > v,
    "COUNT(n) <= {}": lambda v, rows, some: len(some) <= v,
    "SUM(n) >= {}": lambda v, rows, some: bool(some) and sum(some) >= v,
    "SUM(n) < {}": lambda v, rows, some: bool(some) and sum(some) < v,
    "MIN(n) < {}": lambda v, rows, some: bool(some) and min(some) < v,
    "MAX(n) <= {}": lambda v, rows, some: bool(some) and max(some) <= v,
}
VALUES = st.lists(st.none() | st.integers(-3, 3), min_size=1, max_size=4)


@given(
    st.lists(st.tuples(st.sampled_from(list(WHOLE_NUMBERS)), st.integers(-2, 4)), min_size=1, max_size=3),
    st.lists(VALUES, min_size=1, max_size=4),
)
def test_measures_tell_which_groups_pass_a_threshold(conditions, groups):
    plan = plan_of(*(having(text.format(v)) for text, v in conditions))
    selection, layout = (
        Selection.of([query.select for query in plan.queries]),
        Layout.of(plan.synopses[0].measures),
    )
    assert selection is not None
    rows: list[Row] = [(1, None, g, n, None) for g, values in enumerate(groups) for n in values]
    (partial,) = partials_of(rows, plan.synopses)
    # Beside them a group without any row.
    ints, floats = (
        np.concatenate(parts) for parts in zip((partial.ints, partial.floats), layout.empty(1), strict=True)
    )
    passes = Passing(selection, layout).among(np.arange(len(ints)), ints, floats).tolist()
    expected = [
        any(
            WHOLE_NUMBERS[text](v, len(groups[g]), [n for n in groups[g] if n is not None])
            for text, v in conditions
        )
        for g in partial.keys[0].take(pa.array(partial.groups)).to_pylist()
    ]
    assert passes == [*expected, False]


@pytest.mark.parametrize("condition", ["COUNT(*) = 2", "COUNT(*) > 1 OR MAX(n) > 2", "COUNT(DISTINCT n) > 3"])
def test_a_query_without_a_threshold_on_measures_may_ask_for_any_group(condition):
    assert selection("COUNT(*) > 7", condition) is None


def test_conditions_that_may_end_in_an_error_are_evaluated_for_all_groups():
    assert selection("COUNT(*) > 7 AND SUM(n) * 1000 > 3") is None
    assert selection("COUNT(*) > 7 AND g > 3") == ["COUNT(*) > 7"]


def test_a_sum_that_overflows_is_an_error_of_groups_that_do_not_pass_too():
    fed = Fed(having("COUNT(*) > 100", "SUM(n) AS c"))
    with pytest.raises(DataError, match="does not fit into BIGINT"):
        fed.feed([(t, "a", 1, 2**62, None) for t in (1, 2, 5)], end=True)
