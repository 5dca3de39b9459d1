"""Streams and relations for tests of plans, and plans as short text."""

from __future__ import annotations

from sash.lang import algebra, bind_program
from sash.lang.intervals import write
from sash.lang.values import AggregateCall

CATALOG = """
CREATE STREAM s (t TIMESTAMP, a INT, b DOUBLE, c STRING, d BOOLEAN) TIMESTAMP BY t FROM 'csv:s';
CREATE STREAM u (t TIMESTAMP, a INT, e STRING) TIMESTAMP BY t FROM 'csv:u';
CREATE STREAM v (t TIMESTAMP, a INT, l INT) TIMESTAMP BY t LIFETIME BY l MAX LIFETIME 1 HOUR FROM 'csv:v';
CREATE RELATION r (k INT, name STRING) KEY (k) FROM 'csv:r';
CREATE RELATION n (k INT, name STRING, o STRING, at INT) KEY (k) NON RETROACTIVE
  TIMESTAMP BY at OP BY o FROM 'csv:n';
CREATE RELATION w (k INT, name STRING, o STRING, at INT) KEY (k) TIMESTAMP BY at OP BY o FROM 'csv:w';
CREATE ARCHIVE kept KEY (a) USING REBUILD 4x4 EVERY 2 MIN INTO 'kept' AS SELECT a, c FROM s [RANGE 1 HOUR];
"""


def plan(query: str) -> algebra.Output:
    """The plan of a standing query."""
    return bind_program(f"{CATALOG}CREATE QUERY q AS {query};").queries[-1].plan


def once(query: str) -> algebra.Output:
    """The plan of a one-time query."""
    return bind_program(f"{CATALOG}{query};").one_time[-1].plan


def outline(node: algebra.Node) -> str:
    """The plan as nested calls, scalars as SQL without casts of literals."""
    parts = [outline(child) for child in node.children]
    match node:
        case algebra.Stream() | algebra.Relation():
            return node.qualifier
        case algebra.Archive():
            return node.qualifier + ("" if node.range is None else f"[{write(node.range)}]")
        case algebra.Window():
            return f"{parts[0]}[{window(node.spec)}]"
        case algebra.Output():
            kind = node.kind.value + ("" if node.window is None else f"[{window(node.window)}]")
            return parts[0] if kind == "view" else f"{kind}({parts[0]})"
        case algebra.Select():
            parts.append(node.predicate.sql)
        case algebra.Project():
            parts.append(", ".join(f"{o.name}: {o.scalar.sql}" for o in node.outputs))
        case algebra.Join():
            parts += [f"{e.left_input}.{e.left.sql} = {e.right_input}.{e.right.sql}" for e in node.equalities]
            parts += [] if node.residual is None else [f"residual {node.residual.sql}"]
        case algebra.RelationJoin() | algebra.SemiJoin():
            pairs = zip(node.left_keys, node.right_keys, strict=True)
            parts += [f"{left.sql} = {right.sql}" for left, right in pairs]
            if isinstance(node, algebra.RelationJoin):
                parts += [] if node.residual is None else [f"residual {node.residual.sql}"]
                parts += ["outer"] if node.is_outer else []
            else:
                parts += ["anti"] if node.is_anti else []
                parts += ["nulls match"] if node.nulls_match else []
        case algebra.Aggregate():
            parts.append(", ".join(key.sql for key in node.keys) or "()")
            parts.append(", ".join(call(found) for found in node.calls))
        case algebra.Limit():
            parts += [
                k.scalar.sql
                + (" DESC" if k.is_descending else "")
                + (" NULLS FIRST" if k.nulls_first else "")
                for k in node.order
            ]
            parts += [] if node.count is None else [str(node.count)]
    return f"{type(node).__name__}({' | '.join(parts)})"


def window(spec: algebra.WindowSpec) -> str:
    text = spec.kind.value.upper()
    if spec.partition:
        text = f"BY {', '.join(spec.partition)} {text}"
    if spec.range is not None:
        text += f" {write(spec.range)}"
    if spec.rows is not None:
        text += f" {spec.rows}"
    if spec.slide is not None:
        text += f" SLIDE {spec.slide if spec.kind is algebra.WindowKind.ROWS else write(spec.slide)}"
    if spec.offset:
        text += f" OFFSET {write(spec.offset)}"
    return text + (" INTERNAL" if spec.is_internal else "")


def call(found: AggregateCall) -> str:
    argument = "*" if found.argument is None else found.argument.sql
    distinct = "DISTINCT " if found.is_distinct else ""
    parameter = "" if found.parameter is None else f", {found.parameter}"
    return f"{found.function.value}({distinct}{argument}{parameter})"
