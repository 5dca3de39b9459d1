"""Aggregates as DuckDB SQL, straight from what the language reference says of them.

An aggregate here is a function of the bag of its argument's values in one group. Those that SQL lacks, or
that engines define differently, are spelt out over the list of values: QUANTILE takes number ⌈p·n⌉ of the
values in order, TOP counts each of them.
"""

from __future__ import annotations

from fractions import Fraction

from sash.errors import InternalError
from sash.lang.values import AggregateCall, AggregateFunction

_F = AggregateFunction
_SQL_NAMES = {
    _F.COUNT: "count",
    _F.SUM: "sum",
    _F.AVG: "avg",
    _F.MIN: "min",
    _F.MAX: "max",
    _F.VAR: "var_samp",
    _F.VAR_POP: "var_pop",
    _F.STDDEV: "stddev_samp",
    _F.STDDEV_POP: "stddev_pop",
}


def aggregate_sql(call: AggregateCall, argument: str, present: str | None = None) -> str:
    """The call over the column `argument`; `present` says which rows are really there."""
    only = "" if present is None else f" FILTER (WHERE {present})"
    if call.argument is None:
        return f"count(*){only}"
    if call.function in _SQL_NAMES:
        distinct = "DISTINCT " if call.is_distinct else ""
        return f"{_SQL_NAMES[call.function]}({distinct}{argument}){only}"
    values = f"list({argument} ORDER BY {argument}) FILTER (WHERE {argument} IS NOT NULL)"
    match call.function:
        case _F.QUANTILE:
            # p as it is written: 0.9 of ten values is the ninth, though the double 0.9 is a little more.
            p = Fraction(repr(call.share))
            rank = f"(len({values}) * {p.numerator} + {p.denominator - 1}) // {p.denominator}"
            return f"({values})[{rank}]"
        case _F.TOP:
            return _top(values, call.limit)
        case _F.HISTOGRAM:
            return _histogram(values, call.ranges)
    raise InternalError(f"{call.function.value} has no exact definition")


def _top(values: str, k: int) -> str:
    """The k most frequent values with their counts, as JSON; of equally frequent ones the smaller first."""
    counted = (
        f"list_transform(list_distinct({values}), lambda v: "
        f"{{'c': -len(list_filter({values}, lambda u: u = v)), 'v': v}})"
    )
    pairs = (
        f"list_transform(list_sort({counted})[1:{k}], lambda p: '[' || to_json(p.v) || ', ' || -p.c || ']')"
    )
    return _joined(pairs)


def _histogram(values: str, ranges: tuple[str, ...] | None) -> str:
    """All values, or all ranges by their names, in order with their counts, as JSON; NULL without values."""
    if ranges is None:
        ordered, shown = f"list_sort(list_distinct({values}))", "to_json(v)"
    else:
        names = ", ".join("'" + name.replace("'", "''") + "'" for name in ranges)
        ordered, shown = f"range({len(ranges)})", f"[{names}][v + 1]"
    pair = f"'[' || {shown} || ', ' || len(list_filter({values}, lambda u: u = v)) || ']'"
    listed = _joined(f"list_transform({ordered}, lambda v: {pair})")
    return f"CASE WHEN len({values}) > 0 THEN {listed} END"


def _joined(pairs: str) -> str:
    return f"'[' || array_to_string({pairs}, ', ') || ']'"
