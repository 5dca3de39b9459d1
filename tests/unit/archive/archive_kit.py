"""What the tests of the archive share: a small archive, and a model that keeps its rows in a list.

every = 10, span = 60:   0 ──┬── 10 ──┬── 20 ──┬── 30 …     an update at each ┬, p = 6
"""

from __future__ import annotations

import math
import random
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from sash.archive import BORN, TECHNIQUES, ArchiveSpec, Update
from sash.archive.spec import IDENTITY
from sash.lang.types import Column, Schema, Type

EVERY, SPAN = 10, 60
COLUMNS = Schema((Column("k", Type.BIGINT), Column("name", Type.STRING), Column("x", Type.DOUBLE)))
SPEC = ArchiveSpec(COLUMNS, ("k",), EVERY, SPAN)
STRICT = ArchiveSpec(COLUMNS, ("k",), EVERY, SPAN, is_strict=True)
COUNTED = ArchiveSpec(COLUMNS, ("k",), EVERY, SPAN, is_strict=True, is_estimated=True)
PLACED = ArchiveSpec(COLUMNS, ("k",), EVERY, SPAN, is_estimated=True, positions=("pos_a", "pos_b"))
COUNTABLE = [name for name in TECHNIQUES if not name.startswith(("lazy", "wata"))]

Values = tuple[Any, ...]


@dataclass
class Row:
    values: Values
    born: int
    dies: int
    positions: tuple[int, ...] = ()


def table(rows: list[Row], spec: ArchiveSpec = SPEC) -> pa.Table:
    """Rows as an update takes them."""
    data = [(*row.values, *row.positions, row.born, row.dies) for row in rows]
    schema = pa.schema([field for field in spec.schema if field.name != IDENTITY])
    columns = list(zip(*data, strict=True)) if data else [()] * len(schema)
    arrays = [pa.array(list(c), f.type) for c, f in zip(columns, schema, strict=True)]
    return pa.Table.from_arrays(arrays, schema=schema)


def keys(pairs: list[tuple[Any, int]]) -> pa.Table:
    """Keys with the instants before which their rows were born."""
    return pa.table(
        {"k": pa.array([k for k, _ in pairs], pa.int64()), BORN: pa.array([t for _, t in pairs], pa.int64())}
    )


def bag(found: pa.Table) -> Counter[Values]:
    """The rows of a table, with NaN equal to itself."""
    columns = [[_plain(value) for value in column.to_pylist()] for column in found.columns]
    return Counter(zip(*columns, strict=True))


def _plain(value: Any) -> Any:
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else value + 0.0
    return value


@dataclass
class Model:
    """All rows that have come, none of them forgotten before it is gone."""

    spec: ArchiveSpec = field(default_factory=lambda: SPEC)
    rows: list[Row] = field(default_factory=list)
    through: int = 0
    floors: dict[str, int] = field(default_factory=dict)

    def apply(
        self,
        update: Update,
        rows: list[Row],
        taken: list[Row] | None = None,
        taken_keys: list[tuple[Any, int]] | None = None,
    ) -> None:
        self.through = update.through
        self.floors.update(update.floors)
        self.rows.extend(rows)
        for key, instant in taken_keys or ():
            self.rows = [row for row in self.rows if row.values[0] != key or row.born >= instant]
        for gone in taken or ():
            self.rows.remove(gone)
        self.rows = [row for row in self.rows if self._lives(row)]

    def _lives(self, row: Row) -> bool:
        if not self.spec.is_estimated:
            return row.dies > self.through
        places = zip(self.spec.positions, row.positions, strict=True)
        return all(place >= self.floors.get(name, place) for name, place in places)

    def live(self, within: int | None = None) -> list[Values]:
        after = self.through if within is None else self.through + self.spec.span - within
        return [row.values for row in self.rows if within is None or row.dies > after]

    def bag(self, keep: Any = lambda values: True, within: int | None = None) -> Counter[Values]:
        kept = (tuple(map(_plain, values)) for values in self.live(within) if keep(values))
        return Counter(kept)


def random_rows(
    rng: random.Random, after: int, through: int, count: int, *, is_null: float = 0.1
) -> list[Row]:
    """Rows that are born in (after, through] and live from 1 to SPAN; few values, so that some are equal."""
    rows = []
    for _ in range(count):
        born = rng.randint(after + 1, through)
        key = None if rng.random() < is_null else rng.randint(0, 5)
        x = rng.choice([0.0, -0.0, 1.5, float("nan"), None])
        rows.append(Row((key, rng.choice(["a", "ä", "", None]), x), born, born + rng.randint(1, SPAN)))
    return rows
