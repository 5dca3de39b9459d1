"""A delta: the changes of a relation between two moments, as operators give them to each other.

A row enters at `ts` and is foreseen to leave at `exp`: it lives on [ts, exp). A row that leaves as foreseen
does so in silence; `NEVER` foresees nothing. A negative tuple (`sign` −1) takes back, at `ts`, one row that
is there with the same values and the same `exp` (002, sections 2.3.2 and 3.2). No row enters and leaves at
one instant. Changes are in no particular order unless an operator says so; what holds at an instant is the
sum of all changes up to it, so the order within one does not matter. Windows, selections, projections and
unions keep it all the same: it is the order of arrival, for those who ask for it (`plan/row_order.py`).

Batches end between instants: all changes of one instant are in one delta.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sash.lang.algebra import Field
from sash.lang.types import Type

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Signs = npt.NDArray[np.int8]
Bools = npt.NDArray[np.bool_]

NEVER = int(np.iinfo(np.int64).max)
FAR = NEVER // 2
"""No instant is as late as this: an end after it only tells equal rows apart."""
ALWAYS = int(np.iinfo(np.int64).min)
"""The timestamp of what was there before the first instant: the rows of relations."""

ARROW_TYPES = {
    Type.BIGINT: pa.int64(),
    Type.DOUBLE: pa.float64(),
    Type.STRING: pa.string(),
    Type.BOOLEAN: pa.bool_(),
    Type.TIMESTAMP: pa.timestamp("us"),
}
ANSWER_TYPES = {**ARROW_TYPES, Type.TIMESTAMP: pa.timestamp("us", tz="UTC")}
"""The types that answers are given in: TIMESTAMP is UTC, and says so to whoever reads it."""


def zoned(column: pa.Array) -> pa.Array:
    """A column of an answer: inside, a TIMESTAMP has no time zone, since DuckDB would compute with it."""
    return column.cast(ANSWER_TYPES[Type.TIMESTAMP]) if column.type == ARROW_TYPES[Type.TIMESTAMP] else column


@dataclass(frozen=True, slots=True)
class Delta:
    """Columns stand in the order of the node's fields. `sign` is None where all rows enter."""

    ts: Ints
    exp: Ints
    columns: tuple[pa.Array, ...]
    sign: Signs | None = None

    def __len__(self) -> int:
        return len(self.ts)

    def take(self, positions: Ints) -> Delta:
        indices = pa.array(positions)
        return Delta(
            self.ts[positions],
            self.exp[positions],
            tuple(column.take(indices) for column in self.columns),
            None if self.sign is None else self.sign[positions],
        )

    def slice(self, start: int, stop: int) -> Delta:
        """The changes in some places, not copied."""
        if start == 0 and stop == len(self):
            return self
        columns = tuple(column.slice(start, stop - start) for column in self.columns)
        sign = None if self.sign is None else self.sign[start:stop]
        return Delta(self.ts[start:stop], self.exp[start:stop], columns, sign)

    @property
    def nbytes(self) -> int:
        return 16 * len(self) + sum(int(column.nbytes) for column in self.columns)

    def filter(self, mask: Bools) -> Delta:
        return self if mask.all() else self.take(np.flatnonzero(mask))

    def with_columns(self, columns: Iterable[pa.Array]) -> Delta:
        """The same changes of other rows, in the same order."""
        return Delta(self.ts, self.exp, tuple(columns), self.sign)

    @property
    def entering(self) -> Delta:
        """The rows that enter."""
        return self if self.sign is None else self.filter(self.sign > 0)

    @property
    def leaving(self) -> Delta | None:
        """The negative tuples; None if there are none."""
        if self.sign is None:
            return None
        negative = np.flatnonzero(self.sign < 0)
        return self.take(negative) if len(negative) else None

    def signs(self) -> Signs:
        return np.ones(len(self), dtype=np.int8) if self.sign is None else self.sign

    def sorted(self) -> Delta:
        """In the order of time; what was in order within an instant stays so."""
        if len(self) < 2 or bool((self.ts[1:] >= self.ts[:-1]).all()):
            return self
        return self.take(np.argsort(self.ts, kind="stable"))


_NO_INSTANTS = np.zeros(0, dtype=np.int64)
_NO_VALUES = {type_: pa.nulls(0, arrow) for type_, arrow in ARROW_TYPES.items()}


def empty_delta(fields: Sequence[Field]) -> Delta:
    return Delta(_NO_INSTANTS, _NO_INSTANTS, tuple(_NO_VALUES[field.type] for field in fields))


def concat(deltas: Sequence[Delta], fields: Sequence[Field]) -> Delta:
    """All changes of some deltas over the same fields."""
    filled = [delta for delta in deltas if len(delta)]
    if not filled:
        return deltas[0] if deltas else empty_delta(fields)
    if len(filled) == 1:
        return filled[0]
    has_signs = any(delta.sign is not None for delta in filled)
    return Delta(
        np.concatenate([delta.ts for delta in filled]),
        np.concatenate([delta.exp for delta in filled]),
        tuple(pa.concat_arrays([d.columns[i] for d in filled]) for i in range(len(fields))),
        np.concatenate([delta.signs() for delta in filled]) if has_signs else None,
    )


def as_table(columns: Sequence[pa.Array], names: Sequence[str], rows: int) -> pa.Table:
    """Columns for the evaluator; a table without columns would not know its length."""
    if not names:
        return pa.table({"·": pa.nulls(rows, pa.int8())})
    return pa.Table.from_arrays(list(columns), names=list(names))


def one_array(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    """A column as one array without an offset surprise."""
    if isinstance(column, pa.ChunkedArray):
        if column.num_chunks == 1:
            return column.chunk(0)
        return column.combine_chunks()
    return column
