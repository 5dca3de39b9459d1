"""Kept rows by value: what a question says of a column is looked up in the index of each file.

The conditions of a scan that compare single columns with constants lead to the rows that can fulfil them;
of several the one with the fewest rows is taken. The scan looks at its whole condition all the same, so an
index may give too much, never too little. A file without an index, or of which most rows would be read, is
read as a whole.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sash.indexes.still_index import StillIndex
from sash.lang.bound import StreamDefinition
from sash.operators.delta import one_array
from sash.plan.key_conditions import Condition, conditions_of
from sash.plan.run_plan import Scan
from sash.runtime.retained import KeptFile, open_index, open_kept, place_of, rows_later
from sash.state.groups import plain

Int64Array = npt.NDArray[np.int64]
Piece = tuple[int, Int64Array, pa.Table]
Placed = tuple[int, Condition]
"""A condition, and the number of the column that it is about."""
# Of a file more than one row in so many is not looked up: reading it all is faster.
_DENSE = 8


@dataclass(frozen=True, slots=True)
class Probe:
    """What can be looked up for a scan, by the number of the column."""

    scan: Scan
    stream: StreamDefinition
    conditions: tuple[Placed, ...] = field(init=False)
    columns: tuple[str, ...] = field(init=False)

    def __post_init__(self) -> None:
        found = ((place_of(self.stream, each.column), each) for each in conditions_of(self.scan.node))
        object.__setattr__(self, "conditions", tuple(found))
        lifetime = () if self.stream.lifetime is None else (self.stream.lifetime,)
        object.__setattr__(self, "columns", tuple(dict.fromkeys((*self.scan.columns, *lifetime))))

    def rows(self, files: Sequence[OpenFile], since: int, more: Sequence[Placed] = ()) -> Iterator[Piece]:
        """The rows of some files that are later than `since`, at least those that the scan wants.

        Of those that do not fulfil `more`, too, none is wanted.
        Gives the rank of each piece; what is looked up in files that follow one another is one piece.
        """
        places = [place_of(self.stream, name) for name in self.columns]
        found: list[tuple[Int64Array, list[Part]]] = []
        for rank, file in enumerate(files):
            positions = self._positions(file, more)
            if positions is not None:
                if len(positions):
                    found.append(rows_at(file, since, positions, places))
                continue
            yield from self._united(rank - 1, found)
            found.clear()
            yield rank, *rows_later(file.kept, file.table, self.stream, since)
        yield from self._united(len(files), found)

    def _united(self, rank: int, found: Sequence[tuple[Int64Array, list[Part]]]) -> Iterator[Piece]:
        if found:
            columns = [_joined(parts) for parts in zip(*(rows for _, rows in found), strict=True)]
            ts = np.concatenate([ts for ts, _ in found])
            yield rank, ts, pa.Table.from_arrays(columns, names=list(self.columns))

    def count(self, files: Sequence[OpenFile]) -> int:
        """How many rows it gives of some files, about."""
        found = (self._positions(file, ()) if file.indexes else None for file in files)
        rows = (
            file.kept.rows if each is None else len(each) for file, each in zip(files, found, strict=True)
        )
        return sum(rows)

    def _positions(self, file: OpenFile, more: Sequence[Placed]) -> Int64Array | None:
        best, fewest = None, file.kept.rows // _DENSE
        for place, condition in (*self.conditions, *more):
            index = file.indexes.get(place)
            spans = None if index is None else index.spans(condition)
            if index is not None and spans is not None:
                count = sum([end - begin for begin, end in spans])
                if count <= fewest:
                    best, fewest = (index, spans), count
        return None if best is None else best[0].find(best[1])


@dataclass(frozen=True, slots=True)
class Part:
    """Some rows of a column: Arrow's, or where they are numbers their 64 bits and their type."""

    type: pa.DataType
    values: Int64Array | pa.Array

    @property
    def array(self) -> pa.Array:
        return self.values if isinstance(self.values, pa.Array) else pa.array(self.values).view(self.type)


def _joined(parts: Sequence[Part]) -> pa.Array:
    numbers = [part.values for part in parts if isinstance(part.values, np.ndarray)]
    if len(numbers) == len(parts):
        return Part(parts[0].type, np.concatenate(numbers)).array
    return pa.concat_arrays([part.array for part in parts])


class _Column:
    """A column of a file, of which a few rows are taken at a time."""

    def __init__(self, column: pa.ChunkedArray) -> None:
        array = one_array(column)
        self._array = array
        self._words: pa.Array | None = None
        self._numbers: npt.NDArray[Any] | None = None
        if pa.types.is_dictionary(array.type) and not array.null_count:
            self._words, self._numbers = array.dictionary, array.indices.to_numpy()
        elif _is_of_64_bits(array.type) and not array.null_count:
            self._numbers = array.view(pa.int64()).to_numpy()

    def take(self, positions: Int64Array) -> Part:
        if self._numbers is None:
            # Without the dictionaries of all rows, which somebody would have to put together.
            taken = plain(self._array.take(pa.array(positions)))
            return Part(taken.type, taken)
        found = self._numbers[positions]
        if self._words is None:
            return Part(self._array.type, found)
        return Part(self._words.type, self._words.take(pa.array(found)))


def _is_of_64_bits(type_: pa.DataType) -> bool:
    return bool(pa.types.is_int64(type_) or pa.types.is_float64(type_) or pa.types.is_timestamp(type_))


def rows_at(
    file: OpenFile, since: int, positions: Int64Array, places: Sequence[int]
) -> tuple[Int64Array, list[Part]]:
    """The instants and some columns of the rows of a file at positions, as far as they are after `since`."""
    ts = file.ts[positions]
    if file.kept.oldest <= since:
        positions, ts = positions[ts > since], ts[ts > since]
    return ts, [file.column(place).take(positions) for place in places]


class OpenFile:
    """A file of kept rows with the indexes of some columns; they can be read when the run removes them."""

    def __init__(self, directory: Path, kept: KeptFile) -> None:
        self.kept = kept
        self.table = open_kept(directory / kept.name)
        self.ts: Int64Array = one_array(self.table.column(0)).to_numpy()
        self.indexes: dict[int, StillIndex] = {}
        self._columns: dict[int, _Column] = {}
        self._directory = directory

    def column(self, place: int) -> _Column:
        found = self._columns.get(place)
        if found is None:
            found = self._columns[place] = _Column(self.table.column(1 + place))
        return found

    def open_indexes(self, places: Iterable[int]) -> None:
        """Open the indexes of columns, as far as there are any."""
        for place in places:
            if place not in self.indexes:
                index = open_index(self._directory, self.kept, place)
                if index is not None:
                    self.indexes[place] = index
