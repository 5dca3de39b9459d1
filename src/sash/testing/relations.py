"""Made-up relations for tests: rows that are read once, or a feed of changes, and the files that hold them.

All made relations have a small number `g`, a word `k` and a double `w`, after the time and the operation of a
feed. Feeds are well formed: changes come in the order of their times, keys are inserted once and only keys
that are there are updated and deleted.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from sash.lang.types import Type
from sash.testing.arrivals import ARROW_TYPES, Arrived
from sash.testing.streams import Clock, cell


@dataclass(frozen=True, slots=True)
class MadeChange:
    """A row of a relation, or a change of one. `time` counts ticks of the relation's clock."""

    g: int | None = None
    k: str | None = None
    w: float | None = None
    time: int = 0
    operation: str = "insert"


@dataclass(frozen=True, slots=True)
class MadeRelation:
    """`clock` is that of a feed; without one the relation is read once."""

    name: str
    rows: tuple[MadeChange, ...]
    key: tuple[str, ...] = ()
    clock: Clock | None = None
    has_operations: bool = False
    is_retroactive: bool = True
    format: str = "csv"

    @property
    def columns(self) -> dict[str, str]:
        time = {} if self.clock is None else {"since": self.clock.type}
        operation = {"op": "STRING"} if self.has_operations else {}
        return {**time, **operation, "g": "BIGINT", "k": "STRING", "w": "DOUBLE"}

    @property
    def visible(self) -> dict[str, str]:
        """The columns that a query sees."""
        return {name: kind for name, kind in self.columns.items() if name != "op"}

    @property
    def declaration(self) -> str:
        columns = ", ".join(f"{name} {kind}" for name, kind in self.columns.items())
        clauses = f" KEY ({', '.join(self.key)})" if self.key else ""
        clauses += "" if self.is_retroactive else " NON RETROACTIVE"
        unit = ""
        if self.clock is not None:
            clauses += " TIMESTAMP BY since"
            unit = f" WITH (unit = '{self.clock.unit}')" if self.clock.unit else ""
        clauses += " OP BY op" if self.has_operations else ""
        source = f"{self.format}:{self.name}.{self.format}"
        return f"CREATE RELATION {self.name} ({columns})\n {clauses} FROM '{source}'{unit};\n"

    def write(self, directory: Path) -> None:
        """Write the file that the declaration names."""
        for name, text in self.texts().items():
            if self.format == "csv":
                (directory / name).write_text(text, encoding="utf-8")
            else:
                pq.write_table(self._table(), directory / name)

    def texts(self) -> dict[str, str]:
        """The file by its name, as CSV whatever its format."""
        lines = [",".join(self.columns)]
        for row in self.rows:
            lines.append(",".join(cell(self._value(row, n), kind) for n, kind in self.columns.items()))
        return {f"{self.name}.{self.format}": "\n".join(lines) + "\n"}

    def arrived(self) -> Arrived:
        tick = 1 if self.clock is None else self.clock.tick
        return Arrived([row.time * tick for row in self.rows], self._table())

    def _table(self) -> pa.Table:
        return pa.table(
            {
                name: pa.array([self._value(row, name) for row in self.rows], ARROW_TYPES[Type(kind)])
                for name, kind in self.columns.items()
            }
        )

    def _value(self, row: MadeChange, name: str) -> object:
        match name:
            case "since":
                assert self.clock is not None
                return self.clock.written(row.time)
            case "op":
                return row.operation
        return getattr(row, name)
