"""Selection: the rows, entering and leaving, for which a predicate is true. It keeps nothing (002, 2.2.1)."""

from __future__ import annotations

from collections.abc import Sequence

from sash.lang.algebra import Field
from sash.lang.values import Scalar
from sash.operators.delta import Delta, as_table
from sash.operators.evaluate import evaluate_mask
from sash.operators.operator import Moment, Operator


class Selection(Operator):
    takes_early = True

    def __init__(self, fields: Sequence[Field], predicate: Scalar) -> None:
        self.fields = tuple(fields)
        self._predicate = predicate

    def process(self, inputs: Sequence[Delta], moment: Moment) -> Delta:
        (delta,) = inputs
        if not len(delta):
            return delta
        table = as_table(delta.columns, self.names, len(delta))
        return delta.filter(evaluate_mask(table, self._predicate).to_numpy(zero_copy_only=False))
