"""The continuous side of the query plane: rows go in, changes of the answers come out.

Inline, it has all operators of all queries. On Spark it has the last operator of each query, which puts
together what the partitions give; everything below runs in tasks (`runtime/spark/cells.py`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa

from sash.lang.algebra import Node, OutputKind
from sash.operators.answers import Once
from sash.operators.build import build
from sash.operators.cut import Cut, cut
from sash.operators.dataflow import Dataflow, Tally
from sash.operators.delta import ALWAYS, ARROW_TYPES, NEVER, Delta
from sash.plan.explain.tree import Measured
from sash.plan.run_plan import ContinuousQuery, RunPlan
from sash.runtime.cell import Cell, StateFile, Work
from sash.runtime.fragment import Fragment

NAME = "answers"
_CHANGE_LOGS = (OutputKind.VIEW, OutputKind.WSTREAM)


def continuous_schema(query: ContinuousQuery) -> pa.Schema:
    """The columns of a query's answers."""
    fields = [("ts", pa.int64() if query.has_integer_time else pa.timestamp("us", tz="UTC"))]
    if query.plan.kind in _CHANGE_LOGS:
        fields.append(("op", pa.string()))
    fields.extend((field.name, ARROW_TYPES[field.type]) for field in query.plan.fields)
    return pa.schema(fields)


def relation_delta(columns: Sequence[pa.Array]) -> Delta:
    """The rows of a static relation, which are there from the start."""
    count = len(columns[0])
    always = np.full(count, ALWAYS, dtype=np.int64)
    never = np.full(count, NEVER, dtype=np.int64)
    return Delta(always, never, tuple(columns))


class ContinuousPlane:
    """`directory` is where the state of operators is written, None: nowhere.

    `is_cut`: only the last operators are here; `cut` says what the others are.
    """

    def __init__(
        self, plan: RunPlan, directory: Path | None = None, *, is_cut: bool = False, durable: bool = True
    ) -> None:
        self._queries = {query.name: query for query in plan.continuous}
        self._schemas = {query.name: continuous_schema(query) for query in plan.continuous}
        self._one_time = plan.one_time
        self._whole = build(plan)
        self.cut: Cut | None = cut(self._whole) if is_cut else None
        self.flow: Dataflow = self._whole if self.cut is None else self.cut.top
        self._cell = Cell(NAME, Fragment(self.flow), directory, durable=durable)
        # What operators elsewhere did, by (operator, partition).
        self._tallies: dict[tuple[int, int], Tally] = {}

    @property
    def is_idle(self) -> bool:
        return not self.flow.outputs

    def load_relations(self, relations: Mapping[str, Delta]) -> None:
        for name, rows in relations.items():
            self._cell.fragment.absorb(f"relation {name}", rows)

    def answer(
        self,
        batch: int,
        rows: tuple[tuple[str, int, Delta], ...],
        first: Mapping[str, int],
        through: int | None,
    ) -> Iterator[tuple[str, pa.Table]]:
        """Take in the rows of a batch and move to `through`, if time has moved at all."""
        for name, changes in self._cell.apply(batch, Work(rows, through, first)):
            if name in self._queries:
                yield name, self._table(name, changes)

    def _table(self, name: str, changes: Delta) -> pa.Table:
        """Changes as they are written."""
        query, schema = self._queries[name], self._schemas[name]
        if query.has_integer_time:
            columns = [pa.array(changes.ts // query.unit)]
        else:
            columns = [pa.array(changes.ts).view(pa.timestamp("us")).cast(schema.field("ts").type)]
        if query.plan.kind in _CHANGE_LOGS:
            is_minus = pa.array((changes.signs() < 0).astype(np.int8))
            columns.append(pa.array(["+", "-"]).take(is_minus))
        columns.extend(changes.columns)
        return pa.Table.from_arrays(columns, schema=schema)

    def once(self) -> dict[str, pa.Table]:
        """The answers of one-time queries, over the windows as they are."""
        answers = {}
        for query in self._one_time:
            operator = self.flow.vertices[self.flow.outputs[query.name]].operator
            assert isinstance(operator, Once)
            schema = pa.schema([(field.name, ARROW_TYPES[field.type]) for field in query.plan.fields])
            answers[query.name] = pa.Table.from_arrays(operator.answer(), schema=schema)
        return answers

    # ------------------------------------------------------------------ state

    @property
    def files(self) -> dict[str, tuple[StateFile, ...]]:
        """The state after the last batch."""
        return {NAME: self._cell.files}

    def load(self, batch: int, files: Mapping[str, tuple[StateFile, ...]]) -> None:
        """Go on from a saved state, which has the relations in it."""
        self._cell.load(batch, files[NAME])

    def close(self) -> None:
        self._cell.close()

    # ------------------------------------------------------------------ measured

    def count(self, tallies: Mapping[tuple[int, int], Tally]) -> None:
        """Add what operators elsewhere did in a batch."""
        for place, tally in tallies.items():
            self._tallies[place] = self._tallies.get(place, Tally()).after(tally)

    @property
    def _totals(self) -> dict[int, Tally]:
        """What each operator did so far."""
        if self.cut is None:
            return dict(enumerate(self.flow.tallies()))
        totals: dict[int, Tally] = {}
        here = zip(self.cut.top_numbers, self.flow.tallies(), strict=True)
        there = ((number, tally) for (number, _), tally in self._tallies.items())
        for number, tally in (*here, *there):
            if number >= 0:
                totals[number] = totals.get(number, Tally()) + tally
        return totals

    def measured(self, query: str) -> dict[Node, Measured]:
        """What came of the nodes of a query's plan so far."""
        return self._whole.measured(query, self._totals)

    @property
    def state_rows(self) -> int:
        return sum(tally.state_rows for tally in self._totals.values())

    @property
    def state_bytes(self) -> int:
        return sum(tally.state_bytes for tally in self._totals.values())
