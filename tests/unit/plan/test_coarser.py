"""What a grouping may be added up from."""

from __future__ import annotations

from sash.lang import bind_program
from sash.plan.coarser import finer_than
from sash.plan.periodic import SynopsisSpec, plan_periodic

STREAM = "CREATE STREAM s (t BIGINT, k STRING, g BIGINT, n BIGINT, w STRING) TIMESTAMP BY t FROM 'csv:s';\n"


def specs(*groupings: str) -> list[SynopsisSpec]:
    """The synopses of aggregates by some keys; "g: MIN(w)" has another aggregate than the usual ones."""
    text = STREAM
    for number, grouping in enumerate(groupings):
        keys, _, call = grouping.partition(": ")
        call = call or "SUM(n)"
        group = f"GROUP BY {keys}" if keys else ""
        text += f"CREATE QUERY q{number} AS SELECT {call} AS c FROM s [RANGE 4 SEC SLIDE 2 SEC] {group};\n"
    program = bind_program(text)
    return [spec for spec in plan_periodic(program.streams, program.queries).synopses if spec.of is None]


def test_groupings_with_more_keys_and_the_same_measures_are_finer_and_the_least_come_first() -> None:
    finest, both, other, one, none = every = specs("k, g, n", "k, g", "g, k", "g", "")
    assert finer_than(one, every) == [both, other, finest]
    assert finer_than(none, every) == [one, both, other, finest]
    assert finer_than(finest, every) == []


def test_other_measures_and_extrema_of_strings_are_not_there_to_be_added_up() -> None:
    fine, coarse = specs("k, g: MAX(n)", "g")
    assert finer_than(coarse, [fine, coarse]) == []
    fine, coarse = specs("k, g: MIN(w)", "g: MIN(w)")
    assert finer_than(coarse, [fine, coarse]) == []
