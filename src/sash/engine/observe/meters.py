"""What the operators of each query did and hold, read off the query executor when somebody asks.

Nothing is counted for this: operators count their rows anyway. The shape of a plan (its operators, their
numbers and lines, what feeds what) is worked out once; asking is then a few look-ups an operator.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from sash.engine.observe.report import Held, Measures, OperatorTally
from sash.engine.query_executor import QueryExecutor
from sash.lang import algebra
from sash.lang.algebra import Node
from sash.operators.dataflow import Place, Tally
from sash.plan.explain.build import operator_text
from sash.plan.periodic import PeriodicQuery

_NONE = Tally()


@dataclass(frozen=True, slots=True)
class _Meter:
    """A node of a plan: the operator that gives its rows, all that were made for it, and those it reads.

    A node that reads no operator reads a `stream`.
    """

    number: int
    text: str
    gives: int
    made: tuple[int, ...]
    inputs: tuple[int, ...]
    stream: str | None


@dataclass(frozen=True, slots=True)
class Largest:
    """Where most of the state is: with a query, and of that in one operator."""

    query: str
    held: Held
    operator: str
    operator_held: Held


class Meters:
    def __init__(self, executor: QueryExecutor) -> None:
        self._executor = executor

    @cached_property
    def _continuous(self) -> dict[int, dict[str, tuple[_Meter, ...]]]:
        """By part, the nodes of its queries."""
        found = {}
        for number, part in self._executor.parts.items():
            places = part.continuous.places
            found[number] = {q.name: tuple(_meters(q.plan, places[q.name])) for q in part.plan.continuous}
        return found

    @cached_property
    def _periodic(self) -> tuple[tuple[PeriodicQuery, tuple[tuple[int, str, Node], ...]], ...]:
        """Of these the answer, the window and the stream are told: a synopsis does all work in between."""
        told = (algebra.Output, algebra.Window, algebra.Stream)
        return tuple(
            (
                query,
                tuple((number, operator_text(n), n) for number, n in _numbered(query) if isinstance(n, told)),
            )
            for query in self._executor.plan.queries
        )

    def measure(self, answered: Mapping[str, int]) -> Measures:
        """What all operators did, and the state behind each query."""
        operators: list[OperatorTally] = []
        for number, part in self._executor.parts.items():
            operators.extend(self._tallied(number, part.continuous.totals()))
        operators.extend(self._looked_up(answered))
        queries = dict.fromkeys(answered, Held())
        for tally in operators:
            queries[tally.query] += tally.held
        return Measures(tuple(operators), queries)

    def largest(self, partition: int) -> Largest | None:
        """Whose state is the greatest in a partition; None where more than that waits for the clock."""
        found: list[OperatorTally] = []
        waiting = 0
        for part, each in self._executor.parts.items():
            everywhere = each.continuous.tallies().items()
            tallies = {number: tally for (number, at), tally in everywhere if at == partition}
            waiting += sum(tally.state_bytes for number, tally in tallies.items() if number < 0)
            found.extend(self._tallied(part, tallies))
        found += self._looked_up({}, partition)
        held: dict[str, Held] = {}
        for tally in found:
            held[tally.query] = held.get(tally.query, Held()) + tally.held
        query = max(held, key=lambda name: held[name].bytes, default=None)
        if query is None or held[query].bytes <= waiting:
            return None
        most = max((t for t in found if t.query == query), key=lambda tally: tally.held.bytes)
        return Largest(query, held[query], most.operator, most.held)

    def _tallied(self, part: int, tallies: Mapping[int, Tally]) -> Iterator[OperatorTally]:
        accepted = self._accepted
        for query, meters in self._continuous[part].items():
            for meter in meters:
                given = tallies.get(meter.gives, _NONE)
                held = Held()
                for number in meter.made:
                    made = tallies.get(number, _NONE)
                    held += Held(made.state_rows, made.state_bytes)
                came = sum(tallies.get(number, _NONE).rows_out for number in meter.inputs)
                if meter.stream is not None:
                    came = accepted.get(meter.stream, 0)
                out, negative = given.rows_out, given.negative_out
                yield OperatorTally(query, meter.number, meter.text, came, out, negative, held)

    def _looked_up(
        self, answered: Mapping[str, int], partition: int | None = None
    ) -> Iterator[OperatorTally]:
        accepted = self._accepted
        held = self._executor.state_behind(partition)
        for query, nodes in self._periodic:
            rows = accepted[query.select.stream]
            for number, text, node in nodes:
                is_answer, is_window = isinstance(node, algebra.Output), isinstance(node, algebra.Window)
                out = answered.get(query.name, 0) if is_answer else rows
                state = held[query.synopsis] if is_window else Held()
                yield OperatorTally(query.name, number, text, rows, out, 0, state)

    @property
    def _accepted(self) -> dict[str, int]:
        return {name: state.counts.accepted for name, state in self._executor.streams.items()}


def _numbered(query: PeriodicQuery) -> Iterator[tuple[int, Node]]:
    return enumerate(query.definition.plan.walk())


def _meters(plan: Node, places: Mapping[Node, Place]) -> Iterator[_Meter]:
    """The nodes of a plan that are operators, each once."""
    known: set[Node] = set()
    for number, node in enumerate(plan.walk()):
        if node in places and node not in known:
            known.add(node)
            place = places[node]
            inputs = tuple(places[below].vertex for below in _inputs(node, places))
            streams = [leaf.name for leaf in node.walk() if isinstance(leaf, algebra.Stream)]
            stream = streams[0] if streams and not inputs else None
            yield _Meter(number, operator_text(node), place.vertex, place.made, inputs, stream)


def _inputs(node: Node, places: Mapping[Node, Place]) -> Iterator[Node]:
    """The nearest nodes below that are operators."""
    for child in node.children:
        if child in places:
            yield child
        else:
            yield from _inputs(child, places)
