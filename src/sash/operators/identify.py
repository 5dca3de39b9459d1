"""Gives every row that enters a number of its own, so that other operators can tell equal rows apart.

An outer join with a relation that changes needs it: which rows have no match is asked row by row. Rows that
are numbered leave as foreseen; negative tuples could not be given the number of their row.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from sash.errors import InternalError
from sash.lang.algebra import Field
from sash.lang.types import Type
from sash.operators.delta import Delta
from sash.operators.operator import Moment, Operator, State

ROW = "·row"


class Identify(Operator):
    def __init__(self, fields: Sequence[Field]) -> None:
        self.fields = (*fields, Field(ROW, Type.BIGINT))
        self._next = 0
        self._stride = 1

    def placed(self, partition: int, of: int) -> None:
        """Numbers differ between partitions."""
        self._next, self._stride = partition, of

    def process(self, inputs: Sequence[Delta], moment: Moment) -> Delta:
        (delta,) = inputs
        if delta.sign is not None and (delta.sign < 0).any():
            raise InternalError("negative tuples cannot be numbered")
        rows = self._next + self._stride * np.arange(len(delta), dtype=np.int64)
        self._next += self._stride * len(delta)
        return delta.with_columns((*delta.columns, pa.array(rows)))

    def snapshot(self) -> State:
        return {"next": pa.table({"next": [self._next]})}

    def restore(self, state: State) -> None:
        self._next = state["next"].column("next")[0].as_py()
