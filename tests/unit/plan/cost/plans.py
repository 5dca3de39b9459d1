"""Plans to be costed, written with algebra nodes: streams called s1, s2, … with columns a, b and p."""

from __future__ import annotations

from collections.abc import Mapping

from sash.lang.algebra import (
    Equality,
    Field,
    Join,
    Node,
    Output,
    OutputKind,
    Project,
    Relation,
    Select,
    SemiJoin,
    Stream,
    Window,
    WindowKind,
    WindowSpec,
)
from sash.lang.bound import Named, Scalar
from sash.lang.types import Type
from sash.plan.cost import Statistics, StreamStatistics

TYPES = {"a": Type.BIGINT, "b": Type.BIGINT, "p": Type.STRING}


def stream(name: str) -> Stream:
    return Stream(name, name, tuple(Field(f"{name}.{column}", type) for column, type in TYPES.items()))


def relation(name: str, *, is_retroactive: bool = False) -> Relation:
    columns = (Field(f"{name}.a", Type.BIGINT), Field(f"{name}.owner", Type.STRING))
    return Relation(name, name, columns, (f"{name}.a",), is_retroactive)


def window(name: str, seconds: float, **more: int | bool) -> Window:
    spec = WindowSpec(WindowKind.RANGE, range=int(seconds * 1_000_000), **more)  # type: ignore[arg-type]
    return Window(stream(name), spec)


def rows(name: str, count: int, partition: tuple[str, ...] = ()) -> Window:
    return Window(stream(name), WindowSpec(WindowKind.ROWS, rows=count, partition=partition))


def column(name: str) -> Scalar:
    return Scalar(f'"{name}"', TYPES.get(name[-1], Type.BIGINT), (name,), name)


def predicate(sql: str, *inputs: str) -> Scalar:
    return Scalar(sql, Type.BOOLEAN, inputs)


def ftp(node: Node, name: str) -> Select:
    return Select(node, predicate(f"\"{name}.p\" = 'ftp'", f"{name}.p"))


def join(*inputs: tuple[Node, str]) -> Join:
    """A join on one common attribute, given by the name of its column in each input."""
    (_, first), *others = inputs
    equalities = tuple(
        Equality(0, column(first), i, column(name)) for i, (_, name) in enumerate(others, start=1)
    )
    return Join(tuple(node for node, _ in inputs), equalities)


def negation(left: Node, left_name: str, right: Node, right_name: str) -> SemiJoin:
    return SemiJoin(left, right, (column(left_name),), (column(right_name),), True)


def view(node: Node) -> Output:
    return Output(node, OutputKind.VIEW)


def project(node: Node, *names: str) -> Project:
    return Project(node, tuple(Named(name, column(name)) for name in names))


def statistics(**rates_and_values: tuple[float, Mapping[str, float]]) -> Statistics:
    return Statistics({name: StreamStatistics(r, values) for name, (r, values) in rates_and_values.items()})
