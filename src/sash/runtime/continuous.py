"""The continuous side of the query plane: rows of scans go in, changes of the answers come out.

Rows wait until the clock has passed them, because rows that are older may still come within the SLACK. Then
they pass through the dataflow in slices of time, so that memory does not follow the size of a batch.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa

from sash.lang.algebra import OutputKind
from sash.operators.answers import Once
from sash.operators.build import build
from sash.operators.delta import ALWAYS, ARROW_TYPES, NEVER, Delta, Ints, concat
from sash.operators.held import delta_of
from sash.operators.operator import Moment, State, part, prefixed
from sash.plan.run_plan import ContinuousQuery, RunPlan
from sash.runtime.scans import ScanRows

# Rows that pass through the dataflow at once.
SLICE_ROWS = 1 << 16
_CHANGE_LOGS = (OutputKind.VIEW, OutputKind.WSTREAM)


def continuous_schema(query: ContinuousQuery) -> pa.Schema:
    """The columns of a query's answers."""
    fields = [("ts", pa.int64() if query.has_integer_time else pa.timestamp("us", tz="UTC"))]
    if query.plan.kind in _CHANGE_LOGS:
        fields.append(("op", pa.string()))
    fields.extend((field.name, ARROW_TYPES[field.type]) for field in query.plan.fields)
    return pa.schema(fields)


class ContinuousPlane:
    def __init__(self, plan: RunPlan) -> None:
        self._queries = {query.name: query for query in plan.continuous}
        self._schemas = {query.name: continuous_schema(query) for query in plan.continuous}
        self.flow = build(plan)
        self._fields = {scan.name: scan.node.fields for scan in plan.scans}
        self._waiting: dict[str, list[Delta]] = {scan.name: [] for scan in plan.scans}
        self._relations: dict[str, Delta] = {}

        self._one_time = plan.one_time

    @property
    def is_idle(self) -> bool:
        return not self.flow.outputs

    def load_relations(self, relations: Mapping[str, Sequence[pa.Array]]) -> None:
        """The rows of static relations, which are there from the start."""
        for name, columns in relations.items():
            count = len(columns[0])
            always = np.full(count, ALWAYS, dtype=np.int64)
            never = np.full(count, NEVER, dtype=np.int64)
            self._relations[f"relation {name}"] = Delta(always, never, tuple(columns))

    def absorb(self, scanned: Iterable[ScanRows]) -> None:
        """Take in rows in the order in which they arrived."""
        for rows in scanned:
            exp = np.full(len(rows.ts), NEVER, dtype=np.int64) if rows.exp is None else rows.exp
            self._waiting[rows.scan].append(Delta(rows.ts, exp, rows.columns))

    def answer(self, first: Mapping[str, int], through: int) -> Iterator[tuple[str, pa.Table]]:
        """Move to `through`, the last instant about which everything is known."""
        ready = {name: self._ready(name, through) for name in self._waiting}
        last: dict[str, int] = dict.fromkeys(ready, 0)
        for end in _slices([delta.ts for delta in ready.values()], through):
            sources = self._relations
            self._relations = {}
            for name, delta in ready.items():
                stop = int(np.searchsorted(delta.ts, end, side="right"))
                sources[name] = _slice(delta, last[name], stop)
                last[name] = stop
            for name, changes in self.flow.advance(sources, Moment(end, first)).items():
                if len(changes) and name in self._queries:
                    yield name, self._table(name, changes)

    def _ready(self, scan: str, through: int) -> Delta:
        """The rows of a scan up to an instant, in the order of time and then of arrival."""
        waiting = concat(self._waiting[scan], self._fields[scan]).sorted()
        stop = int(np.searchsorted(waiting.ts, through, side="right"))
        self._waiting[scan] = [_slice(waiting, stop, len(waiting))] if stop < len(waiting) else []
        return _slice(waiting, 0, stop)

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

    def snapshot(self) -> State:
        state = prefixed("flow", self.flow.snapshot())
        for name, deltas in self._waiting.items():
            state[f"waiting.{name}"] = _table_of(concat(deltas, self._fields[name]))
        # Relations pass into the dataflow when time begins.
        for name, delta in self._relations.items():
            state[f"given.{name}"] = _table_of(delta)
        return state

    def restore(self, state: State) -> None:
        """Go on from a saved state, which has the relations in it."""
        self._relations = {name: delta_of(table) for name, table in part("given", state).items()}
        self.flow.restore(part("flow", state))
        for name, table in part("waiting", state).items():
            delta = delta_of(table)
            self._waiting[name] = [delta] if len(delta) else []


def _table_of(delta: Delta) -> pa.Table:
    columns = {f"c{i}": column for i, column in enumerate(delta.columns)}
    return pa.table({"ts": delta.ts, "exp": delta.exp, **columns})


def _slice(delta: Delta, start: int, stop: int) -> Delta:
    if start == 0 and stop == len(delta):
        return delta
    columns = tuple(column.slice(start, stop - start) for column in delta.columns)
    return Delta(delta.ts[start:stop], delta.exp[start:stop], columns)


def _slices(instants: Sequence[Ints], through: int) -> Iterator[int]:
    """Ends of slices of time that hold about `SLICE_ROWS` rows each; the last is `through`."""
    merged = np.sort(np.concatenate([np.zeros(0, dtype=np.int64), *instants]))
    ends = np.unique(merged[SLICE_ROWS - 1 :: SLICE_ROWS])
    yield from (int(end) for end in ends if end < through)
    yield through
