"""Windows: which rows are in them at which instant."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.operators.operator_kit import FIELDS, Output, Row, delta

from sash.operators.delta import NEVER
from sash.operators.held import delta_of
from sash.operators.operator import Moment
from sash.operators.rows_window import RowsWindow
from sash.operators.time_window import TimeWindow
from sash.plan.join_synopses import JoinSetting, JoinSpec


@given(
    st.randoms(use_true_random=False),
    st.integers(1, 20),
    st.integers(0, 10),
    st.sampled_from([1, 3, 10]),
)
def test_a_time_window_holds_the_rows_of_the_last_look(random, length, offset, step):
    offset = min(offset, length - 1)
    window, output, arrived, through = TimeWindow(FIELDS, length, offset, step), Output(), [], 0
    for _ in range(8):
        before, through = through, through + random.randint(1, 12)
        rows = [
            (random.randint(before + 1, through), NEVER, 1, ("x", random.randint(0, 3))) for _ in range(5)
        ]
        arrived += rows
        output.take(window.process([delta(sorted(rows))], Moment(through)), before, through)
        if random.random() < 0.3:
            state = window.snapshot()
            window = TimeWindow(FIELDS, length, offset, step)
            window.restore(state)
    for instant, found in enumerate(output.relations(through)):
        look = instant // step * step
        expected = Counter(row for ts, _, _, row in arrived if look - length < ts <= look - offset)
        assert found == expected


@given(st.randoms(use_true_random=False), st.integers(1, 5), st.integers(1, 4), st.booleans())
def test_a_window_of_rows_holds_the_newest_of_each_partition(random, rows, slide, is_partitioned):
    def make() -> RowsWindow:
        return RowsWindow(FIELDS, rows, slide, [0] if is_partitioned else [])

    window, output, through = make(), Output(), 0
    arrived: dict[object, list[tuple[int, Row]]] = defaultdict(list)
    for _ in range(10):
        before = through
        batch = []
        for _ in range(random.randint(0, 12)):
            through += random.choice([0, 0, 1, 2]) if through > before else 1
            row = (random.choice(["a", "b", None]), random.randint(0, 3))
            batch.append((through, NEVER, 1, row))
            arrived[row[0] if is_partitioned else 0].append((through, row))
        output.take(window.process([delta(batch)], Moment(through)), before, through)
        if random.random() < 0.4:
            state = window.snapshot()
            window = make()
            window.restore(state)
    for instant, found in enumerate(output.relations(through)):
        expected: Counter[Row] = Counter()
        for history in arrived.values():
            seen = [row for ts, row in history if ts <= instant]
            last = len(seen) // slide * slide
            expected.update(seen[max(0, last - rows) : last])
        assert found == expected


def test_a_row_that_is_pushed_out_at_the_instant_at_which_it_comes_is_never_seen():
    """
    [ROWS 1]   three rows at 5: only the last of them enters
    """
    window = RowsWindow(FIELDS, 1, 1, [])
    changes = window.process([delta([(5, NEVER, 1, ("x", i)) for i in range(3)])], Moment(5))
    assert [column.to_pylist() for column in changes.columns] == [["x"], [2]]


@pytest.mark.parametrize(
    ("range_", "slide", "lives"), [(10, 10, (10, 20)), (15, 10, (10, 20)), (20, 10, (10, 30))]
)
def test_a_sliding_window_moves_both_ends_of_a_life_to_the_next_slide(range_, slide, lives):
    """
    a row of 3 in [RANGE r SLIDE 10] enters at 10 and leaves at the first slide from 3 + r on
    """
    window = TimeWindow(FIELDS, range_, 0, slide)
    assert len(window.process([delta([(3, NEVER, 1, ("x", 1))])], Moment(9))) == 0
    entered = window.process([delta([])], Moment(10))
    assert (int(entered.ts[0]), int(entered.exp[0])) == lives


def test_a_row_that_waited_when_windows_were_shorter_leaves_as_late_as_they_are_long_now():
    """
    a row of 3 in [RANGE 10 SLIDE 10] waits for 10; then the window is longer by 20, shorter again by 10
    """

    def made(stretch: int) -> TimeWindow:
        window = TimeWindow(FIELDS, 10, 0, 10, "j")
        window.adapt([JoinSetting(cast(JoinSpec, None), "j", stretch)])
        return window

    window = made(0)
    window.process([delta([(3, NEVER, 1, ("x", 1))])], Moment(9))
    for stretch, leaves in ((20, 40), (10, 30)):
        state, window = window.snapshot(), made(stretch)
        window.restore(state)
        assert delta_of(window.snapshot()["waiting"]).exp.tolist() == [leaves]
    entered = window.process([delta([])], Moment(10))
    assert (int(entered.ts[0]), int(entered.exp[0])) == (10, 30)
