"""The expressions and aggregates of a bound query.

A `Scalar` is an expression written as DuckDB SQL over the columns of one input. Two scalars with the
same SQL mean the same, so they are compared, hashed and shared by value.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from sash.lang.types import Symbol, Type


@dataclass(frozen=True, slots=True)
class Scalar:
    """An expression over named input columns.

    `column` is the name of the input column where the expression is nothing but that column.
    """

    sql: str
    type: Type
    inputs: tuple[str, ...]
    column: str | None = None
    # Not part of what it is, so not of its repr, by which a checkpoint knows its program.
    text: str = field(default="", compare=False, repr=False)
    # The levels of operators in it, where it comes from the text of a query.
    depth: int = field(default=0, compare=False, repr=False)

    def __hash__(self) -> int:
        # Tables of expressions are everywhere, and two that differ hardly ever have the same text.
        return hash(self.sql)  # local hash: for tables of this process


@dataclass(frozen=True, slots=True)
class Named:
    """An output column: a name and the expression that fills it."""

    name: str
    scalar: Scalar


class AggregateFunction(Symbol):
    """VAR and STDDEV are those of a sample; the median is the quantile at 0.5."""

    COUNT = "COUNT"
    SUM = "SUM"
    AVG = "AVG"
    MIN = "MIN"
    MAX = "MAX"
    VAR = "VAR"
    VAR_POP = "VAR_POP"
    STDDEV = "STDDEV"
    STDDEV_POP = "STDDEV_POP"
    QUANTILE = "QUANTILE"
    TOP = "TOP"
    HISTOGRAM = "HISTOGRAM"
    FREQUENT = "FREQUENT"
    APPROX_COUNT_DISTINCT = "APPROX_COUNT_DISTINCT"
    APPROX_QUANTILE = "APPROX_QUANTILE"
    APPROX_TOP = "APPROX_TOP"


@dataclass(frozen=True, slots=True)
class AggregateCall:
    """`function(argument)`; COUNT(*) has no argument.

    `is_distinct` is set for COUNT, SUM and AVG of each value once. `parameter` is the p of a quantile,
    the k of TOP and FREQUENT, or where the ranges of a HISTOGRAM begin, as JSON; its argument is then the
    number of the range that a value is in.
    """

    function: AggregateFunction
    argument: Scalar | None
    type: Type
    is_distinct: bool = False
    parameter: float | int | tuple[str, ...] | None = None

    @property
    def limit(self) -> int:
        """The k of TOP and FREQUENT."""
        assert isinstance(self.parameter, int)
        return self.parameter

    @property
    def share(self) -> float:
        """The p of a quantile."""
        assert isinstance(self.parameter, int | float)
        return float(self.parameter)

    @property
    def ranges(self) -> tuple[str, ...] | None:
        """What each range of a HISTOGRAM is called; None where it has the values themselves."""
        return ("null", *self.parameter) if isinstance(self.parameter, tuple) else None

    @property
    def has_bounded_state(self) -> bool:
        """Whether the aggregate of an endless bag of rows fits a constant number of bytes.

        Approximate ones thin out the panes of windows that slide; of an endless window they keep every
        value. So does the dictionary of strings, among which a MIN or MAX is found.
        """
        f = AggregateFunction
        match self.function:
            case f.HISTOGRAM:
                return self.ranges is not None
            case f.MIN | f.MAX:
                return self.argument is None or self.argument.type is not Type.STRING
            case f.COUNT | f.SUM | f.AVG:
                return not self.is_distinct
        return self.function in (f.VAR, f.VAR_POP, f.STDDEV, f.STDDEV_POP)
