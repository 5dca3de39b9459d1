"""Kept rows by value: what a question says of a column is looked up in the index of each file.

The conditions of a scan that compare single columns with constants lead to the rows that can fulfil them;
of several the one with the fewest rows is taken. The scan looks at its whole condition all the same, so an
index may give too much, never too little. A file without an index, or of which most rows would be read, is
read as a whole.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sash.engine.ingest.retained_files import RetainedFile, open_index, open_rows, place_of, rows_later
from sash.indexes.immutable_index import ImmutableIndex
from sash.indexes.immutable_search import NOT_TOLD, Sought, search
from sash.lang.bound import StreamDefinition
from sash.operators.delta import one_array
from sash.plan.key_conditions import Condition, conditions_of
from sash.plan.run_plan import Scan
from sash.state.addresses import address_of
from sash.state.pieces import ColumnPiece, as_array, fetch, fetch_rows

Ints = npt.NDArray[np.int64]
Piece = tuple[int, Ints, pa.Table]
Placed = tuple[int, Condition]
"""A condition, and the number of the column that it is about."""
# What stands at the address of a file: how many rows it has, and the address of their instants; for each
# column that of the header of its index and that of its values, 0 for none.
_ROWS, _INSTANTS, _COLUMNS = range(3)
_INDEX, _VALUES, _SLOTS = range(3)


def _slot(place: int, what: int) -> int:
    return _COLUMNS + _SLOTS * place + what


@dataclass(frozen=True, slots=True)
class Probe:
    """What can be looked up for a scan, by the number of the column."""

    scan: Scan
    stream: StreamDefinition
    conditions: tuple[Placed, ...] = field(init=False)
    columns: tuple[str, ...] = field(init=False)
    _places: tuple[int, ...] = field(init=False)

    def __post_init__(self) -> None:
        found = ((place_of(self.stream, each.column), each) for each in conditions_of(self.scan.node))
        object.__setattr__(self, "conditions", tuple(found))
        lifetime = () if self.stream.lifetime is None else (self.stream.lifetime,)
        object.__setattr__(self, "columns", tuple(dict.fromkeys((*self.scan.columns, *lifetime))))
        object.__setattr__(self, "_places", tuple(place_of(self.stream, name) for name in self.columns))

    def rows(self, files: Sequence[OpenFile], since: int, more: Sequence[Placed] = ()) -> Iterator[Piece]:
        """The rows of some files that are later than `since`, at least those that the scan wants.

        Of those that do not fulfil `more`, too, none is wanted.
        Gives the rank of each piece; what is looked up in files that follow one another is one piece.
        """
        addresses = _addresses(files)
        counts, tuples = search(addresses, _sought(files, (*self.conditions, *more)))
        whole = np.flatnonzero(counts == NOT_TOLD).tolist() if counts.min(initial=0) == NOT_TOLD else ()
        done = 0
        for rank in (*whole, len(files)):
            here = tuples[slice(*np.searchsorted(tuples, (done << 32, rank << 32)))] if whole else tuples
            if len(here):
                yield rank - 1, *self._fetched(files, addresses, here, since)
            if rank < len(files):
                file = files[rank]
                yield rank, *rows_later(file.kept, file.table, self.stream, since)
            done = rank + 1

    def _fetched(
        self, files: Sequence[OpenFile], addresses: Ints, tuples: Ints, since: int
    ) -> tuple[Ints, pa.Table]:
        """The instants and the columns that are read of some tuples, those that are later than `since`."""
        slots = [_INSTANTS, *(_slot(place, _VALUES) for place in self._places)]
        tuples, (ts, *values), is_there = fetch_rows(addresses, slots, tuples, since)
        columns = [
            as_array(files[0].column(place).type, own)
            if is_numbers
            else fetch([file.column(place) for file in files], tuples)
            for place, own, is_numbers in zip(self._places, values, is_there[1:].tolist(), strict=True)
        ]
        return ts, pa.Table.from_arrays(columns, names=list(self.columns))

    def count(self, files: Sequence[OpenFile]) -> int:
        """How many rows it gives of some files, about."""
        addresses = _addresses(files)
        counts, _ = search(addresses, _sought(files, self.conditions))
        rows = np.array([file.kept.rows for file in files], dtype=np.int64)
        return int(np.where(counts == NOT_TOLD, rows, counts).sum())


def _addresses(files: Sequence[OpenFile]) -> Ints:
    return np.array([file.address for file in files], dtype=np.int64)


def _sought(files: Sequence[OpenFile], conditions: Iterable[Placed]) -> list[Sought]:
    """The conditions for which there is an index in some file."""
    sought = []
    for place, condition in conditions:
        index = next((file.indexes[place] for file in files if place in file.indexes), None)
        if index is not None:
            sought.append(Sought(_slot(place, _INDEX), index.type, condition))
    return sought


class OpenFile:
    """A file of kept rows with the indexes of some columns; they can be read when the run removes them."""

    def __init__(self, directory: Path, kept: RetainedFile) -> None:
        self.kept = kept
        self.table = open_rows(directory, kept)
        self._ts = one_array(self.table.column(0)).to_numpy()
        self.indexes: dict[int, ImmutableIndex] = {}
        self._columns: dict[int, ColumnPiece] = {}
        self._directory = directory
        # Questions share it; kernels are told addresses of what must not be replaced.
        self._lock = threading.Lock()
        # What kernels know of it.
        self._numbers = np.zeros(_slot(self.table.num_columns - 1, 0), dtype=np.int64)
        self._numbers[_ROWS], self._numbers[_INSTANTS] = kept.rows, address_of(self._ts)
        self.address = address_of(self._numbers)

    def column(self, place: int) -> ColumnPiece:
        """The column with this number."""
        with self._lock:
            if place not in self._columns:
                piece = self._columns[place] = ColumnPiece(one_array(self.table.column(1 + place)))
                self._numbers[_slot(place, _VALUES)] = piece.numbers
            return self._columns[place]

    def open_indexes(self, places: Iterable[int]) -> None:
        """Open the indexes of columns, as far as there are any."""
        with self._lock:
            for place in places:
                if place not in self.indexes:
                    index = open_index(self._directory, self.kept, place)
                    if index is not None:
                        self.indexes[place] = index
                        self._numbers[_slot(place, _INDEX)] = index.header
