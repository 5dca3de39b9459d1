"""The newest answer of a query, cut down to what a view can show.

Work per batch stays small however many rows a batch answers: Arrow filters and sorts, and only the rows that
can be seen become Python objects.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

MOST_ROWS = 40


@dataclass(frozen=True, slots=True)
class Answer:
    """The rows that a query answered at its newest instant, greatest first where they are ranked.

    `instant` is microseconds, or the integer itself where the stream's time is one; `total` counts the rows
    of the instant, of which at most MOST_ROWS are in `rows`.
    """

    instant: object
    columns: tuple[str, ...]
    numeric: tuple[bool, ...]
    rows: tuple[tuple[object, ...], ...]
    total: int


def newest(table: pa.Table, rank: str | None = None) -> Answer | None:
    """The newest answer in `table`; None where it has no rows.

    Of a change log the rows that came (`op` +) are shown; where rows only went, those.
    """
    if table.num_rows == 0:
        return None
    instant: object = None
    names = list(table.column_names)
    if "ts" in names:
        place = names.index("ts")
        latest = pc.max(table.column(place))
        table = table.filter(pc.equal(table.column(place), latest))
        instant = latest.as_py()
        table, names = table.remove_column(place), names[:place] + names[place + 1 :]
    if "op" in names:
        place = names.index("op")
        came = table.filter(pc.equal(table.column(place), "+"))
        if came.num_rows:
            table, names = came.remove_column(place), names[:place] + names[place + 1 :]
    total = table.num_rows
    if rank is not None and names.count(rank) == 1 and _is_number(table.schema.field(rank).type):
        order = pc.sort_indices(table, sort_keys=[(rank, "descending")])
        table = table.take(order[:MOST_ROWS])
    else:
        table = table.slice(0, MOST_ROWS)
    columns = [column.to_pylist() for column in table.columns]
    return Answer(
        instant=instant,
        columns=tuple(names),
        numeric=tuple(_is_number(column.type) for column in table.columns),
        rows=tuple(zip(*columns, strict=True)) if columns else (),
        total=total,
    )


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))
