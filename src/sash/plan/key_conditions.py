"""What a WHERE says of single columns: values that they must have, or bounds between which they lie.

Whoever finds rows by a column, an archive by its key or an index of kept rows, asks for these; the rest of
the WHERE is left to whoever reads the rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from sqlglot import exp

from sash.lang import algebra
from sash.lang.algebra import Node
from sash.lang.bound import Scalar
from sash.plan.constants import is_plain
from sash.plan.scalars import conjuncts, tree_of

Value = int | float | str | bool | datetime


@dataclass(frozen=True, slots=True)
class Among:
    """The column has one of some values; a probe has one."""

    column: str
    values: tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class Between:
    """The column lies between two bounds, which belong to it unless they are open; None is no bound."""

    column: str
    low: Value | None = None
    high: Value | None = None
    is_low_open: bool = False
    is_high_open: bool = False


Condition = Among | Between


def conditions_of(scan: Node) -> list[Condition]:
    """What selections over a stream, right above it, say of its single columns."""
    found: list[Condition] = []
    selections: list[algebra.Select] = []
    for node in scan.walk():
        match node:
            case algebra.Project():
                # What is above it speaks of other columns.
                selections.clear()
            case algebra.Select():
                selections.append(node)
            case algebra.Stream():
                for select in selections:
                    for part in conjuncts(select.predicate):
                        found.extend(conditions_in(part, node.qualifier))
    return found


_MIRRORED: dict[type[exp.Binary], type[exp.Binary]] = {
    exp.EQ: exp.EQ,
    exp.GT: exp.LT,
    exp.GTE: exp.LTE,
    exp.LT: exp.GT,
    exp.LTE: exp.GTE,
}


def conditions_in(predicate: Scalar, qualifier: str) -> Iterator[Condition]:
    """Conditions on single columns that hold wherever the predicate does."""
    tree = tree_of(predicate.sql).unnest()
    match tree:
        case exp.In() if tree.args.get("query") is None:
            name = _column(tree.this, qualifier)
            values = [_constant(each) for each in tree.expressions]
            if name is not None and values and all(value is not None for value in values):
                yield Among(name, tuple(value for value in values if value is not None))
        case exp.Between():
            name = _column(tree.this, qualifier)
            low, high = _constant(tree.args["low"]), _constant(tree.args["high"])
            if name is not None and low is not None and high is not None:
                yield Between(name, low, high)
        case exp.EQ() | exp.GT() | exp.GTE() | exp.LT() | exp.LTE():
            kind: type[exp.Binary] = type(tree)
            name, value = _column(tree.this, qualifier), _constant(tree.expression)
            if name is None:
                kind = _MIRRORED[kind]
                name, value = _column(tree.expression, qualifier), _constant(tree.this)
            if name is not None and value is not None:
                yield _compared(name, kind, value)


def _compared(name: str, kind: type[exp.Binary], value: Value) -> Condition:
    if kind is exp.EQ:
        return Among(name, (value,))
    is_open = kind in (exp.GT, exp.LT)
    if kind in (exp.GT, exp.GTE):
        return Between(name, low=value, is_low_open=is_open)
    return Between(name, high=value, is_high_open=is_open)


def _column(tree: exp.Expr, qualifier: str) -> str | None:
    tree = tree.unnest()
    if isinstance(tree, exp.Column) and tree.name.startswith(f"{qualifier}."):
        return tree.name[len(qualifier) + 1 :]
    return None


def _constant(tree: exp.Expr) -> Value | None:
    """The value of a constant; None where it is not one, or NULL."""
    tree = tree.unnest()
    if not is_plain(tree):
        return None
    match tree:
        case exp.Neg():
            return -float(tree.this.this)
        case exp.Boolean():
            return bool(tree.this)
        case exp.Literal():
            return str(tree.this) if tree.is_string else float(tree.this)
        case exp.Cast(this=exp.Literal(is_string=True)):
            return datetime.fromisoformat(tree.this.this)
        case exp.Cast(this=exp.Neg()):
            return -int(tree.this.this.this)
        case exp.Cast(this=exp.Literal()):
            return int(tree.this.this)
    return None
