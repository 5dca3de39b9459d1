"""Hybrid scheduling (002, section 8.4.4): sub-groups take shorter periods where being executed together pays.

Of all ways to merge the sub-groups of a group, each merged one with its shortest period, it takes the
cheapest. Up to six sub-groups all ways are tried; beyond, the best merge of two is made as long as one pays,
and the result compared with one task for all. Where answers are due at the multiples of a period, nothing is
merged: an execution between two of its boundaries is of no use to a query, and boundaries that coincide are
shared anyway.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sash.scheduling.cost_model import MOST_STEPS, Costs
from sash.scheduling.policy import Block, Policy, Semantics, Standing, by_period, same_deadline

_TRY_ALL = 6
_GREEDY_STEPS = 2_520
# With very many sub-groups, less of the schedule is looked at.
_MANY = 24
_MANY_STEPS = 840

Merge = tuple[int, ...]


def divide(queries: Sequence[Standing], semantics: Semantics) -> list[Block]:
    blocks = by_period(queries)
    if len(blocks) < 2 or semantics is Semantics.BOUNDARIES:
        return blocks
    costs = Costs(blocks)
    if len(blocks) <= _TRY_ALL:
        best = min(
            _partitions(len(blocks)), key=lambda way: (round(costs.rate(way, MOST_STEPS), 9), -len(way))
        )
    else:
        best = costs.merge_greedily(_MANY_STEPS if len(blocks) > _MANY else _GREEDY_STEPS)
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


HYBRID = Policy("hybrid", divide, same_deadline)
