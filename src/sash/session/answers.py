"""An answer: what a query says at one instant, and how a table of many is cut into them.

Cost: one comparison over the column of time for each table; an answer is a slice, no row is copied.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sash.engine.observe.report import AnswerRecord
from sash.operators.bounds import told_bounds

if TYPE_CHECKING:
    import pandas as pd

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Answer:
    """What a query says at the instant `at`: an integer in the stream's own unit, or a datetime in UTC.

    `rows` has the selected columns. Those of a view are preceded by `op`: the row came (`+`) or went (`-`).
    `late` is how many seconds after the instant it was committed, where the streams are live. `record` is
    what it says of itself: whether its windows are whole, whether boundaries were skipped before it, and how
    far off approximate columns can be. With `record.is_progress` it has no rows: all answers up to the
    instant have been given.
    """

    at: Any
    rows: pa.Table
    late: float | None = None
    record: AnswerRecord | None = None

    @property
    def is_complete(self) -> bool:
        """Whether its windows lack no rows."""
        return self.record is None or self.record.is_complete

    @property
    def is_progress(self) -> bool:
        """Whether it only tells how far the query has been answered."""
        return self.record is not None and self.record.is_progress

    def to_pandas(self) -> pd.DataFrame:
        """The rows as a pandas frame."""
        return self.rows.to_pandas()

    def __repr__(self) -> str:
        if self.is_progress:
            return f"<answered up to {self.at}>"
        shown = f"{self.rows.num_rows} row{'' if self.rows.num_rows == 1 else 's'}"
        shown = shown if self.is_complete else f"{shown}, over a part of its window,"
        return f"<answer at {self.at}: {shown} of {', '.join(self.rows.column_names)}>"


class Cut:
    """The answers of one table, given out one after the other."""

    def __init__(
        self,
        table: pa.Table,
        committed: float | None = None,
        whole_from: int | None = None,
        *,
        is_partial: bool = False,
        skipped_after: int | None = None,
    ) -> None:
        """`committed`: when it was, in seconds of the clock by which the instants go, if they go by one.

        `is_partial`: the query answers before its windows are whole, which they are from `whole_from` on.
        `skipped_after`: boundaries were passed over between this instant and the first answer.
        """
        self._table = table
        self._whole_from = whole_from
        self._is_partial = is_partial
        self._skipped_after = skipped_after
        self._bounds = told_bounds(table.schema)
        self._instants = table.column("ts").cast(pa.int64())
        self._committed = committed
        self._starts = _starts(table.column("ts"))
        self._next = 0

    def __len__(self) -> int:
        """How many are left."""
        return len(self._starts) - 1 - self._next

    def take(self) -> Answer:
        """The next answer."""
        answer = self._at(self._next)
        self._next += 1
        return answer

    def skip(self, count: int) -> None:
        self._next += count

    def newest(self) -> Answer:
        """The last answer of the table; it stays where it is."""
        return self._at(len(self._starts) - 2)

    def _at(self, number: int) -> Answer:
        start, stop = int(self._starts[number]), int(self._starts[number + 1])
        instant = self._table.column("ts")[start].as_py()
        late = None if self._committed is None else self._committed - instant.timestamp()
        at = self._instants[start].as_py()
        record = AnswerRecord.of(
            at,
            self._whole_from,
            self._bounds,
            is_partial=self._is_partial,
            skipped_after=None if number else self._skipped_after,
        )
        return Answer(instant, self._table.slice(start, stop - start).drop_columns(["ts"]), late, record)


class Told:
    """Progress in the place of a table of answers: one answer without rows."""

    def __init__(self, record: AnswerRecord, schema: pa.Schema, committed: float | None = None) -> None:
        """`schema` is that of whole answers, with `ts`."""
        instant = pa.scalar(record.instant, pa.int64()).cast(schema.field("ts").type).as_py()
        rows = schema.empty_table().drop_columns(["ts"])
        late = None if committed is None else committed - instant.timestamp()
        self._answer = Answer(instant, rows, late, record)
        self._left = 1

    def __len__(self) -> int:
        return self._left

    def take(self) -> Answer:
        self._left = 0
        return self._answer

    def skip(self, count: int) -> None:
        self._left -= count

    def newest(self) -> Answer:
        return self._answer


def _starts(ts: pa.ChunkedArray) -> Ints:
    """Where each instant begins, and the end; the instants of a table come in order."""
    instants = np.asarray(ts.cast(pa.int64()).to_numpy())
    changes = np.flatnonzero(instants[1:] != instants[:-1]) + 1
    return np.concatenate([[0], changes, [len(instants)]]).astype(np.int64)
