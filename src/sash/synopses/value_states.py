"""Answers of aggregates that need values, as totals beside the measures: two integer columns a call.

The columns of a call follow those of the layout: 64 bits of its value, and whether it is there. FREQUENT is
answered as its window moves (`listed`), the others when the states of a batch are known (`fill`), and only
for those that somebody wants to see. Texts are numbers in a list that `settle` makes one of different texts,
and from which `forget` drops those that no state has any more.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterable
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sash.lang.bound import AggregateCall, Scalar
from sash.lang.types import Type
from sash.plan.measures import Kept, algebra_of, frequent_of
from sash.plan.sketches import Sketched, sketched
from sash.state.groups import Dictionary
from sash.state.layout import Layout
from sash.synopses.b_int_qnt import Tallies
from sash.synopses.finalize import Values
from sash.synopses.frequent_items import FrequentItems
from sash.synopses.value_calls import QUANTILES, TOPS, answer, quantile, top_texts
from sash.synopses.value_counts import ValueCounts

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

# Texts are looked through once there are so many.
_LEAST_TO_COMPACT = 1024


def _source(call: AggregateCall) -> Scalar | Sketched:
    """What a call is answered from."""
    assert call.argument is not None
    return sketched(call) or call.argument


class _Valued(Protocol):
    """A synopsis with values."""

    layout: Layout
    values: dict[Scalar | Sketched, ValueCounts]
    frequent: dict[AggregateCall, FrequentItems]


class ValueStates:
    """The calls of the queries of one window that are not made of measures; others are none of them."""

    def __init__(self, synopsis: _Valued, range_: int, calls: Iterable[AggregateCall]) -> None:
        self._synopsis = synopsis
        self._first = len(synopsis.layout.operations)
        needing = dict.fromkeys(call for call in calls if algebra_of(call).kept is not Kept.MEASURES)
        self._frequent = {call: synopsis.frequent[call] for call in frequent_of(needing)}
        self._source = {call: _source(call) for call in needing if call not in self._frequent}
        ordered = (*self._frequent, *self._source)
        self._columns = {call: self._first + 2 * number for number, call in enumerate(ordered)}
        self._windows = {source: synopsis.values[source].window(range_) for source in self._source.values()}
        self._texts = Dictionary(pa.string())
        self._new: list[pa.Array] = []
        self._size = 0

    def __contains__(self, call: AggregateCall) -> bool:
        return call in self._columns

    def have(self, other: ValueStates) -> bool:
        """Whether all calls of another window's are among these."""
        return self._columns.keys() >= other._columns.keys()

    def empty(self, rows: int) -> tuple[Ints, Floats]:
        """States that stand for nothing."""
        ints, floats = self._synopsis.layout.empty(rows)
        beside = np.zeros((rows, 2 * len(self._columns)), dtype=np.int64)
        return np.concatenate([ints, beside], axis=1), floats

    @property
    def is_filled(self) -> bool:
        """Whether there are calls that are answered when states are known."""
        return bool(self._source)

    def fills(self, call: AggregateCall) -> bool:
        return call in self._source

    def advance(self, boundary: int) -> None:
        for items in self._frequent.values():
            items.advance(boundary)

    def listed(self, ints: Ints, slots: Ints) -> Ints:
        """The measures of some slots, with FREQUENT beside them and room for the other calls."""
        if not self._columns:
            return ints
        rows = np.zeros((len(ints), self._first + 2 * len(self._columns)), dtype=np.int64)
        rows[:, : self._first] = ints
        for call, items in self._frequent.items():
            texts = items.answer(slots).texts()
            self._put(rows, np.arange(len(slots)), call, texts, np.asarray(texts.is_valid()))
        return rows

    def fill(self, ints: Ints, slots: Ints, instants: Ints, rows: Ints, *, some: bool) -> None:
        """Answer the other calls in some rows of states, which are in order of instant and slot.

        `some`: only few slots are asked for, as a rule.
        """
        if not len(rows) or not self._source:
            return
        if some:
            wanted = np.unique(slots[rows])
            for window in self._windows.values():
                window.follow(wanted)
        starts = np.flatnonzero(np.diff(instants[rows], prepend=instants[rows[0]] - 1))
        tops: dict[AggregateCall, list[Tallies]] = defaultdict(list)
        for begin, end in itertools.pairwise((*starts.tolist(), len(rows))):
            part = rows[begin:end]
            self._answer(ints, part, slots[part], int(instants[part[0]]), tops)
        for call, found in tops.items():
            # Texts are made of all of them together.
            self._put(ints, rows, call, *top_texts(found, self._synopsis.values[self._source[call]]))

    def _answer(
        self,
        ints: Ints,
        rows: Ints,
        slots: Ints,
        boundary: int,
        tops: dict[AggregateCall, list[Tallies]],
    ) -> None:
        tallies: dict[Scalar | Sketched, Tallies] = {}
        for window in self._windows.values():
            window.advance(boundary)
        for call, source in self._source.items():
            window, counts = self._windows[source], self._synopsis.values[source]
            if call.function in QUANTILES and not call.is_distinct:
                self._put(ints, rows, call, *quantile(call, window, slots, counts))
                continue
            if source not in tallies:
                tallies[source] = window.tallies(slots)
            if call.function in TOPS:
                tops[call].append(tallies[source].top(int(call.parameter or 1)))
            else:
                self._put(ints, rows, call, *answer(call, tallies[source], counts))

    def _put(
        self, ints: Ints, rows: Ints, call: AggregateCall, bits: Ints | pa.Array, valid: npt.NDArray[np.bool_]
    ) -> None:
        column = self._columns[call]
        ints[rows, column] = self._number(bits) if isinstance(bits, pa.Array) else bits
        ints[rows, column + 1] = valid

    def _number(self, texts: pa.Array) -> Ints:
        first = self._size
        self._new.append(texts)
        self._size += len(texts)
        return np.arange(first, self._size)

    def settle(self, matrices: Iterable[Ints]) -> None:
        """Make equal texts have equal numbers in all states that there are."""
        if self._size == len(self._texts.values):
            return
        given = pa.concat_arrays([self._texts.values, *self._new]).fill_null("")
        encoded = given.dictionary_encode()
        moved = np.asarray(encoded.indices).astype(np.int64)
        self._replace(encoded.dictionary, moved, matrices)

    def forget(self, before: Ints) -> None:
        """Drop texts that no state has; `before` are all states that there are."""
        if self._size < max(_LEAST_TO_COMPACT, 2 * len(before)):
            return
        used = np.zeros(self._size, dtype=np.bool_)
        for column in self._text_columns():
            used[before[:, column]] = True
        moved = np.cumsum(used) - 1
        self._replace(self._texts.values.filter(pa.array(used)), moved, [before])

    def _replace(self, texts: pa.Array, moved: Ints, matrices: Iterable[Ints]) -> None:
        self._texts.values = texts
        self._new = []
        self._size = len(texts)
        for matrix in matrices:
            for column in self._text_columns():
                matrix[:, column] = moved[matrix[:, column]]

    def _text_columns(self) -> list[int]:
        return [column for call, column in self._columns.items() if call.type is Type.STRING]

    def values(self, call: AggregateCall, ints: Ints) -> Values:
        """The value of a call for each of some states."""
        column = self._columns[call]
        bits = np.ascontiguousarray(ints[:, column])
        return Values(call.type, bits, ints[:, column + 1] != 0, self._texts)
