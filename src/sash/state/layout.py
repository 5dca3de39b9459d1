"""Where each measure stands in the matrices of integers and doubles that the kernels work on."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sash.lang.types import Type
from sash.plan.measures import Measure, MeasureKind
from sash.state import kernels

_OPERATIONS = {
    MeasureKind.ROWS: (kernels.ADD,),
    MeasureKind.NULLS: (kernels.ADD,),
    MeasureKind.SUM: (kernels.PAIR, kernels.ADD),
    MeasureKind.MIN: (kernels.MIN,),
    MeasureKind.MAX: (kernels.MAX,),
}


@dataclass(frozen=True, slots=True)
class Layout:
    """The columns of each measure: `ints[m]` or `floats[m]` is the first one of measure m, or −1."""

    measures: tuple[Measure, ...]
    ints: tuple[int, ...]
    floats: tuple[int, ...]
    operations: tuple[int, ...]
    float_columns: int

    @staticmethod
    def of(measures: tuple[Measure, ...]) -> Layout:
        ints: list[int] = []
        floats: list[int] = []
        operations: list[int] = []
        float_columns = 0
        for measure in measures:
            argument = measure.argument
            if measure.kind is MeasureKind.SUM and argument is not None and argument.type is Type.DOUBLE:
                ints.append(-1)
                floats.append(float_columns)
                float_columns += 2
            else:
                ints.append(len(operations))
                floats.append(-1)
                operations.extend(_OPERATIONS[measure.kind])
        return Layout(measures, tuple(ints), tuple(floats), tuple(operations), float_columns)

    @property
    def ops(self) -> npt.NDArray[np.int64]:
        return np.array(self.operations, dtype=np.int64)

    def identity(self) -> npt.NDArray[np.int64]:
        """The integer measures of no rows at all."""
        row = np.zeros(len(self.operations), dtype=np.int64)
        for column, operation in enumerate(self.operations):
            if operation == kernels.MIN:
                row[column] = kernels.INT64_MAX
            elif operation == kernels.MAX:
                row[column] = kernels.INT64_MIN
        return row

    def empty(self, rows: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]:
        """Matrices of `rows` rows that stand for nothing."""
        ints = np.tile(self.identity(), (rows, 1))
        return ints, np.zeros((rows, self.float_columns))

    def columns(self, measures: Iterable[Measure]) -> tuple[list[int], list[int]]:
        """All columns of integers and of doubles that some measures have, in their order."""
        ints: list[int] = []
        floats: list[int] = []
        for measure in measures:
            column, pair = self.column(measure.kind, measure.argument)
            if column < 0:
                floats += (pair, pair + 1)
            else:
                ints += range(column, column + len(_OPERATIONS[measure.kind]))
        return ints, floats

    def column(self, kind: MeasureKind, argument: object) -> tuple[int, int]:
        """First integer column and first float column of a measure (one of them −1)."""
        position = next(i for i, m in enumerate(self.measures) if m.kind is kind and m.argument == argument)
        return self.ints[position], self.floats[position]
