"""The soak finds failures, makes them small, keeps them as cases and goes on."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from sash.plan.choices import choices_of
from sash.plan.cost import Statistics
from sash.plan.optimize import optimize
from sash.testing.cases import Case
from sash.testing.reduce import Example
from sash.testing.scenario import Scenario
from sash.testing.soak import Soak, examples
from sash.testing.streams import Clock, MadeRow, MadeStream

QUERY = "CREATE QUERY q INTO 'jsonl:q.jsonl' AS SELECT n FROM s [ROWS 2];\n"


class Picky(Example):
    """An example that is wrong if it has the number 7."""

    def check(self):
        assert all(row.n != 7 for stream in self.scenario.streams for row in stream.rows), (
            "a seven\nin detail"
        )


def scenario(numbers):
    rows = tuple(MadeRow(time, n=n) for time, n in enumerate(numbers))
    return Scenario((MadeStream("s", Clock.SECONDS, 0, "csv", rows),), (QUERY,))


def soak(tmp_path, numbers):
    """A soak of one round."""
    lines: list[str] = []
    made = st.lists(numbers, max_size=6).map(lambda given: Picky(scenario(given), 2, (1,)))
    run = Soak(tmp_path, lines.append, made, lambda: 1e9 if lines else 0.0)
    run.run(1, 0)
    return run, lines


def test_a_failure_is_kept_as_its_smallest_case(tmp_path):
    run, lines = soak(tmp_path, st.integers(0, 9))
    (path,) = run.failures
    case = Case.read(path)
    assert list(case.inputs.values()) == ["t,k,g,n,x,b,at\n0,,,7,,,\n"]
    assert case.answers == {"q": ("0 + [7]",)}
    # How it ran makes no difference, so the simplest way is kept.
    assert (case.batch_rows, case.interruptions) == (2, None)
    assert case.note == "Found by make soak, seed 0: wrong answer: a seven"
    assert any(str(path) in line for line in lines)


def test_without_a_failure_there_is_a_line_of_progress_and_no_case(tmp_path):
    run, lines = soak(tmp_path, st.just(1))
    assert run.failures == []
    assert list(tmp_path.iterdir()) == []
    assert "0 failures" in lines[-1]


@given(example=examples())
@settings(max_examples=100)
def test_examples_are_programs_that_bind_and_that_the_planner_takes(example):
    program = example.scenario.program
    statistics = Statistics.from_definitions((*program.streams, *program.relations))
    for query in program.queries:
        optimize(query.plan, statistics, choices_of(dict(query.options), query.plan).strategy)
