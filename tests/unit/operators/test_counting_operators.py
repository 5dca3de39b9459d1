"""δ*, EXCEPT, INTERSECT, counting DISTINCT, negation and announcing, against their definitions."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.operators.operator_kit import FIELDS, Input, Row, column, delta, drive

from sash.lang.types import Type
from sash.operators.announce import Announcer
from sash.operators.anti_join import AntiJoin
from sash.operators.delta import NEVER, Delta
from sash.operators.delta_star import DeltaStar
from sash.operators.multiplicities import Counted, Multiplicities
from sash.operators.operator import Moment
from sash.state.expirations import CalendarQueue, ScanList

KEY = column("a", Type.STRING)
buffers = st.sampled_from([CalendarQueue, ScanList])


def _announcers(count: int) -> list[Announcer]:
    return [Announcer(FIELDS, CalendarQueue(), may_be_negative=True) for _ in range(count)]


@given(st.randoms(use_true_random=False), buffers, st.sampled_from(["wk", "str"]))
def test_announcing_changes_nothing_but_how_departures_are_told(random, buffer, kind):
    source = Input(kind)
    output, last = drive(random, lambda: Announcer(FIELDS, buffer(), may_be_negative=True), [source])
    assert output.relations(last) == [source.at(instant) for instant in range(last + 1)]


@given(st.randoms(use_true_random=False), buffers)
def test_delta_star_gives_each_value_once_while_it_is_there(random, buffer):
    source = Input("wk")
    output, last = drive(random, lambda: DeltaStar(FIELDS, buffer()), [source])
    for instant, found in enumerate(output.relations(last)):
        assert found == Counter(dict.fromkeys(source.at(instant), 1))


@given(st.randoms(use_true_random=False), st.sampled_from(list(Counted)))
def test_counting_operators_follow_the_multiplicities(random, kind):
    sources = [Input(random.choice(["wk", "str"])) for _ in range(1 if kind is Counted.DISTINCT else 2)]
    announcers = _announcers(len(sources))

    def announced(deltas: list[Delta], moment: Moment) -> list[Delta]:
        return [a.process([d], moment) for a, d in zip(announcers, deltas, strict=True)]

    output, last = drive(random, lambda: Multiplicities(FIELDS, kind), sources, announced)
    for instant, found in enumerate(output.relations(last)):
        left, *right = (source.at(instant) for source in sources)
        match kind:
            case Counted.DISTINCT:
                expected = Counter(dict.fromkeys(left, 1))
            case Counted.EXCEPT:
                expected = left - right[0]
            case Counted.INTERSECT:
                expected = left & right[0]
        assert found == expected


@given(st.randoms(use_true_random=False), buffers, st.booleans())
def test_negation_gives_left_rows_without_a_match(random, buffer, has_key):
    left, right = Input(random.choice(["wk", "str"])), Input(random.choice(["wk", "str"]))
    (announcer,) = _announcers(1)

    def keys_announced(deltas: list[Delta], moment: Moment) -> list[Delta]:
        matches = announcer.process([deltas[1]], moment)
        return [deltas[0], matches.with_columns(matches.columns[:1] if has_key else ())]

    def make() -> AntiJoin:
        keys = [KEY] if has_key else []
        return AntiJoin(FIELDS, keys, buffer(), may_be_negative=left.kind == "str")

    output, last = drive(random, make, [left, right], keys_announced)
    for instant, found in enumerate(output.relations(last)):
        matches = right.at(instant)
        values = {row[0] for row in matches if row[0] is not None}
        expected: Counter[Row] = Counter()
        for row, count in left.at(instant).items():
            if (row[0] not in values) if has_key else not matches:
                expected[row] = count
        assert found == expected


def test_the_youngest_duplicate_takes_over_when_the_answers_row_expires():
    """
    input  x: 1────────5
           x:    3────────6          never stands in the answer, and is not kept
           x:      4─────────8       auxiliary: takes over at 5
    answer x: 1────────5─────8
    """
    star = DeltaStar(FIELDS, CalendarQueue())
    rows = [(1, 5, 1, ("x", 1)), (3, 6, 1, ("x", 1)), (4, 8, 1, ("x", 1))]
    first = star.process([delta(rows)], Moment(4))
    assert (first.ts.tolist(), first.exp.tolist()) == ([1], [5])
    assert star.state_rows == 2
    second = star.process([delta([])], Moment(6))
    assert (second.ts.tolist(), second.exp.tolist()) == ([5], [8])
    star.process([delta([])], Moment(8))
    assert star.state_rows == 0


def test_negation_takes_a_row_back_when_a_match_comes_and_gives_it_again_when_that_goes():
    """
    left   x: 1──────────────9
    right  x:      3────5
    answer x: 1────3−   5────9       at 9 it goes in silence
    """
    negation = AntiJoin(FIELDS, [KEY], CalendarQueue(), may_be_negative=False)
    matches = delta([(3, NEVER, 1, ("x", 0)), (5, NEVER, -1, ("x", 0))])
    given_ = negation.process(
        [delta([(1, 9, 1, ("x", 1))]), matches.with_columns(matches.columns[:1])], Moment(8)
    )
    changes = sorted(zip(given_.ts.tolist(), given_.signs().tolist(), given_.exp.tolist(), strict=True))
    assert changes == [(1, 1, 9), (3, -1, 9), (5, 1, 9)]
    nothing = delta([])
    assert len(negation.process([nothing, nothing.with_columns(nothing.columns[:1])], Moment(20))) == 0
    assert negation.state_rows == 0


def test_a_match_that_comes_and_goes_at_one_instant_leaves_no_trace():
    negation = AntiJoin(FIELDS, [KEY], CalendarQueue(), may_be_negative=False)
    matches = delta([(3, NEVER, 1, ("x", 0)), (3, NEVER, -1, ("x", 0))])
    given_ = negation.process(
        [delta([(1, 9, 1, ("x", 1))]), matches.with_columns(matches.columns[:1])], Moment(8)
    )
    assert (given_.ts.tolist(), given_.signs().tolist()) == ([1], [1])


def test_except_by_multiplicities_deletes_as_many_as_the_right_side_has():
    """
    left   x x x    from 1
    right  x x      from 2, one of them until 4
    answer 3 copies at 1, 1 at 2, 2 at 4
    """
    negation = Multiplicities(FIELDS, Counted.EXCEPT)
    left = delta([(1, NEVER, 1, ("x", 1))] * 3)
    right = delta([(2, NEVER, 1, ("x", 1)), (2, NEVER, 1, ("x", 1)), (4, NEVER, -1, ("x", 1))])
    given_ = negation.process([left, right], Moment(5))
    changes = Counter(zip(given_.ts.tolist(), given_.signs().tolist(), strict=True))
    assert changes == {(1, 1): 3, (2, -1): 2, (4, 1): 1}


@pytest.mark.parametrize("buffer", [CalendarQueue, ScanList])
def test_state_is_given_back_when_values_change_all_the_time(buffer):
    star = DeltaStar(FIELDS, buffer())
    sizes = []
    for batch in range(100):
        rows = [(batch * 10 + 1 + i % 10, batch * 10 + 40, 1, (f"v{batch}-{i}", i)) for i in range(50)]
        star.process([delta(rows)], Moment(batch * 10 + 10))
        sizes.append(star.state_bytes)
    assert max(sizes[20:]) == sizes[20]
