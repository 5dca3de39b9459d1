"""Hybrid scheduling (002, section 8.4.4): sub-groups take shorter periods where being executed together pays.

Of all ways to merge the sub-groups of a group, each merged one with its shortest period, it takes the cheapest.
Up to six sub-groups all ways are tried; beyond, the best merge of two is made as long as one pays, and the
result compared with one task for all. Where answers are due at the multiples of a period, nothing is merged: an
execution between two of its boundaries is of no use to a query, and boundaries that coincide are shared anyway.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sash.scheduling.cost_model import MOST_STEPS, Costs
from sash.scheduling.policy import Block, Policy, Semantics, Standing, by_period, same_deadline

_TRY_ALL = 6
_GREEDY_STEPS = 2_520
# Among very many sub-groups, only those with near periods are tried.
_MANY = 24
_NEAR = 4

Merge = tuple[int, ...]


def divide(queries: Sequence[Standing], semantics: Semantics) -> list[Block]:
    blocks = by_period(queries)
    if len(blocks) < 2 or semantics is Semantics.BOUNDARIES:
        return blocks
    costs = Costs(blocks)
    if len(blocks) <= _TRY_ALL:
        best = min(_partitions(len(blocks)), key=lambda way: (round(costs.rate(way, MOST_STEPS), 9), -len(way)))
    else:
        best = _greedy(costs, len(blocks))
    return [_merged(blocks, rows) for rows in sorted(best, key=lambda rows: rows[0])]


def _merged(blocks: Sequence[Block], rows: Merge) -> Block:
    chosen = [blocks[row] for row in rows]
    return Block(tuple(query for block in chosen for query in block.queries), min(b.period for b in chosen))


def _partitions(count: int) -> Iterator[list[Merge]]:
    """Every way to divide 0 … count − 1 into sets."""
    if count == 0:
        yield []
        return
    last = count - 1
    for way in _partitions(last):
        yield [*way, (last,)]
        for position, rows in enumerate(way):
            yield [*way[:position], (*rows, last), *way[position + 1 :]]


def _greedy(costs: Costs, count: int) -> list[Merge]:
    way: list[Merge] = [(row,) for row in range(count)]
    rate = costs.rate(way, _GREEDY_STEPS)
    while len(way) > 1:
        near = _NEAR if len(way) > _MANY else len(way)
        tries = [
            [*way[:i], (*way[i], *way[j]), *way[i + 1 : j], *way[j + 1 :]]
            for i in range(len(way))
            for j in range(i + 1, min(len(way), i + 1 + near))
        ]
        rates = [costs.rate(each, _GREEDY_STEPS) for each in tries]
        best = min(range(len(tries)), key=rates.__getitem__)
        if rates[best] >= rate:
            break
        way, rate = tries[best], rates[best]
    everything = tuple(range(count))
    return [everything] if costs.rate([everything], _GREEDY_STEPS) < rate else way


HYBRID = Policy("hybrid", divide, same_deadline)
