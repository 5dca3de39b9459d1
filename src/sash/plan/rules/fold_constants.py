"""Constant folding: what is the same for every row is computed once, before the query runs.

    length > 2 * 512                            ⟶  length > 1024
    TRUE AND p,  FALSE AND p                    ⟶  p,  FALSE
    CASE WHEN 1 > 2 THEN a ELSE b END           ⟶  b
    Select TRUE ─ …                             ⟶  …

Constants are computed by DuckDB (`plan/constants.py`), so folding changes neither a value nor a type. What
would raise an error stays as it is written, and raises it when the query runs. Nothing is computed out of
order: `a + 1 + 1` stays, because `a + 2` may overflow where it does not. A branch of CASE or a side of AND
and OR that is dropped is one that DuckDB would not have looked at.
"""

from __future__ import annotations

from functools import lru_cache

from sqlglot import exp

from sash.lang import algebra
from sash.lang.algebra import Node
from sash.lang.bound import Scalar
from sash.plan.constants import is_plain, value_of
from sash.plan.rules.transform import bottom_up
from sash.plan.scalars import map_scalars, readable, scalar_of, tree_of

_TRUE, _FALSE = exp.Boolean(this=True), exp.Boolean(this=False)
_BARE = (exp.Column, exp.Literal, exp.Boolean, exp.Cast, exp.Paren)
# Nodes of a tree that have no value of their own: a branch of CASE, the type of a CAST, the part of EXTRACT.
_PARTS = (exp.If, exp.DataType, exp.Var, exp.Identifier)


def fold_constants(plan: Node) -> Node:
    return bottom_up(plan, _fold)


def _fold(node: Node) -> Node:
    node = map_scalars(node, folded)
    match node:
        case algebra.Select():
            predicate = _truth(node.predicate)
            return node.input if predicate.sql == "TRUE" else algebra.Select(node.input, predicate)
        case algebra.Join() if node.residual is not None and node.residual.sql == "TRUE":
            return algebra.Join(node.inputs, node.equalities)
    return node


def _truth(predicate: Scalar) -> Scalar:
    """A predicate that is NULL for every row lets none pass, as FALSE does."""
    tree = tree_of(predicate.sql)
    if isinstance(tree, exp.Cast) and isinstance(tree.this, exp.Null):
        return scalar_of(_FALSE, predicate.type, "FALSE")
    return predicate


def folded(scalar: Scalar) -> Scalar:
    """The same expression with constant parts computed, and the very same where nothing is constant."""
    tree = _folded(scalar.sql)
    return scalar if tree is None else scalar_of(tree, scalar.type, readable(tree))


@lru_cache(maxsize=16_384)
def _folded(sql: str) -> exp.Expr | None:
    """The folded expression; None where there is nothing to fold."""
    before = tree_of(sql)
    if isinstance(before, exp.Column) or _compares_plainly(before):
        return None
    root = exp.Paren(this=before.copy())
    constant: set[int] = set()
    # Operands before operators, and without recursion: a chain of operators may be very long.
    for node in reversed(list(root.this.dfs())):
        is_constant = not isinstance(node, exp.Column) and all(
            id(child) in constant for child in node.iter_expressions()
        )
        after = _once(node, is_constant)
        if after is not node:
            after = after.copy()
            node.replace(after)
            is_constant = is_constant or is_plain(after)
        if is_constant:
            constant.add(id(after))
    return None if root.this == before else root.this.unnest()


def _compares_plainly(tree: exp.Expr) -> bool:
    """Whether a column is compared with a constant, as most conditions do."""
    is_comparison = isinstance(tree, exp.EQ | exp.NEQ | exp.LT | exp.LTE | exp.GT | exp.GTE)
    return is_comparison and isinstance(tree.this, exp.Column) and is_plain(tree.expression)


def _once(node: exp.Expr, is_constant: bool) -> exp.Expr:
    """What the operator gives over operands that are folded already."""
    if is_constant and not isinstance(node, _PARTS) and not is_plain(node):
        return value_of(node.sql(dialect="duckdb")) or node
    match node:
        case exp.And():
            return _connected(node, neutral=_TRUE, decisive=_FALSE)
        case exp.Or():
            return _connected(node, neutral=_FALSE, decisive=_TRUE)
        case exp.Case():
            return _chosen(node)
    return node


def _connected(tree: exp.Connector, neutral: exp.Expr, decisive: exp.Expr) -> exp.Expr:
    sides = tree.this, tree.expression
    if any(side.unnest() == decisive for side in sides):
        return decisive
    kept = [side for side in sides if side.unnest() != neutral]
    return kept[0] if len(kept) == 1 else tree


def _chosen(case: exp.Case) -> exp.Expr:
    """A CASE without the branches that are never taken, or the one branch that always is.

    Without an ELSE there must be a branch left: a NULL by itself would have no type.
    """
    kept: list[exp.Expr] = []
    default = case.args.get("default")
    for branch in case.args["ifs"]:
        taken = _is_taken(case.this, branch.this)
        if taken is None:
            kept.append(branch)
        elif taken:
            default = branch.args["true"]
            break
    if not kept:
        if default is None:
            return case
        return default if isinstance(default, _BARE) else exp.Paren(this=default.copy())
    if len(kept) < len(case.args["ifs"]):
        case.set("ifs", [branch.copy() for branch in kept])
        case.set("default", None if default is None else default.copy())
    return case


def _is_taken(subject: exp.Expr | None, condition: exp.Expr) -> bool | None:
    """Whether a branch is taken for every row (True), for none (False), or it depends (None)."""
    if subject is None:
        value: exp.Expr | None = condition
    elif is_plain(subject) and is_plain(condition):
        value = value_of(exp.EQ(this=subject.copy(), expression=condition.copy()).sql(dialect="duckdb"))
    else:
        return None
    if value == _TRUE:
        return True
    is_null = isinstance(value, exp.Cast) and isinstance(value.this, exp.Null)
    return False if value == _FALSE or is_null else None
