"""The cost of plans: what 002 says about strategies and rewritings comes out of the numbers."""

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.plan.cost import plans
from tests.unit.plan.cost.plans import column, ftp, join, negation, predicate, project, rows, view, window

from sash.lang.algebra import (
    Aggregate,
    Distinct,
    Equality,
    Except,
    Intersect,
    Join,
    Limit,
    Output,
    OutputKind,
    Project,
    RelationJoin,
    Select,
    SemiJoin,
    SortKey,
    Union,
    Window,
    WindowKind,
    WindowSpec,
)
from sash.lang.bound import AggregateCall, AggregateFunction
from sash.lang.types import Type
from sash.plan.cost import (
    BufferKind,
    Statistics,
    Strategy,
    StreamStatistics,
    StrictStorage,
    estimate,
    order_join,
    strict_storage,
)
from sash.plan.scalars import passed_on

COUNT = AggregateCall(AggregateFunction.COUNT, None, Type.BIGINT)
KNOWN = plans.statistics(
    s1=(10, {"a": 50, "b": 20, "p": 5}), s2=(20, {"a": 100, "b": 20, "p": 5}), s3=(5, {"a": 40})
)


# --------------------------------------------------------------------------- sizes and rates


@pytest.mark.parametrize("strategy", list(Strategy))
def test_a_window_holds_rate_times_length(strategy):
    result = estimate(window("s1", 100), KNOWN, strategy)
    assert (result.rate_out, result.live) == (10, 1000)
    assert result.state == (1000 if strategy is Strategy.NT else 0)
    assert result.negative_rate == (10 if strategy is Strategy.NT else 0)


def test_an_offset_holds_tuples_until_they_are_old_enough():
    result = estimate(window("s1", 100, offset=40_000_000), KNOWN)
    assert (result.live, result.state) == (600, 400)


def test_windows_of_rows_hold_their_count_and_announce_what_leaves():
    for strategy in Strategy:
        result = estimate(rows("s1", 30), KNOWN, strategy)
        assert (result.live, result.state, result.negative_rate) == (30, 30, 10)
    assert estimate(rows("s1", 30, ("s1.a",)), KNOWN).live == 30 * 50


def test_unbounded_windows_are_costed_at_the_horizon():
    unbounded = Window(plans.stream("s1"), WindowSpec(WindowKind.UNBOUNDED))
    statistics = Statistics({"s1": StreamStatistics(10)}, horizon=60)
    assert estimate(unbounded, statistics).live == 600
    assert estimate(unbounded, statistics, Strategy.NT).negative_rate == 0


def test_lifetimes_are_seen_through_what_was_pushed_below_the_window():
    statistics = Statistics({"s1": StreamStatistics(10, lifetime=30)})
    lasting = replace(plans.stream("s1"), has_lifetime=True)
    narrow = Project(lasting, passed_on(lasting.fields[:1]))
    assert estimate(Window(narrow, WindowSpec(WindowKind.UNBOUNDED)), statistics).live == 300


def test_rows_with_lifetimes_leave_out_of_order_so_no_fifo_holds_them():
    statistics = Statistics({"s1": StreamStatistics(10, lifetime=30)})
    lasting = Window(replace(plans.stream("s1"), has_lifetime=True), WindowSpec(WindowKind.UNBOUNDED))
    (announced,) = estimate(lasting, statistics, Strategy.NT).buffers
    assert announced.kind is BufferKind.LIST
    (kept,) = estimate(view(lasting), statistics).buffers
    assert kept.kind is BufferKind.CALENDAR


def test_lifetimes_given_by_the_source_bound_every_window():
    lasting = replace(plans.stream("s1"), has_lifetime=True)
    statistics = Statistics({"s1": StreamStatistics(10, lifetime=30)})
    for spec in (WindowSpec(WindowKind.UNBOUNDED), WindowSpec(WindowKind.RANGE, range=100_000_000)):
        assert estimate(Window(lasting, spec), statistics).live == 300
        assert estimate(Window(lasting, spec), statistics, Strategy.NT).negative_rate == 10


def test_a_selection_passes_its_share():
    result = estimate(ftp(window("s1", 100), "s1"), KNOWN, Strategy.NT)
    assert (result.rate_out, result.negative_rate, result.live) == pytest.approx((2, 2, 200))
    assert result.cost.processing == result.cost.negative == 10
    assert result.distinct["s1.p"] == 1


def test_a_join_has_phi_results():
    plan = join((window("s1", 100), "s1.a"), (window("s2", 50), "s2.a"))
    result = estimate(plan, KNOWN)
    assert result.live == pytest.approx(1000 * 1000 / 100)
    assert result.rate_out == pytest.approx(result.live * (1 / 100 + 1 / 50))
    assert result.state == 2000
    assert result.distinct["s1.a"] == result.distinct["s2.a"] == 50


def test_a_join_without_equalities_scans_its_windows():
    pair = (window("s1", 100), window("s2", 50))
    everything = estimate(Join(pair, ()), KNOWN)
    assert everything.live == 1000 * 1000
    assert everything.cost.processing == pytest.approx(10 * 1000 + 20 * 1000)
    some = estimate(Join(pair, (), predicate('"s1.a" < "s2.a"', "s1.a", "s2.a")), KNOWN)
    assert some.live == pytest.approx(everything.live / 3)


def test_a_join_is_ordered_by_the_statistics_of_its_inputs():
    """Table 5.6 as a plan, nested loops: S3, S1, S4, S2 for 47977."""
    parameters = {"s1": (11, 200), "s2": (10, 100), "s3": (1, 65), "s4": (1, 20)}
    statistics = plans.statistics(**{name: (rate, {"a": v}) for name, (rate, v) in parameters.items()})
    plan = join(*((window(name, 100), f"{name}.a") for name in parameters))
    found = order_join(plan, statistics, is_hashed=False)
    assert found.order == (2, 0, 3, 1)
    assert round(found.cost) == 47977
    assert order_join(plan, statistics).cost < found.cost


def test_a_chain_of_joins_is_not_ordered_through_a_cross_product():
    """s1.a = s2.a and s2.b = s3.b: s1 and s3 have nothing in common."""
    chain = Join(
        (window("s1", 100), window("s3", 100), window("s2", 100)),
        (
            Equality(0, column("s1.a"), 2, column("s2.a")),
            Equality(2, column("s2.b"), 1, column("s3.b")),
        ),
    )
    order = order_join(chain, KNOWN).order
    assert 2 in order[:2]


def test_distinct_has_as_many_rows_as_values_or_tuples():
    few = estimate(Distinct(project(window("s1", 100), "s1.a")), KNOWN)
    assert few.live == 50
    assert few.rate_out < 10
    many = estimate(Distinct(window("s1", 100)), KNOWN)
    assert many.live == 1000


def test_an_aggregate_has_a_row_for_each_group():
    plan = Aggregate(window("s1", 100), (column("s1.a"),), (COUNT,))
    result = estimate(plan, KNOWN)
    assert result.live == 50
    assert result.rate_out == 20
    assert result.state == 1000 + 50
    assert result.replaces
    assert result.negative_rate == 0
    assert estimate(Aggregate(window("s1", 100), (), (COUNT,)), KNOWN).live == 1


def test_a_slide_limits_how_often_groups_change():
    plan = Aggregate(window("s1", 100, slide=10_000_000), (column("s1.a"),), (COUNT,))
    assert estimate(plan, KNOWN).rate_out == 50 / 10


def test_a_join_with_a_relation_finds_one_row_by_its_key():
    statistics = KNOWN.with_measured({"hosts": StreamStatistics(0.5, rows=50)})
    for is_retroactive in (False, True):
        hosts = plans.relation("hosts", is_retroactive=is_retroactive)
        plan = RelationJoin(window("s1", 100), hosts, (column("s1.a"),), (column("hosts.a"),))
        result = estimate(plan, statistics)
        assert result.live == pytest.approx(1000)
        assert result.state == (1000 if is_retroactive else 0)
        assert (result.negative_rate > 0) is is_retroactive


# --------------------------------------------------------------------------- strategies


@pytest.mark.parametrize("values", [10, 100, 1000])
def test_negative_tuples_double_the_processing_of_a_selection_and_a_join(values):
    statistics = plans.statistics(s1=(10, {"a": values, "p": 2}), s2=(20, {"a": values, "p": 2}))
    plan = join((ftp(window("s1", 100), "s1"), "s1.a"), (ftp(window("s2", 100), "s2"), "s2.a"))
    work = {}
    for strategy in (Strategy.NT, Strategy.DIRECT):
        total = estimate(plan, statistics, strategy).total
        work[strategy] = total.processing + total.negative
    assert 1.8 < work[Strategy.NT] / work[Strategy.DIRECT] < 2.3


def test_direct_is_slow_where_results_are_many_and_upa_is_not():
    """002, Figures 3.8 and 3.9: DIRECT beats NT on a small result and loses by far on a large one."""

    def costs(selectivity):
        statistics = plans.statistics(s1=(1, {"a": 500, "p": 5}), s2=(1, {"a": 500, "p": 5}))
        share = {name: StreamStatistics(selectivity={"p": selectivity}) for name in ("s1", "s2")}
        plan = view(join((ftp(window("s1", 2000), "s1"), "s1.a"), (ftp(window("s2", 2000), "s2"), "s2.a")))
        return {s: estimate(plan, statistics.with_measured(share), s).total.total for s in Strategy}

    small, large = costs(0.05), costs(0.9)
    assert small[Strategy.UPA] < small[Strategy.DIRECT] < small[Strategy.NT]
    assert large[Strategy.UPA] < large[Strategy.NT] < large[Strategy.DIRECT] / 10


def test_selective_duplicate_elimination_is_far_cheaper_without_its_input():
    """002, 3.6.3: δ* stores at most twice its output; its advantage shrinks with the selectivity."""

    def ratios(values):
        statistics = plans.statistics(s1=(10, {"a": values}))
        plan = view(Distinct(project(window("s1", 1000), "s1.a")))
        by = {s: estimate(plan, statistics, s) for s in Strategy}
        upa = by.pop(Strategy.UPA)
        cost = [other.total.total / upa.total.total for other in by.values()]
        return min(cost), min(other.inputs[0].state / upa.inputs[0].state for other in by.values())

    selective, broad = ratios(20), ratios(5000)
    assert selective[0] > 1.5
    assert selective[1] > 100
    assert broad[0] > 1
    assert 1 < broad[1] < selective[1]


def test_duplicates_of_strict_input_are_counted():
    plan = Distinct(project(rows("s1", 100), "s1.a"))
    result = estimate(plan, KNOWN)
    assert result.rate_out == result.negative_rate == pytest.approx(10 * math.exp(-2))
    assert result.state == 50


# --------------------------------------------------------------------------- Figure 3.5


def figure_3_5(seconds=100.0):
    """The two plans of Figure 3.5: negation above the join, and below it."""
    s1, s2, s3 = ftp(window("s1", seconds), "s1"), ftp(window("s2", seconds), "s2"), window("s3", seconds)
    above = negation(join((s1, "s1.a"), (s2, "s2.a")), "s1.a", s3, "s3.a")
    below = join((negation(s1, "s1.a", s3, "s3.a"), "s1.a"), (s2, "s2.a"))
    return view(above), view(below)


def query_4(rate, protocols):
    return plans.statistics(
        s1=(10, {"a": 200, "p": protocols}), s2=(10, {"a": 200, "p": protocols}), s3=(rate, {"a": 200})
    )


@pytest.mark.parametrize(
    ("rate", "protocols", "cheaper"),
    [
        (1, 10, "above"),  # the join gives few results, and negation would burden it with negative tuples
        (0.5, 20, "above"),
        (10, 1, "below"),  # the join multiplies rows, most of which negation keeps away from it
        (100, 10, "below"),  # the fast third stream has nearly every value: nothing is left to join
    ],
)
def test_rates_decide_whether_negation_goes_above_the_join_or_below(rate, protocols, cheaper):
    above, below = (estimate(plan, query_4(rate, protocols)).total.total for plan in figure_3_5())
    assert ("above" if above < below else "below") == cheaper


def test_above_the_join_only_the_result_sees_negative_tuples():
    above, below = figure_3_5()
    statistics = query_4(1, 10)
    assert estimate(above, statistics).inputs[0].inputs[0].total.negative == 0
    assert estimate(below, statistics).inputs[0].cost.negative > 0


def test_both_plans_of_figure_3_5_have_the_same_number_of_results():
    above, below = (estimate(plan, query_4(1, 10)) for plan in figure_3_5())
    assert above.live == pytest.approx(below.live)


def test_frequent_premature_expirations_call_for_hash_tables():
    """002, 3.5.2 and 3.6.4: calendar queues for small results or few premature ones, else hash tables."""
    plan = view(negation(window("s1", 100), "s1.a", window("s3", 100), "s3.a"))

    def storage(rate, other_rate, values):
        return strict_storage(
            plan, plans.statistics(s1=(rate, {"a": values}), s3=(other_rate, {"a": values}))
        )

    assert storage(100, 1, 100) is StrictStorage.HASH
    assert storage(100, 0, 100) is StrictStorage.CALENDAR
    assert storage(0.1, 0.1, 100) is StrictStorage.CALENDAR
    share = (
        estimate(plan, plans.statistics(s1=(100, {"a": 100}), s3=(1, {"a": 100}))).inputs[0].premature_share
    )
    assert share is not None
    assert 0.3 < share < 0.6


def test_windows_of_rows_are_stored_in_hash_tables_by_what_follows():
    plan = view(join((rows("s1", 100), "s1.a"), (window("s2", 100), "s2.a")))
    assert strict_storage(plan, KNOWN) is StrictStorage.HASH
    result = estimate(plan, KNOWN)
    kinds = {buffer.kind for buffer in (*result.buffers, *result.inputs[0].buffers)}
    assert kinds == {BufferKind.HASH}
    assert result.inputs[0].negative_rate == result.inputs[0].rate_out


# --------------------------------------------------------------------------- every operator


def every_operator():
    s1, s2, s3 = window("s1", 100), window("s2", 50), window("s3", 100)
    one, other = project(s1, "s1.a"), project(s2, "s2.a")
    groups = Aggregate(s1, (column("s1.a"),), (COUNT,))
    statistics_of = plans.relation("hosts", is_retroactive=True)
    yield from (s1, rows("s1", 10), ftp(s1, "s1"), one, Union(one, other), Except(one, other))
    yield from (Intersect(one, other), Distinct(one), Distinct(Except(one, other)), groups)
    yield Aggregate(negation(s1, "s1.a", s3, "s3.a"), (), (COUNT,))
    yield Select(groups, predicate('"a0" > 5', "a0"))
    yield Limit(groups, (SortKey(column("a0")),), 10)
    yield join((s1, "s1.a"), (s2, "s2.a"), (s3, "s3.a"))
    yield join((negation(s1, "s1.a", s3, "s3.a"), "s1.a"), (s2, "s2.a"))
    yield SemiJoin(s1, s2, (column("s1.a"),), (column("s2.a"),), False)
    yield RelationJoin(s1, statistics_of, (column("s1.a"),), (column("hosts.a"),), is_outer=True)
    for kind in OutputKind:
        spec = WindowSpec(WindowKind.ROWS, rows=10) if kind is OutputKind.WSTREAM else None
        yield Output(join((s1, "s1.a"), (s2, "s2.a")), kind, spec)


@given(
    st.tuples(*[st.floats(0, 1e4)] * 3), st.tuples(*[st.floats(1, 1e5)] * 3), st.sampled_from(list(Strategy))
)
def test_estimates_are_finite_and_not_negative_for_every_operator(rates, values, strategy):
    statistics = plans.statistics(
        **{f"s{i}": (rate, {"a": v}) for i, (rate, v) in enumerate(zip(rates, values, strict=True), start=1)}
    )
    for plan in every_operator():
        result = estimate(plan, statistics, strategy)
        numbers = (
            result.rate_out,
            result.negative_rate,
            result.live,
            result.total_state,
            result.total.processing,
            result.total.maintenance,
            result.total.negative,
        )
        assert all(math.isfinite(number) and number >= -1e-9 for number in numbers), (plan, numbers)


def test_estimates_are_the_same_every_time():
    for plan in every_operator():
        assert estimate(plan, KNOWN).total == estimate(plan, KNOWN).total


@pytest.mark.parametrize("strategy", list(Strategy))
def test_work_grows_with_the_rate_of_every_stream(strategy):
    plan = view(join((window("s1", 100), "s1.a"), (window("s2", 50), "s2.a")))
    before = estimate(plan, KNOWN, strategy).total.total
    for name in ("s1", "s2"):
        faster = KNOWN.with_measured({name: StreamStatistics(rate=2 * KNOWN.rate(name))})
        assert estimate(plan, faster, strategy).total.total > before


def test_every_operator_of_the_algebra_has_a_cost():
    named = {type(node).__name__ for plan in every_operator() for node in plan.walk()}
    assert named >= {
        *("Stream", "Relation", "Window", "Select", "Project", "Join", "RelationJoin", "SemiJoin"),
        *("Distinct", "Aggregate", "Union", "Except", "Intersect", "Limit", "Output"),
    }
