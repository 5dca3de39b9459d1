"""Answers of aggregates that need values, as totals beside the measures: two integer columns a call.

The columns of a call follow those of the layout: 64 bits of its value, and whether it is there. Texts are
numbers in a list that `settle` makes one of different texts, and from which `forget` drops those that no
state has any more. Lists become texts only then, those of all boundaries together.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sash.lang.bound import AggregateCall, Scalar
from sash.lang.types import Type
from sash.plan.measures import Kept, algebra_of, frequent_of
from sash.plan.sketches import Sketched, sketched
from sash.state.groups import Dictionary
from sash.state.layout import Layout
from sash.synopses.b_int_qnt import FEW, Tallies
from sash.synopses.finalize import Values
from sash.synopses.frequent_items import FrequentItems
from sash.synopses.value_calls import (
    QUANTILES,
    TOPS,
    answer,
    answer_from_index,
    asked_of,
    decoded,
    list_texts,
    quantile,
)
from sash.synopses.value_counts import ValueCounts
from sash.synopses.value_window import Asked, ValueWindow

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


class _Lists(NamedTuple):
    """Lists of values that are not written yet, and the place of those values."""

    source: int
    lists: Tallies


class ValueStates:
    """The calls of the queries of one window that are not made of measures; others are none of them."""

    def __init__(self, synopsis: _Valued, window: tuple[int, ...], calls: Iterable[AggregateCall]) -> None:
        """`window`: its length, and who moves it on."""
        self._synopsis = synopsis
        self._window = window
        # Whether groups that are not asked for need not be followed.
        self.follows_some = False
        self._first = len(synopsis.layout.operations)
        needing = dict.fromkeys(call for call in calls if algebra_of(call).kept is not Kept.MEASURES)
        self._columns = {call: self._first + 2 * number for number, call in enumerate(needing)}
        frequent = {call: synopsis.frequent[call] for call in frequent_of(needing)}
        self._frequent = list(frequent.values())
        sources = list(dict.fromkeys(_source(call) for call in needing if call not in frequent))
        self._counts = [synopsis.values[source] for source in sources]
        # What answers each call, by its place: calls are not looked up at every boundary.
        self._answering = [
            (call, frequent[call]) if call in frequent else (call, sources.index(_source(call)))
            for call in needing
        ]
        self._texts = Dictionary(pa.string())
        self._new: list[pa.Array | _Lists] = []
        self._size = 0

    def read(self, window: tuple[int, ...]) -> None:
        """Go on with a window that is moved on by somebody else."""
        self._window = window

    def __contains__(self, call: AggregateCall) -> bool:
        return call in self._columns

    @property
    def is_empty(self) -> bool:
        return not self._columns

    def have(self, other: ValueStates) -> bool:
        """Whether all calls of another window's are among these."""
        return self._columns.keys() >= other._columns.keys()

    def empty(self, rows: int) -> tuple[Ints, Floats]:
        """States that stand for nothing."""
        ints, floats = self._synopsis.layout.empty(rows)
        beside = np.zeros((rows, 2 * len(self._columns)), dtype=np.int64)
        return np.concatenate([ints, beside], axis=1), floats

    @property
    def _key(self) -> tuple[int, ...]:
        return (*self._window, int(self.follows_some))

    def advance(self, boundary: int) -> None:
        key = self._key
        for counts in self._counts:
            counts.window(key).advance(boundary)
        for items in self._frequent:
            items.advance(boundary)

    def leave(self) -> None:
        """Its window is its own, and nobody asks for it any more."""
        for counts in self._counts:
            counts.windows.pop(self._key, None)

    @property
    def strides(self) -> bool:
        """Whether `beside_on_the_way` answers its calls."""
        key = self._key
        return not self._frequent and all(
            isinstance(source, int)
            and isinstance(self._counts[source].window(key), ValueWindow)
            and not call.is_distinct
            and (call.function in QUANTILES or (call.function in TOPS and call.limit <= FEW))
            for call, source in self._answering
        )

    def beside(self, ints: Ints, slots: Ints) -> Ints:
        """The measures of some slots, which ascend, with their values beside them."""
        if not self._columns:
            return ints
        states = np.empty((len(slots), self._first + 2 * len(self._columns)), dtype=np.int64)
        states[:, : self._first] = ints
        key = self._key
        windows = [counts.window(key) for counts in self._counts]
        tallies: dict[int, Tallies] = {}
        for window in windows:
            if self.follows_some and isinstance(window, ValueWindow):
                window.follow(slots)
        for column, (call, source) in zip(self._columns.values(), self._answering, strict=True):
            if isinstance(source, FrequentItems):
                bits = source.answer(slots).texts()
                valid = np.asarray(bits.is_valid())
            else:
                counts, window = self._counts[source], windows[source]
                if not isinstance(window, ValueWindow):
                    bits, valid = answer_from_index(call, window, slots, counts)
                elif call.function in QUANTILES and not call.is_distinct:
                    bits, valid = quantile(call, window, slots, counts)
                elif call.function in TOPS and not call.is_distinct:
                    lists = window.top(slots, call.limit)
                    bits, valid = self._number(_Lists(source, lists), len(slots)), lists.distinct > 0
                else:
                    if source not in tallies:
                        tallies[source] = window.tallies(slots)
                    bits, valid = answer(call, tallies[source], counts)
            if isinstance(bits, pa.Array):
                bits = self._number(bits, len(bits))
            states[:, column], states[:, column + 1] = bits, valid
        return states

    def _number(self, texts: pa.Array | _Lists, size: int) -> Ints:
        first = self._size
        self._new.append(texts)
        self._size += size
        return np.arange(first, self._size)

    def _written(self) -> list[pa.Array]:
        """All texts that are new, in order."""
        texts = list(self._new)
        by_source: dict[int, list[int]] = defaultdict(list)
        for i, new in enumerate(self._new):
            if isinstance(new, _Lists):
                by_source[new.source].append(i)
        for source, places in by_source.items():
            lists = [self._new[i].lists for i in places]
            written = list_texts(Tallies.concatenated(lists), self._counts[source])
            first = 0
            for i, each in zip(places, lists, strict=True):
                texts[i] = written.slice(first, len(each.slots))
                first += len(each.slots)
        return texts

    def settle(self, matrices: Iterable[Ints]) -> None:
        """Make equal texts have equal numbers in all states that there are."""
        if self._size == len(self._texts.values):
            return
        given = pa.concat_arrays([self._texts.values, *self._written()]).fill_null("")
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

    def column(self, call: AggregateCall) -> int:
        """Where the states of a call are: its value, and whether that is there."""
        return self._columns[call]

    @property
    def calls(self) -> tuple[AggregateCall, ...]:
        """Its calls, in the order of their columns."""
        return tuple(self._columns)

    @property
    def texts(self) -> pa.Array:
        """The texts that states have the numbers of."""
        return self._texts.values


class Rows(NamedTuple):
    """Rows of states, in order of boundary: their slots, and which boundary each is of, by number."""

    slots: Ints
    at: Ints


class _Piece(NamedTuple):
    """A call that rows ask for, from the source of that number, and the matrix in which it has a column."""

    states: ValueStates
    rows: Rows
    call: AggregateCall
    source: int
    matrix: Ints
    column: int


def beside_on_the_way(those: Iterable[tuple[ValueStates, Rows, Ints]], boundaries: Ints) -> list[Ints]:
    """The measures of rows at boundaries, which ascend, with the values beside them.

    All are of one window, which moves from boundary to boundary once; all of them `stride`.
    """
    given = []
    windows: dict[int, tuple[ValueWindow, list[_Piece]]] = {}
    for states, rows, ints in those:
        matrix = ints
        if states._columns:
            matrix = np.empty((len(ints), states._first + 2 * len(states._columns)), dtype=np.int64)
            matrix[:, : states._first] = ints
        given.append(matrix)
        for column, (call, source) in zip(states._columns.values(), states._answering, strict=True):
            assert isinstance(source, int)
            window = states._counts[source].window(states._key)
            assert isinstance(window, ValueWindow)
            _, pieces = windows.setdefault(id(window), (window, []))
            pieces.append(_Piece(states, rows, call, source, matrix, column))
    for window, pieces in windows.values():
        _answer_all(window, pieces, boundaries)
    return given


def _answer_all(window: ValueWindow, pieces: Sequence[_Piece], boundaries: Ints) -> None:
    """Let a window answer all that is asked of it."""
    asks = list(dict.fromkeys(asked_of(piece.call) for piece in pieces))
    asking = np.concatenate([np.full(len(p.rows.slots), asks.index(asked_of(p.call))) for p in pieces])
    at = np.concatenate([piece.rows.at for piece in pieces])
    slots = np.concatenate([piece.rows.slots for piece in pieces])
    order = np.lexsort((asking, at))
    ends = np.searchsorted(at[order], np.arange(len(boundaries)), side="right")
    asked = Asked(ends, slots[order], asking[order], np.array(asks, dtype=np.int64))
    found = window.answer(boundaries, asked, follows_some=pieces[0].states.follows_some)
    places = np.empty_like(order)
    places[order] = np.arange(len(order))
    begin = 0
    for states, rows, call, source, matrix, column in pieces:
        own = places[begin : begin + len(rows.slots)]
        begin += len(own)
        bits: Ints | pa.Array
        if call.function in QUANTILES:
            bits, valid = decoded(found.values[own], found.totals[own] > 0, states._counts[source])
            if isinstance(bits, pa.Array):
                bits = states._number(bits, len(bits))
        else:
            lists = found.lists.take(own)
            bits, valid = states._number(_Lists(source, lists), len(own)), lists.distinct > 0
        matrix[:, column], matrix[:, column + 1] = bits, valid


def values_of(call: AggregateCall, windows: Sequence[ValueStates], ints: Ints, owners: Ints) -> Values:
    """The value of a call for each of some states, of several windows with the same calls."""
    column = windows[0].column(call)
    bits, valid = ints[:, column].copy(), ints[:, column + 1] != 0
    words = None
    if call.type is Type.STRING:
        words = Dictionary(pa.string())
        words.values = pa.concat_arrays([window.texts for window in windows])
        if len(windows) > 1:
            sizes = np.array([len(window.texts) for window in windows])
            bits += (np.cumsum(sizes) - sizes)[owners]
    return Values(call.type, bits, valid, words)
