"""The cost of a plan per unit time (002, section 3.5.3).

`estimate(plan, statistics, strategy)` walks the algebra from the leaves up and gives, for every operator,
the tuples and negative tuples per second that leave it, its live results, its state, and its work per
second in three parts: processing, state maintenance and negative tuples.

Where expirations are announced by negative tuples:

- NT: everywhere. Each window is stored and announces (2.3.3).
- DIRECT: only what is premature. Stored strict rows are scanned for it.
- UPA: strict rows are stored in a calendar queue and only premature expirations are announced, or in hash
  tables, and all of theirs are (3.5.2). Both are costed, and the cheaper one is taken for the plan. With
  hash tables, an operator over strict input needs all of its inputs to announce; a negation can announce
  its own results and lets its inputs be. A ROWS window always announces, and what follows it is hashed.

Cost of estimating: linear in the plan, quadratic in the inputs of a join.
"""

from __future__ import annotations

import enum
import math
from dataclasses import replace

from sash.errors import InternalError
from sash.lang import algebra
from sash.lang.algebra import Node, OutputKind, WindowKind
from sash.plan.cost.buffers import Buffer, BufferKind, Load, Strategy, choose_buffer
from sash.plan.cost.estimates import Context, Cost, Estimate, common_period, keep, upkeep
from sash.plan.cost.groups import estimate_aggregate, estimate_distinct
from sash.plan.cost.join_order import JoinOrder, order_windows
from sash.plan.cost.matching import (
    estimate_join,
    estimate_relation_join,
    estimate_semi_join,
    estimate_set_operation,
    join_windows,
)
from sash.plan.cost.selectivity import distinct_values, fixed_columns, selectivity
from sash.plan.cost.statistics import Statistics
from sash.plan.patterns import Pattern, output_pattern, pattern_of, stream_with_lifetimes
from sash.plan.scalars import substitute

MICROSECONDS = 1_000_000

# They find their own expired results, so that they can announce them whatever their inputs do.
_SELF_MAINTAINED = (
    algebra.SemiJoin,
    algebra.Except,
    algebra.Intersect,
    algebra.Distinct,
    algebra.Aggregate,
    algebra.Limit,
)


class StrictStorage(enum.Enum):
    """Where UPA keeps rows that may expire prematurely (3.5.2)."""

    CALENDAR = "calendar queue"
    HASH = "hash table"


def estimate(plan: Node, statistics: Statistics, strategy: Strategy = Strategy.UPA) -> Estimate:
    """The estimate of a plan; those of the operators below are its `inputs` (3.5.3)."""
    return _estimate(plan, statistics, strategy, strict_storage(plan, statistics))


def strict_storage(plan: Node, statistics: Statistics) -> StrictStorage:
    """How UPA should store strict rows: the cheaper way; hash tables where there are ROWS windows (3.5.2)."""
    windows = (node for node in plan.walk() if isinstance(node, algebra.Window))
    if any(window.spec.kind is WindowKind.ROWS for window in windows):
        return StrictStorage.HASH
    if all(pattern_of(node) is not Pattern.STR for node in plan.walk()):
        return StrictStorage.CALENDAR
    costs = {
        storage: _estimate(plan, statistics, Strategy.UPA, storage).total.total for storage in StrictStorage
    }
    return min(StrictStorage, key=lambda storage: costs[storage])


def order_join(
    node: algebra.Join, statistics: Statistics, *, is_hashed: bool | None = None, exhaustive: bool = False
) -> JoinOrder:
    """The order in which a join's inputs should stand (5.3.2); hashed if it has equalities, unless told."""
    windows = join_windows(node, estimate(node, statistics).inputs, statistics)
    hashed = bool(node.equalities) if is_hashed is None else is_hashed
    return order_windows(windows, is_hashed=hashed, exhaustive=exhaustive)


def _estimate(plan: Node, statistics: Statistics, strategy: Strategy, storage: StrictStorage) -> Estimate:
    hashes = strategy is Strategy.UPA and storage is StrictStorage.HASH

    def visit(node: Node, announces: bool, strategy: Strategy) -> Estimate:
        inner = strategy_below(node, strategy)
        below = inner is Strategy.NT
        if hashes:
            is_strict = any(pattern_of(child) is Pattern.STR for child in node.children)
            below = is_strict or (announces and not isinstance(node, _SELF_MAINTAINED))
        inputs = tuple(visit(child, below, inner) for child in node.children)
        return _operator(node, inputs, Context(statistics, strategy, announces))

    return visit(plan, strategy is Strategy.NT or (hashes and pattern_of(plan) is Pattern.STR), strategy)


def strategy_below(node: Node, strategy: Strategy) -> Strategy:
    """The strategy for the inputs of an operator: a join with a relation that changes takes no negative
    tuples (3.5.3), so what lies below it expires by its timestamps whatever the user asks for.
    """
    if isinstance(node, algebra.RelationJoin) and not node.relation.is_static:
        return Strategy.UPA
    return strategy


def _operator(node: Node, inputs: tuple[Estimate, ...], context: Context) -> Estimate:
    match node:
        case algebra.Stream() | algebra.Relation() | algebra.Archive():
            return _leaf(node, context.statistics)
        case algebra.Window():
            return _window(node, inputs[0], context)
        case algebra.Select():
            return _select(node, inputs[0], context.statistics)
        case algebra.Project():
            distinct = {o.name: distinct_values(o.scalar, inputs[0].distinct) for o in node.outputs}
            return replace(_passed(node, inputs[0], 1.0), distinct=distinct)
        case algebra.Union():
            return _union(node, inputs)
        case algebra.Join():
            return estimate_join(node, inputs, context)
        case algebra.RelationJoin():
            return estimate_relation_join(node, inputs, context)
        case algebra.SemiJoin():
            return estimate_semi_join(node, inputs, context)
        case algebra.Except() | algebra.Intersect():
            return estimate_set_operation(node, inputs, context)
        case algebra.Distinct():
            return estimate_distinct(node, inputs, context)
        case algebra.Aggregate():
            return estimate_aggregate(node, inputs, context)
        case algebra.Limit():
            return _limit(node, inputs, context)
        case algebra.Output():
            return _output(node, inputs, context)
    raise InternalError(f"no cost for {type(node).__name__}")


def _leaf(node: algebra.Stream | algebra.Relation | algebra.Archive, statistics: Statistics) -> Estimate:
    """A stream is touched once a tuple. Tables hold their rows, and change at their declared rate."""
    key = node.key if isinstance(node, algebra.Relation) else ()
    key = tuple(_bare(name, node.qualifier) for name in key)
    distinct = {
        column.name: statistics.distinct(node.name, _bare(column.name, node.qualifier), column.type, key)
        for column in node.columns
    }
    if isinstance(node, algebra.Stream):
        rate = statistics.rate(node.name)
        lifetime = statistics.lifetime(node.name) if node.has_lifetime else statistics.horizon
        return Estimate(node, rate, rate * lifetime, Cost(rate), distinct=distinct)
    rate, rows = statistics.update_rate(node.name), statistics.rows(node.name)
    table = Buffer(BufferKind.HASH, rows, 2 * rate)
    return Estimate(node, rate, rows, Cost(rate, 2 * rate), buffers=(table,), distinct=distinct)


def _bare(name: str, qualifier: str) -> str:
    return name.removeprefix(qualifier + ".")


def _window(node: algebra.Window, rows: Estimate, context: Context) -> Estimate:
    """λT live tuples. It stores them only to announce them, or until an OFFSET has passed (2.3.3).

    Lifetimes given by the source cut the window short, and rows do not leave in the order of arrival.
    """
    spec, rate = node.spec, rows.rate_out
    slide = (spec.slide or 0) / MICROSECONDS if spec.kind is not WindowKind.ROWS else 0.0
    base = Estimate(node, rate, rows.live, Cost(rate), inputs=(rows,), distinct=rows.distinct, period=slide)
    lasting = stream_with_lifetimes(node)
    given = math.inf if lasting is None else context.statistics.lifetime(lasting.name)
    if spec.kind is WindowKind.UNBOUNDED and lasting is None:
        return base
    if spec.kind is WindowKind.ROWS:
        groups = math.prod(rows.distinct.get(name, 1.0) for name in spec.partition)
        live = min(float(spec.rows or 0) * groups, rows.live)
        stored, announces = live, True
    else:
        length, delay = min(_length(spec), given), spec.offset / MICROSECONDS
        live = rate * max(0.0, length - delay)
        announces = context.announces
        stored = rate * (length if announces else min(delay, length))
    buffers = (_stored(node, stored, rate, context),) if stored else ()
    negative = rate if announces else 0.0
    cost = Cost(rate, 0.0, negative) + upkeep(buffers)
    return replace(base, live=live, buffers=buffers, cost=cost, negative_rate=negative, announces=announces)


def _stored(node: algebra.Window, size: float, rate: float, context: Context) -> Buffer:
    if pattern_of(node) is not Pattern.WK:
        return Buffer(BufferKind.FIFO, size, 2 * rate)
    load = Load(rate, checks=rate)
    return choose_buffer(Pattern.WK, context.strategy, size, load, is_announced=False, is_eager=True)


def _length(spec: algebra.WindowSpec) -> float:
    """Seconds from a tuple's arrival to its expiration. NOW: one instant, the smallest there is."""
    match spec.kind:
        case WindowKind.RANGE:
            return (spec.range or 0) / MICROSECONDS
        case WindowKind.NOW:
            return 1 / MICROSECONDS
    return math.inf


def _passed(node: Node, rows: Estimate, share: float) -> Estimate:
    """An operator without state: it touches every tuple, and passes a share of them (2.2.2)."""
    return replace(
        rows,
        node=node,
        rate_out=rows.rate_out * share,
        negative_rate=rows.negative_rate * share,
        live=rows.live * share,
        cost=Cost(rows.rate_out, 0.0, rows.negative_rate),
        buffers=(),
        inputs=(rows,),
        premature_share=None,
    )


def _select(node: algebra.Select, rows: Estimate, statistics: Statistics) -> Estimate:
    predicate, distinct = node.predicate, rows.distinct
    if isinstance(rows.node, algebra.Project):
        # What is declared of a column holds for an expression over it that has got a name of its own.
        distinct = {**rows.inputs[0].distinct, **rows.distinct}
        values = {o.name: o.scalar for o in rows.node.outputs if o.scalar.column is None}
        predicate = substitute(predicate, values)
    share = selectivity(predicate, distinct, statistics)
    fixed = fixed_columns(node.predicate)
    distinct = {name: 1.0 if name in fixed else values for name, values in rows.distinct.items()}
    return replace(_passed(node, rows, share), distinct=distinct)


def _union(node: algebra.Union, inputs: tuple[Estimate, ...]) -> Estimate:
    """Merge-union: no state; values are contained, so there are as many as on the richer side."""
    left, right = inputs
    pairs = zip(left.node.names, right.node.names, strict=True)
    distinct = {
        name: max(left.distinct.get(name, 1.0), right.distinct.get(other, 1.0)) for name, other in pairs
    }
    rate, negative = left.rate_out + right.rate_out, left.withdrawn + right.withdrawn
    return Estimate(
        node,
        rate,
        left.live + right.live,
        Cost(rate, 0.0, negative),
        negative,
        (),
        inputs,
        distinct,
        common_period(inputs),
        announces=all(each.announces for each in inputs),
    )


def _limit(node: algebra.Limit, inputs: tuple[Estimate, ...], context: Context) -> Estimate:
    """All rows are kept in order (log n a change); the first ones are given anew whenever they change."""
    rows = inputs[0]
    live = rows.live if node.count is None else min(rows.live, float(node.count))
    rate = rows.rate_out * live / max(rows.live, 1e-9)
    if rows.period:
        rate = min(rate, live / rows.period)
    search = math.log2(rows.live + 2)
    buffers = (keep(inputs, 0, context, is_eager=True),)
    cost = Cost(rows.rate_out * search, 0.0, rows.withdrawn * search) + upkeep(buffers)
    passed = _passed(node, rows, 1.0)
    return replace(passed, rate_out=rate, live=live, cost=cost, buffers=buffers, replaces=True)


def _output(node: algebra.Output, inputs: tuple[Estimate, ...], context: Context) -> Estimate:
    """The answer. All but Istream keep it, expiring eagerly: a view and Dstream tell what expires (3.6.2).

    Rstream gives the whole answer at every slide, or at every change. Wstream keeps a window of what came.
    A view whose results never expire (INTERNAL windows, 3.3.2) is append-only like Istream.
    """
    rows = inputs[0]
    passed = _passed(node, rows, 1.0)
    is_append_only = node.kind is OutputKind.VIEW and output_pattern(node) is Pattern.MON
    if is_append_only or node.kind in (OutputKind.ISTREAM, OutputKind.ISTREAM_RESTORE):
        return replace(passed, negative_rate=0.0, announces=False, replaces=False)
    if node.kind is OutputKind.WSTREAM:
        assert node.window is not None
        window = _window(algebra.Window(rows.node, node.window), replace(rows, announces=False), context)
        kept = (Buffer(BufferKind.FIFO, window.live, 2 * rows.rate_out),)
        cost = passed.cost + upkeep(kept)
        return replace(passed, live=window.live, buffers=kept, cost=cost, replaces=False)
    if rows.replaces:
        buffers: tuple[Buffer, ...] = (Buffer(BufferKind.ARRAY, rows.live, rows.rate_out),)
    else:
        buffers = (keep(inputs, 0, context, is_eager=True),)
    stored = replace(passed, buffers=buffers, cost=passed.cost + upkeep(buffers))
    if node.kind is OutputKind.VIEW:
        return stored
    stored = replace(stored, negative_rate=0.0, announces=False, replaces=False)
    if node.kind in (OutputKind.RSTREAM, OutputKind.RSTREAM_RESTORE):
        changes = 1 / rows.period if rows.period else rows.rate_out + rows.withdrawn
        given = rows.live * changes
        return replace(stored, rate_out=given, cost=stored.cost + Cost(given))
    return stored
