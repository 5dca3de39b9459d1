"""The cost of duplicate elimination and of aggregation (002, sections 2.2.2, 3.2.2, 3.5.2 and 3.6.3)."""

from __future__ import annotations

import math
from dataclasses import replace

from sash.lang import algebra
from sash.plan.cost.buffers import Buffer, BufferKind, Load, Strategy, choose_buffer, hash_table
from sash.plan.cost.estimates import PROBE, Context, Cost, Estimate, keep, upkeep
from sash.plan.cost.negation import Side, representative_lifetime
from sash.plan.cost.selectivity import distinct_values
from sash.plan.patterns import Pattern, pattern_of


def estimate_distinct(node: algebra.Distinct, inputs: tuple[Estimate, ...], context: Context) -> Estimate:
    """Duplicate elimination: min(v, N) results (3.2.2, 3.5.2, 3.6.3).

    δ* (UPA, predictable input): the output and at most as many youngest duplicates. Otherwise the input
    and the output; where the input is STR, the strict version, which counts and announces what becomes
    extinct.
    """
    rows = inputs[0]
    pattern = pattern_of(rows.node)
    values = max(1.0, rows.row_values)
    live = min(values, rows.live)
    side = Side(rows.rate_out, rows.live, values)
    base = Estimate(node, 0.0, live, inputs=inputs, distinct=rows.distinct, period=rows.period)
    if pattern is Pattern.STR:
        return _strict_distinct(base, side, context)
    if pattern is Pattern.MON:
        # Each value once and for ever; on average over the horizon.
        rate = live / context.statistics.horizon
        buffers: tuple[Buffer, ...] = (Buffer(BufferKind.APPEND, live, rate),)
        return replace(
            base, rate_out=rate, buffers=buffers, cost=Cost(PROBE * rows.rate_out) + upkeep(buffers)
        )
    rate = min(rows.rate_out, live / max(representative_lifetime(side), 1e-9))
    checks = rows.rate_out if not rows.period else min(rows.rate_out, 1 / rows.period)
    negative_rate = rate if context.announces else 0.0
    output = choose_buffer(
        Pattern.WK,
        context.strategy,
        live,
        Load(rate, negative_rate, checks),
        is_announced=context.announces,
        is_eager=True,
    )
    if context.strategy is Strategy.UPA and not rows.announces:
        auxiliary = Buffer(BufferKind.HASH, live, rows.rate_out)
        buffers = (output, auxiliary)
        cost = Cost(PROBE * rows.rate_out, rate, negative_rate)
    else:
        stored = keep(inputs, 0, context, is_eager=True)
        buffers = (stored, output)
        # Who follows an expired result: a bucket of hashed state, the whole input where there is none.
        search = rows.live / max(live, 1e-9) if rows.announces else rows.live
        search *= rate
        cost = Cost(PROBE * rows.rate_out, 0.0 if rows.announces else search)
        cost = cost + Cost(0.0, 0.0, PROBE * rows.withdrawn + search if rows.announces else 0.0)
    return replace(
        base,
        rate_out=rate,
        cost=cost + upkeep(buffers),
        negative_rate=negative_rate,
        buffers=buffers,
        announces=context.announces,
    )


def _strict_distinct(base: Estimate, side: Side, context: Context) -> Estimate:
    """A result appears when its value was absent, and goes with the last tuple that has it (3.2.2)."""
    rows = base.inputs[0]
    rate = side.rate * (1 - side.presence)
    counters = hash_table(base.live, Load(rate, rate))
    is_stored = not (rows.announces or rows.replaces)
    buffers = (keep(base.inputs, 0, context, is_eager=True), counters) if is_stored else (counters,)
    cost = Cost(PROBE * rows.rate_out, 0.0, PROBE * rows.withdrawn) + upkeep(buffers)
    return replace(base, rate_out=rate, negative_rate=rate, buffers=buffers, cost=cost, announces=True)


def estimate_aggregate(node: algebra.Aggregate, inputs: tuple[Estimate, ...], context: Context) -> Estimate:
    """Grouping: every arrival and every expiration gives a new value of its group (2.2.2, 3.5.2).

    The input is stored until it expires, the values in an array by group; beside it, what is counted for
    MEDIAN, TOP, DISTINCT and their like. A new value replaces the old one without a negative tuple. With a
    SLIDE there is at most one new value per group and slide.
    """
    rows = inputs[0]
    keys = {f"k{i}": distinct_values(key, rows.distinct) for i, key in enumerate(node.keys)}
    groups = min(math.prod(keys.values()), max(1.0, rows.live)) if keys else 1.0
    is_monotonic = pattern_of(rows.node) is Pattern.MON
    expirations = 0.0 if is_monotonic else rows.rate_out
    is_announced = rows.announces or rows.replaces
    update = 1.0 + len(node.calls)
    rate = rows.rate_out + expirations
    if rows.period:
        rate = min(rate, groups / rows.period)
    buffers: tuple[Buffer, ...] = (Buffer(BufferKind.ARRAY, groups, rate),)
    # Each value of a group is counted where that is what its answer is made of; the work is in `update`.
    counted = {
        call.argument for call in node.calls if not call.has_bounded_state and call.argument is not None
    }
    values = sum(min(rows.live, groups * distinct_values(each, rows.distinct)) for each in counted)
    if values:
        buffers = (*buffers, Buffer(BufferKind.HASH, values))
    if not is_monotonic and not rows.replaces:
        buffers = (keep(inputs, 0, context, is_eager=True), *buffers)
    processing = rows.rate_out * update + (0.0 if is_announced else expirations * update)
    negative = expirations * update if is_announced else rows.withdrawn * update
    distinct = {**keys, **{f"a{i}": groups for i in range(len(node.calls))}}
    return Estimate(
        node,
        rate,
        groups,
        Cost(processing, 0.0, negative) + upkeep(buffers),
        0.0,
        buffers,
        inputs,
        distinct,
        rows.period,
        announces=True,
        replaces=True,
    )
