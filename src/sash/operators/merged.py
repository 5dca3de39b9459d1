"""The answers of partitions in one order: by time, at each instant negative tuples first.

Where rows come in order of arrival, all come from one partition and keep it.
"""

from __future__ import annotations

from collections.abc import Sequence

from sash.lang.algebra import Field
from sash.operators.delta import Delta
from sash.operators.net import in_order
from sash.operators.operator import Moment, Operator


class Merged(Operator):
    def __init__(self, fields: Sequence[Field]) -> None:
        self.fields = tuple(fields)

    def process(self, inputs: Sequence[Delta], moment: Moment) -> Delta:
        (delta,) = inputs
        return in_order(delta)
