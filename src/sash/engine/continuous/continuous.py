"""The continuous side of the query executor: rows go in, changes of the answers come out.

Inline, it has all operators of all queries. On Spark it has the last operator of each query, which puts
together what the partitions give; everything below runs in tasks (`runtime/partitions.py`).

Queries that read join synopses of other parts are guests. All that is left to do for them, above the
aggregates, is done here, with what the planes of those parts tell them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow as pa

from sash.archive import BORN, DIES
from sash.engine.continuous.buffered_dataflow import BufferedDataflow
from sash.engine.durability.operator_state import OperatorState, StateFile, Work
from sash.engine.durability.wire import Packed
from sash.engine.observe.report import DRIVER, Held
from sash.engine.stopping import keep_on
from sash.errors import InternalError
from sash.lang.algebra import Node, OutputKind
from sash.operators.answers import Once
from sash.operators.build import build, build_guests, guests_of
from sash.operators.dataflow import Dataflow, Place, Tally, measured
from sash.operators.delta import ALWAYS, ANSWER_TYPES, ARROW_TYPES, NEVER, Delta, zoned
from sash.operators.order import in_file_order
from sash.operators.outline import outline
from sash.operators.stage_planner import TOP, StagePlan, cut
from sash.plan.digests import digest
from sash.plan.explain.tree import Measured
from sash.plan.join_synopses import SharedJoin
from sash.plan.row_order import row_order
from sash.plan.run_plan import ContinuousQuery, RunPlan
from sash.state.groups import canonical
from sash.synopses.joined.aggregates import join_operators

NAME, GUESTS = "answers", "guests"
WAITING = -1
"""What rows that wait for the clock are counted under, where operators have their numbers."""
SIGN = "sash_sign"
"""The column that says whether a row enters an archive (1) or is taken back (-1)."""
_CHANGE_LOGS = (OutputKind.VIEW, OutputKind.WSTREAM)


def continuous_schema(query: ContinuousQuery) -> pa.Schema:
    """The columns of a query's answers; for an archive those of its rows, their lives and signs."""
    if query.definition.archive is not None:
        columns = [(field.name, ARROW_TYPES[field.type]) for field in query.plan.fields]
        return pa.schema([*columns, (BORN, pa.int64()), (DIES, pa.int64()), (SIGN, pa.int8())])
    fields = [("ts", pa.int64() if query.has_integer_time else pa.timestamp("us", tz="UTC"))]
    if query.plan.kind in _CHANGE_LOGS:
        fields.append(("op", pa.string()))
    fields.extend((field.name, ANSWER_TYPES[field.type]) for field in query.plan.fields)
    return pa.schema(fields)


def relation_delta(columns: Sequence[pa.Array]) -> Delta:
    """The rows of a static relation, which are there from the start."""
    count = len(columns[0])
    always = np.full(count, ALWAYS, dtype=np.int64)
    never = np.full(count, NEVER, dtype=np.int64)
    return Delta(always, never, tuple(columns))


@dataclass(frozen=True, slots=True)
class OperatorPlan:
    """What other processes build the operators of a part from: its plan, and a digest of what they become."""

    plan: RunPlan
    digest: str

    @staticmethod
    def of(plan: RunPlan, whole: Dataflow, divided: StagePlan) -> OperatorPlan:
        """Of operators that have not processed anything. What synopses answer is no concern of theirs."""
        return OperatorPlan(replace(plan, queries=(), synopses=()), digest(outline(whole, divided)))

    def cut(self) -> StagePlan:
        """The operators, built anew: nobody else has them."""
        whole = build(self.plan, join_operators)
        divided = cut(whole)
        if digest(outline(whole, divided)) != self.digest:
            raise InternalError("a plan has become other operators than at the driver")
        return divided


class ContinuousExecutor:
    """`directory` is where the state of operators is written, None: nowhere.

    `is_cut`: only the last operators are here; `cut` says what the others are.
    """

    def __init__(
        self,
        plan: RunPlan,
        directory: Path | None = None,
        *,
        is_cut: bool = False,
        durable: bool = True,
        look: Callable[[], None] = keep_on,
    ) -> None:
        self.name = f"{plan.number}.{NAME}"
        self._guest_name = f"{plan.number}.{GUESTS}"
        self._queries = {query.name: query for query in plan.continuous}
        self._schemas = {query.name: continuous_schema(query) for query in plan.continuous}
        self._orders = {query.name: row_order(query.plan) for query in plan.continuous}
        self._one_time = plan.one_time
        self._whole = build(plan, join_operators)
        self.cut: StagePlan | None = cut(self._whole) if is_cut else None
        self.operators = None if self.cut is None else OperatorPlan.of(plan, self._whole, self.cut)
        self.flow: Dataflow = self._whole if self.cut is None else self.cut.top
        self._cell = OperatorState(self.name, BufferedDataflow(self.flow, look), directory, durable=durable)
        self._guests = build_guests(plan)
        self._guest_cell = OperatorState(
            self._guest_name, BufferedDataflow(self._guests, look), directory, durable=durable
        )
        self.settings = tuple(join.setting for join in plan.joins)
        # What the last batch told guests of other parts, by synopsis.
        self.told: dict[str, list[Delta]] = {}
        # Nobody counts the rows that tasks read; for each source, somebody who gets them all and no others.
        self._readers = {
            vertex.inputs[0]: number
            for number, vertex in enumerate(self._whole.vertices)
            if len(vertex.inputs) == 1 and self._whole.vertices[vertex.inputs[0]].operator is None
        }
        # What operators elsewhere did, by (operator, partition).
        self._tallies: dict[tuple[int, int], Tally] = {}

    def outline(self) -> list[str]:
        """What its operators are, before they have processed anything: state fits only the same ones."""
        return [*outline(self._whole, self.cut), *outline(self._guests, None)]

    @property
    def is_idle(self) -> bool:
        return not self.flow.outputs

    @property
    def has_guests(self) -> bool:
        """Whether queries of it read join synopses of other parts."""
        return bool(self._guests.outputs)

    def drop(self, queries: Collection[str]) -> None:
        """Let go of some queries; what only they need goes with the next `serve`."""
        self._queries = {name: query for name, query in self._queries.items() if name not in queries}
        self._one_time = tuple(query for query in self._one_time if query.name not in queries)

    def serve(self, joins: Sequence[SharedJoin]) -> None:
        """Keep what queries need and these join synopses, for those who read them."""
        own = [*self._queries, *(query.name for query in self._one_time)]
        self._cell.buffered.keep([*own, *(guests_of(join.name) for join in joins)])
        self._guest_cell.buffered.keep(own)
        self.settings = tuple(join.setting for join in joins)
        self.flow.adapt(self.settings)

    @property
    def needed(self) -> frozenset[str]:
        """The exchanges whose rows somebody needs, by their names."""
        return frozenset() if self.cut is None else self.cut.needed(self.flow.outputs)

    @property
    def sources(self) -> set[str]:
        """The scans and static relations whose rows somebody needs."""
        if self.cut is None:
            return self.flow.sources
        needed = self.needed
        return {name for name, sent in self.cut.sources if sent.name in needed}

    def begin_with(self, batch: int, given: Sequence[tuple[str, int, Delta]]) -> None:
        """Take in rows that were there before, after `batch`: of static relations, and of scans.

        They are (source, rank, rows) and part of the state.
        """
        if self.cut is not None:
            tops = {source: sent.name for source, sent in self.cut.sources if sent.stage == TOP}
            given = [(tops[source], rank, delta) for source, rank, delta in given if source in tops]
        if given and not self.is_idle:
            for _ in self._cell.apply(batch, Work(tuple(given), None, {})):
                pass

    def answer(
        self,
        batch: int,
        rows: tuple[tuple[str, int, Delta | Packed], ...],
        first: Mapping[str, int],
        through: int | None,
    ) -> Iterator[tuple[str, pa.Table]]:
        """Take in the rows of a batch and move to `through`, if time has moved at all."""
        self.told = {}
        for name, changes in self._cell.apply(batch, Work(rows, through, first)):
            if name in self._queries:
                yield name, self._table(name, changes)
            else:
                self.told.setdefault(name, []).append(changes)

    def answer_guests(
        self, batch: int, told: Mapping[str, Sequence[Delta]], first: Mapping[str, int], through: int | None
    ) -> Iterator[tuple[str, pa.Table]]:
        """The same for guests; `told` and `first` are by join synopsis."""
        rows = ((name, rank, delta) for name, deltas in told.items() for rank, delta in enumerate(deltas))
        for name, changes in self._guest_cell.apply(batch, Work(tuple(rows), through, first)):
            yield name, self._table(name, changes)

    def _table(self, name: str, changes: Delta) -> pa.Table:
        """Changes as they are written."""
        query, schema = self._queries[name], self._schemas[name]
        if query.definition.archive is not None:
            lives = (pa.array(changes.ts), pa.array(changes.exp), pa.array(changes.signs()))
            return pa.Table.from_arrays([*changes.columns, *lives], schema=schema)
        order = self._orders[name]
        if order is not None:
            changes = in_file_order(changes, query.plan.fields, order)
        if query.has_integer_time:
            columns = [pa.array(changes.ts // query.unit)]
        else:
            columns = [pa.array(changes.ts).view(pa.timestamp("us")).cast(schema.field("ts").type)]
        if query.plan.kind in _CHANGE_LOGS:
            is_minus = pa.array((changes.signs() < 0).astype(np.int8))
            columns.append(pa.array(["+", "-"]).take(is_minus))
        columns.extend(zoned(canonical(column)) for column in changes.columns)
        return pa.Table.from_arrays(columns, schema=schema)

    def once(self) -> dict[str, pa.Table]:
        """The answers of one-time queries, over the windows as they are."""
        answers = {}
        for query in self._one_time:
            operator = self.flow.vertices[self.flow.outputs[query.name]].operator
            assert isinstance(operator, Once)
            schema = pa.schema([(field.name, ANSWER_TYPES[field.type]) for field in query.plan.fields])
            answers[query.name] = pa.Table.from_arrays([*map(zoned, operator.answer())], schema=schema)
        return answers

    # ------------------------------------------------------------------ state

    @property
    def files(self) -> dict[str, tuple[StateFile, ...]]:
        """The state after the last batch."""
        files = {self.name: self._cell.files}
        return {**files, self._guest_name: self._guest_cell.files} if self.has_guests else files

    def load(self, batch: int, files: Mapping[str, tuple[StateFile, ...]]) -> None:
        """Go on from a saved state, which has the relations in it."""
        if not self.is_idle:
            self._cell.load(batch, files[self.name])
        if self.has_guests:
            self._guest_cell.load(batch, files[self._guest_name])

    def close(self) -> None:
        self._cell.close()
        self._guest_cell.close()

    # ------------------------------------------------------------------ measured

    def count(self, tallies: Mapping[tuple[int, int], Tally]) -> None:
        """Add what operators elsewhere did in a batch."""
        for place, tally in tallies.items():
            self._tallies[place] = self._tallies.get(place, Tally()).after(tally)

    @property
    def state(self) -> dict[int, Held]:
        """What each partition holds, with the rows that wait there for the clock."""
        held = {DRIVER: Held(self.flow.state_rows, self.flow.state_bytes)}
        held[DRIVER] += Held(self._guests.state_rows, self._guests.state_bytes)
        waiting = {(WAITING, DRIVER): self._cell.buffered.waiting}
        for (_, partition), tally in (*self._tallies.items(), *waiting.items()):
            held[partition] = held.get(partition, Held()) + Held(tally.state_rows, tally.state_bytes)
        return held

    def tallies(self) -> dict[tuple[int, int], Tally]:
        """What each operator did so far and holds, by (operator, partition); below 0 is what waits."""
        numbers = range(len(self.flow.vertices)) if self.cut is None else self.cut.top_numbers
        here = zip(numbers, self.flow.tallies(), strict=True)
        tallies = {(number, DRIVER): tally for number, tally in here if number >= 0}
        guests = enumerate(self._guests.tallies(), start=len(self._whole.vertices))
        tallies.update({(number, DRIVER): tally for number, tally in guests})
        return {**self._tallies, **tallies, (WAITING, DRIVER): self._cell.buffered.waiting}

    @property
    def places(self) -> Mapping[str, Mapping[Node, Place]]:
        """Which operators the nodes of each query's plan are, by number; those of guests come last."""
        return {**self._whole.places, **self._guests.places_from(len(self._whole.vertices))}

    def totals(self) -> dict[int, Tally]:
        """What each operator did so far."""
        totals: dict[int, Tally] = {}
        for (number, _), tally in self.tallies().items():
            if number >= 0:
                totals[number] = totals.get(number, Tally()) + tally
        if self.cut is not None:
            for source, reader in self._readers.items():
                totals[source] = Tally(rows_out=totals.get(reader, Tally()).rows_in)
        return totals

    def measured(self) -> dict[str, dict[Node, Measured]]:
        """What came of the nodes of each query's plan so far."""
        totals = self.totals()
        places = self.places
        return {query: measured(places[query], totals) for query in self._queries}

    @property
    def state_rows(self) -> int:
        return sum(tally.state_rows for tally in self.totals().values())

    @property
    def state_bytes(self) -> int:
        return sum(tally.state_bytes for tally in self.totals().values())
