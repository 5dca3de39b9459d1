"""The choice of a synopsis: from the algebra, the windows and how often they are looked up."""

from __future__ import annotations

from sash.lang.bound import AggregateCall, AggregateFunction, Scalar, Window
from sash.lang.types import Type
from sash.plan.measures import ROWS, Kept, Measure, MeasureKind
from sash.plan.panes import Panes
from sash.plan.synopsis_choice import (
    Looked,
    Method,
    Workload,
    choose_synopsis,
    rechoose_synopsis,
    workload_of,
)

N = Scalar('"n"', Type.BIGINT, ("n",), "n", "n")
SUMS = (ROWS, Measure(MeasureKind.NULLS, N), Measure(MeasureKind.SUM, N))
EXTREMES = (*SUMS, Measure(MeasureKind.MAX, N))


def windows(*widths: int, rate: float = 1.0, offset: int = 0) -> tuple[Looked, ...]:
    return tuple(Looked(width, offset, rate) for width in widths)


def test_one_window_that_slides_is_kept_up_to_date():
    assert choose_synopsis(Workload(EXTREMES, windows(100))).method is Method.BASIC
    assert choose_synopsis(Workload(SUMS, windows(100), density=0.01)).method is Method.BASIC


def test_many_windows_of_sums_are_differences_of_running_sums():
    choice = choose_synopsis(Workload(SUMS, windows(*range(20, 100))))
    assert choice.method is Method.R_INT
    assert str(choice) == (
        "R-INT: everything can be subtracted, 80 look-ups a pane cost 82 merges a group, basic intervals 161"
    )


def test_a_maximum_is_never_a_running_aggregate():
    for rate in (0.001, 0.1, 1, 100):
        for widths in ((10,), tuple(range(20, 100)), (1, 10, 100, 1000)):
            assert choose_synopsis(Workload(EXTREMES, windows(*widths, rate=rate))).method is not Method.R_INT


def test_few_lookups_of_history_are_base_intervals_and_many_of_like_widths_are_landmarks():
    few = Workload(EXTREMES, windows(*range(500, 1000, 10), rate=0.001, offset=100))
    many = Workload(EXTREMES, windows(*range(500, 1000, 10), rate=1, offset=100))
    assert choose_synopsis(few).method is Method.B_INT
    assert choose_synopsis(many).method is Method.L_INT


def test_what_does_not_fit_the_memory_stays_in_basic_intervals():
    workload = Workload(SUMS, windows(*range(20, 100)), groups=10_000_000)
    choice = choose_synopsis(workload)
    assert choice.method is Method.BASIC
    assert choice.reason.endswith("R-INT would take 31.7 GB of 1.1")
    assert choose_synopsis(workload, limit=10**12).method is Method.R_INT


def test_values_and_sketches_have_their_own():
    for kept, method in ((Kept.VALUES, Method.B_INT_QNT), (Kept.SKETCH, Method.SKETCHES)):
        assert choose_synopsis(Workload((ROWS,), windows(5), kept=frozenset({kept}))).method is method


def test_a_change_must_be_worth_it():
    one = Workload(EXTREMES, windows(*range(500, 1000, 10), rate=0.001, offset=100))
    current = choose_synopsis(one)
    assert current.method is Method.B_INT
    a_little = Workload(EXTREMES, windows(*range(500, 1000, 10), rate=0.003, offset=100))
    much = Workload(EXTREMES, windows(*range(500, 1000, 10), rate=1.0, offset=100))
    assert rechoose_synopsis(current, a_little).method is Method.B_INT
    assert rechoose_synopsis(current, much).method is Method.L_INT
    running = choose_synopsis(Workload(SUMS, windows(*range(20, 100))))
    with_maximum = Workload(EXTREMES, windows(*range(20, 100)))
    assert rechoose_synopsis(running, with_maximum).method is not Method.R_INT, "it cannot stay"


def test_the_workload_of_queries_counts_windows_in_panes():
    given = (Window(100, 10), Window(20, 5), Window(20, 5))
    panes = Panes.covering(given)
    assert panes is not None
    call = AggregateCall(AggregateFunction.QUANTILE, N, Type.BIGINT, False, 0.5)
    workload = workload_of(panes, SUMS, given, calls=[call], groups=7)
    assert workload.windows == (Looked(4, 0, 1.0), Looked(20, 0, 0.5))
    assert workload.span == 20
    assert workload.kept == {Kept.VALUES}


def test_uneven_panes_make_windows_of_several_widths():
    #  slides of 4 and 6, ranges 7 and 6: edges at 1 4 5 6 8 9 12 and so on
    given = (Window(7, 4), Window(6, 6))
    panes = Panes.covering(given)
    assert panes is not None
    workload = workload_of(panes, SUMS, given)
    widths = {
        panes.number_at(end) - panes.number_at(end - window.range)
        for window in given
        for end in range(0, 240, window.slide)
    }
    assert {window.width for window in workload.windows} == widths
    assert len(widths) > 1
