"""A failing example made smaller by leaving out what it does not need: queries, sources, rows.

Hypothesis makes queries short; this removes whole things, one after the other, as long as the example still
fails in the same way.
"""

from __future__ import annotations

import tempfile
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from sash.testing.oracle import source_names
from sash.testing.relations import MadeRelation
from sash.testing.scenario import Scenario
from sash.testing.streams import MadeStream


@dataclass(frozen=True, slots=True)
class Example:
    """A scenario and how to run it.

    `interruptions` None is a run without a checkpoint; `partitions` None has all operators in one place.
    """

    scenario: Scenario
    batch_rows: int
    interruptions: tuple[int, ...] | None = None
    partitions: int | None = None

    def check(self) -> None:
        """Assert that the run gives the answers of the oracle."""
        with tempfile.TemporaryDirectory() as directory:
            outcome = self.scenario.run(
                Path(directory) / "run",
                batch_rows=self.batch_rows,
                interruptions=self.interruptions,
                partitions=self.partitions,
            )
            self.scenario.check(outcome)


def kind_of(error: Exception) -> str:
    """Tells failures apart: a wrong answer, or an error by the function that raised it."""
    if isinstance(error, AssertionError):
        return "wrong answer"
    place = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__} in {Path(place.filename).stem}.{place.name}"


def failure_of(example: Example) -> Exception | None:
    try:
        example.check()
    except Exception as error:
        return error
    return None


def reduced(example: Example, fails: Callable[[Example], bool]) -> Example:
    """The example with nothing in it that could be left out alone."""
    found = True
    while found:
        found = False
        for smaller in _smaller(example):
            if fails(smaller):
                example, found = smaller, True
                break
    return example


def _smaller(example: Example) -> Iterator[Example]:
    """The example without one thing, large things first."""
    scenario = example.scenario
    if example.interruptions is not None:
        yield replace(example, interruptions=None)
    if example.partitions is not None:
        yield replace(example, partitions=None)
    for query in scenario.queries if len(scenario.queries) > 1 else ():
        yield replace(example, scenario=_without(scenario, query))
    for number, stream in enumerate(scenario.streams):
        for less in _fewer_rows(stream):
            streams = (*scenario.streams[:number], less, *scenario.streams[number + 1 :])
            yield replace(example, scenario=replace(scenario, streams=streams))
    for number, relation in enumerate(scenario.relations):
        for fewer in _fewer_changes(relation):
            relations = (*scenario.relations[:number], fewer, *scenario.relations[number + 1 :])
            yield replace(example, scenario=replace(scenario, relations=relations))
    if example.batch_rows < scenario.rows:
        yield replace(example, batch_rows=scenario.rows)


def _without(scenario: Scenario, query: str) -> Scenario:
    """The scenario without a query and the sources that no other reads."""
    rest = replace(scenario, queries=tuple(other for other in scenario.queries if other is not query))
    read = {name for other in rest.program.queries for name in source_names(other.plan)}
    return replace(
        rest,
        streams=tuple(stream for stream in rest.streams if stream.name in read),
        relations=tuple(relation for relation in rest.relations if relation.name in read),
    )


def _fewer_rows(stream: MadeStream) -> Iterator[MadeStream]:
    if stream.pieces:
        yield replace(stream, pieces=())
    if stream.max_lifetime is not None:
        yield replace(stream, max_lifetime=None)
    if stream.slack:
        yield replace(stream, slack=0)
    for start, stop in _cuts(len(stream.rows)):
        yield replace(stream, rows=stream.rows[:start] + stream.rows[stop:], pieces=())


def _fewer_changes(relation: MadeRelation) -> Iterator[MadeRelation]:
    for start, stop in _cuts(len(relation.rows)):
        yield replace(relation, rows=relation.rows[:start] + relation.rows[stop:])


def _cuts(count: int) -> Iterator[tuple[int, int]]:
    """Halves, quarters, … and single rows."""
    size = count
    while size:
        yield from ((start, min(start + size, count)) for start in range(0, count, size))
        size //= 2
