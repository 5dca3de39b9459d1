"""Many boundaries of a window at once, and queries of many windows answered at once."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.unit.synopses.synopsis_kit import Fed, Row, feed_all

from sash.errors import DataError
from sash.plan.panes import first_boundary
from sash.state.kernels import different
from sash.synopses import multi_boundary_scan, refresh
from sash.synopses.multi_boundary_scan import boundaries_of
from sash.synopses.refresh import Refresher

WINDOWS = ((4, 1), (4, 2), (4, 4), (7, 2), (7, 5), (3, 5))
SELECTS = (
    "SELECT g, SUM(n) AS v FROM s {} GROUP BY g",
    "SELECT g, MAX(n) AS v, MIN(k) AS w FROM s {} GROUP BY g",
    "SELECT g, SUM(x) AS v FROM s {} GROUP BY g",
    "SELECT g, QUANTILE(n, 0.75) AS v FROM s {} GROUP BY g",
    "SELECT g, TOP(k, 2) AS v FROM s {} GROUP BY g",
    "SELECT g, TOP(n, 2) AS v, MEDIAN(k) AS w FROM s {} GROUP BY g",
    "Istream(SELECT g, COUNT(*) AS v FROM s {} GROUP BY g)",
    "Dstream(SELECT COUNT(*) AS v FROM s {} GROUP BY g)",
    "SELECT COUNT(*) AS v, SUM(n) AS w FROM s {}",
    "SELECT TOP(n, 3) AS v FROM s {}",
    "SELECT g FROM s {}",
    "SELECT DISTINCT k FROM s {}",
    # Who asks for everything at every boundary goes from one to the next.
    "Rstream(SELECT g, SUM(n) AS v FROM s {} GROUP BY g)",
)
# Each window has a threshold of its own, for measures or for values.
THRESHOLDS = (
    "SELECT g, QUANTILE(n, 0.5) AS v FROM s {} GROUP BY g HAVING SUM(n) > {}",
    "SELECT g, TOP(k, 1) AS v FROM s {} GROUP BY g HAVING COUNT(*) >= {} AND SUM(n) < 9",
    "SELECT g, MEDIAN(n) AS v FROM s {} GROUP BY g HAVING MEDIAN(n) > {}",
    "SELECT g, SUM(n) AS v FROM s {} GROUP BY g HAVING SUM(n) % 3 = {}",
)


@st.composite
def queries(draw: st.DrawFn) -> list[str]:
    """Several windows of some queries each, which are alike but for thresholds."""
    among = draw(st.sampled_from([SELECTS, THRESHOLDS]))
    chosen = draw(st.lists(st.sampled_from(among), min_size=1, max_size=3, unique=True))
    windows = draw(st.lists(st.sampled_from(WINDOWS), min_size=1, max_size=4, unique=True))
    threshold = st.integers(-1, 4)
    return [
        select.format(f"[RANGE {reach} US SLIDE {slide} US]", draw(threshold))
        for select in chosen
        for reach, slide in windows
    ]


@st.composite
def batches(draw: st.DrawFn) -> list[list[Row]]:
    """Batches with many boundaries and with none, gaps; values close together and far apart."""
    far = draw(st.sampled_from([1, 10**7]))
    step = st.sampled_from([0, 0, 1, 1, 2, 5, 30])
    time, found = 0, []
    for size in draw(st.lists(st.integers(1, 12), min_size=2, max_size=4)):
        rows: list[Row] = []
        for _ in range(size):
            time += draw(step)
            kind = draw(st.integers(0, 7))
            value = None if kind == 7 else (kind - 3) * far
            rows.append((time, "abcdefg"[kind] if kind < 7 else None, kind % 3, value, 0.25 * kind))
        found.append(rows)
    return found


def answered(selects: list[str], given_batches: list[list[Row]]) -> Fed:
    fed = Fed(*selects)
    feed_all(fed, given_batches)
    return fed


RANDOM = settings(
    max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)


@RANDOM
@given(queries(), batches(), st.sampled_from([1, 7, 1 << 20]))
def test_windows_answered_together_answer_as_the_oracle_does(monkeypatch, selects, given_batches, flush_rows):
    monkeypatch.setattr(refresh, "FLUSH_ROWS", flush_rows)
    monkeypatch.setattr(multi_boundary_scan, "LEAST_STEPS", 1)
    answered(selects, given_batches).check()


@RANDOM
@given(queries(), batches())
def test_strides_leave_the_same_answers_in_the_same_order_as_steps(monkeypatch, selects, given_batches):
    monkeypatch.setattr(multi_boundary_scan, "LEAST_STEPS", 1)
    strode = answered(selects, given_batches)
    with monkeypatch.context() as patch:
        patch.setattr(multi_boundary_scan, "LEAST_STEPS", 1 << 62)
        stepped = answered(selects, given_batches)
    for name, tables in strode.tables.items():
        rows = [row for table in tables for row in table.to_pylist()]
        assert rows == [row for table in stepped.tables[name] for row in table.to_pylist()]


def test_queries_of_changes_are_taken_to_many_boundaries_at_once(monkeypatch):
    """What the two tests above compare is not the same thing twice."""
    steps: list[int] = []
    step = Refresher.step

    def noted(self: Refresher, boundary: int, through: int) -> None:
        steps.append(boundary)
        step(self, boundary, through)

    monkeypatch.setattr(Refresher, "step", noted)
    fed = Fed("SELECT g, QUANTILE(n, 0.5) AS v FROM s [RANGE 9 US SLIDE 1 US] GROUP BY g HAVING SUM(n) > 2")
    fed.feed([(1, "a", 1, 3, None), (2, "a", 1, 3, None)])
    assert steps == [1]
    fed.feed([(t, "a", 1, 3, None) for t in range(3, 40)])
    assert steps == [1]
    fed.feed([(41, "a", 1, 3, None)])
    assert steps == [1, 39, 40], "two boundaries are not worth it"
    fed.check()


def test_a_sum_that_overflows_on_the_way_is_an_error():
    fed = Fed("SELECT g, SUM(n) AS v FROM s [RANGE 9 US SLIDE 1 US] GROUP BY g HAVING SUM(n) > 2")
    fed.feed([(1, None, 1, 5, None), (2, None, 1, 5, None)])
    with pytest.raises(DataError, match="SUM\\(n\\) does not fit") as caught:
        fed.feed([(3, None, 1, 2**62, None), (4, None, 1, 2**62, None), (9, None, 1, 1, None)])
    assert caught.value.id == "overflow"


# ------------------------------------------------------------------------ kernels


@given(st.lists(st.integers(-5, 5)).map(sorted))
def test_different_numbers_are_found_by_leaps(numbers):
    assert different(np.array(numbers, dtype=np.int64)).tolist() == sorted(set(numbers))


@given(
    st.lists(st.integers(-40, 40), unique=True).map(sorted),
    st.integers(1, 20),
    st.integers(1, 9),
    st.integers(-10, 10),
    st.integers(-10, 80),
)
def test_boundaries_are_those_at_which_a_pane_enters_or_leaves(edges, reach, slide, last, through):
    events = [event for edge in edges for event in (edge, edge + reach)]
    expected = {boundary for event in events if last < (boundary := first_boundary(event, slide)) <= through}
    found = boundaries_of(np.array(edges, dtype=np.int64), reach, slide, last, through)
    assert found.tolist() == sorted(expected)
