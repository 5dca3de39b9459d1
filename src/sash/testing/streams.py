"""Made-up input for tests: the rows of a stream in order of arrival, and the files that hold them.

A `MadeStream` knows everything about itself: how it is declared in CQL, how its files are written (CSV or
Parquet, in one or several pieces), which of its rows the oracle must see, and which must end up aside.
All made streams have the same columns after the time `t`, one of each type, and `life` if rows say how long
they live.
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
from sash.lang.types import Type
from sash.testing.arrivals import ARROW_TYPES, Arrived

SECOND = 1_000_000
EPOCH = datetime.datetime(1970, 1, 1)


class Clock(enum.Enum):
    """What the time column counts. `tick` is the grain of made-up timestamps, in microseconds."""

    SECONDS = ("BIGINT", "s", SECOND, SECOND)
    MILLISECONDS = ("BIGINT", "ms", 1_000, 1_000)
    TIMESTAMP = ("TIMESTAMP", None, 1, 250_000)
    # With the grain of SECONDS, so that streams that count differently meet.
    COARSE_MILLISECONDS = ("BIGINT", "ms", 1_000, SECOND)
    COARSE_TIMESTAMP = ("TIMESTAMP", None, 1, SECOND)

    def __init__(self, type_: str, unit: str | None, size: int, tick: int) -> None:
        self.type = type_
        self.unit = unit
        self.size = size
        self.tick = tick

    def written(self, time: int | None) -> int | None:
        """A time in ticks as the number that a column of this clock holds."""
        return None if time is None else time * self.tick // self.size


@dataclass(frozen=True, slots=True)
class MadeRow:
    """One row. `time` counts ticks of the stream's clock; None is a row without a time, to be rejected.

    `life` counts the stream's unit of lifetimes. `spoilt` is a text that is no BIGINT and stands in the place
    of `n` (CSV only), which rejects the row.
    """

    time: int | None
    k: str | None = None
    g: int | None = None
    n: int | None = None
    x: float | None = None
    b: bool | None = None
    at: int | None = None
    life: int | None = None
    spoilt: str | None = None

    @property
    def is_rejected(self) -> bool:
        return self.time is None or self.spoilt is not None


# Besides the time: a word, a small number, a number, a double, a flag, a time in microseconds.
COLUMNS = {"k": "STRING", "g": "BIGINT", "n": "BIGINT", "x": "DOUBLE", "b": "BOOLEAN", "at": "TIMESTAMP"}


@dataclass(frozen=True, slots=True)
class MadeStream:
    """A stream in order of arrival, cut into files of `pieces` rows each (the last takes the rest)."""

    name: str
    clock: Clock
    slack: int
    format: str
    rows: tuple[MadeRow, ...]
    pieces: tuple[int, ...] = ()
    max_lifetime: int | None = None
    retain: int | None = None
    max_ahead: int | None = None

    @property
    def columns(self) -> dict[str, str]:
        """The types of all columns."""
        life = {} if self.max_lifetime is None else {"life": "BIGINT"}
        return {"t": self.clock.type, **COLUMNS, **life}

    # ------------------------------------------------------------------ CQL

    @property
    def declaration(self) -> str:
        columns = ", ".join(f"{name} {kind}" for name, kind in self.columns.items())
        slack = f" SLACK {write_interval(self.slack)}" if self.slack else ""
        if self.max_ahead is not None:
            slack += f" MAX AHEAD {write_interval(self.max_ahead)}"
        if self.max_lifetime is not None:
            slack += f" LIFETIME BY life MAX LIFETIME {write_interval(self.max_lifetime)}"
        if self.retain is not None:
            slack += f" RETAIN {write_interval(self.retain)}"
        unit = f" WITH (unit = '{self.clock.unit}')" if self.clock.unit else ""
        return (
            f"CREATE STREAM {self.name} ({columns})\n"
            f"  TIMESTAMP BY t{slack} FROM '{self.format}:{self.name}.*.{self.format}'{unit};\n"
        )

    # ---------------------------------------------------------------- files

    def write(self, directory: Path) -> None:
        """Write the files that the declaration names."""
        for name, rows in self._files().items():
            if self.format == "csv":
                (directory / name).write_text(self._csv(rows), encoding="utf-8")
            else:
                pq.write_table(self._table(rows), directory / name, row_group_size=max(1, len(rows) // 2))

    def texts(self) -> dict[str, str]:
        """The files by their names, as CSV whatever their format."""
        return {name: self._csv(rows) for name, rows in self._files().items()}

    def _files(self) -> dict[str, Sequence[MadeRow]]:
        return {f"{self.name}.{number:03d}.{self.format}": rows for number, rows in enumerate(self._pieces())}

    def _pieces(self) -> list[Sequence[MadeRow]]:
        pieces: list[Sequence[MadeRow]] = []
        start = 0
        for size in self.pieces:
            pieces.append(self.rows[start : start + size])
            start += size
        pieces.append(self.rows[start:])
        return pieces

    def _csv(self, rows: Sequence[MadeRow]) -> str:
        lines = [",".join(self.columns)]
        for row in rows:
            cells = {name: cell(self._value(row, name), kind) for name, kind in self.columns.items()}
            if row.spoilt is not None:
                cells["n"] = row.spoilt
            lines.append(",".join(cells.values()))
        return "\n".join(lines) + "\n"

    def _table(self, rows: Sequence[MadeRow]) -> pa.Table:
        """The rows as Arrow, the time in the type of the schema."""
        return pa.table(
            {
                name: pa.array([self._value(row, name) for row in rows], ARROW_TYPES[Type(kind)])
                for name, kind in self.columns.items()
            }
        )

    def _value(self, row: MadeRow, name: str) -> object:
        return self.clock.written(row.time) if name == "t" else getattr(row, name)

    # --------------------------------------------------------------- truth

    def arrived(self) -> Arrived:
        """The rows that fit the schema, late ones included."""
        fitting = [row for row in self.rows if not row.is_rejected]
        times = [row.time * self.clock.tick for row in fitting if row.time is not None]
        return Arrived(times, self._table(fitting))

    @property
    def rejected(self) -> int:
        return sum(row.is_rejected for row in self.rows)


def cell(value: object, kind: str) -> str:
    """A value in a CSV file. NULL is nothing at all; timestamps are microseconds here."""
    if value is None:
        return ""
    match kind:
        case "STRING":
            return '"' + str(value).replace('"', '""') + '"'
        case "BOOLEAN":
            return str(value).lower()
        case "TIMESTAMP":
            assert isinstance(value, int)
            return (EPOCH + datetime.timedelta(microseconds=value)).isoformat()
    return str(value)
