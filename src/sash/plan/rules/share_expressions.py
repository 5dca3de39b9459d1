"""Common sub-expressions: what several expressions over one row need is computed once, and named.

    Project lower(src) || '!' AS a                Project e0 || '!' AS a
    └─ Window                                     └─ Window
       └─ Select lower(src) LIKE 'a%'      ⟶         └─ Select e0 LIKE 'a%'
          └─ Stream packets                             └─ Project lower(src) AS e0
                                                           └─ Stream packets

The expressions looked at are those of a projection or a grouping and of the selections below it, through
windows. Sharing must

- **save work**: an operator counts 1, a function or a CASE 2. All uses but one must add up to 2 or more,
  because a value that is kept for every row costs something, too;
- **raise no error that was not there**: it is computed below the lowest operator that surely computes it for
  every row. What stands in a branch of CASE, after the first argument of COALESCE or after the first part of
  an AND or OR is not surely computed, so it is shared only if it also stands somewhere in the open;
- **not widen a window**: it passes a window only if the rows in it get no more columns than before.

Whole sub-plans that are equal are not the business of this rule: `plan/canonical.py` recognises them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache

from sqlglot import exp

from sash.lang import algebra
from sash.lang.algebra import Node
from sash.lang.bound import Named, Scalar
from sash.lang.types import Type
from sash.plan.constants import is_plain, type_of
from sash.plan.rules.transform import bottom_up
from sash.plan.scalars import map_scalars, passed_on, readable, scalar_of, tree_of

# The work that must be saved, in operators.
LEAST_SAVED = 2

_FREE = (
    exp.Column, exp.Identifier, exp.Literal, exp.Boolean, exp.Null, exp.Paren, exp.DataType, exp.Var, exp.If,
)  # fmt: skip
_CHEAP = (exp.Binary, exp.Unary, exp.Cast, exp.In, exp.Between)
_DEAR = (exp.DPipe, exp.Like)


def share_expressions(plan: Node) -> Node:
    return bottom_up(plan, _share)


def _share(node: Node) -> Node:
    if not isinstance(node, algebra.Project | algebra.Aggregate):
        return node
    levels = _Levels(list(_chain(node)))
    found = True
    while found:
        found = levels.share_one()
    return levels.rebuilt() if levels.shared else node


def _chain(node: algebra.Project | algebra.Aggregate) -> Iterator[Node]:
    """The operators that see the same rows and columns, from the top down."""
    yield node
    below = node.input
    while isinstance(below, algebra.Select | algebra.Window) or _is_narrowing(below):
        yield below
        (below,) = below.children


def _is_narrowing(node: Node) -> bool:
    return isinstance(node, algebra.Project) and all(o.scalar.column == o.name for o in node.outputs)


@dataclass(frozen=True, slots=True)
class _Part:
    """A part of an expression: its SQL, its work, and whether it is computed for every row."""

    sql: str
    weight: int
    is_certain: bool


@dataclass(frozen=True, slots=True)
class _Shared:
    """An expression that gets a name below the operator at `level`."""

    level: int
    output: Named


class _Levels:
    """A chain of operators, the top one first, and what has been given a name so far."""

    def __init__(self, nodes: list[Node]) -> None:
        self.nodes = nodes
        self.base = nodes[-1].children[0]
        # Projections further down pass on what is needed above them, whatever that will be.
        self.scalars = [
            () if level and isinstance(node, algebra.Project) else _scalars(node)
            for level, node in enumerate(nodes)
        ]
        self.shared: list[_Shared] = []
        self._taken = {name for node in (*nodes, self.base) for name in node.names}

    def share_one(self) -> bool:
        """Give a name to the largest expression for which it pays; whether there was one."""
        uses: dict[str, list[tuple[int, _Part]]] = {}
        for level, scalars in enumerate(self.scalars):
            for scalar in scalars:
                for part in _parts(scalar.sql):
                    uses.setdefault(part.sql, []).append((level, part))
        repeated = {sql: found for sql, found in uses.items() if len(found) > 1}
        for sql in sorted(repeated, key=lambda sql: (-repeated[sql][0][1].weight, sql)):
            found = repeated[sql]
            certain = [level for level, part in found if part.is_certain]
            if not certain:
                continue
            level = max(certain)
            count = sum(at <= level for at, _ in found)
            if (count - 1) * found[0][1].weight >= LEAST_SAVED and self._name(sql, level):
                return True
        return False

    def _name(self, sql: str, level: int) -> bool:
        type_ = self._type(sql)
        if type_ is None:
            return False
        name = next(f"e{i}" for i in range(len(self._taken) + 1) if f"e{i}" not in self._taken)
        tree = tree_of(sql)
        scalars = [
            tuple(_replaced(scalar, tree, name) for scalar in each) if at <= level else each
            for at, each in enumerate(self.scalars)
        ]
        windows = [at for at in range(level) if isinstance(self.nodes[at], algebra.Window)]
        if any(len(self._needed(at, scalars)) > len(self._needed(at, self.scalars)) for at in windows):
            return False
        self.scalars = scalars
        self.shared.append(_Shared(level, Named(name, scalar_of(tree, type_, readable(tree)))))
        self._taken.add(name)
        return True

    def _type(self, sql: str) -> Type | None:
        types = {field.name: field.type for node in (self.base, *self.nodes[1:]) for field in node.fields}
        return type_of(sql, tuple(sorted((name, types[name]) for name in _columns(sql))))

    def _needed(self, level: int, scalars: list[tuple[Scalar, ...]]) -> set[str]:
        """The columns that the operators above `level`, or what is named above it, read."""
        needed = {name for each in scalars[:level] for scalar in each for name in scalar.inputs}
        for node in self.nodes[:level]:
            if isinstance(node, algebra.Window):
                needed.update(node.spec.partition)
        for shared in self.shared:
            if shared.level < level:
                needed.update(shared.output.scalar.inputs)
        return needed - {shared.output.name for shared in self.shared if shared.level < level}

    def _reads(self, level: int) -> set[str]:
        """The columns that the operator at `level` reads."""
        node = self.nodes[level]
        partition = node.spec.partition if isinstance(node, algebra.Window) else ()
        return {name for scalar in self.scalars[level] for name in scalar.inputs} | set(partition)

    def rebuilt(self) -> Node:
        """The chain from the bottom up, with what has a name computed where it must be."""
        current = self.base
        for level in reversed(range(len(self.nodes))):
            named = tuple(shared.output for shared in self.shared if shared.level == level)
            if named:
                reads = self._needed(level, self.scalars) | self._reads(level)
                kept = passed_on(field for field in current.fields if field.name in reads)
                current = algebra.Project(current, kept + named)
            current = self._one(level, current)
        return current

    def _one(self, level: int, below: Node) -> Node:
        node = self.nodes[level]
        if level and isinstance(node, algebra.Project):
            reads = self._needed(level, self.scalars)
            kept = tuple(field for field in below.fields if field.name in reads) or below.fields[:1]
            return below if kept == below.fields else algebra.Project(below, passed_on(kept))
        after = iter(self.scalars[level])
        return map_scalars(node, lambda _: next(after), (below,))


def _scalars(node: Node) -> tuple[Scalar, ...]:
    """The expressions of an operator in the order in which `map_scalars` visits them."""
    found: list[Scalar] = []

    def seen(scalar: Scalar) -> Scalar:
        found.append(scalar)
        return scalar

    map_scalars(node, seen)
    return tuple(found)


def _columns(sql: str) -> Iterable[str]:
    return {column.name for column in tree_of(sql).find_all(exp.Column)}


def _replaced(scalar: Scalar, part: exp.Expr, name: str) -> Scalar:
    """The scalar with every occurrence of `part` replaced by the column of that name."""
    tree = (
        tree_of(scalar.sql)
        .copy()
        .transform(lambda node: exp.column(name, quoted=True) if node == part else node)
    )
    # Parentheses around what is now a column are of no use.
    tree = tree.transform(lambda node: node.unnest() if isinstance(node.unnest(), exp.Column) else node)
    changed = scalar_of(tree, scalar.type)
    return scalar if changed == scalar else replace(changed, text=readable(tree))


# --------------------------------------------------------------------------- parts of an expression


@lru_cache(maxsize=16_384)
def _parts(sql: str) -> tuple[_Part, ...]:
    """The parts of an expression that do some work on a row, and the expression itself."""
    found = []
    pending = [(tree_of(sql), True)]
    while pending:
        node, is_certain = pending.pop()
        if is_plain(node):
            continue
        weight = sum(_weight(below) for below in node.dfs())
        if weight and not isinstance(node, exp.Paren | exp.If) and node.find(exp.Column):
            found.append(_Part(node.sql(dialect="duckdb"), weight, is_certain))
        certain = _certain(node)
        pending += (
            (c, is_certain and (certain is None or any(c is k for k in certain))) for c in _inner(node)
        )
    return tuple(found)


def _inner(node: exp.Expr) -> list[exp.Expr]:
    return [
        child for child in node.iter_expressions() if not isinstance(child, exp.Identifier | exp.DataType)
    ]


def _weight(node: exp.Expr) -> int:
    if isinstance(node, _FREE) or is_plain(node):
        return 0
    return 1 if isinstance(node, _CHEAP) and not isinstance(node, _DEAR) else 2


def _certain(node: exp.Expr) -> list[exp.Expr] | None:
    """The operands that are computed whatever the others are; None for all."""
    match node:
        case exp.And() | exp.Or() | exp.In() | exp.Coalesce():
            return [node.this]
        case exp.Between():
            return [node.this, node.args["low"]]
        case exp.Case():
            return [node.args["ifs"][0], *([node.this] if node.this is not None else [])]
        case exp.If():
            return [node.this]
    return None
