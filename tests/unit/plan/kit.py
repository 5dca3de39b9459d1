"""Small plans for tests: streams with columns k, v, s, windows, and random data for them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from sash.lang.algebra import (
    Aggregate,
    Distinct,
    Equality,
    Except,
    Field,
    Intersect,
    Join,
    Node,
    Project,
    Relation,
    RelationJoin,
    Select,
    SemiJoin,
    Stream,
    Union,
    Window,
    WindowKind,
    WindowSpec,
)
from sash.lang.bound import AggregateCall, AggregateFunction, Named, Scalar
from sash.lang.types import Type
from sash.testing.relational import stream_table

SECOND = 1_000_000
COLUMNS = {"k": Type.BIGINT, "v": Type.BIGINT, "s": Type.STRING}


def stream(name: str) -> Stream:
    return Stream(name, name, tuple(Field(f"{name}.{c}", t) for c, t in COLUMNS.items()))


def relation(name: str = "r", *, is_retroactive: bool = False) -> Relation:
    columns = tuple(Field(f"{name}.{c}", t) for c, t in COLUMNS.items())
    return Relation(name, name, columns, (f"{name}.k",), is_retroactive)


def column(name: str, type_: Type | None = None) -> Scalar:
    kind = type_ or COLUMNS.get(name.rpartition(".")[2], Type.BIGINT)
    return Scalar(f'"{name}"', kind, (name,), name, name)


def condition(sql: str, *inputs: str) -> Scalar:
    return Scalar(sql, Type.BOOLEAN, inputs, None, sql.replace('"', ""))


def time_window(node: Node, seconds: int = 10, **more: object) -> Window:
    return Window(node, WindowSpec(WindowKind.RANGE, range=seconds * SECOND, **more))  # type: ignore[arg-type]


def rows_window(node: Node, rows: int = 3, partition: tuple[str, ...] = ()) -> Window:
    return Window(node, WindowSpec(WindowKind.ROWS, rows=rows, partition=partition))


def equi_join(*inputs: Node, residual: Scalar | None = None) -> Join:
    """All inputs joined on their k columns, each with the first."""
    keys = [next(name for name in node.names if name.endswith(".k")) for node in inputs]
    equalities = tuple(Equality(0, column(keys[0]), i, column(keys[i])) for i in range(1, len(inputs)))
    return Join(inputs, equalities, residual)


def anti(left: Node, right: Node, left_key: str, right_key: str) -> SemiJoin:
    return SemiJoin(left, right, (column(left_key),), (column(right_key),), is_anti=True)


def project(node: Node, **outputs: Scalar) -> Project:
    return Project(node, tuple(Named(name, scalar) for name, scalar in outputs.items()))


def count_by(node: Node, *keys: str) -> Aggregate:
    call = AggregateCall(AggregateFunction.COUNT, None, Type.BIGINT)
    return Aggregate(node, tuple(column(key) for key in keys), (call,))


@st.composite
def tables(draw: st.DrawFn, names: tuple[str, ...] = ("a", "b", "c", "r")) -> dict[str, pa.Table]:
    """Random streams (and a relation r) of a few rows, with ties, NULLs and duplicates."""
    result = {}
    for name in names:
        count = draw(st.integers(0, 8))
        small = st.one_of(st.none(), st.integers(0, 3))
        columns = {
            "k": pa.array(draw(st.lists(small, min_size=count, max_size=count)), pa.int64()),
            "v": pa.array(draw(st.lists(small, min_size=count, max_size=count)), pa.int64()),
            "s": pa.array(
                draw(st.lists(st.sampled_from(["x", "y", None]), min_size=count, max_size=count)), pa.string()
            ),
        }
        ticks = sorted(draw(st.lists(st.integers(0, 20), min_size=count, max_size=count)))
        result[name] = stream_table(pa.table(columns), [tick * SECOND for tick in ticks])
    return result


@st.composite
def plans(draw: st.DrawFn) -> Node:
    """Plans over streams a, b, c and the relation r in which every rule finds something to do."""
    windows: list[Callable[[Any], Node]] = [
        time_window,
        rows_window,
        lambda s: rows_window(s, 2, (s.names[0],)),
    ]
    window = st.sampled_from(windows)
    a, b, c = (draw(window)(stream(name)) for name in "abc")
    conditions = {
        "a": condition('("a.v" > 1) OR ("a.s" IS NULL)', "a.v", "a.s"),
        "ab": condition('("a.v" <= "b.v") AND ("a.k" <> 0) AND TRUE', "a.v", "b.v", "a.k"),
    }
    shapes = [
        lambda: Select(equi_join(a, b), conditions["ab"]),
        lambda: Select(equi_join(anti(a, c, "a.k", "c.k"), b), conditions["ab"]),
        lambda: Select(anti(equi_join(a, b), c, "a.k", "c.v"), conditions["a"]),
        lambda: Select(
            RelationJoin(anti(a, b, "a.k", "b.k"), relation(), (column("a.v"),), (column("r.k"),)),
            condition('("a.k" < 3) AND ("r.v" > 0)', "a.k", "r.v"),
        ),
        lambda: Select(
            count_by(equi_join(a, b), "a.k", "b.s"), condition('("k0" > 0) AND ("a0" > 1)', "k0", "a0")
        ),
        lambda: Select(
            draw(st.sampled_from([Union, Except, Intersect]))(
                project(a, k=column("a.k"), v=column("a.v")), project(b, k=column("b.k"), w=column("b.v"))
            ),
            condition('"v" > 0', "v"),
        ),
    ]
    plan: Node = draw(st.sampled_from(shapes))()
    names = draw(st.lists(st.sampled_from(plan.names), min_size=1, max_size=2, unique=True))
    types = {field.name: field.type for field in plan.fields}
    plan = project(plan, **{f"o{i}": column(name, types[name]) for i, name in enumerate(names)})
    return Distinct(plan) if draw(st.booleans()) else plan


__all__ = [
    "SECOND",
    "Distinct",
    "Except",
    "Intersect",
    "RelationJoin",
    "Select",
    "Union",
    "anti",
    "column",
    "condition",
    "count_by",
    "equi_join",
    "plans",
    "project",
    "relation",
    "rows_window",
    "stream",
    "tables",
    "time_window",
]
