"""The cost of operators that match rows of two or more inputs: joins, [NOT] EXISTS, EXCEPT, INTERSECT.

002, sections 2.2.2 (what they do), 3.5 (their state) and 5.3 (the cost of joins). Each function takes the
operator and the estimates of its inputs. Positive tuples make `processing`, negative ones `negative` (they
are processed like any other: 2.3.3), and the upkeep of the buffers is `maintenance`.
"""

from __future__ import annotations

import math

from sash.lang import algebra
from sash.lang.bound import Scalar
from sash.plan.cost.buffers import Buffer
from sash.plan.cost.estimates import PROBE, Context, Cost, Estimate, common_period, keep, upkeep
from sash.plan.cost.joins import WindowStatistics, cost_per_tuple, matches_per_tuple, result_size
from sash.plan.cost.negation import Results, Side, difference, intersection, negation, semi_join
from sash.plan.cost.selectivity import distinct_values, selectivity
from sash.plan.cost.statistics import Statistics
from sash.plan.patterns import Pattern, pattern_of

# --------------------------------------------------------------------------- joins


def join_windows(
    node: algebra.Join, inputs: tuple[Estimate, ...], statistics: Statistics
) -> list[WindowStatistics]:
    """λ, T, v of the inputs of a join; expressions that are equal to one another are one join attribute."""
    attributes: dict[tuple[int, str], int] = {}
    values: dict[tuple[int, str], float] = {}
    for number, equality in enumerate(node.equalities):
        left, right = (equality.left_input, equality.left.sql), (equality.right_input, equality.right.sql)
        for place, scalar in ((left, equality.left), (right, equality.right)):
            values[place] = distinct_values(scalar, inputs[place[0]].distinct)
        old = {attributes[place] for place in (left, right) if place in attributes}
        attributes.update({place: number for place, attribute in attributes.items() if attribute in old})
        attributes[left] = attributes[right] = number
    windows = []
    for position, each in enumerate(inputs):
        distinct: dict[str, float] = {}
        for place, attribute in attributes.items():
            if place[0] == position:
                distinct[str(attribute)] = max(values[place], distinct.get(str(attribute), 1.0))
        # What does not arrive any more (a table) still has to be scanned: its size is what counts.
        rate = each.rate_out or each.live / statistics.horizon
        windows.append(WindowStatistics(rate, each.live / rate if rate else 0.0, distinct))
    return windows


def estimate_join(node: algebra.Join, inputs: tuple[Estimate, ...], context: Context) -> Estimate:
    """An n-way join in the order of its inputs, hashed where there are equalities (5.2.1, 5.3.1).

    A tuple of input i costs what 5.3.1 says, and one unit to hash it; a negative tuple costs the same.
    Results: φ live, λᵢφ/Cᵢ per second from each input. Expiration is lazy.
    """
    windows = join_windows(node, inputs, context.statistics)
    order = range(len(windows))
    is_hashed = bool(node.equalities)
    distinct = {name: values for each in inputs for name, values in each.distinct.items()}
    residual = 1.0
    if node.residual is not None:
        residual = selectivity(node.residual, distinct, context.statistics)
    processing = negative = rate = withdrawn = 0.0
    for position, each in enumerate(inputs):
        work = is_hashed + cost_per_tuple(windows, order, position, is_hashed=is_hashed)
        matches = matches_per_tuple(windows, position) * residual
        processing += each.rate_out * work
        negative += each.withdrawn * work
        rate += each.rate_out * matches
        withdrawn += each.withdrawn * matches
    for equality in node.equalities:
        sides = ((equality.left_input, equality.left), (equality.right_input, equality.right))
        fewest = min(distinct_values(scalar, inputs[i].distinct) for i, scalar in sides)
        for _, scalar in sides:
            if scalar.column is not None:
                distinct[scalar.column] = min(fewest, distinct.get(scalar.column, fewest))
    buffers = tuple(keep(inputs, i, context, is_eager=False) for i in order)
    return Estimate(
        node,
        rate,
        result_size(windows, order) * residual,
        Cost(processing, 0.0, negative) + upkeep(buffers),
        rate if context.announces else min(rate, withdrawn),
        buffers,
        inputs,
        distinct,
        common_period(inputs),
        announces=context.announces,
    )


def estimate_relation_join(
    node: algebra.RelationJoin, inputs: tuple[Estimate, ...], context: Context
) -> Estimate:
    """A stream with a relation (3.3.1): a tuple probes the relation.

    Non-retroactive: no state but the relation. Retroactive: the stream's rows are stored too, and an
    update of the relation probes them; what it finds is withdrawn and given anew.
    """
    rows, relation = inputs
    distinct = {**rows.distinct, **relation.distinct}
    left, right = _values(node.left_keys, rows), _values(node.right_keys, relation)
    share = 1.0 if node.residual is None else selectivity(node.residual, distinct, context.statistics)
    matches = relation.live / max(left, right, 1.0)
    results = max(1.0, matches * share) if node.is_outer else matches * share
    work = PROBE + matches
    cost = Cost(rows.rate_out * work, 0.0, rows.withdrawn * work)
    rate, withdrawn = rows.rate_out * results, rows.withdrawn * results
    buffers: tuple[Buffer, ...] = ()
    if node.relation.is_revised:
        found = rows.live / max(left, right, 1.0)
        buffers = (keep((rows,), 0, context, is_eager=False),)
        cost = cost + upkeep(buffers) + Cost(relation.rate_out * (PROBE + found))
        rate += relation.rate_out * found * share
        withdrawn += relation.rate_out * found * share
    negative = rate if context.announces else min(rate, withdrawn)
    return Estimate(
        node,
        rate,
        rows.live * results,
        cost,
        negative,
        buffers,
        inputs,
        distinct,
        rows.period,
        context.announces,
    )


# --------------------------------------------------------------------------- negation and its kin


def estimate_semi_join(node: algebra.SemiJoin, inputs: tuple[Estimate, ...], context: Context) -> Estimate:
    """[NOT] EXISTS and IN: see `negation.py` for the results."""
    left = _side(inputs[0], _values(node.left_keys, inputs[0]))
    right = _side(inputs[1], _values(node.right_keys, inputs[1]))
    return _compared(node, inputs, context, (negation if node.is_anti else semi_join)(left, right))


def estimate_set_operation(
    node: algebra.Except | algebra.Intersect, inputs: tuple[Estimate, ...], context: Context
) -> Estimate:
    left, right = (_side(each, each.row_values) for each in inputs)
    results = (difference if isinstance(node, algebra.Except) else intersection)(left, right)
    return _compared(node, inputs, context, results)


def _compared(
    node: algebra.Node, inputs: tuple[Estimate, ...], context: Context, results: Results
) -> Estimate:
    """Both inputs are stored and hashed; a tuple of either probes the other; expiration is eager (2.2.2).

    Premature results (and, with `announces`, all that expire) leave as negative tuples.
    """
    buffers = tuple(keep(inputs, i, context, is_eager=True) for i in range(2))
    arrivals = sum(each.rate_out for each in inputs)
    withdrawn = sum(each.withdrawn for each in inputs)
    # A negative tuple of an input takes results with it in the proportion in which its tuples make them.
    with_left = inputs[0].withdrawn * results.live / max(inputs[0].live, 1e-9)
    negative = min(results.rate, results.premature + with_left)
    if context.announces:
        negative = results.rate
    cost = Cost(PROBE * arrivals + results.rate, 0.0, PROBE * withdrawn + negative) + upkeep(buffers)
    return Estimate(
        node,
        results.rate,
        results.live,
        cost,
        negative,
        buffers,
        inputs,
        inputs[0].distinct,
        common_period(inputs),
        announces=context.announces,
        premature_share=results.premature_share if pattern_of(node) is Pattern.STR else None,
    )


def _side(estimate: Estimate, values: float) -> Side:
    return Side(estimate.rate_out, estimate.live, max(1.0, values))


def _values(keys: tuple[Scalar, ...], rows: Estimate) -> float:
    return math.prod(distinct_values(key, rows.distinct) for key in keys)
