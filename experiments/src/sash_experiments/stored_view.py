"""A result that is kept and looked at, and told to nobody: the materialised views of 002, section 3.6.

A view's change log needs a negative tuple for every row that leaves, whatever the strategy, so it hides a
part of what UPA and DIRECT save. Here rows that expire as foreseen are only removed. How they are found is
the buffer's matter; a row that a negative tuple takes back is found by its values.

`CountingScanList` and `CountingCalendarQueue` also count the rows that they look at to find what has expired,
while they are asked to, for that takes longer than the search itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

import numpy as np

from sash.lang.algebra import Field
from sash.operators.delta import Delta, Ints, empty_delta
from sash.operators.held import HeldRows
from sash.operators.operator import Moment, Operator, State, arrow_types
from sash.state.expirations import _ABSENT, _BEFORE, _WHEN, CalendarQueue, Expirations, ScanList


class StoredView(Operator):
    """`may_be_negative`: whether rows are taken back by negative tuples."""

    def __init__(self, fields: Sequence[Field], buffer: Expirations, *, may_be_negative: bool) -> None:
        self.fields = tuple(fields)
        self._held = HeldRows(arrow_types(fields), buffer, by_row=may_be_negative)

    def process(self, inputs: Sequence[Delta], moment: Moment) -> Delta:
        (delta,) = inputs
        self._held.enter(delta.entering)
        leaving = delta.leaving
        if leaving is not None:
            self._held.remove(self._held.match(leaving), is_due=False)
        self._held.remove(self._held.due(moment.through), is_due=True)
        return empty_delta(self.fields)

    def snapshot(self) -> State:
        return {"rows": self._held.table()}

    def restore(self, state: State) -> None:
        self._held.load(state["rows"])

    @property
    def state_rows(self) -> int:
        return len(self._held.rows)

    @property
    def state_bytes(self) -> int:
        return self._held.nbytes


@runtime_checkable
class Counting(Protocol):
    """A buffer that counts what it looks at while `counts` is set."""

    counts: bool
    looked_at: int


class CountingScanList(ScanList):
    def __init__(self) -> None:
        super().__init__()
        self.counts = False
        self.looked_at = 0

    def due(self, through: int) -> Ints:
        if self.counts:
            self.looked_at += self._size
        return super().due(through)


class CountingCalendarQueue(CalendarQueue):
    def __init__(self, pages: int | None = None) -> None:
        super().__init__(pages)
        self.counts = False
        self.looked_at = 0

    def due(self, through: int) -> Ints:
        if self.counts and self._since is not None and through >= self._since:
            first, last = self._since // self._width, through // self._width
            turned = np.arange(max(first, last - self.pages + 1), last + 1) % self.pages
            live = self._entries[self._entries[:, _BEFORE] != _ABSENT]
            page = (live[:, _WHEN] // self._width) % self.pages
            self.looked_at += int(np.isin(page, turned).sum())
        return super().due(through)
