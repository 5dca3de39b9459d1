"""The scalar functions of CQL: how many arguments each takes, of which types, and its DuckDB form.

Where mathematics has no answer (a zero divisor, the logarithm of nothing) the answer is NULL, never
NaN or infinity. Every form keeps to the invariant of `operands`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from sqlglot import exp

from sash.errors import BindError, Place
from sash.lang import operands as sql
from sash.lang.operands import Operand
from sash.lang.types import Type
from sash.lang.values import AggregateFunction

Arguments = list[Operand]


@dataclass(frozen=True, slots=True)
class Function:
    """`most` None: any number. `build` gets arguments of the right number and checks their types."""

    name: str
    least: int
    most: int | None
    build: Callable[[str, Arguments], Operand]

    def apply(self, arguments: Arguments, place: Place | None) -> Operand:
        count = len(arguments)
        if count < self.least or (self.most is not None and count > self.most):
            raise BindError(
                f"{self.name} with {count} argument{'' if count == 1 else 's'}",
                place=place,
                expected=self._arity(),
                got=str(count),
            )
        return self.build(self.name, arguments)

    def _arity(self) -> str:
        if self.most is None:
            return f"at least {self.least}"
        return str(self.least) if self.least == self.most else f"{self.least} to {self.most}"


# ----------------------------------------------------------------- operators


def zero(type_: Type) -> Operand:
    return sql.integer(0) if type_ is Type.BIGINT else sql.double(0.0)


def nonzero(divisor: Operand, type_: Type) -> Operand:
    """The divisor, NULL where it is zero; a literal is looked at now."""
    if divisor.literal is not None and divisor.literal != 0:
        return divisor
    return sql.null_if(divisor, zero(type_))


def divide(what: str, left: Operand, right: Operand) -> Operand:
    left, right = sql.need(left, Type.DOUBLE, what), sql.need(right, Type.DOUBLE, what)
    return sql.binary(exp.Div, Type.DOUBLE, left, nonzero(right, Type.DOUBLE))


def remainder(what: str, left: Operand, right: Operand) -> Operand:
    type_, (left, right) = sql.unify([sql.need_numeric(o, what) for o in (left, right)], what)
    return sql.binary(exp.Mod, type_, left, nonzero(right, type_))


def divide_integers(what: str, left: Operand, right: Operand) -> Operand:
    left, right = sql.need(left, Type.BIGINT, what), sql.need(right, Type.BIGINT, what)
    return sql.binary(exp.IntDiv, Type.BIGINT, left, nonzero(right, Type.BIGINT))


def negate(operand: Operand) -> Operand:
    """Zero minus x for integers: DuckDB's unary minus may answer in HUGEINT instead of overflowing."""
    type_ = sql.need_numeric(operand, "-").type
    assert type_ is not None
    if type_ is Type.BIGINT:
        return sql.binary(exp.Sub, type_, sql.integer(0), operand)
    return Operand(exp.Neg(this=sql.wrapped(operand)), type_, copies=operand.copies)


def shift(what: str, operator: type[exp.Expression], moment: Operand, microseconds: int) -> Operand:
    """A timestamp moved by an interval."""
    if moment.type is Type.BIGINT:
        hint = "integer time counts units: add a number"
        raise sql.mismatch(moment, "TIMESTAMP", f"{what} with an interval", hint)
    moment = sql.need(moment, Type.TIMESTAMP, f"{what} with an interval")
    interval = sql.call("TO_MICROSECONDS", Type.BIGINT, sql.integer(microseconds))
    return sql.binary(operator, Type.TIMESTAMP, moment, interval)


# ----------------------------------------------------------------- functions


def _fixed(result: Type, *types: Type) -> Callable[[str, Arguments], Operand]:
    """A function of fixed argument types (a shorter call leaves out the last ones)."""

    def build(name: str, arguments: Arguments) -> Operand:
        checked = [sql.need(a, t, name) for a, t in zip(arguments, types, strict=False)]
        return sql.call(name, result, *checked)

    return build


def _concat(name: str, arguments: Arguments) -> Operand:
    return sql.call(name, Type.STRING, *(sql.need(a, Type.STRING, name) for a in arguments))


def _same_type(name: str, arguments: Arguments) -> Operand:
    type_, unified = sql.unify(arguments, name)
    return sql.call(name, type_, *unified)


def _coalesce(name: str, arguments: Arguments) -> Operand:
    type_, unified = sql.unify(arguments, name, nulls=True)
    return sql.call(name, type_, *unified)


def _nullif(name: str, arguments: Arguments) -> Operand:
    _, (left, right) = sql.unify(arguments, name)
    return sql.null_if(left, right)


def _abs(name: str, arguments: Arguments) -> Operand:
    operand = sql.need_numeric(arguments[0], name)
    assert operand.type is not None
    return sql.call(name, operand.type, operand)


def _to_whole(name: str, arguments: Arguments) -> Operand:
    """FLOOR and CEIL: an integer is whole already."""
    operand = sql.need_numeric(arguments[0], name)
    return operand if operand.type is Type.BIGINT else sql.call(name, Type.DOUBLE, operand)


def _round(name: str, arguments: Arguments) -> Operand:
    operand = sql.need_numeric(arguments[0], name)
    digits = 0
    if len(arguments) == 2:
        literal = arguments[1].literal
        if arguments[1].type is not Type.BIGINT or not isinstance(literal, int) or abs(literal) > 15:
            raise sql.mismatch(
                arguments[1],
                "a whole number from -15 to 15",
                "the number of digits of ROUND",
                "write a literal",
            )
        digits = literal
    assert operand.type is not None
    if operand.type is Type.BIGINT and digits >= 0:
        return operand
    if not digits:
        return sql.call(name, operand.type, operand)
    return sql.call(name, operand.type, operand, Operand(sql.number(str(digits)), Type.BIGINT))


def _logarithm(name: str, arguments: Arguments) -> Operand:
    """GREATEST passes over NULL and NULLIF takes out the zero, so only positive numbers reach LN."""
    operand = sql.need(arguments[0], Type.DOUBLE, name)
    positive = sql.null_if(sql.call("GREATEST", Type.DOUBLE, operand, zero(Type.DOUBLE)), zero(Type.DOUBLE))
    return sql.call(name, Type.DOUBLE, positive)


def _defined(name: str, arguments: Arguments) -> Operand:
    """A function of doubles with NULL for NaN, which DuckDB takes as equal to itself."""
    result = sql.call(name, Type.DOUBLE, *(sql.need(a, Type.DOUBLE, name) for a in arguments))
    return sql.null_if(result, sql.cast(sql.string("nan"), Type.DOUBLE))


FUNCTIONS: dict[str, Function] = {
    function.name: function
    for function in (
        Function("ABS", 1, 1, _abs),
        Function("CEIL", 1, 1, _to_whole),
        Function("COALESCE", 1, None, _coalesce),
        Function("CONCAT", 1, None, _concat),
        Function("EXP", 1, 1, _fixed(Type.DOUBLE, Type.DOUBLE)),
        Function("FLOOR", 1, 1, _to_whole),
        Function("GREATEST", 1, None, _same_type),
        Function("LEAST", 1, None, _same_type),
        Function("LENGTH", 1, 1, _fixed(Type.BIGINT, Type.STRING)),
        Function("LN", 1, 1, _logarithm),
        Function("LOWER", 1, 1, _fixed(Type.STRING, Type.STRING)),
        Function("MOD", 2, 2, lambda name, arguments: remainder(name, *arguments)),
        Function("NULLIF", 2, 2, _nullif),
        Function("POWER", 2, 2, _defined),
        Function("REPLACE", 3, 3, _fixed(Type.STRING, Type.STRING, Type.STRING, Type.STRING)),
        Function("ROUND", 1, 2, _round),
        Function("SQRT", 1, 1, _defined),
        Function("SUBSTRING", 2, 3, _fixed(Type.STRING, Type.STRING, Type.BIGINT, Type.BIGINT)),
        Function("TRIM", 1, 1, _fixed(Type.STRING, Type.STRING)),
        Function("UPPER", 1, 1, _fixed(Type.STRING, Type.STRING)),
    )
}

# EXTRACT(part FROM timestamp): whole numbers, but EPOCH keeps fractions of a second.
EXTRACT_PARTS: dict[str, Type] = {
    **dict.fromkeys(
        ("YEAR", "QUARTER", "MONTH", "WEEK", "DAY", "DOW", "DOY", "HOUR", "MINUTE", "SECOND"), Type.BIGINT
    ),
    "EPOCH": Type.DOUBLE,
}

# What users write, and what it means; MEDIAN has its parameter built in.
AGGREGATES: dict[str, AggregateFunction] = {
    **{function.value: function for function in AggregateFunction},
    "VARIANCE": AggregateFunction.VAR,
    "VAR_SAMP": AggregateFunction.VAR,
    "STDDEV_SAMP": AggregateFunction.STDDEV,
    "MEDIAN": AggregateFunction.QUANTILE,
}


def function_names() -> list[str]:
    """What a user may call, as errors list it."""
    return sorted(name.lower() for name in (*FUNCTIONS, *AGGREGATES, "CAST", "EXTRACT"))
