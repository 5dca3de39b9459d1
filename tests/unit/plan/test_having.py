"""Range conditions of HAVING: which are found, and which are left to be evaluated."""

from __future__ import annotations

import pytest
from tests.unit.synopses.synopsis_kit import program_of

from sash.plan.having import range_conditions


def conditions(having: str) -> list[str]:
    program = program_of(f"SELECT g FROM s [RANGE 4 US SLIDE 2 US] GROUP BY g HAVING {having}")
    select = program.queries[0].select
    assert select is not None
    return [
        f"{c.call.function.value} {c.threshold.comparison.value} {c.threshold.value:g}"
        for c in range_conditions(select)
    ]


@pytest.mark.parametrize(
    ("having", "found"),
    [
        ("COUNT(*) > 5", ["COUNT > 5"]),
        ("5 <= COUNT(n)", ["COUNT >= 5"]),
        ("SUM(n) >= 2.5 AND MAX(x) < -3", ["SUM >= 2.5", "MAX < -3"]),
        ("SUM(n) > 1000000 + 5", ["SUM > 1e+06"]),
        ("COUNT(*) BETWEEN 3 AND 5", ["COUNT >= 3", "COUNT <= 5"]),
        ("SUM(n) > 3 AND AVG(n) > 2", ["SUM > 3"]),
        ("COUNT(*) > 5 OR SUM(n) > 3", []),
        ("NOT COUNT(*) > 3", []),
        ("COUNT(*) = 3", []),
        ("MAX(k) > 'a'", []),
        ("SUM(n) > COUNT(*)", []),
    ],
)
def test_range_conditions_between_the_outermost_ands(having, found):
    assert conditions(having) == found


def test_without_having_there_is_none():
    select = program_of("SELECT g, COUNT(*) AS c FROM s [RANGE 4 US SLIDE 2 US] GROUP BY g").queries[0].select
    assert select is not None
    assert range_conditions(select) == ()
