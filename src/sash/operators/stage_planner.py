"""A dataflow cut into stages that partitions work on side by side.

Each operator says how its work can be divided (`division.py`). Where its input is not divided so already,
rows are exchanged: every partition sends each row to the partition that the row's key names. Exchanges are
put as low as possible, so that windows and filters need none of their own: best right above the scans, whose
rows have to move anyway. Operators between exchanges make up a stage. A stage works on a batch when the
stages before it have; an operator whose rows must all be in one place has a home among the partitions.

What leaves queries is put together in one place. Where equal rows of an answer are together already, that is
only bringing them into order; else the last operator of the query is left to who has the answers (`Cut.top`).
"""

from __future__ import annotations

import copy
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from sash.lang.algebra import Field
from sash.operators.dataflow import Dataflow, Vertex, nothing
from sash.operators.delta import Delta, Ints, as_table, one_array
from sash.operators.division import ByColumns, Free, InOrder, Key, Mode, Whole, Wish
from sash.operators.evaluate import evaluate
from sash.operators.merged import Merged
from sash.operators.operator import Operator
from sash.state.fingerprints import places

TOP = -1
"""The stage, and the partition, in which answers are put together."""


@dataclass(eq=False, slots=True)
class Exchange:
    """Rows that change their place: of a source (a name), or of an operator of an earlier stage."""

    producer: str | Piece
    fields: tuple[Field, ...]
    wish: Wish
    number: int = -1
    stage: int = 0
    # Where those who need all rows in one place have their homes.
    homes: set[int] = field(default_factory=set)

    @property
    def name(self) -> str:
        return f"exchange {self.number}"


@dataclass(eq=False, slots=True)
class Piece:
    """An operator as it stands in a stage; `keys` are those by which its output is divided."""

    vertex: int
    inputs: tuple[Piece | Exchange, ...]
    keys: tuple[Key, ...]
    mode: Mode
    stage: int = 0
    home: int = -1


@dataclass(frozen=True, slots=True)
class Sent:
    """An exchange as tasks need it to send rows: by `key`, or else as `mode` says.

    `homes` are numbers of places for rows that must be in one; the partition is what remains of them.
    """

    number: int
    stage: int
    fields: tuple[Field, ...]
    key: Key | None
    homes: tuple[int, ...]
    mode: Mode

    @property
    def name(self) -> str:
        return f"exchange {self.number}"

    def partitions(self, delta: Delta, here: int, of: int) -> Iterator[tuple[int, Delta]]:
        """Which rows go to which partitions; `here` is where they are."""
        if self.stage == TOP:
            yield TOP, delta
        elif self.key is not None:
            yield from _divided(delta, self._targets(delta, of), of)
        elif self.mode is Mode.EVERYWHERE:
            yield from ((partition, delta) for partition in range(of))
        elif self.mode is Mode.ONE_PLACE:
            yield from ((partition, delta) for partition in sorted({home % of for home in self.homes}))
        elif self.mode is Mode.HERE:
            yield here, delta
        else:
            yield from _divided(delta, np.arange(len(delta)) * of // max(1, len(delta)), of)

    def _targets(self, delta: Delta, of: int) -> Ints:
        assert self.key is not None
        names = [f"c{i}" for i in range(len(delta.columns))]
        table = as_table(delta.columns, names, len(delta))
        return places([one_array(c) for c in evaluate(table, self.key)], len(delta), of)


def _divided(delta: Delta, targets: Ints, of: int) -> Iterator[tuple[int, Delta]]:
    if of == 1:
        yield 0, delta
        return
    order = np.argsort(targets, kind="stable")
    bounds = np.searchsorted(targets[order], np.arange(of + 1))
    for partition in range(of):
        rows = order[bounds[partition] : bounds[partition + 1]]
        if len(rows):
            yield partition, delta.take(rows)


@dataclass(frozen=True, slots=True)
class Stage:
    """What a partition runs: vertices as in a dataflow, and which of them send where.

    `numbers` are the places of the vertices in the dataflow that was cut; −1 for what comes from exchanges.
    """

    vertices: tuple[Vertex, ...]
    numbers: tuple[int, ...]
    homes: tuple[int | None, ...]
    sends: tuple[tuple[int, Sent], ...]

    def flow(self, partition: int, of: int) -> Dataflow:
        """The dataflow of one partition; it has its own copies of the operators if the stage is a copy."""
        flow = Dataflow()
        for vertex, home in zip(self.vertices, self.homes, strict=True):
            if home is not None and home % of != partition:
                # All of its rows are elsewhere.
                flow.vertices.append(nothing(vertex.fields))
                continue
            if vertex.operator is not None:
                vertex.operator.placed(partition, of)
            flow.vertices.append(vertex)
        flow.outputs = {sent.name: place for place, sent in self.sends}
        return flow


@dataclass(frozen=True, slots=True)
class StagePlan:
    """`sources`: what the rows of scans and static relations are sent as. `stages` count from 1."""

    sources: tuple[tuple[str, Sent], ...]
    stages: tuple[Stage, ...]
    top: Dataflow
    # The place of each vertex of `top` in the dataflow that was cut, −1 for exchanges.
    top_numbers: tuple[int, ...]

    def needed(self, queries: Collection[str]) -> frozenset[str]:
        """The exchanges, by their names, whose rows these queries need."""
        needed = _needed(self.top.vertices, [self.top.outputs[query] for query in queries])
        for stage in reversed(self.stages):
            needed |= _needed(stage.vertices, [place for place, sent in stage.sends if sent.name in needed])
        return frozenset(needed)


def _needed(vertices: Sequence[Vertex], ends: Iterable[int]) -> set[str]:
    """The sources below some vertices."""
    live = set(ends)
    for number in range(len(vertices) - 1, -1, -1):
        if number in live:
            live.update(vertices[number].inputs)
    return {source for number in live if (source := vertices[number].source) is not None}


def cut(flow: Dataflow) -> StagePlan:
    return _Cutter(flow).cut()


class _Cutter:
    def __init__(self, flow: Dataflow) -> None:
        self._flow = flow
        self._placed: dict[tuple[int, Wish], Piece | Exchange] = {}
        self._exchanged: dict[tuple[object, Wish], Exchange] = {}

    def cut(self) -> StagePlan:
        tops = {vertex: self._topped(vertex) for vertex in dict.fromkeys(self._flow.outputs.values())}
        pieces = self._in_order([exchange for _, inputs in tops.values() for exchange in inputs])
        self._settle(pieces)
        for _, exchanges in tops.values():
            for exchange in exchanges:
                exchange.stage = TOP
        exchanges = self._numbered(pieces, [e for _, inputs in tops.values() for e in inputs])
        count = max((piece.stage for piece in pieces), default=0)
        sources = tuple((e.producer, _sent(e)) for e in exchanges if isinstance(e.producer, str))
        stages = tuple(self._stage(number, pieces, exchanges) for number in range(1, count + 1))
        top, numbers = self._top(tops)
        return StagePlan(sources, stages, top, numbers)

    def _topped(self, number: int) -> tuple[Operator, list[Exchange]]:
        """The operator at the top of a query, and what it reads."""
        vertex = self._flow.vertices[number]
        assert vertex.operator is not None
        is_together = isinstance(vertex.division, ByColumns) and any(
            vertex.division.down(key) is not None for key in self._keys(vertex.inputs[0])
        )
        if is_together or isinstance(vertex.division, InOrder):
            merged = Merged(vertex.fields)
            return merged, [self._exchange(self._place(number, Mode.ANYWHERE), number, Mode.ONE_PLACE)]
        placed = [(i, self._place(i, Mode.ANYWHERE)) for i in vertex.inputs]
        return vertex.operator, [self._exchange(piece, i, Mode.ONE_PLACE) for i, piece in placed]

    # ------------------------------------------------------------------ placing

    def _place(self, number: int, wish: Wish) -> Piece | Exchange:
        """The output of a vertex, divided as wished."""
        known = (number, wish)
        if known not in self._placed:
            self._placed[known] = self._made(number, wish)
        return self._placed[known]

    def _made(self, number: int, wish: Wish) -> Piece | Exchange:
        vertex = self._flow.vertices[number]
        if vertex.source is not None:
            return self._exchange(vertex.source, number, wish)
        if wish is Mode.ANYWHERE:
            return self._own(number, vertex)
        natural = self._place(number, Mode.ANYWHERE)
        if isinstance(natural, Piece) and (natural.mode is wish or wish in natural.keys):
            return natural
        division = vertex.division
        if not division.can_be_copied:
            return self._exchange(natural, number, wish)
        if not isinstance(wish, Mode):
            wishes = division.down(wish)
            if wishes is not None:
                return self._piece(number, vertex, wishes, Mode.ANYWHERE)
        elif isinstance(division, Free) or (wish is Mode.ONE_PLACE and isinstance(division, Whole)):
            return self._piece(number, vertex, (wish,) * len(vertex.inputs), wish)
        return self._exchange(natural, number, wish)

    def _own(self, number: int, vertex: Vertex) -> Piece:
        """As the operator itself would have it, with as few rows exchanged as possible."""
        division = vertex.division
        natural = [self._keys(i) for i in vertex.inputs]
        ways = list(division.own())
        if not isinstance(division, Free):
            # The columns of the first input come first in the output.
            ways += [wishes for key in natural[0] if (wishes := division.down(key)) is not None]
        if not ways:
            return self._piece(number, vertex, (Mode.ONE_PLACE,) * len(vertex.inputs), Mode.ONE_PLACE)

        def cost(wishes: Sequence[Wish]) -> int:
            copies = sum(wish is Mode.EVERYWHERE for wish in wishes)
            fits = sum(wish in keys for wish, keys in zip(wishes, natural, strict=True))
            return 4 * copies - fits

        return self._piece(number, vertex, min(ways, key=cost), Mode.ANYWHERE)

    def _keys(self, number: int) -> tuple[Key, ...]:
        """The keys by which the output of a vertex is divided if nobody wishes otherwise."""
        placed = self._place(number, Mode.ANYWHERE)
        return () if isinstance(placed, Exchange) else placed.keys

    def _piece(self, number: int, vertex: Vertex, wishes: Sequence[Wish], mode: Mode) -> Piece:
        inputs = tuple(self._place(i, wish) for i, wish in zip(vertex.inputs, wishes, strict=True))
        keys = vertex.division.up(wishes) if mode is Mode.ANYWHERE else ()
        if mode is Mode.ANYWHERE and all(wish is Mode.ANYWHERE for wish in wishes):
            # Rows stay where the input's keys put them.
            naturals = [self._keys(i) for i in vertex.inputs]
            keys = tuple(k for key in naturals[0] for k in vertex.division.up((key,))) if naturals else ()
            if len(naturals) > 1:
                keys = ()
        return Piece(number, inputs, keys, mode)

    def _exchange(self, producer: str | Piece | Exchange, number: int, wish: Wish) -> Exchange:
        if isinstance(producer, Exchange):
            # Rows of a source that nobody has touched go straight to where they are wished.
            producer = producer.producer
        known = (producer, wish)
        if known not in self._exchanged:
            self._exchanged[known] = Exchange(producer, self._flow.vertices[number].fields, wish)
        return self._exchanged[known]

    # ------------------------------------------------------------------ stages

    def _in_order(self, ends: Sequence[Exchange]) -> list[Piece]:
        """All pieces that are used, each after those that it reads."""
        seen: dict[Piece, None] = {}

        def visit(part: Piece | Exchange | str) -> None:
            if isinstance(part, str):
                return
            if isinstance(part, Exchange):
                visit(part.producer)
            elif part not in seen:
                for below in part.inputs:
                    visit(below)
                seen[part] = None

        for end in ends:
            visit(end)
        return list(seen)

    def _settle(self, pieces: Sequence[Piece]) -> None:
        """Give pieces their stages, and homes to those that must be in one place."""
        for piece in pieces:
            stages = [1]
            for below in piece.inputs:
                if isinstance(below, Piece):
                    stages.append(below.stage)
                elif isinstance(below.producer, Piece):
                    stages.append(below.producer.stage + 1)
            piece.stage = max(stages)
        homes = 0
        for piece in pieces:
            if piece.mode is Mode.ONE_PLACE and piece.home < 0:
                self._spread_home(piece, homes, pieces)
                homes += 1
        for piece in pieces:
            # What an earlier stage has made waits in its place for the stage that needs it.
            piece.inputs = tuple(
                self._exchange(below, below.vertex, Mode.HERE)
                if isinstance(below, Piece) and below.stage < piece.stage
                else below
                for below in piece.inputs
            )

    def _spread_home(self, start: Piece, home: int, pieces: Sequence[Piece]) -> None:
        """The same home for everything that is connected."""
        waiting = [start]
        while waiting:
            piece = waiting.pop()
            if piece.home >= 0:
                continue
            piece.home = home
            waiting.extend(below for below in piece.inputs if isinstance(below, Piece))
            waiting.extend(above for above in pieces if piece in above.inputs)

    def _numbered(self, pieces: Sequence[Piece], tops: Sequence[Exchange]) -> list[Exchange]:
        """The exchanges that are used; one that stages of different numbers read is several."""
        found: dict[tuple[Exchange, int], Exchange] = {}
        for piece in pieces:
            inputs: list[Piece | Exchange] = []
            for below in piece.inputs:
                if isinstance(below, Exchange):
                    known = (below, piece.stage)
                    if known not in found:
                        found[known] = Exchange(below.producer, below.fields, below.wish, stage=piece.stage)
                    if below.wish is Mode.ONE_PLACE:
                        found[known].homes.add(piece.home)
                    inputs.append(found[known])
                else:
                    inputs.append(below)
            piece.inputs = tuple(inputs)
        used = [*found.values(), *dict.fromkeys(tops)]
        for number, exchange in enumerate(used):
            exchange.number = number
        return used

    def _stage(self, number: int, pieces: Sequence[Piece], exchanges: Sequence[Exchange]) -> Stage:
        vertices: list[Vertex] = []
        numbers: list[int] = []
        homes: list[int | None] = []
        places: dict[Piece | Exchange, int] = {}
        for exchange in exchanges:
            if exchange.stage == number:
                places[exchange] = len(vertices)
                vertices.append(Vertex(None, (), exchange.fields, exchange.name))
                numbers.append(-1)
                homes.append(None)
        for piece in pieces:
            if piece.stage == number:
                places[piece] = len(vertices)
                vertex = self._flow.vertices[piece.vertex]
                inputs = tuple(places[below] for below in piece.inputs)
                # One that stands here twice, divided in two ways, has its state twice, too.
                is_again = piece.vertex in numbers
                operator = copy.deepcopy(vertex.operator) if is_again else vertex.operator
                vertices.append(Vertex(operator, inputs, vertex.fields, division=vertex.division))
                numbers.append(piece.vertex)
                homes.append(piece.home if piece.mode is Mode.ONE_PLACE else None)
        sends = tuple(
            (places[e.producer], _sent(e))
            for e in exchanges
            if isinstance(e.producer, Piece) and e.producer.stage == number
        )
        return Stage(tuple(vertices), tuple(numbers), tuple(homes), sends)

    def _top(self, tops: Mapping[int, tuple[Operator, list[Exchange]]]) -> tuple[Dataflow, tuple[int, ...]]:
        top = Dataflow()
        places: dict[Exchange, int] = {}
        numbers: list[int] = []
        for vertex, (operator, exchanges) in tops.items():
            for exchange in exchanges:
                if exchange not in places:
                    places[exchange] = len(top.vertices)
                    top.vertices.append(Vertex(None, (), exchange.fields, exchange.name))
                    numbers.append(-1)
            inputs = tuple(places[exchange] for exchange in exchanges)
            for query, output in self._flow.outputs.items():
                if output == vertex:
                    top.outputs[query] = len(top.vertices)
            top.vertices.append(Vertex(operator, inputs, operator.fields))
            # What is merged has been counted where it was made.
            numbers.append(-1 if isinstance(operator, Merged) else vertex)
        return top, tuple(numbers)


def _sent(exchange: Exchange) -> Sent:
    number, stage, fields, wish = exchange.number, exchange.stage, exchange.fields, exchange.wish
    if stage == TOP:
        return Sent(number, TOP, fields, None, (TOP,), Mode.ONE_PLACE)
    if not isinstance(wish, Mode):
        return Sent(number, stage, fields, wish, (), Mode.ANYWHERE)
    return Sent(number, stage, fields, None, tuple(sorted(exchange.homes)), wish)
