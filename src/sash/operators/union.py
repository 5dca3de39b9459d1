"""Merge-union: the changes of both inputs. It keeps nothing (002, 2.2.1)."""

from __future__ import annotations

from collections.abc import Sequence

from sash.lang.algebra import Field
from sash.operators.delta import Delta, concat
from sash.operators.operator import Moment, Operator


class MergeUnion(Operator):
    def __init__(self, fields: Sequence[Field]) -> None:
        self.fields = tuple(fields)

    def process(self, inputs: Sequence[Delta], moment: Moment) -> Delta:
        return concat(inputs, self.fields)
