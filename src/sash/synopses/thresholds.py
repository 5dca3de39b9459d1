"""Range conditions as intervals of integers, which stand in the order of the values they compare.

So integers and doubles are compared alike, exactly, and NaN exceeds everything as in the evaluator.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from sash.lang.bound import AggregateCall
from sash.lang.types import Type
from sash.plan.having import Comparison, Having, RangeCondition
from sash.plan.periodic import PeriodicQuery
from sash.state.kernels import INT64_MAX, INT64_MIN
from sash.state.ordering import double_to_ordinal
from sash.synopses.finalize import Values

Ints = npt.NDArray[np.int64]

_NOTHING = 1, 0


class Column(NamedTuple):
    """What is compared: an aggregate, as it is or as a double."""

    call: AggregateCall
    is_double: bool

    @staticmethod
    def of(condition: RangeCondition) -> Column:
        return Column(condition.call, condition.is_double)

    def ordinals(self, values: Values) -> Ints:
        """Its values as integers in their order; anything where they are NULL."""
        if not self.is_double:
            return values.bits
        is_double = values.type is Type.DOUBLE
        return double_to_ordinal(
            values.bits.view(np.float64) if is_double else values.bits.astype(np.float64)
        )


def interval_of(condition: RangeCondition) -> tuple[int, int]:
    """The least and the greatest integer that passes; the least is greater if none does."""
    value = condition.threshold.value
    at = int(double_to_ordinal(np.array([value], dtype=np.float64))[0]) if condition.is_double else int(value)
    match condition.threshold.comparison:
        case Comparison.MORE:
            return _NOTHING if at == INT64_MAX else (at + 1, INT64_MAX)
        case Comparison.AT_LEAST:
            return at, INT64_MAX
        case Comparison.LESS:
            return _NOTHING if at == INT64_MIN else (INT64_MIN, at - 1)
        case Comparison.AT_MOST:
            return INT64_MIN, at


class Bounds:
    """The intervals of queries whose HAVING compares the same columns with constants, and nothing else."""

    def __init__(self, columns: Sequence[Column], low: Ints, high: Ints) -> None:
        """A row of `low` and `high` a column, in which each query has its place."""
        self.columns, self.low, self.high = columns, low, high

    @staticmethod
    def of(queries: Sequence[PeriodicQuery]) -> Bounds:
        conditions = [Having.of(query.select).ranges for query in queries]
        columns = list(dict.fromkeys(map(Column.of, conditions[0])))
        low = np.full((len(columns), len(queries)), INT64_MIN, dtype=np.int64)
        high = np.full((len(columns), len(queries)), INT64_MAX, dtype=np.int64)
        for i, own in enumerate(conditions):
            for condition in own:
                at = columns.index(Column.of(condition)), i
                least, greatest = interval_of(condition)
                low[at], high[at] = max(low[at], least), min(high[at], greatest)
        return Bounds(columns, low, high)

    def __iter__(self) -> Iterator[tuple[Column, Ints, Ints]]:
        return zip(self.columns, self.low, self.high, strict=True)
