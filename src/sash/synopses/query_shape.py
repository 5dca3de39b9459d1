"""Queries that differ in their windows and in the thresholds of HAVING alone: one of each window.

The states of all of their windows are looked at in one go, so that hundreds of small answers cost little more
than one that is as long as all of them.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from sash.lang.bound import BoundSelect
from sash.plan.having import Having
from sash.plan.periodic import PeriodicQuery
from sash.synopses.states import States
from sash.synopses.thresholds import Bounds, Column

Bools = npt.NDArray[np.bool_]


class QueryShape:
    def __init__(self, queries: Sequence[PeriodicQuery]) -> None:
        """All are alike, by `likeness`; query i reads the states of owner i."""
        self.queries = queries
        self.select = queries[0].select
        differ = any(query.select.having != self.select.having for query in queries)
        self._bounds = Bounds.of(queries) if differ else None

    def present(self, states: States) -> Bools:
        """Which states are in the answer of the query that reads them."""
        if self._bounds is None:
            return states.present(self.select)
        present = states.exist()
        for column, low, high in self._bounds:
            values = states.values(column.call)
            ordinals = column.ordinals(values)
            at_least, at_most = ordinals >= low[states.owners], ordinals <= high[states.owners]
            present &= values.valid & at_least & at_most
        return present


def likeness(select: BoundSelect) -> Hashable:
    """Equal for queries that can be kin."""
    having = Having.of(select)
    compared: Hashable = frozenset(map(Column.of, having.ranges)) if having.is_all else select.having
    anywhere = replace(select.window, range=0, slide=0)
    return replace(select, window=anywhere, having=None), compared
