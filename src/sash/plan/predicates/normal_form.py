"""A WHERE brought to disjunctive normal form, in SQL's logic of TRUE, FALSE and NULL.

Every condition becomes two unions of terms: the rows for which it is TRUE and those for which it is FALSE;
NOT exchanges them, AND and OR combine them, and rows in neither have NULL. An atom compares an expression
with constants (`x < 5`, IN, BETWEEN, IS NULL, a boolean column). A condition of any other kind (a comparison
of two columns, LIKE, …) is taken as a boolean expression of its own, of which only TRUE, FALSE and NULL are
known: it matches where another query has the very same one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache

from sqlglot import exp

from sash.lang.bound import Scalar
from sash.lang.types import Type
from sash.plan.predicates import value_set
from sash.plan.predicates.predicate import ALL_ROWS, NO_ROWS, Predicate, Term, TooManyTerms
from sash.plan.predicates.value_set import NOTHING, NULL, VALUES, Value, ValueSet
from sash.plan.rules.fold_constants import folded
from sash.plan.scalars import tree_of

# Comparisons as sets of values, and with their sides exchanged.
_SETS: dict[type[exp.Expr], Callable[[Value, Type], ValueSet]] = {
    exp.EQ: value_set.only,
    exp.LT: value_set.below,
    exp.LTE: value_set.up_to,
    exp.GT: value_set.above,
    exp.GTE: value_set.from_,
}
_MIRRORED: dict[type[exp.Expr], type[exp.Expr]] = {
    exp.EQ: exp.EQ,
    exp.NEQ: exp.NEQ,
    exp.LT: exp.GT,
    exp.LTE: exp.GTE,
    exp.GT: exp.LT,
    exp.GTE: exp.LTE,
}
_NEGATED: dict[type[exp.Expr], type[exp.Expr]] = {exp.NEQ: exp.EQ, exp.GTE: exp.LT, exp.LTE: exp.GT}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class _Constant:
    value: Value | None
    type: Type


@dataclass(frozen=True, slots=True)
class _Truth:
    """Where a condition is TRUE and where it is FALSE."""

    true: Predicate
    false: Predicate

    def negated(self) -> _Truth:
        return _Truth(self.false, self.true)


def predicate_of(where: Scalar | None) -> Predicate:
    """The rows that a WHERE selects."""
    return ALL_ROWS if where is None else _predicate_of(where)


@lru_cache(maxsize=16_384)
def _predicate_of(where: Scalar) -> Predicate:
    tree = tree_of(folded(where).sql)
    try:
        return _truth(tree).true
    except (TooManyTerms, RecursionError):
        return _boolean(tree).true


def _truth(tree: exp.Expr) -> _Truth:
    tree = tree.unnest()
    match tree:
        case exp.And():
            left, right = _truth(tree.this), _truth(tree.expression)
            return _Truth(left.true & right.true, left.false | right.false)
        case exp.Or():
            left, right = _truth(tree.this), _truth(tree.expression)
            return _Truth(left.true | right.true, left.false & right.false)
        case exp.Not():
            return _truth(tree.this).negated()
        case exp.Boolean():
            return _Truth(ALL_ROWS, NO_ROWS) if tree.this else _Truth(NO_ROWS, ALL_ROWS)
        case exp.Is():
            return _is(tree)
        case exp.In() if tree.args.get("query") is None:
            return _in(tree)
        case exp.Between():
            low, high = tree.args["low"].unnest(), tree.args["high"].unnest()
            value = tree.this
            return _truth(
                exp.And(
                    this=exp.GTE(this=value.copy(), expression=low.copy()),
                    expression=exp.LTE(this=value.copy(), expression=high.copy()),
                )
            )
    if type(tree) in _MIRRORED:
        return _comparison(tree)
    constant = _constant(tree)
    if constant is not None and constant.value is None:
        return _Truth(NO_ROWS, NO_ROWS)
    return _boolean(tree)


def _is(tree: exp.Is) -> _Truth:
    subject, wanted = tree.this.unnest(), tree.expression.unnest()
    if isinstance(wanted, exp.Null):
        return _Truth(_among(subject, NULL), _among(subject, VALUES))
    if isinstance(wanted, exp.Boolean):
        inner = _truth(subject)
        asked = inner.true if wanted.this else inner.false
        return _Truth(asked, ALL_ROWS - asked)
    return _boolean(tree)


def _in(tree: exp.In) -> _Truth:
    members = [_constant(member) for member in tree.expressions]
    if any(member is None for member in members):
        return _boolean(tree)
    found = NOTHING
    has_null = False
    for member in members:
        assert member is not None
        if member.value is None:
            has_null = True
        else:
            found = found | value_set.only(member.value, member.type)
    subject = tree.this.unnest()
    # With a NULL in the list nothing is known not to be in it.
    return _Truth(_among(subject, found), NO_ROWS if has_null else _among(subject, VALUES - found))


def _comparison(tree: exp.Expr) -> _Truth:
    left, right = tree.this.unnest(), tree.expression.unnest()
    operation = type(tree)
    if _constant(left) is not None:
        left, right, operation = right, left, _MIRRORED[operation]
    constant = _constant(right)
    if constant is None or _constant(left) is not None:
        return _between_expressions(left, right, operation)
    if constant.value is None:
        return _Truth(NO_ROWS, NO_ROWS)
    if operation is exp.NEQ:
        return _comparison(exp.EQ(this=left.copy(), expression=right.copy())).negated()
    if constant.type is Type.BOOLEAN and operation is exp.EQ:
        inner = _truth(left)
        return inner if constant.value else inner.negated()
    values = _SETS[operation](constant.value, constant.type)
    return _Truth(_among(left, values), _among(left, VALUES - values))


def _between_expressions(left: exp.Expr, right: exp.Expr, operation: type[exp.Expr]) -> _Truth:
    """Only = and <, from the lesser text to the greater for =, so that more comparisons are the same."""
    if operation in _NEGATED:
        return _between_expressions(left, right, _NEGATED[operation]).negated()
    if operation is exp.GT or (
        operation is exp.EQ and left.sql(dialect="duckdb") > right.sql(dialect="duckdb")
    ):
        left, right, operation = right, left, _MIRRORED[operation]
    return _boolean(operation(this=left.copy(), expression=right.copy()))


def _boolean(tree: exp.Expr) -> _Truth:
    """A condition that is not looked into."""
    true = value_set.only(1, Type.BOOLEAN)
    return _Truth(_among(tree, true), _among(tree, VALUES - true))


def _among(subject: exp.Expr, values: ValueSet) -> Predicate:
    return Predicate.of([Term.of(subject.unnest().sql(dialect="duckdb"), values)])


def _constant(tree: exp.Expr) -> _Constant | None:
    """A constant as `lang/operands.py` writes it; None for anything else."""
    tree = tree.unnest()
    match tree:
        case exp.Boolean():
            return _Constant(int(tree.this), Type.BOOLEAN)
        case exp.Literal(is_string=True):
            return _Constant(str(tree.this), Type.STRING)
        case exp.Literal() | exp.Neg():
            number = _number(tree)
            # A bare integer would not say whether it is compared with integers or with doubles.
            return number if number is not None and number.type is Type.DOUBLE else None
        case exp.Cast(this=exp.Null()):
            return _Constant(None, Type.BOOLEAN)
        case exp.Cast() if tree.to.is_type(exp.DType.BIGINT):
            number = _number(tree.this)
            return number if number is not None and number.type is Type.BIGINT else None
        case exp.Cast(this=exp.Literal(is_string=True)) if tree.to.is_type(exp.DType.TIMESTAMP):
            return _timestamp(str(tree.this.this))
    return None


def _number(tree: exp.Expr) -> _Constant | None:
    sign = 1
    if isinstance(tree, exp.Neg):
        tree, sign = tree.this, -1
    if not isinstance(tree, exp.Literal) or tree.is_string:
        return None
    text = str(tree.this)
    if text.lstrip("-").isdigit():
        return _Constant(sign * int(text), Type.BIGINT)
    return _Constant(sign * float(text), Type.DOUBLE)


def _timestamp(text: str) -> _Constant | None:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    if moment.tzinfo is not None:
        return None
    return _Constant((moment.replace(tzinfo=UTC) - _EPOCH) // timedelta(microseconds=1), Type.TIMESTAMP)
