"""What the periodic runtime executes: one stream, `[RANGE t SLIDE l]`, a filter, and groups or rows.

`periodic_select` recognises such plans and gives them as `BoundSelect`s over the bare column names of
the stream; `missing` and `not_yet` say what stands in the way of any other plan.
"""

from __future__ import annotations

import enum
import re
from dataclasses import dataclass, replace

from sash.errors import InternalError, NotYet, Place
from sash.lang import algebra
from sash.lang.types import Type
from sash.lang.values import AggregateCall, Named, Scalar

_QUOTED = re.compile(r"""'(?:[^']|'')*'|"(?:[^"]|"")*\"""")


@dataclass(frozen=True, slots=True)
class Window:
    """`[RANGE range SLIDE slide]`, both in microseconds."""

    range: int
    slide: int


class OutputOperator(enum.Enum):
    """How answers leave: as a change log of the view, or as one of CQL's three streams."""

    VIEW = "view"
    ISTREAM = "istream"
    DSTREAM = "dstream"
    RSTREAM = "rstream"


@dataclass(frozen=True, slots=True)
class BoundSelect:
    """A SELECT over one windowed stream.

    `where`, `keys` and the arguments of `aggregates` read the stream's columns. `having` and `outputs`
    read the grouped row, whose columns are called k0, k1, … (keys) and a0, a1, … (aggregates).
    Where nothing is aggregated (`is_grouped` false) the keys are the selected expressions and the
    answer is a bag: a row comes as often as it stands in the window, or once with `distinct`.
    """

    stream: str
    window: Window
    where: Scalar | None
    is_grouped: bool
    distinct: bool
    keys: tuple[Scalar, ...]
    aggregates: tuple[AggregateCall, ...]
    having: Scalar | None
    outputs: tuple[Named, ...]
    operator: OutputOperator

    @property
    def schema(self) -> tuple[tuple[str, Type], ...]:
        return tuple((output.name, output.scalar.type) for output in self.outputs)


def periodic_select(plan: algebra.Output) -> BoundSelect | None:
    """The plan as the periodic runtime takes it; None if it does not."""
    if missing(plan) is not None:
        return None
    node = plan.input
    distinct = isinstance(node, algebra.Distinct)
    if isinstance(node, algebra.Distinct):
        node = node.input
    assert isinstance(node, algebra.Project)
    outputs = node.outputs
    node, having = _below_select(node.input)
    aggregate = node if isinstance(node, algebra.Aggregate) else None
    where = having
    if aggregate is not None:
        node, where = _below_select(aggregate.input)
    assert isinstance(node, algebra.Window)
    assert isinstance(node.input, algebra.Stream)
    stream = node.input
    names = {field.name: field.name[len(stream.qualifier) + 1 :] for field in stream.columns}
    if aggregate is None:
        keys, outputs = _plain(outputs, names)
        aggregates: tuple[AggregateCall, ...] = ()
        having = None
    else:
        keys = tuple(renamed(key, names) for key in aggregate.keys)
        aggregates = tuple(
            replace(call, argument=call.argument and renamed(call.argument, names))
            for call in aggregate.calls
        )
    assert node.spec.range is not None
    assert node.spec.slide is not None
    return BoundSelect(
        stream=stream.name,
        window=Window(node.spec.range, node.spec.slide),
        where=where and renamed(where, names),
        is_grouped=aggregate is not None,
        distinct=distinct,
        keys=keys,
        aggregates=aggregates,
        having=having,
        outputs=outputs,
        operator=OutputOperator(plan.kind.value),
    )


def missing(plan: algebra.Output) -> str | None:
    """The first construct of the plan, from the sources up, that no runtime executes."""
    for node in _upwards(plan):
        construct = _missing(node)
        if construct is not None:
            return construct
    if sum(isinstance(node, algebra.Project) for node in plan.walk()) > 1:
        return "a sub-query in FROM"
    if isinstance(plan.input, algebra.Distinct) and _is_grouped(plan.input.input):
        return "SELECT DISTINCT of groups"
    return None


def not_yet(plan: algebra.Output, place: Place | None = None) -> NotYet:
    """Why no runtime executes the plan."""
    construct = missing(plan)
    if construct is None:
        raise InternalError("a plan that can be run is called one that cannot")
    return NotYet(f"{construct} cannot be run yet", place=place)


def renamed(scalar: Scalar, names: dict[str, str]) -> Scalar:
    """The scalar over columns of other names."""

    def rename(match: re.Match[str]) -> str:
        written = match[0]
        if written[0] == "'":
            return written
        name = written[1:-1].replace('""', '"')
        return '"' + names.get(name, name).replace('"', '""') + '"'

    return replace(
        scalar,
        sql=_QUOTED.sub(rename, scalar.sql),
        inputs=tuple(names.get(name, name) for name in scalar.inputs),
        column=scalar.column and names.get(scalar.column, scalar.column),
    )


def _below_select(node: algebra.Node) -> tuple[algebra.Node, Scalar | None]:
    if isinstance(node, algebra.Select):
        return node.input, node.predicate
    return node, None


def _plain(outputs: tuple[Named, ...], names: dict[str, str]) -> tuple[tuple[Scalar, ...], tuple[Named, ...]]:
    """Where nothing is grouped the selected expressions, each once, are the keys."""
    keys: dict[Scalar, int] = {}
    columns: list[Named] = []
    for output in outputs:
        index = keys.setdefault(renamed(output.scalar, names), len(keys))
        name = f"k{index}"
        scalar = Scalar(f'"{name}"', output.scalar.type, (name,), name, output.scalar.text)
        columns.append(Named(output.name, scalar))
    return tuple(keys), tuple(columns)


def _upwards(node: algebra.Node) -> list[algebra.Node]:
    """The nodes of a plan, children first."""
    return [*(below for child in node.children for below in _upwards(child)), node]


def _is_grouped(node: algebra.Node) -> bool:
    if not isinstance(node, algebra.Project):
        return False
    return isinstance(_below_select(node.input)[0], algebra.Aggregate)


def _missing(node: algebra.Node) -> str | None:
    """The construct that the node stands for, if no runtime executes it."""
    match node:
        case algebra.Stream():
            return "a stream with LIFETIME BY" if node.has_lifetime else None
        case algebra.Relation():
            return f"a query over the relation '{node.name}'"
        case algebra.Archive():
            return f"a query over the archive '{node.name}'"
        case algebra.Window():
            return _missing_window(node)
        case algebra.Aggregate():
            return None
        case algebra.Select() | algebra.Project():
            return None
        case algebra.Distinct():
            return None
        case algebra.Join() | algebra.RelationJoin():
            return "a join"
        case algebra.SemiJoin():
            return "EXISTS and IN with a sub-query"
        case algebra.Union():
            return "UNION"
        case algebra.Except():
            return "EXCEPT"
        case algebra.Intersect():
            return "INTERSECT"
        case algebra.Limit():
            return "ORDER BY" if node.count is None else "LIMIT"
        case algebra.Output():
            known = [operator.value for operator in OutputOperator]
            return None if node.kind.value in known else node.kind.value.capitalize()
    return type(node).__name__


def _missing_window(window: algebra.Window) -> str | None:
    spec = window.spec
    if not isinstance(window.input, algebra.Stream):
        return "a window over a sub-query"
    if spec.kind is algebra.WindowKind.ROWS:
        return "a window with PARTITION BY" if spec.partition else "a window of ROWS"
    if spec.kind is not algebra.WindowKind.RANGE:
        return f"the window [{spec.kind.value.upper()}]"
    if spec.is_internal:
        return "a window with INTERNAL"
    if spec.offset:
        return "a window with OFFSET"
    return "a window without SLIDE" if spec.slide is None else None
