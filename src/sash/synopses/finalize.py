"""From measures to the values of aggregates, for many rows at once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sash.errors import DataError, InternalError
from sash.lang.bound import AggregateCall, AggregateFunction
from sash.lang.types import Type
from sash.plan.measures import MeasureKind
from sash.state import kernels
from sash.state.groups import Dictionary
from sash.state.layout import Layout
from sash.state.ordering import Words, canonical, ordinal_to_double

Int64Array = npt.NDArray[np.int64]
Float64Array = npt.NDArray[np.float64]
BoolArray = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Values:
    """One aggregate for many rows. Equal values have equal `bits`; where not `valid` it is NULL.

    Strings are codes, decoded only when they are shown; codes of `Words` compare as the words do.
    """

    type: Type
    bits: Int64Array
    valid: BoolArray
    words: Words | Dictionary | None = None

    def differs(self, rows: Int64Array, others: Int64Array) -> BoolArray:
        """Where the value of row rows[i] is not that of others[i]."""
        valid, other_valid = self.valid[rows], self.valid[others]
        differs: BoolArray = (valid != other_valid) | (valid & (self.bits[rows] != self.bits[others]))
        return differs

    @cached_property
    def array(self) -> pa.Array:
        """All rows as Arrow."""
        missing = None if self.valid.all() else ~self.valid
        match self.type:
            case Type.BIGINT:
                return pa.array(self.bits, mask=missing)
            case Type.DOUBLE:
                return pa.array(self.bits.view(np.float64), mask=missing)
            case Type.BOOLEAN:
                return pa.array(self.bits != 0, mask=missing)
            case Type.TIMESTAMP:
                return pa.array(self.bits, mask=missing).cast(pa.timestamp("us"))
            case Type.STRING:
                words = pa.array([], pa.string()) if self.words is None else self.words.values
                return words.take(pa.array(self.bits, mask=missing))

    def take(self, rows: Int64Array) -> pa.Array:
        return self.array.take(pa.array(rows))


def finalize(
    call: AggregateCall,
    layout: Layout,
    ints: Int64Array,
    floats: Float64Array,
    words: Mapping[int, Words],
) -> Values:
    """The value of `call` for each row of measures."""
    rows = ints[:, 0]
    everywhere = np.ones(len(rows), dtype=np.bool_)
    if call.argument is None:
        return Values(Type.BIGINT, rows.copy(), everywhere)
    present = rows - ints[:, layout.column(MeasureKind.NULLS, call.argument)[0]]
    valid = present > 0
    match call.function:
        case AggregateFunction.COUNT:
            return Values(Type.BIGINT, present, everywhere)
        case AggregateFunction.SUM:
            return _sum(call, layout, ints, floats, valid)
        case AggregateFunction.AVG:
            column, first = layout.column(MeasureKind.SUM, call.argument)
            total = (
                floats[:, first] + floats[:, first + 1]
                if column < 0
                else ints[:, column] * float(1 << kernels.LOW_BITS) + ints[:, column + 1]
            )
            average = np.divide(total, present, out=np.zeros(len(rows)), where=valid)
            return Values(Type.DOUBLE, canonical(average).view(np.int64), valid)
        case AggregateFunction.MIN | AggregateFunction.MAX:
            kind = MeasureKind.MIN if call.function is AggregateFunction.MIN else MeasureKind.MAX
            column, _ = layout.column(kind, call.argument)
            ordinals = np.ascontiguousarray(ints[:, column])
            if call.type is Type.DOUBLE:
                return Values(call.type, ordinal_to_double(ordinals).view(np.int64), valid)
            return Values(call.type, ordinals, valid, words.get(column))
        case _:
            raise InternalError(f"{call.function.value} is not made of measures")


def _sum(
    call: AggregateCall, layout: Layout, ints: Int64Array, floats: Float64Array, valid: BoolArray
) -> Values:
    column, first = layout.column(MeasureKind.SUM, call.argument)
    if column < 0:
        total = floats[:, first] + floats[:, first + 1]
        return Values(Type.DOUBLE, canonical(total).view(np.int64), valid)
    high, low = ints[:, column], ints[:, column + 1]
    limit = 1 << (63 - kernels.LOW_BITS)
    if ((high < -limit) | (high >= limit)).any():
        assert call.argument is not None
        raise DataError(
            f"SUM({call.argument.text}) does not fit into BIGINT",
            hint=f"sum doubles instead: SUM(CAST({call.argument.text} AS DOUBLE))",
            id="overflow",
        )
    return Values(Type.BIGINT, (high << kernels.LOW_BITS) + low, valid)
