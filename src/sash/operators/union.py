"""Merge-union: the changes of both inputs. It keeps nothing (002, 2.2.1)."""

from __future__ import annotations

from collections.abc import Sequence

from sash.lang.algebra import Field
from sash.operators.delta import Delta, concat
from sash.operators.operator import Moment, Operator


class MergeUnion(Operator):
    """`of_streams`: rows come in the order of time, those of one instant in that of the inputs."""

    takes_early = True

    def __init__(self, fields: Sequence[Field], *, of_streams: bool = False) -> None:
        self.fields = tuple(fields)
        self._of_streams = of_streams

    def process(self, inputs: Sequence[Delta], moment: Moment) -> Delta:
        changes = concat(inputs, self.fields)
        return changes.sorted() if self._of_streams else changes
