"""Range conditions as intervals of integers, which stand in the order of the values they compare.

So integers and doubles are compared alike, exactly, and NaN exceeds everything as in the evaluator.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from sash.lang.bound import AggregateCall
from sash.lang.types import Type
from sash.plan.having import Comparison, RangeCondition
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
