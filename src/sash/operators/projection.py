"""Projection: named expressions over each row, entering or leaving. It keeps nothing (002, 2.2.1)."""

from __future__ import annotations

from collections.abc import Sequence

from sash.lang.algebra import Field
from sash.lang.values import Named
from sash.operators.delta import Delta, as_table, empty_delta, one_array
from sash.operators.evaluate import evaluate
from sash.operators.operator import Moment, Operator


class Projection(Operator):
    takes_early = True

    def __init__(self, inputs: Sequence[Field], outputs: Sequence[Named]) -> None:
        self.fields = tuple(Field(output.name, output.scalar.type) for output in outputs)
        self._scalars = tuple(output.scalar for output in outputs)
        self._inputs = tuple(field.name for field in inputs)

    def process(self, inputs: Sequence[Delta], moment: Moment) -> Delta:
        (delta,) = inputs
        if not len(delta):
            return empty_delta(self.fields)
        table = as_table(delta.columns, self._inputs, len(delta))
        return delta.with_columns(one_array(column) for column in evaluate(table, self._scalars))
