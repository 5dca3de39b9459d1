"""Hypothesis strategies for expressions: templates whose holes are columns of one type.

A column knows what may be done with it so that a right answer is one answer. Sums of an `exact` one do not
depend on their order; a `small` one is a finite number near zero, so that rounding a variance of it does
not hang on the last bit.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from hypothesis import strategies as st

from sash.lang.types import Type

T = TypeVar("T")
# A multiple of every small number of options.
_INDEX = st.integers(0, 839)
_HOLE = re.compile(r"\{([idsbt])\}")
_HOLES = {"i": Type.BIGINT, "d": Type.DOUBLE, "s": Type.STRING, "b": Type.BOOLEAN, "t": Type.TIMESTAMP}
_LITERALS = {"i": "1", "d": "0.5", "s": "'a'", "b": "TRUE", "t": "TIMESTAMP '1970-01-01 00:00:01'"}


@dataclass(frozen=True, slots=True)
class Col:
    """A column or an expression: its text, its type, and what sums and variances of it are like."""

    sql: str
    type: Type
    exact: bool = True
    small: bool = False
    # A number that counts time is equal to no other, so conditions leave it alone.
    is_time: bool = False

    def named(self, name: str) -> Col:
        return replace(self, sql=name)


@dataclass(frozen=True, slots=True)
class Template:
    """An expression with holes: {i} a BIGINT, {d} a DOUBLE, {s} a STRING, {b} a BOOLEAN, {t} a TIMESTAMP."""

    text: str
    exact: bool = True
    small: bool = False


def _templates(*texts: str, exact: bool = True, small: bool = False) -> tuple[Template, ...]:
    return tuple(Template(text, exact, small) for text in texts)


# The column itself comes first: that is what an example shrinks to.
TEMPLATES: dict[Type, tuple[Template, ...]] = {
    Type.BIGINT: (
        *_templates("{i}", "{i}", "{i}", "{i} + 1", "{i} - {i}", "ABS({i})", "COALESCE({i}, 0)", "{i} * 2"),
        *_templates("GREATEST({i}, {i})", "CASE WHEN {b} THEN {i} ELSE 7 END"),
        *_templates("{i} % 3", "LENGTH({s})", "EXTRACT(SECOND FROM {t})", "3 + 4", small=True),
    ),
    Type.DOUBLE: (
        *_templates("{d}", "{d}", "{d} * 0.5", "{d} + {i}", "{d} - {d}", "{i} * 0.25", "COALESCE({d}, 1.5)"),
        *_templates("{i} / 3", "SQRT({d})", "{d} / {i}", exact=False),
    ),
    Type.STRING: _templates(
        "{s}",
        "{s}",
        "UPPER({s})",
        "{s} || '!'",
        "COALESCE({s}, 'none')",
        "CASE WHEN {b} THEN {s} END",
        "'one'",
    ),
    Type.BOOLEAN: _templates("{b}", "{b}", "NOT {b}", "{i} > 0", "{s} = 'a'", "{d} < 0.5", "{t} IS NULL"),
    Type.TIMESTAMP: _templates("{t}", "{t}", "{t} + INTERVAL '1' SECOND", "COALESCE({t}, {t})"),
}
CONDITIONS = (
    "{i} < 2",
    "{s} <> 'b'",
    "{i} >= 0",
    "{s} IS NOT NULL",
    "{b} OR {i} = 1",
    "NOT {b} OR {s} = 'a'",
    "{d} < 1.0",
    "{d} = {d}",
    "{i} <> {i} OR {b}",
    "{i} IN (0, 1)",
    "{s} LIKE 'a%'",
    "{b}",
    "{t} IS NULL OR {i} BETWEEN 0 AND 2",
    "COALESCE({s}, 'a') = 'a'",
    "{i} = 99",
)
# Between columns of the left ({…}) and of the right ([…]) of a join.
THETAS = (
    "{i} < [i]",
    "{s} <> [s]",
    "{i} + [i] = 2",
    "{d} >= [d]",
    "{i} <= [i] OR {b}",
    "{b} = [b] OR {s} = [s]",
    "{i} <> [d]",
)
# What a group may be asked, over its keys and aggregates too.
HAVINGS = (
    "COUNT(*) > 1",
    "COUNT(*) < 3",
    "MAX({i}) > 0",
    "SUM({i}) >= 1",
    "MIN({s}) = 'a'",
    "COUNT({s}) <> 1",
)


def pick(draw: st.DrawFn, options: Sequence[T]) -> T:
    """One of the options; the first is the simplest.

    It is drawn in the same way however many there are, so that a stream or a column that is left out when an
    example is made smaller does not change what is drawn after it.
    """
    return options[draw(_INDEX) % len(options)]


def of_type(columns: Sequence[Col], type_: Type) -> list[Col]:
    return [column for column in columns if column.type is type_]


def timeless(columns: Sequence[Col]) -> list[Col]:
    return [column for column in columns if not column.is_time]


def filled(draw: st.DrawFn, text: str, columns: Sequence[Col]) -> tuple[str, list[Col]]:
    """The template with a column, or a literal where there is none, in each hole; and those columns."""
    used: list[Col] = []

    def fill(match: re.Match[str]) -> str:
        fitting = of_type(columns, _HOLES[match[1]])
        if not fitting:
            return _LITERALS[match[1]]
        used.append(pick(draw, fitting))
        return used[-1].sql

    return _HOLE.sub(fill, text), used


def condition(draw: st.DrawFn, columns: Sequence[Col]) -> str:
    """A condition over the columns."""
    return filled(draw, pick(draw, CONDITIONS), timeless(columns))[0]


def theta(draw: st.DrawFn, left: Sequence[Col], right: Sequence[Col]) -> str:
    """A condition that compares two sides."""
    half, _ = filled(draw, pick(draw, THETAS), timeless(left))
    return filled(draw, re.sub(r"\[(\w)\]", r"{\1}", half), timeless(right))[0]


def expression(draw: st.DrawFn, columns: Sequence[Col], type_: Type | None = None) -> Col:
    """An expression of the type, or of the type of some column."""
    if type_ is None:
        type_ = pick(draw, columns).type
    template = pick(draw, TEMPLATES[type_])
    text, used = filled(draw, template.text, columns)
    is_column = template.text.startswith("{") and template.text.endswith("}") and len(template.text) == 3
    small = template.small or (is_column and all(column.small for column in used))
    return Col(text, type_, template.exact and all(column.exact for column in used), small)


def aggregate(draw: st.DrawFn, columns: Sequence[Col]) -> Col:
    """A call of any aggregate over the columns, with an argument that it has one right answer for."""
    numbers = [c for c in columns if c.type.is_numeric and c.exact]
    small = [c for c in columns if c.type.is_numeric and c.small]
    listed = [c for c in columns if c.type in (Type.STRING, Type.BIGINT, Type.BOOLEAN)]
    kinds = ["count", "value", "distinct", "quantile"]
    kinds += ["number", "number"] if numbers else []
    kinds += ["variance"] if small else []
    kinds += ["top"] if listed else []
    match pick(draw, kinds):
        case "value":
            column = pick(draw, columns)
            return Col(
                f"{pick(draw, ('MIN', 'MAX'))}({column.sql})",
                column.type,
                column.exact,
                column.small,
            )
        case "distinct":
            return Col(f"COUNT(DISTINCT {pick(draw, columns).sql})", Type.BIGINT, small=True)
        case "quantile":
            column = pick(draw, columns)
            call = pick(draw, ("MEDIAN({0})", "QUANTILE({0}, 0.25)", "QUANTILE({0}, 0.9)"))
            return Col(call.format(column.sql), column.type, column.exact, column.small)
        case "number":
            column = pick(draw, numbers)
            function = pick(draw, ("SUM", "AVG"))
            once = pick(draw, ("", "", "DISTINCT "))
            type_ = column.type if function == "SUM" else Type.DOUBLE
            return Col(f"{function}({once}{column.sql})", type_, exact=function == "SUM")
        case "variance":
            column = pick(draw, small)
            function = pick(draw, ("VAR", "VAR_POP", "STDDEV", "STDDEV_POP"))
            return Col(f"ROUND({function}({column.sql}), 9)", Type.DOUBLE, exact=False)
        case "top":
            column = pick(draw, listed)
            return Col(f"TOP({column.sql}, {draw(st.integers(1, 3))})", Type.STRING)
    counted = pick(draw, ("*", *(column.sql for column in columns)))
    return Col(f"COUNT({counted})", Type.BIGINT, small=True)
