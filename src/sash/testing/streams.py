"""Made-up input for tests: the rows of a stream in order of arrival, and the files that hold them.

A `MadeStream` knows everything about itself: how it is declared in CQL, how its files are written (CSV or
Parquet, in one or several pieces), which of its rows the oracle must see, and which must end up aside.
All made streams have the same columns after the time `t`, one of each type.
"""

from __future__ import annotations

import datetime
import enum
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from sash.lang.intervals import write as write_interval
from sash.testing.arrivals import Arrived

SECOND = 1_000_000
EPOCH = datetime.datetime(1970, 1, 1)


class Clock(enum.Enum):
    """What the time column counts. `tick` is the grain of made-up timestamps, in microseconds."""

    SECONDS = ("BIGINT", "s", SECOND, SECOND)
    MILLISECONDS = ("BIGINT", "ms", 1_000, 1_000)
    TIMESTAMP = ("TIMESTAMP", None, 1, 250_000)

    def __init__(self, type_: str, unit: str | None, size: int, tick: int) -> None:
        self.type = type_
        self.unit = unit
        self.size = size
        self.tick = tick


@dataclass(frozen=True, slots=True)
class MadeRow:
    """One row. `time` counts ticks of the stream's clock; None is a row without a time, to be rejected.

    `spoilt` is a text that is no BIGINT and stands in the place of `n` (CSV only), which rejects the row.
    """

    time: int | None
    k: str | None = None
    g: int | None = None
    n: int | None = None
    x: float | None = None
    b: bool | None = None
    at: int | None = None
    spoilt: str | None = None

    @property
    def is_rejected(self) -> bool:
        return self.time is None or self.spoilt is not None


# Besides the time: a word, a small number, a number, a double, a flag, a time in microseconds.
COLUMNS = (
    ("k", "STRING", pa.string()),
    ("g", "BIGINT", pa.int64()),
    ("n", "BIGINT", pa.int64()),
    ("x", "DOUBLE", pa.float64()),
    ("b", "BOOLEAN", pa.bool_()),
    ("at", "TIMESTAMP", pa.timestamp("us")),
)


@dataclass(frozen=True, slots=True)
class MadeStream:
    """A stream in order of arrival, cut into files of `pieces` rows each (the last takes the rest)."""

    name: str
    clock: Clock
    slack: int
    format: str
    rows: tuple[MadeRow, ...]
    pieces: tuple[int, ...] = ()

    # ------------------------------------------------------------------ CQL

    @property
    def declaration(self) -> str:
        columns = ", ".join(f"{name} {kind}" for name, kind, _ in COLUMNS)
        slack = f" SLACK {write_interval(self.slack)}" if self.slack else ""
        unit = f" WITH (unit = '{self.clock.unit}')" if self.clock.unit else ""
        return (
            f"CREATE STREAM {self.name} (t {self.clock.type}, {columns})\n"
            f"  TIMESTAMP BY t{slack} FROM '{self.format}:{self.name}.*.{self.format}'{unit};\n"
        )

    # ---------------------------------------------------------------- files

    def write(self, directory: Path) -> None:
        """Write the files that the declaration names."""
        for number, rows in enumerate(self._pieces()):
            path = directory / f"{self.name}.{number:03d}.{self.format}"
            if self.format == "csv":
                path.write_text(self._csv(rows), encoding="utf-8")
            else:
                pq.write_table(self._table(rows), path, row_group_size=max(1, len(rows) // 2))

    def _pieces(self) -> list[Sequence[MadeRow]]:
        pieces: list[Sequence[MadeRow]] = []
        start = 0
        for size in self.pieces:
            pieces.append(self.rows[start : start + size])
            start += size
        pieces.append(self.rows[start:])
        return pieces

    def _csv(self, rows: Sequence[MadeRow]) -> str:
        lines = [",".join(["t", *(name for name, _, _ in COLUMNS)])]
        for row in rows:
            number = row.spoilt if row.spoilt is not None else _text(row.n)
            at = "" if row.at is None else _iso(row.at)
            flag = "" if row.b is None else str(row.b).lower()
            word = "" if row.k is None else '"' + row.k.replace('"', '""') + '"'
            lines.append(
                ",".join([self._time_text(row.time), word, _text(row.g), number, _text(row.x), flag, at])
            )
        return "\n".join(lines) + "\n"

    def _time_text(self, time: int | None) -> str:
        if time is None:
            return ""
        micros = time * self.clock.tick
        return _iso(micros) if self.clock is Clock.TIMESTAMP else str(micros // self.clock.size)

    def _table(self, rows: Sequence[MadeRow]) -> pa.Table:
        """The rows as Arrow, the time in the type of the schema."""
        times = [None if row.time is None else row.time * self.clock.tick // self.clock.size for row in rows]
        time_type = pa.timestamp("us") if self.clock is Clock.TIMESTAMP else pa.int64()
        columns = {"t": pa.array(times, pa.int64()).cast(time_type)}
        for name, _, type_ in COLUMNS:
            columns[name] = pa.array([getattr(row, name) for row in rows], type_)
        return pa.table(columns)

    # --------------------------------------------------------------- truth

    def arrived(self) -> Arrived:
        """The rows that fit the schema, late ones included."""
        fitting = [row for row in self.rows if not row.is_rejected]
        times = [row.time * self.clock.tick for row in fitting if row.time is not None]
        return Arrived(times, self._table(fitting))

    @property
    def rejected(self) -> int:
        return sum(row.is_rejected for row in self.rows)


def _text(value: object) -> str:
    return "" if value is None else str(value)


def _iso(micros: int) -> str:
    return (EPOCH + datetime.timedelta(microseconds=micros)).isoformat()
