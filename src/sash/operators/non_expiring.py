"""Rows that stay: those of an INTERNAL window, where other windows of the query are external (002, 3.3.2)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sash.lang.algebra import Field
from sash.operators.delta import NEVER, Delta
from sash.operators.operator import Moment, Operator


class NonExpiring(Operator):
    def __init__(self, fields: Sequence[Field]) -> None:
        self.fields = tuple(fields)

    def process(self, inputs: Sequence[Delta], moment: Moment) -> Delta:
        entering = inputs[0].entering
        return Delta(entering.ts, np.full(len(entering), NEVER, dtype=np.int64), entering.columns)
