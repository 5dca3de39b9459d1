"""A dataflow: operators in the order in which changes pass through them, shared where queries have them in
common.

`advance` takes what has come from the sources since the last time and gives what leaves each query. A part
that several queries contain is one operator and runs once.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from sash.lang.algebra import Field, Node
from sash.operators.answers import Sequenced
from sash.operators.delta import Delta, empty_delta
from sash.operators.division import WHOLE, Division
from sash.operators.operator import Moment, Operator, State, part, prefixed
from sash.plan.explain.tree import Measured
from sash.plan.join_synopses import JoinSetting

NOTHING = "nothing"
"""The name of a source that never gives anything."""


@dataclass(slots=True)
class Vertex:
    """An operator with the vertices that it reads; a source has no operator but a name."""

    operator: Operator | None
    inputs: tuple[int, ...]
    fields: tuple[Field, ...]
    source: str | None = None
    division: Division = WHOLE
    rows_in: int = 0
    rows_out: int = 0
    negative_out: int = 0

    @property
    def state_rows(self) -> int:
        return 0 if self.operator is None else self.operator.state_rows

    @property
    def state_bytes(self) -> int:
        return 0 if self.operator is None else self.operator.state_bytes

    @property
    def tally(self) -> Tally:
        return Tally(self.rows_in, self.rows_out, self.negative_out, self.state_rows, self.state_bytes)


def nothing(fields: tuple[Field, ...]) -> Vertex:
    """A vertex that never gives anything, in the place of one that is not there."""
    return Vertex(None, (), fields, NOTHING)


@dataclass(frozen=True, slots=True)
class Tally:
    """What came of an operator: rows in and out, negative tuples among them, and its state now."""

    rows_in: int = 0
    rows_out: int = 0
    negative_out: int = 0
    state_rows: int = 0
    state_bytes: int = 0

    def after(self, later: Tally) -> Tally:
        """With what a later batch did; the state is the one after it."""
        return Tally(
            self.rows_in + later.rows_in,
            self.rows_out + later.rows_out,
            self.negative_out + later.negative_out,
            later.state_rows,
            later.state_bytes,
        )

    def __add__(self, other: Tally) -> Tally:
        """With what another partition did."""
        return Tally(
            self.rows_in + other.rows_in,
            self.rows_out + other.rows_out,
            self.negative_out + other.negative_out,
            self.state_rows + other.state_rows,
            self.state_bytes + other.state_bytes,
        )


@dataclass(frozen=True, slots=True)
class Place:
    """Where a node of a plan is: the vertex that gives its rows, and all that were made for it."""

    vertex: int
    made: tuple[int, ...]

    def later(self, by: int) -> Place:
        """The same, with so many vertices before."""
        return Place(self.vertex + by, tuple(number + by for number in self.made))


@dataclass(slots=True)
class Dataflow:
    """`outputs` has the vertex of each query, `places` where the nodes of its plan are."""

    vertices: list[Vertex] = field(default_factory=list)
    outputs: dict[str, int] = field(default_factory=dict)
    places: dict[str, dict[Node, Place]] = field(default_factory=dict)

    def advance(self, sources: Mapping[str, Delta], moment: Moment) -> dict[str, Delta]:
        """Pass changes through all operators; gives what leaves each query."""
        given: list[Delta] = []
        first = dict(moment.first)
        moment = replace(moment, first=first)
        for vertex in self.vertices:
            if vertex.operator is None:
                assert vertex.source is not None
                delta = sources.get(vertex.source) or empty_delta(vertex.fields)
            else:
                inputs = [given[i] for i in vertex.inputs]
                delta = vertex.operator.process(inputs, moment)
                vertex.rows_in += sum(len(each) for each in inputs)
                if isinstance(vertex.operator, Sequenced) and vertex.operator.first is not None:
                    first[vertex.operator.name] = vertex.operator.first
            vertex.rows_out += len(delta)
            if delta.sign is not None:
                vertex.negative_out += int((delta.sign < 0).sum())
            given.append(delta)
        return {query: given[vertex] for query, vertex in self.outputs.items()}

    def snapshot(self) -> State:
        """The state of all operators, by their places."""
        state: State = {}
        for i, vertex in enumerate(self.vertices):
            if vertex.operator is not None:
                state.update(prefixed(str(i), vertex.operator.snapshot()))
        return state

    def restore(self, state: State) -> None:
        for i, vertex in enumerate(self.vertices):
            if vertex.operator is not None:
                own = part(str(i), state)
                if own:
                    vertex.operator.restore(own)

    def keep(self, outputs: Collection[str]) -> None:
        """Let go of what no other output needs; the places of the rest stay."""
        self.outputs = {name: vertex for name, vertex in self.outputs.items() if name in outputs}
        live = set(self.outputs.values())
        for number in range(len(self.vertices) - 1, -1, -1):
            vertex = self.vertices[number]
            if number in live:
                live.update(vertex.inputs)
            else:
                self.vertices[number] = nothing(vertex.fields)

    def adapt(self, joins: Sequence[JoinSetting]) -> None:
        """Those who read join synopses are others from now on."""
        for vertex in self.vertices:
            if vertex.operator is not None:
                vertex.operator.adapt(joins)

    @property
    def sources(self) -> set[str]:
        """The names of all sources."""
        return {vertex.source for vertex in self.vertices if vertex.source is not None}

    def tallies(self) -> list[Tally]:
        """What came of each operator so far, by its place."""
        return [v.tally for v in self.vertices]

    def count_anew(self) -> None:
        """Forget what passed through operators."""
        for vertex in self.vertices:
            vertex.rows_in = vertex.rows_out = vertex.negative_out = 0

    def places_from(self, number: int) -> dict[str, dict[Node, Place]]:
        """The places with vertices counted from a number on."""
        return {
            query: {node: place.later(number) for node, place in places.items()}
            for query, places in self.places.items()
        }

    @property
    def state_rows(self) -> int:
        return sum(vertex.state_rows for vertex in self.vertices)

    @property
    def state_bytes(self) -> int:
        return sum(vertex.state_bytes for vertex in self.vertices)


def measured(places: Mapping[Node, Place], tallies: Mapping[int, Tally]) -> dict[Node, Measured]:
    """What came of the nodes of a query's plan, from what came of operators."""
    found = {}
    none = Tally()
    for node, place in places.items():
        tally = tallies.get(place.vertex, none)
        made = [tallies.get(i, none) for i in place.made]
        found[node] = Measured(
            tally.rows_out - tally.negative_out,
            tally.negative_out,
            sum(each.state_rows for each in made),
            sum(each.state_bytes for each in made),
        )
    return found
