"""Gives every row a column with when it arrived, which stays when windows show the row later."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from sash.lang.algebra import Field
from sash.lang.types import Type
from sash.operators.delta import Delta
from sash.operators.operator import Moment, Operator

ARRIVED = Field("·arrived", Type.BIGINT)


class Arrivals(Operator):
    """Stands below a window: there a row is when it arrives."""

    def __init__(self, fields: Sequence[Field]) -> None:
        self.fields = (*fields, ARRIVED)

    def process(self, inputs: Sequence[Delta], moment: Moment) -> Delta:
        (delta,) = inputs
        return delta.with_columns((*delta.columns, pa.array(delta.ts)))
