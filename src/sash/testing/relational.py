"""The meaning of a plan at one instant, by definition: every operator becomes SQL, and DuckDB answers it.

Q(τ) is the relational query over the windows as they are after instant τ. Windows are taken from all tuples
that have arrived by then, by timestamp and order of arrival alone. Nothing is incremental and nothing is
shared with the operators of the product, which makes this the oracle for all of them, and for rewrites of
plans.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping

import duckdb
import pyarrow as pa

from sash.errors import InternalError
from sash.lang import algebra
from sash.lang.algebra import Node, WindowKind, WindowSpec

Row = tuple[object, ...]
_connection = duckdb.connect(":memory:", config={"threads": 1})
# Hidden columns that order the tuples of a stream.
_TS, _SEQUENCE = '"·ts"', '"·sequence"'


def stream_table(table: pa.Table, ts: list[int]) -> pa.Table:
    """A stream as this module wants it: its columns, timestamps in microseconds, order of arrival."""
    return table.append_column("·ts", pa.array(ts, pa.int64())).append_column(
        "·sequence", pa.array(range(len(ts)), pa.int64())
    )


def answer_at(plan: Node, instant: int, tables: Mapping[str, pa.Table]) -> Counter[Row]:
    """The bag Q(instant). `tables` has every stream (see `stream_table`) and every relation as it is then."""
    for name, table in tables.items():
        _connection.register(name, table)
    rows = _connection.execute(_relation(plan, instant)).fetchall()
    return Counter(tuple(_normal(value) for value in row) for row in rows)


def _normal(value: object) -> object:
    """NaN equals itself and −0.0 is 0.0, as in SQL."""
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else value + 0.0
    return value


def _names(node: Node) -> str:
    return ", ".join(f'"{name}"' for name in node.names)


def _relation(node: Node, instant: int) -> str:
    """SQL of a node above the windows."""

    def below(child: Node) -> str:
        return f"({_relation(child, instant)})"

    match node:
        case algebra.Output():
            return _relation(node.input, instant)
        case algebra.Relation():
            columns = ", ".join(f'"{_bare(f.name)}" AS "{f.name}"' for f in node.fields)
            return f'SELECT {columns} FROM "{node.name}"'
        case algebra.Window():
            return f"SELECT {_names(node)} FROM ({_windowed(node, instant)})"
        case algebra.Select():
            return f"SELECT {_names(node)} FROM {below(node.input)} WHERE {node.predicate.sql}"
        case algebra.Project():
            outputs = ", ".join(f'{o.scalar.sql} AS "{o.name}"' for o in node.outputs)
            return f"SELECT {outputs} FROM {below(node.input)}"
        case algebra.Distinct():
            return f"SELECT DISTINCT {_names(node)} FROM {below(node.input)}"
        case algebra.Join():
            parts = [f"{e.left.sql} = {e.right.sql}" for e in node.equalities]
            parts += [node.residual.sql] if node.residual is not None else []
            sources = ", ".join(f"{below(child)} AS t{i}" for i, child in enumerate(node.inputs))
            where = f" WHERE {' AND '.join(f'({part})' for part in parts)}" if parts else ""
            return f"SELECT {_names(node)} FROM {sources}{where}"
        case algebra.RelationJoin():
            pairs = zip(node.left_keys, node.right_keys, strict=True)
            parts = [f"{left.sql} = {right.sql}" for left, right in pairs]
            parts += [node.residual.sql] if node.residual is not None else []
            kind = "LEFT JOIN" if node.is_outer else "JOIN"
            on = " AND ".join(f"({part})" for part in parts) or "TRUE"
            sides = f"{below(node.input)} AS l {kind} {below(node.relation)} AS r"
            return f"SELECT {_names(node)} FROM {sides} ON {on}"
        case algebra.SemiJoin():
            return _semi_join(node, instant)
        case algebra.Aggregate():
            return _aggregate(node, instant)
        case algebra.Union():
            return f"{_relation(node.left, instant)} UNION ALL {below(node.right)}"
        case algebra.Except():
            return f"{_relation(node.left, instant)} EXCEPT ALL {below(node.right)}"
        case algebra.Intersect():
            return f"{_relation(node.left, instant)} INTERSECT ALL {below(node.right)}"
        case algebra.Limit():
            keys = [
                f"{key.scalar.sql} {'DESC' if key.is_descending else 'ASC'} "
                f"NULLS {'FIRST' if key.nulls_first else 'LAST'}"
                for key in node.order
            ]
            order = f" ORDER BY {', '.join(keys)}" if keys else ""
            limit = f" LIMIT {node.count}" if node.count is not None else ""
            return f"SELECT {_names(node)} FROM {below(node.input)}{order}{limit}"
    raise InternalError(f"{type(node).__name__} has no meaning above a window")


def _bare(name: str) -> str:
    return name.partition(".")[2] or name


def _semi_join(node: algebra.SemiJoin, instant: int) -> str:
    left, right = _relation(node.left, instant), _relation(node.right, instant)
    keys = list(zip(node.left_keys, node.right_keys, strict=True))
    values = ", ".join(f"{key.sql} AS r{i}" for i, (_, key) in enumerate(keys)) or "1 AS r"
    matches = " AND ".join(f"({key.sql} = r{i})" for i, (key, _) in enumerate(keys)) or "TRUE"
    if node.nulls_match:
        matches = f"COALESCE({matches}, TRUE)"
    exists = f"EXISTS (SELECT 1 FROM (SELECT {values} FROM ({right})) AS matched WHERE {matches})"
    return f"SELECT {_names(node)} FROM ({left}) WHERE {'NOT ' if node.is_anti else ''}{exists}"


def _aggregate(node: algebra.Aggregate, instant: int) -> str:
    keys = [f"{key.sql} AS k{i}" for i, key in enumerate(node.keys)]
    calls = [
        f"{call.function.value}({'*' if call.argument is None else call.argument.sql}) AS a{i}"
        for i, call in enumerate(node.calls)
    ]
    grouping = f" GROUP BY {', '.join(key.sql for key in node.keys)}" if keys else ""
    return f"SELECT {', '.join(keys + calls)} FROM ({_relation(node.input, instant)}){grouping}"


def _streaming(node: Node, instant: int) -> str:
    """SQL of a node below a window: rows keep their place in the stream."""
    hidden = f"{_TS}, {_SEQUENCE}"
    match node:
        case algebra.Stream():
            columns = ", ".join(f'"{_bare(f.name)}" AS "{f.name}"' for f in node.fields)
            return f'SELECT {columns}, {hidden} FROM "{node.name}" WHERE {_TS} <= {instant}'
        case algebra.Select():
            inner = _streaming(node.input, instant)
            return f"SELECT {_names(node)}, {hidden} FROM ({inner}) WHERE {node.predicate.sql}"
        case algebra.Project():
            outputs = ", ".join(f'{o.scalar.sql} AS "{o.name}"' for o in node.outputs)
            return f"SELECT {outputs}, {hidden} FROM ({_streaming(node.input, instant)})"
    raise InternalError(f"{type(node).__name__} below a window is not a stream of tuples")


def _windowed(node: algebra.Window, instant: int) -> str:
    spec = node.spec
    if spec.kind is WindowKind.ROWS:
        return _newest(node, spec, instant)
    if spec.slide is not None:
        instant = instant // spec.slide * spec.slide
    inner = _streaming(node.input, instant)
    match spec.kind:
        case WindowKind.UNBOUNDED:
            return inner
        case WindowKind.NOW:
            return f"SELECT * FROM ({inner}) WHERE {_TS} = {instant}"
        case _:
            assert spec.range is not None
            live = f"{_TS} > {instant - spec.range} AND {_TS} <= {instant - spec.offset}"
            return f"SELECT * FROM ({inner}) WHERE {live}"


def _newest(node: algebra.Window, spec: WindowSpec, instant: int) -> str:
    """The n newest tuples, of each partition if there are any, as of the last full slide."""
    names = ", ".join(f'"{name}"' for name in spec.partition)
    over = f"PARTITION BY {names} " if names else ""
    numbered = (
        f"SELECT *, row_number() OVER ({over}ORDER BY {_TS}, {_SEQUENCE}) AS n, "
        f"count(*) OVER ({over}) AS arrived FROM ({_streaming(node.input, instant)})"
    )
    slide = spec.slide or 1
    last = f"(arrived // {slide} * {slide})"
    return f"SELECT * FROM ({numbered}) WHERE n <= {last} AND n > {last} - {spec.rows}"
