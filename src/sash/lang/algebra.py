"""The relational algebra of a bound query: streams, relations, windows and the operators over them.

Nodes are immutable and check themselves when they are made. Every node gives rows with named, typed
fields. Names are canonical, so that equal meaning is equal value: a column of a source is called
`source.column`, a second use of the same source in one query `source#2.column`; the columns of a
sub-query in FROM are `(1).c0`, `(1).c1`, …; aliases leave no trace. Only the fields of the outermost
Project have the names that the user gave. Scalars are DuckDB SQL over those names, quoted.

    Output                Istream, Dstream, Rstream, Wstream, or the view
    └─ Limit              ORDER BY … LIMIT on a periodic answer
       └─ Project         named expressions
          └─ Select       a predicate (WHERE, or HAVING over an Aggregate)
             └─ Aggregate / Distinct / Join / SemiJoin / RelationJoin / Union / Except / Intersect
                └─ Window over Stream, or over a sub-query's output
"""

from __future__ import annotations

import enum
from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from typing import Self

from sash.errors import InternalError
from sash.lang.types import Type
from sash.lang.values import AggregateCall, Named, Scalar


@dataclass(frozen=True, slots=True)
class Field:
    """A column of a node's rows."""

    name: str
    type: Type


class _Remembered:
    """Places for a node's hash and children. They are no fields: neither compared, copied, nor pickled."""

    __slots__ = ("_children", "_hash")
    _hash: int
    _children: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Node(_Remembered):
    """An operator. Children are the fields that are nodes, in order."""

    @property
    def children(self) -> tuple[Node, ...]:
        try:
            return self._children
        except AttributeError:
            values = (getattr(self, name) for name in _inputs(self))
            parts = ((value,) if isinstance(value, Node) else value for value in values)
            object.__setattr__(self, "_children", tuple(node for part in parts for node in part))
            return self._children

    def with_children(self, children: tuple[Node, ...]) -> Self:
        """The same operator over other inputs."""
        if children == self.children:
            return self
        rest = iter(children)
        changes: dict[str, object] = {}
        for name in _inputs(self):
            value = getattr(self, name)
            changes[name] = next(rest) if isinstance(value, Node) else tuple(next(rest) for _ in value)
        return replace(self, **changes)

    @property
    def fields(self) -> tuple[Field, ...]:
        """The columns of its rows."""
        raise InternalError(f"{type(self).__name__} has no fields")

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(field.name for field in self.fields)

    def walk(self) -> Iterator[Node]:
        """This node and all below it, parents first."""
        yield self
        for child in self.children:
            yield from child.walk()


# The names of the fields that hold nodes, by operator; looked up once, as plans are walked all the time.
_INPUTS: dict[type, tuple[str, ...]] = {}


def _inputs(node: Node) -> tuple[str, ...]:
    found = _INPUTS.get(type(node))
    if found is None:
        types = ("Node", "Relation", "tuple[Node, ...]")
        found = tuple(field.name for field in fields(node) if field.type in types)
        _INPUTS[type(node)] = found
    return found


def _require(scalar: Scalar, node: Node) -> None:
    missing = [name for name in scalar.inputs if name not in node.names]
    if missing:
        raise InternalError(f"{scalar.sql} reads {', '.join(missing)}, which its input does not have")


def _require_unique(node: Node) -> None:
    if len(set(node.names)) < len(node.names):
        raise InternalError(f"two columns of a {type(node).__name__} have one name")


# --------------------------------------------------------------------------- leaves


@dataclass(frozen=True, slots=True)
class Stream(Node):
    """All tuples of a stream so far. `qualifier` is its name, or name#2, … for a second use.

    With `has_lifetime` the source says how long each tuple lives: even an unbounded window is bounded.
    """

    name: str
    qualifier: str
    columns: tuple[Field, ...]
    has_lifetime: bool = False

    @property
    def fields(self) -> tuple[Field, ...]:
        return self.columns


@dataclass(frozen=True, slots=True)
class Relation(Node):
    """A relation; non-retroactive updates touch only stream tuples that arrive later (002, 3.3.1).

    `key` names fields. A static relation is read once and has no updates.
    """

    name: str
    qualifier: str
    columns: tuple[Field, ...]
    key: tuple[str, ...]
    is_retroactive: bool
    is_static: bool = False

    @property
    def fields(self) -> tuple[Field, ...]:
        return self.columns

    @property
    def is_revised(self) -> bool:
        """Whether updates come that take results back."""
        return self.is_retroactive and not self.is_static


@dataclass(frozen=True, slots=True)
class Archive(Node):
    """The results that an archive holds; `range` asks for a smaller window of them."""

    name: str
    qualifier: str
    columns: tuple[Field, ...]
    range: int | None = None

    @property
    def fields(self) -> tuple[Field, ...]:
        return self.columns


# --------------------------------------------------------------------------- windows


class WindowKind(enum.Enum):
    RANGE = "range"
    ROWS = "rows"
    NOW = "now"
    UNBOUNDED = "unbounded"


@dataclass(frozen=True, slots=True)
class WindowSpec:
    """What a window holds. Times are microseconds; `slide` counts tuples for ROWS.

    `partition` names the columns of PARTITION BY … ROWS n.
    """

    kind: WindowKind
    range: int | None = None
    rows: int | None = None
    partition: tuple[str, ...] = ()
    slide: int | None = None
    offset: int = 0
    is_internal: bool = False

    @property
    def is_time_based(self) -> bool:
        return self.kind in (WindowKind.RANGE, WindowKind.NOW)


@dataclass(frozen=True, slots=True)
class Window(Node):
    """A stream made a relation that changes with time."""

    input: Node
    spec: WindowSpec

    @property
    def fields(self) -> tuple[Field, ...]:
        return self.input.fields


# --------------------------------------------------------------------------- operators


@dataclass(frozen=True, slots=True)
class Select(Node):
    """The rows for which the predicate is true."""

    input: Node
    predicate: Scalar

    def __post_init__(self) -> None:
        _require(self.predicate, self.input)

    @property
    def fields(self) -> tuple[Field, ...]:
        return self.input.fields


@dataclass(frozen=True, slots=True)
class Project(Node):
    """Named expressions over each row; equal results are kept as often as they occur."""

    input: Node
    outputs: tuple[Named, ...]

    def __post_init__(self) -> None:
        for output in self.outputs:
            _require(output.scalar, self.input)

    @property
    def fields(self) -> tuple[Field, ...]:
        return tuple(Field(output.name, output.scalar.type) for output in self.outputs)


@dataclass(frozen=True, slots=True)
class Equality:
    """left = right, an expression over each of two inputs of a join, given by their positions."""

    left_input: int
    left: Scalar
    right_input: int
    right: Scalar


@dataclass(frozen=True, slots=True)
class Join(Node):
    """An n-way join of windows: the equalities hold, and so does `residual` if there is one."""

    inputs: tuple[Node, ...]
    equalities: tuple[Equality, ...]
    residual: Scalar | None = None

    def __post_init__(self) -> None:
        if len(self.inputs) < 2:
            raise InternalError("a join has at least two inputs")
        _require_unique(self)
        for equality in self.equalities:
            _require(equality.left, self.inputs[equality.left_input])
            _require(equality.right, self.inputs[equality.right_input])
        if self.residual is not None:
            _require(self.residual, self)

    @property
    def fields(self) -> tuple[Field, ...]:
        return tuple(field for node in self.inputs for field in node.fields)


@dataclass(frozen=True, slots=True)
class RelationJoin(Node):
    """A join of stream rows with a relation on expressions of the row and columns of the relation.

    Outer keeps rows without a match, with NULL for the relation's columns.
    """

    input: Node
    relation: Relation
    left_keys: tuple[Scalar, ...]
    right_keys: tuple[Scalar, ...]
    residual: Scalar | None = None
    is_outer: bool = False

    def __post_init__(self) -> None:
        _require_unique(self)
        for key in self.left_keys:
            _require(key, self.input)
        for key in self.right_keys:
            _require(key, self.relation)
        if self.residual is not None:
            _require(self.residual, self)

    @property
    def fields(self) -> tuple[Field, ...]:
        return (*self.input.fields, *self.relation.fields)


@dataclass(frozen=True, slots=True)
class SemiJoin(Node):
    """Left rows with a match on the right (EXISTS, IN), or without (`is_anti`: NOT EXISTS, NOT IN).

    Without keys, a match is any row. `nulls_match` is set for NOT IN, where a NULL on either side of the
    first pair of keys makes the predicate unknown: there NULL matches everything.
    """

    left: Node
    right: Node
    left_keys: tuple[Scalar, ...]
    right_keys: tuple[Scalar, ...]
    is_anti: bool
    nulls_match: bool = False

    def __post_init__(self) -> None:
        if len(self.left_keys) != len(self.right_keys):
            raise InternalError("a semi-join compares as many expressions on both sides")
        for key in self.left_keys:
            _require(key, self.left)
        for key in self.right_keys:
            _require(key, self.right)

    @property
    def fields(self) -> tuple[Field, ...]:
        return self.left.fields


@dataclass(frozen=True, slots=True)
class Distinct(Node):
    input: Node

    @property
    def fields(self) -> tuple[Field, ...]:
        return self.input.fields


@dataclass(frozen=True, slots=True)
class Aggregate(Node):
    """One row per group: the keys k0, k1, …, then the aggregates a0, a1, ….

    Without keys there is one group, also over no rows at all. `keys` has at least one element or
    `calls` has.
    """

    input: Node
    keys: tuple[Scalar, ...]
    calls: tuple[AggregateCall, ...]

    def __post_init__(self) -> None:
        for key in self.keys:
            _require(key, self.input)
        for call in self.calls:
            if call.argument is not None:
                _require(call.argument, self.input)

    @property
    def fields(self) -> tuple[Field, ...]:
        keys = tuple(Field(f"k{i}", key.type) for i, key in enumerate(self.keys))
        return keys + tuple(Field(f"a{i}", call.type) for i, call in enumerate(self.calls))


@dataclass(frozen=True, slots=True)
class _SetOperation(Node):
    """Rows are compared by position; the names are the left input's."""

    left: Node
    right: Node

    def __post_init__(self) -> None:
        if [f.type for f in self.left.fields] != [f.type for f in self.right.fields]:
            raise InternalError("a set operation needs inputs of the same types")

    @property
    def fields(self) -> tuple[Field, ...]:
        return self.left.fields


@dataclass(frozen=True, slots=True)
class Union(_SetOperation):
    """Merge-union: both bags together."""


@dataclass(frozen=True, slots=True)
class Except(_SetOperation):
    """Negation by multiplicities: a row as often as it is on the left more than on the right."""


@dataclass(frozen=True, slots=True)
class Intersect(_SetOperation):
    """A row as often as it is on both sides."""


@dataclass(frozen=True, slots=True)
class SortKey:
    scalar: Scalar
    is_descending: bool = False
    nulls_first: bool = False


@dataclass(frozen=True, slots=True)
class Limit(Node):
    """The first rows of a periodic answer in some order."""

    input: Node
    order: tuple[SortKey, ...]
    count: int | None

    def __post_init__(self) -> None:
        for key in self.order:
            _require(key.scalar, self.input)

    @property
    def fields(self) -> tuple[Field, ...]:
        return self.input.fields


class OutputKind(enum.Enum):
    VIEW = "view"
    ISTREAM = "istream"
    DSTREAM = "dstream"
    RSTREAM = "rstream"
    WSTREAM = "wstream"
    ISTREAM_RESTORE = "istream-restore"
    RSTREAM_RESTORE = "rstream-restore"


@dataclass(frozen=True, slots=True)
class Output(Node):
    """How the answer leaves; `window` is that of Wstream.

    `watched` are the windows of an Rstream as they are written, with all of their rows: conditions may come
    to stand below those of the plan. It is evaluated when a row enters or leaves one of them.
    """

    input: Node
    kind: OutputKind
    window: WindowSpec | None = None
    watched: tuple[Window, ...] = ()

    def __post_init__(self) -> None:
        if (self.window is not None) != (self.kind is OutputKind.WSTREAM):
            raise InternalError("Wstream, and nothing else, has an output window")

    @property
    def fields(self) -> tuple[Field, ...]:
        return self.input.fields


# --------------------------------------------------------------------------- hashes


def _remember_hash(kind: type[Node]) -> None:
    """Compute the hash of a node once: planning looks plans up by value all the time, and they are deep."""
    compute = kind.__hash__

    def remembered(self: Node) -> int:
        try:
            return self._hash
        except AttributeError:
            object.__setattr__(self, "_hash", compute(self))
            return self._hash

    kind.__hash__ = remembered  # type: ignore[method-assign, assignment]


for _kind in (
    Stream, Relation, Archive, Window, Select, Project, Join, RelationJoin, SemiJoin, Distinct, Aggregate,
    Union, Except, Intersect, Limit, Output,
):  # fmt: skip
    _remember_hash(_kind)
