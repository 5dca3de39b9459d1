"""Input as the oracle sees it: streams without their late rows, relations as versions of their rows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from sash.errors import InternalError
from sash.lang.bound import RelationDefinition, StreamDefinition
from sash.lang.types import Type
from sash.testing.relational import FOREVER, relation_table, stream_table
from sash.testing.rows import Row

ARROW_TYPES = {
    Type.BIGINT: pa.int64(),
    Type.DOUBLE: pa.float64(),
    Type.STRING: pa.string(),
    Type.BOOLEAN: pa.bool_(),
    Type.TIMESTAMP: pa.timestamp("us"),
}


@dataclass(frozen=True, slots=True)
class Arrived:
    """A stream or a feed of changes as it arrived: times in microseconds and the columns of its schema."""

    ts: Sequence[int]
    table: pa.Table

    def in_time(self, slack: int, max_ahead: int | None = None) -> Arrived:
        """Without the rows that are later than `slack` allows, or further ahead than `max_ahead` does."""
        kept = [position for position, what in enumerate(self.judged(slack, max_ahead)) if what == "accepted"]
        return Arrived([self.ts[i] for i in kept], self.table.take(pa.array(kept, pa.int64())))

    def judged(self, slack: int, max_ahead: int | None = None) -> list[str]:
        """What becomes of each row, judged by the newest accepted one before it: accepted, late or ahead."""
        found, newest = [], -math.inf
        for ts in self.ts:
            if ts < newest - slack:
                found.append("late")
            elif max_ahead is not None and math.isfinite(newest) and ts > newest + max_ahead:
                found.append("ahead")
            else:
                found.append("accepted")
                newest = max(newest, ts)
        return found


def tuples_of(stream: StreamDefinition, accepted: Arrived) -> pa.Table:
    """The accepted rows of a stream with their lifetimes.

    A row without a lifetime has the longest there is; one that should live for nothing, or less, never does.
    """
    if stream.lifetime is None:
        return stream_table(accepted.table, accepted.ts)
    assert stream.max_lifetime is not None
    until = []
    for ts, length in zip(accepted.ts, accepted.table.column(stream.lifetime).to_pylist(), strict=True):
        longest = stream.max_lifetime
        until.append(ts + (longest if length is None else min(length * stream.lifetime_unit, longest)))
    return stream_table(accepted.table, accepted.ts, until)


def versions_of(relation: RelationDefinition, arrived: Arrived) -> pa.Table:
    """Every row that the relation ever has, and when. Changes of one instant take effect in their order."""
    visible = arrived.table.select(list(relation.visible.names))
    if relation.is_static:
        return relation_table(visible)
    arrived = arrived.in_time(0)
    visible = arrived.table.select(list(relation.visible.names))
    keys: Sequence[Row] = list(
        zip(*(arrived.table.column(name).to_pylist() for name in relation.key), strict=True)
    )
    operations = ["insert"] * len(arrived.ts)
    if relation.operation is not None:
        operations = [
            str(operation).lower() for operation in arrived.table.column(relation.operation).to_pylist()
        ]
    rows: list[int] = []
    until: list[int] = []
    current: dict[Row, int] = {}
    for position, (ts, operation) in enumerate(zip(arrived.ts, operations, strict=True)):
        if operation not in ("insert", "update", "delete"):
            raise InternalError(f"a feed of changes with the operation {operation!r}")
        if keys:
            before = current.pop(keys[position], None)
            if before is not None:
                until[before] = ts
        if operation != "delete":
            if keys:
                current[keys[position]] = len(rows)
            rows.append(position)
            until.append(FOREVER)
    kept = visible.take(pa.array(rows, pa.int64()))
    return relation_table(kept, [arrived.ts[position] for position in rows], until)
