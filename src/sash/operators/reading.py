"""What readers are told by an operator that answers several: their rows, without the columns of others."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sash.lang.algebra import Field
from sash.operators.delta import Delta
from sash.operators.operator import Moment, Operator


class Reading(Operator):
    """Rows whose column `tag` has the number of the `reader`; `places` are the columns that it reads."""

    def __init__(self, fields: Sequence[Field], places: Sequence[int], tag: int, reader: int) -> None:
        self.fields = tuple(fields)
        self.reader = reader
        self._places = tuple(places)
        self._tag = tag

    def process(self, inputs: Sequence[Delta], moment: Moment) -> Delta:
        (delta,) = inputs
        own = delta.filter(np.asarray(delta.columns[self._tag]) == self.reader) if len(delta) else delta
        return own.with_columns(own.columns[place] for place in self._places)


class Guests(Operator):
    """Rows of readers that are told elsewhere: those with numbers, in column `tag`, from `first` on."""

    def __init__(self, fields: Sequence[Field], tag: int, first: int) -> None:
        self.fields = tuple(fields)
        self._tag = tag
        self._first = first

    def process(self, inputs: Sequence[Delta], moment: Moment) -> Delta:
        (delta,) = inputs
        return delta.filter(np.asarray(delta.columns[self._tag]) >= self._first) if len(delta) else delta
