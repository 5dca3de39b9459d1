"""Queries that differ in the thresholds of HAVING alone, answered together.

The states of groups are sorted once by the compared aggregate, whoever asks. The states that pass a query
are then a stretch of that order, so a query costs a search and its own states, not all of them. Where HAVING
compares several aggregates, the one with the shortest stretches is searched and the others are looked at.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from sash.plan.having import Having
from sash.plan.periodic import PeriodicQuery
from sash.synopses.states import States
from sash.synopses.thresholds import Bounds, Column

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

# So few queries are faster answered one by one, without sorting.
LEAST_MEMBERS = 4


class Family:
    def __init__(self, queries: Sequence[PeriodicQuery]) -> None:
        self.queries = queries
        self.select = queries[0].select
        self._bounds = Bounds.of(queries)

    def passing(self, states: States, limit: int) -> Iterator[tuple[Ints, Ints]]:
        """Pairs of a query's number and a state that passes it, query by query, about `limit` at once."""
        order, begins, counts = self._stretches(states)
        ends = np.cumsum(counts)
        first = done = 0
        while first < len(counts):
            stop = max(first + 1, int(np.searchsorted(ends, done + limit, side="right")))
            own = counts[first:stop]
            owners = np.repeat(np.arange(first, stop), own)
            shifts = np.repeat(begins[first:stop] - (ends[first:stop] - own), own)
            rows = order[shifts + np.arange(done, ends[stop - 1])]
            if len(self._bounds.columns) > 1:
                kept = self.hold(states, owners, rows)
                owners, rows = owners[kept], rows[kept]
            if len(rows):
                yield owners, rows
            first, done = stop, int(ends[stop - 1])

    def _stretches(self, states: States) -> tuple[Ints, Ints, Ints]:
        """An order of states, and where the stretch of each query begins and how long it is."""
        found = []
        for column, low, high in self._bounds:
            compared = states.compared(column)
            begins = np.searchsorted(compared.ascending, low)
            counts = np.searchsorted(compared.ascending, high, side="right") - begins
            found.append((compared.order, begins, np.maximum(counts, 0)))
        return min(found, key=lambda each: int(each[2].sum()))

    def hold(self, states: States, owners: Ints, rows: Ints) -> Bools:
        """Whether each query is passed by the state beside it; −1 is no state, which passes none."""
        holds = np.ones(len(rows), dtype=np.bool_)
        for column, low, high in self._bounds:
            compared = states.compared(column)
            ordinals = compared.ordinals[rows]
            holds &= compared.counts[rows] & (ordinals >= low[owners]) & (ordinals <= high[owners])
        return holds


def families_of(queries: Sequence[PeriodicQuery]) -> tuple[list[Family], list[PeriodicQuery]]:
    """The families among some queries of one window, and the queries that are answered one by one."""
    alike: dict[object, list[PeriodicQuery]] = defaultdict(list)
    for query in queries:
        having = Having.of(query.select)
        columns = frozenset(Column.of(condition) for condition in having.ranges)
        alike[(replace(query.select, having=None), columns) if having.is_all else query.name].append(query)
    families, alone = [], []
    for members in alike.values():
        if len(members) < LEAST_MEMBERS:
            alone += members
        else:
            families.append(Family(members))
    return families, alone
