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
Found = tuple[Int64Array, list[Int64Array | pa.Array]]
"""Instants of rows, and their columns: Arrow's, or the bits of values that have 64."""
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
        places = tuple(place_of(self.stream, name) for name in self.columns)
        conditions = (*self.conditions, *more)
        found: list[Found] = []
        for rank, file in enumerate(files):
            positions = _positions(file, conditions)
            if positions is not None:
                if len(positions):
                    found.append(file.rows_at(since, positions, places))
                continue
            yield from self._united(rank - 1, found, places, files)
            found.clear()
            yield rank, *rows_later(file.kept, file.table, self.stream, since)
        yield from self._united(len(files), found, places, files)

    def _united(
        self, rank: int, found: Sequence[Found], places: tuple[int, ...], files: Sequence[OpenFile]
    ) -> Iterator[Piece]:
        if found:
            types = [column.type for column in files[0].columns(places)]
            parts = zip(*(rows for _, rows in found), strict=True)
            columns = [_joined(type_, own) for type_, own in zip(types, parts, strict=True)]
            ts = np.concatenate([ts for ts, _ in found])
            yield rank, ts, pa.Table.from_arrays(columns, names=list(self.columns))

    def count(self, files: Sequence[OpenFile]) -> int:
        """How many rows it gives of some files, about."""
        found = (_positions(file, self.conditions) if file.indexes else None for file in files)
        rows = (
            file.kept.rows if each is None else len(each) for file, each in zip(files, found, strict=True)
        )
        return sum(rows)


def _positions(file: OpenFile, conditions: Sequence[Placed]) -> Int64Array | None:
    """The rows that the best of some conditions leads to, in order of arrival; None: not to few."""
    best, fewest = None, file.kept.rows // _DENSE
    for place, condition in conditions:
        index = file.indexes.get(place)
        spans = None if index is None else index.spans(condition)
        if index is not None and spans is not None:
            count = sum([end - begin for begin, end in spans])
            if count <= fewest:
                best, fewest = (index, spans), count
    return None if best is None else best[0].find(best[1])


def _joined(type_: pa.DataType, parts: Sequence[Int64Array | pa.Array]) -> pa.Array:
    if all(isinstance(part, np.ndarray) for part in parts):
        return pa.array(np.concatenate(parts)).view(type_)
    return pa.concat_arrays(
        [pa.array(part).view(type_) if isinstance(part, np.ndarray) else part for part in parts]
    )


class _Column:
    """A column of a file, of which a few rows are taken at a time."""

    def __init__(self, column: pa.ChunkedArray) -> None:
        array = one_array(column)
        self._array = array
        self._words: pa.Array | None = None
        self._codes: npt.NDArray[Any] | None = None
        # Of values of 64 bits, those bits.
        self.numbers: Int64Array | None = None
        if pa.types.is_dictionary(array.type) and not array.null_count:
            self._words, self._codes = array.dictionary, array.indices.to_numpy()
        elif _is_of_64_bits(array.type) and not array.null_count:
            self.numbers = array.view(pa.int64()).to_numpy()

    @property
    def type(self) -> pa.DataType:
        """That of what is taken."""
        type_ = self._array.type
        return type_.value_type if pa.types.is_dictionary(type_) else type_

    def take(self, positions: Int64Array) -> pa.Array:
        if self._words is not None and self._codes is not None:
            return self._words.take(pa.array(self._codes[positions]))
        # Without the dictionaries of all rows, which somebody would have to put together.
        return plain(self._array.take(pa.array(positions)))


def _is_of_64_bits(type_: pa.DataType) -> bool:
    return bool(pa.types.is_int64(type_) or pa.types.is_float64(type_) or pa.types.is_timestamp(type_))


class OpenFile:
    """A file of kept rows with the indexes of some columns; they can be read when the run removes them."""

    def __init__(self, directory: Path, kept: KeptFile) -> None:
        self.kept = kept
        self.table = open_kept(directory / kept.name)
        self.ts: Int64Array = one_array(self.table.column(0)).to_numpy()
        self.indexes: dict[int, StillIndex] = {}
        self._columns: dict[int, _Column] = {}
        self._asked: dict[tuple[int, ...], list[_Column]] = {}
        self._directory = directory

    def columns(self, places: tuple[int, ...]) -> list[_Column]:
        """The columns with these numbers."""
        if places not in self._asked:
            for place in places:
                if place not in self._columns:
                    self._columns[place] = _Column(self.table.column(1 + place))
            self._asked[places] = [self._columns[place] for place in places]
        return self._asked[places]

    def rows_at(self, since: int, positions: Int64Array, places: tuple[int, ...]) -> Found:
        """The instants and some columns of the rows at positions, as far as they are after `since`."""
        ts = self.ts[positions]
        if self.kept.oldest <= since:
            later = ts > since
            positions, ts = positions[later], ts[later]
        return ts, [
            column.take(positions) if column.numbers is None else column.numbers[positions]
            for column in self.columns(places)
        ]

    def open_indexes(self, places: Iterable[int]) -> None:
        """Open the indexes of columns, as far as there are any."""
        for place in places:
            if place not in self.indexes:
                index = open_index(self._directory, self.kept, place)
                if index is not None:
                    self.indexes[place] = index
