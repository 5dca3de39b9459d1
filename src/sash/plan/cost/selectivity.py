"""The share of rows for which a predicate holds, and the number of values that an expression takes.

The estimates are those of System R (Selinger and others, 1979), on uniform and independent columns:

| predicate                          | share                                                     |
|------------------------------------|-----------------------------------------------------------|
| column = constant                  | 1/v                                                       |
| column = column                    | 1/max(v, w) (containment of value sets: 002, section 5.3) |
| <> and IS DISTINCT FROM            | 1 minus that of =                                         |
| <, <=, >, >=                       | 1/3; BETWEEN is two of them                               |
| IN (k constants)                   | k/v, at most 1                                            |
| LIKE and the like                  | 1/10                                                      |
| IS NULL                            | 1/20                                                      |
| a Boolean column                   | 1/2                                                       |
| AND, OR, NOT                       | s·t, s + t − s·t, 1 − s                                   |
| TRUE; FALSE and NULL               | 1; 0                                                      |
| anything else                      | 1/3                                                       |

A declared selectivity replaces the estimate: of a whole predicate or a part of it by its SQL, or of any
comparison of one column with constants by that column.
"""

from __future__ import annotations

from collections.abc import Mapping

from sqlglot import exp

from sash.lang.bound import Scalar
from sash.plan.cost.statistics import DEFAULT_DISTINCT, Statistics
from sash.plan.scalars import columns_of, parts_of, tree_of

RANGE = 1 / 3
PATTERN = 1 / 10
NULL = 1 / 20
BOOLEAN = 1 / 2
UNKNOWN = 1 / 3

Distinct = Mapping[str, float]


def selectivity(predicate: Scalar, distinct: Distinct, statistics: Statistics) -> float:
    """The share of rows that pass; `distinct` holds the values of the input's columns by name."""
    declared = {tree_of(sql).sql(dialect="duckdb"): share for sql, share in statistics.predicates.items()}
    return _share(tree_of(predicate.sql), distinct, statistics, declared)


def distinct_values(scalar: Scalar, distinct: Distinct) -> float:
    """How many values an expression takes: of its column, 1 for a constant, else at most the product."""
    values = 1.0
    for name in scalar.inputs:
        values *= distinct.get(name, DEFAULT_DISTINCT)
    return values


def fixed_columns(predicate: Scalar) -> frozenset[str]:
    """The columns that a conjunction of equalities pins to one constant."""
    fixed: set[str] = set()
    for part in parts_of(tree_of(predicate.sql)):
        if isinstance(part, exp.EQ):
            for side, other in ((part.this, part.expression), (part.expression, part.this)):
                if isinstance(side.unnest(), exp.Column) and not columns_of(other):
                    fixed.add(side.unnest().name)
    return frozenset(fixed)


def _values(node: exp.Expr, distinct: Distinct) -> float:
    values = 1.0
    for column in sorted(columns_of(node)):
        values *= distinct.get(column, DEFAULT_DISTINCT)
    return values


def _share(
    node: exp.Expr, distinct: Distinct, statistics: Statistics, declared: Mapping[str, float]
) -> float:
    if declared:
        known = declared.get(node.sql(dialect="duckdb"))
        if known is not None:
            return known

    def of(part: exp.Expr) -> float:
        return _share(part, distinct, statistics, declared)

    match node:
        case exp.Paren():
            return of(node.this)
        case exp.And():
            return of(node.this) * of(node.expression)
        case exp.Or():
            left, right = of(node.this), of(node.expression)
            return left + right - left * right
        case exp.Not():
            return 1.0 - of(node.this)
        case exp.Boolean():
            return 1.0 if node.this else 0.0
        case exp.Null():
            return 0.0
    columns = columns_of(node)
    if len(columns) == 1:
        known = statistics.selectivity(columns[0])
        if known is not None:
            return 1.0 - known if isinstance(node, exp.NEQ | exp.NullSafeNEQ) else known
    return _comparison(node, distinct)


def _comparison(node: exp.Expr, distinct: Distinct) -> float:
    match node:
        case exp.EQ() | exp.NullSafeEQ() | exp.NEQ() | exp.NullSafeNEQ():
            equal = 1.0 / max(1.0, _values(node.this, distinct), _values(node.expression, distinct))
            return equal if isinstance(node, exp.EQ | exp.NullSafeEQ) else 1.0 - equal
        case exp.LT() | exp.LTE() | exp.GT() | exp.GTE():
            return RANGE
        case exp.Between():
            return RANGE * RANGE
        case exp.In():
            return min(1.0, len(node.expressions) / max(1.0, _values(node.this, distinct)))
        case exp.Like() | exp.ILike() | exp.RegexpLike() | exp.StartsWith():
            return PATTERN
        case exp.Is():
            return NULL if isinstance(node.expression, exp.Null) else BOOLEAN
        case exp.Column():
            return BOOLEAN
    return UNKNOWN
