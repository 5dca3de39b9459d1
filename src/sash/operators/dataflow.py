"""A dataflow: operators in the order in which changes pass through them, shared where queries have them in
common.

`advance` takes what has come from the sources since the last time and gives what leaves each query. A part
that several queries contain is one operator and runs once.

What flows are signed rows with their lives (`Delta`), in slices of time that end between instants. So memory
follows the state and a bounded number of rows on each edge, however many results rows have.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace

import numpy as np

from sash.lang.algebra import Field, Node
from sash.operators.answers import Sequenced
from sash.operators.delta import Delta, empty_delta
from sash.operators.division import WHOLE, Division
from sash.operators.operator import Moment, Operator, State, part, prefixed
from sash.plan.explain.tree import Measured
from sash.plan.join_synopses import JoinSetting

MOST_ROWS = 1 << 18
"""About so many rows an operator gives at a time."""
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

    def advance(self, sources: Mapping[str, Delta], moment: Moment) -> Iterator[dict[str, Delta]]:
        """Pass changes through all operators; gives what leaves each query, slice of time by slice of time.

        An operator that would give far more rows than it takes is given its changes in slices, and so is what
        stands in connection with it: no operator holds more than about `MOST_ROWS` rows of an edge, but those
        of one instant where somebody must see all of them together.
        """
        given: dict[int, Delta] = {}
        for number, vertex in enumerate(self.vertices):
            if vertex.operator is None:
                assert vertex.source is not None
                delta = sources.get(vertex.source) or empty_delta(vertex.fields)
                given[number] = self._counted(vertex, delta)
        numbers = [number for number, vertex in enumerate(self.vertices) if vertex.operator is not None]
        at_once = {name: given[vertex] for name, vertex in self.outputs.items() if vertex in given}
        if at_once:
            yield at_once
        yield from self._run(numbers, given, replace(moment, first=dict(moment.first)))

    def _run(
        self, numbers: Sequence[int], given: dict[int, Delta], moment: Moment, sliced: Set[int] = frozenset()
    ) -> Iterator[dict[str, Delta]]:
        """Let some operators work, in their order; `given` has what the others gave that they read.

        Their changes have been cut for those that are `sliced`.
        """
        for at, number in enumerate(numbers):
            vertex = self.vertices[number]
            assert vertex.operator is not None
            inputs = [given[i] for i in vertex.inputs]
            ends = () if number in sliced else vertex.operator.slices(inputs, moment, MOST_ROWS)
            if len(ends) > 1 and (ends[0] != ends[-1] or vertex.operator.takes_early):
                together = self._connected(number, numbers[at:])
                here = [n for n in numbers[at:] if n in together]
                rest = [n for n in numbers[at:] if n not in together]
                yield from self._run(rest, given, moment, sliced)
                yield from self._sliced(here, given, ends, moment, {*sliced, number})
                numbers = numbers[:at]
                break
            moment.look()
            vertex.rows_in += sum(len(each) for each in inputs)
            given[number] = self._counted(vertex, vertex.operator.process(inputs, moment))
            if isinstance(vertex.operator, Sequenced) and vertex.operator.first is not None:
                # Those who read it come later.
                assert isinstance(moment.first, dict)
                moment.first[vertex.operator.name] = vertex.operator.first
        done = set(numbers)
        yield {query: given[vertex] for query, vertex in self.outputs.items() if vertex in done}

    def _sliced(
        self,
        numbers: Sequence[int],
        given: Mapping[int, Delta],
        ends: Sequence[int],
        moment: Moment,
        sliced: Set[int],
    ) -> Iterator[dict[str, Delta]]:
        """Let operators work on slices of time that end so, one after the other.

        An instant that is too large by itself comes in parts, all but the last before their time, if all of
        the operators can work with that.
        """
        read = {i for number in numbers for i in self.vertices[number].inputs} - set(numbers)
        rest = {i: given[i].sorted() for i in sorted(read)}
        takes_early = self._take_early(numbers, read)
        for end, times in Counter(ends).items():
            here: dict[int, Delta] = {}
            for i, delta in rest.items():
                stop = len(delta) if end == ends[-1] else int(np.searchsorted(delta.ts, end, "right"))
                here[i], rest[i] = delta.slice(0, stop), delta.slice(stop, len(delta))
            parts = times if takes_early else 1
            for turn in range(parts):
                changes = {
                    i: delta.slice(len(delta) * turn // parts, len(delta) * (turn + 1) // parts)
                    for i, delta in here.items()
                }
                through = end if turn == parts - 1 else end - 1
                yield from self._run(numbers, changes, replace(moment, through=through), sliced)

    def _take_early(self, numbers: Sequence[int], read: Set[int]) -> bool:
        """Whether operators can work with changes before their time from those that they read."""
        early = set(read)
        for number in numbers:
            operator = self.vertices[number].operator
            if operator is not None and not early.isdisjoint(self.vertices[number].inputs):
                if not operator.takes_early:
                    return False
                if operator.gives_early:
                    early.add(number)
        return True

    def _connected(self, start: int, numbers: Sequence[int]) -> set[int]:
        """Those of some operators, `start` included, that read each other's rows, directly or by others."""
        links: dict[int, list[int]] = {number: [] for number in numbers}
        for number in numbers:
            for i in self.vertices[number].inputs:
                if i in links:
                    links[number].append(i)
                    links[i].append(number)
        found, waiting = {start}, [start]
        while waiting:
            new = [n for n in links[waiting.pop()] if n not in found]
            found.update(new)
            waiting.extend(new)
        return found

    @staticmethod
    def _counted(vertex: Vertex, delta: Delta) -> Delta:
        vertex.rows_out += len(delta)
        if delta.sign is not None:
            vertex.negative_out += int((delta.sign < 0).sum())
        return delta

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
