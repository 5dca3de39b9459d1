"""What aggregates read: the values of a column, as numbers that kernels take, with the signs that count.

A NULL has the sign 0: nobody counts it. With DISTINCT a value counts when the first row with it comes and when
the last one goes; all other rows have the sign 0.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from sash.errors import InternalError
from sash.operators.aggregates.events import Events
from sash.operators.aggregates.values import column_array
from sash.operators.delta import Ints
from sash.operators.operator import State
from sash.state.fingerprints import Keys, null_mask, numbers_of
from sash.state.jit import kernel
from sash.state.keytable import KeyTable, grown
from sash.state.lexicon import Lexicon, Moved
from sash.state.ordering import double_to_ordinal, ordinal_to_double

NONE = np.zeros(0, dtype=np.int64)


@dataclass(frozen=True, slots=True)
class Given:
    """An argument for each event.

    `values` are integers, bits of doubles, or numbers of strings; `ordinals` compare as the values do, and
    `codes` are equal where the values are. `moved` says which ordinals are other ones since the last batch.
    """

    signs: Ints
    values: Ints
    ordinals: Ints
    codes: Ints
    moved: Moved | None = None


class Argument(ABC):
    type: pa.DataType

    @abstractmethod
    def read(self, events: Events, columns: Sequence[pa.Array]) -> Given:
        """The values of a batch; `columns` are in the order of the events."""

    def settle(self) -> None:
        """After a batch: forget what no row has any more."""

    def decode(self, ordinals: Ints) -> pa.Array:
        """Values from ordinals."""
        if pa.types.is_floating(self.type):
            return pa.array(ordinal_to_double(ordinals))
        return column_array(ordinals, None, self.type)

    def encode(self, values: pa.Array) -> tuple[Ints, Ints]:
        """Ordinals and codes of values that are there."""
        ordinals = _ordinals(values)
        return ordinals, ordinals

    def decode_codes(self, codes: Ints) -> pa.Array:
        return self.decode(codes)

    def snapshot(self, rows: Ints) -> State:
        """The state; `rows` is the row of each group's number in the table of groups."""
        return {}

    def restore(self, state: State, numbers: Ints) -> None:
        """`numbers` has the number of each group in the table of groups."""

    @property
    def entries(self) -> int:
        return 0

    @property
    def nbytes(self) -> int:
        return 0


class Rows(Argument):
    """No argument: COUNT(*) counts rows."""

    type = pa.int64()

    def read(self, events: Events, columns: Sequence[pa.Array]) -> Given:
        return Given(events.signs, NONE, NONE, NONE)


class Numbers(Argument):
    """A column that is not of strings."""

    def __init__(self, position: int, type_: pa.DataType) -> None:
        self.position = position
        self.type = type_

    def read(self, events: Events, columns: Sequence[pa.Array]) -> Given:
        column = columns[self.position]
        values = numbers_of(column).view(np.int64).copy()
        ordinals = _ordinals(column) if pa.types.is_floating(self.type) else values
        return Given(_counted(events.signs, column), values, ordinals, ordinals)


class Presence(Argument):
    """A column of which only matters whether it is NULL."""

    def __init__(self, position: int, type_: pa.DataType) -> None:
        self.position = position
        self.type = type_

    def read(self, events: Events, columns: Sequence[pa.Array]) -> Given:
        return Given(_counted(events.signs, columns[self.position]), NONE, NONE, NONE)


class Strings(Argument):
    """A column of strings. Their labels are the ordinals, their numbers the codes."""

    def __init__(self, position: int) -> None:
        self.position = position
        self.type = pa.string()
        self._lexicon = Lexicon()
        self._last: tuple[Ints, Ints] | None = None

    def read(self, events: Events, columns: Sequence[pa.Array]) -> Given:
        column = columns[self.position]
        numbers, moved = self._lexicon.enter(column)
        signs = _counted(events.signs, column)
        self._last = numbers, signs
        return Given(signs, numbers, self._lexicon.labels(numbers), numbers, moved)

    def settle(self) -> None:
        if self._last is not None:
            self._lexicon.use(*self._last)
            self._last = None

    def decode(self, ordinals: Ints) -> pa.Array:
        return self._lexicon.words_of(ordinals)

    def decode_codes(self, codes: Ints) -> pa.Array:
        return self._lexicon.words(codes)

    def encode(self, values: pa.Array) -> tuple[Ints, Ints]:
        numbers, _ = self._lexicon.enter(values)
        return self._lexicon.labels(numbers), numbers

    def snapshot(self, rows: Ints) -> State:
        return {"words": self._lexicon.table()}

    def restore(self, state: State, numbers: Ints) -> None:
        table = state["words"].combine_chunks()
        words = table.column("word")
        self._lexicon.load(
            words.chunk(0) if words.num_chunks else pa.array([], pa.string()),
            table.column("uses").to_numpy(),
        )

    @property
    def entries(self) -> int:
        return len(self._lexicon)

    @property
    def nbytes(self) -> int:
        return self._lexicon.nbytes


@kernel
def _toggle(entries: Ints, places: Ints, signs: Ints, counts: Ints, out: Ints, emptied: Ints) -> int:
    """The signs of values that come or go altogether; gives how many entries have no rows left, −1 if wrong."""
    for i in range(len(entries)):
        entry, place = entries[i], places[i]
        count = counts[entry] + signs[place]
        out[place] = 1 if signs[place] > 0 and count == 1 else 0
        if signs[place] < 0 and count == 0:
            out[place] = -1
        counts[entry] = count
    zeros = 0
    for i in range(len(entries)):
        entry = entries[i]
        if counts[entry] < 0:
            return -1
        if counts[entry] == 0:
            # Marked, so that it is found once; reset by the caller.
            counts[entry] = 1
            emptied[zeros] = entry
            zeros += 1
    return zeros


class Distinct(Argument):
    """Each value of another argument once per group: a count per group and value."""

    def __init__(self, argument: Argument) -> None:
        self.type = argument.type
        self._argument = argument
        self._keys = KeyTable()
        self._counts = np.zeros(self._keys.capacity, dtype=np.int64)

    def read(self, events: Events, columns: Sequence[pa.Array]) -> Given:
        raise InternalError("a distinct argument is read from another")

    def narrow(self, events: Events, given: Given) -> Given:
        """What is left of another argument's values."""
        places = np.flatnonzero(given.signs)
        groups = events.numbers[places]
        entries = self._enter(groups, given.codes[places])
        signs = np.zeros(len(events), dtype=np.int64)
        emptied = np.empty(len(places), dtype=np.int64)
        count = _toggle(entries, places, given.signs, self._counts, signs, emptied)
        if count < 0:
            raise InternalError("a negative tuple takes back a value that is not there")
        self._counts[emptied[:count]] = 0
        self._keys.release(emptied[:count])
        return Given(signs, given.values, given.ordinals, given.codes, given.moved)

    def _enter(self, groups: Ints, codes: Ints) -> Ints:
        entries = self._keys.intern(Keys(groups.view(np.uint64), codes.view(np.uint64)))
        self._counts = grown(self._counts, self._keys.capacity, 0)
        return entries

    def snapshot(self, rows: Ints) -> State:
        entries = np.flatnonzero(self._counts)
        keys = self._keys.keys_of(entries)
        return {
            "values": pa.table(
                {
                    "group": rows[keys.first.view(np.int64)],
                    "value": self._argument.decode_codes(keys.second.view(np.int64)),
                    "count": self._counts[entries],
                }
            )
        }

    def restore(self, state: State, numbers: Ints) -> None:
        groups, values, counts = value_table(state["values"])
        if len(values):
            _, codes = self._argument.encode(values)
            self._counts[self._enter(numbers[groups], codes)] = counts

    @property
    def entries(self) -> int:
        return len(self._keys)

    @property
    def nbytes(self) -> int:
        return self._keys.nbytes + self._counts.nbytes


def value_table(table: pa.Table) -> tuple[Ints, pa.Array, Ints]:
    """A table of group, value and count."""
    values = table.column("value").combine_chunks()
    if isinstance(values, pa.ChunkedArray):
        values = values.chunk(0) if values.num_chunks else pa.array([], values.type)
    return table.column("group").to_numpy().copy(), values, table.column("count").to_numpy().copy()


def _counted(signs: Ints, column: pa.Array) -> Ints:
    nulls = null_mask(column)
    return signs if nulls is None else np.where(nulls, 0, signs)


def _ordinals(column: pa.Array) -> Ints:
    numbers = numbers_of(column)
    if numbers.dtype == np.float64:
        return double_to_ordinal(numbers.view(np.float64))
    return numbers.view(np.int64).copy()
