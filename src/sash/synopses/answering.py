"""From the states of groups at boundaries to the rows of answers: whole ones, or what has changed.

Each state is compared with the one before it of the same group; HAVING and the selected expressions are
evaluated over whole columns, and equal rows that leave and enter at one instant cancel.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sash.lang.bound import AggregateCall, BoundSelect, OutputOperator, StreamDefinition
from sash.operators.delta import ANSWER_TYPES, zoned
from sash.operators.evaluate import evaluate
from sash.operators.order import places_by_value
from sash.plan.periodic import PeriodicQuery
from sash.state import kernels
from sash.state.groups import canonical, plain
from sash.synopses.changes import SIGN, tells_groups_apart, uncancelled
from sash.synopses.families import Family
from sash.synopses.query_shape import QueryShape
from sash.synopses.states import States

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
Answers = Iterator[tuple[str, pa.Table]]

# About so many rows of the answers of a family are written at once.
_ROWS_AT_ONCE = 1 << 20
_SIGNS = pa.array(["-", "+"])
_INSTANT = pa.timestamp("us", tz="UTC")


@dataclass(frozen=True, slots=True)
class Answering:
    """`is_part`: other groups are elsewhere, and `changes.merged` puts the answers together."""

    stream: StreamDefinition
    is_part: bool = False

    def whole(self, select: BoundSelect, states: States) -> pa.Table:
        """The whole answer at every instant."""
        rows = np.flatnonzero(states.present(select))
        if _is_bag(select):
            rows = np.repeat(rows, states.ints[rows, 0])
        return self._answers(select, states, rows, states.instants[rows])[0]

    def whole_of(self, family: Family, states: States) -> Answers:
        """The same for all queries of a family."""
        for owners, rows in family.passing(states, _ROWS_AT_ONCE):
            order = np.lexsort((rows, owners))
            owners, rows = owners[order], rows[order]
            table, _ = self._answers(family.select, states, rows, states.instants[rows], owners=owners)
            yield from _divided(family.queries, owners, table)

    def changes(self, kin: QueryShape, states: States) -> Answers:
        """What has changed for the query of each window."""
        # A row without a row before it has −1 there, which reads the False at the end.
        present = np.append(kin.present(states), False)
        concerned = np.arange(states.carried, len(states.slots))
        before = states.previous[states.carried :]
        minus, plus = _changed(
            kin.select, states, concerned, before, present[states.carried : -1], present[before]
        )
        sources, causes, signs = kernels.ordered_changes(
            states.carried, states.owners, states.instants, states.previous, minus, plus
        )
        instants, owners = states.instants[causes], states.owners[causes]
        table, owners = self._answers(kin.select, states, sources, instants, signs, owners)
        yield from _divided(kin.queries, owners, table)

    def changes_of(self, family: Family, states: States) -> Answers:
        """What has changed for each query of a family; all read the same window."""
        for owners, rows in family.passing(states, _ROWS_AT_ONCE):
            # A row that passes is there now, and until the next one of its group, which may not pass.
            fresh = rows >= states.carried
            ends = states.following[rows]
            ends[family.hold(states, owners, ends)] = -1
            gone = ends >= 0
            concerned = np.concatenate([rows[fresh], ends[gone]])
            asking = np.concatenate([owners[fresh], owners[gone]])
            now = np.arange(len(concerned)) < np.count_nonzero(fresh)
            was = ~now
            was[now] = family.hold(states, owners[fresh], states.previous[rows[fresh]])
            before = states.previous[concerned]
            minus, plus = _changed(family.select, states, concerned, before, now, was)
            sources = np.concatenate([np.repeat(before, minus), np.repeat(concerned, plus)])
            causes = np.concatenate([np.repeat(concerned, minus), np.repeat(concerned, plus)])
            signs = np.concatenate([np.full(minus.sum(), -1), np.full(plus.sum(), 1)])
            instants = states.instants[causes]
            asking = np.concatenate([np.repeat(asking, minus), np.repeat(asking, plus)])
            order = np.lexsort((causes, signs, instants, asking))
            table, asking = self._answers(
                family.select, states, sources[order], instants[order], signs[order], asking[order]
            )
            yield from _divided(family.queries, asking, table)

    def _answers(
        self,
        select: BoundSelect,
        states: States,
        rows: Ints,
        instants: Ints,
        signs: Ints | None = None,
        owners: Ints | None = None,
    ) -> tuple[pa.Table, Ints]:
        """The answers that rows give, and to whom; changes, if they have signs.

        Rows come by owner, instant and sign; here those that share all three are put in order.
        """
        inputs = states.table(select, rows, [output.scalar.inputs for output in select.outputs])
        scalars = [output.scalar for output in select.outputs]
        columns = [canonical(plain(column)) for column in evaluate(inputs, scalars)]
        owners = np.zeros_like(rows) if owners is None else owners
        sign = "op" if select.operator is OutputOperator.VIEW else None
        if signs is not None:
            if not tells_groups_apart(select):
                kept = uncancelled(owners, instants, signs, columns)
                columns = [column.take(pa.array(kept)) for column in columns]
                owners, instants, signs = owners[kept], instants[kept], signs[kept]
                sign = sign or (SIGN if self.is_part else None)
            if sign is None:
                wanted = signs == (1 if select.operator is OutputOperator.ISTREAM else -1)
                columns = [column.filter(pa.array(wanted)) for column in columns]
                owners, instants, signs = owners[wanted], instants[wanted], signs[wanted]
        columns = _in_order(select, columns, owners, instants, signs)
        table = {"ts": self._timestamps(instants)}
        if sign is not None and signs is not None:
            table[sign] = _SIGNS.take(pa.array((signs > 0).astype(np.int8)))
        for output, column in zip(select.outputs, columns, strict=True):
            table[output.name] = zoned(column)
        return pa.table(table), owners

    def _timestamps(self, instants: Ints) -> pa.Array:
        if self.stream.has_integer_time:
            return pa.array(instants // self.stream.unit)
        return pa.array(instants).view(_INSTANT)


def _in_order(
    select: BoundSelect, columns: list[pa.Array], owners: Ints, instants: Ints, signs: Ints | None
) -> list[pa.Array]:
    """The columns with rows of one owner, instant and sign in the order of their values."""
    apart = (owners[1:] != owners[:-1]) | (instants[1:] != instants[:-1])
    if signs is not None:
        apart |= signs[1:] != signs[:-1]
    places = places_by_value(apart, columns, [type_ for _, type_ in select.schema])
    return columns if places is None else [column.take(pa.array(places)) for column in columns]


def answer_schema(select: BoundSelect, stream: StreamDefinition) -> pa.Schema:
    """The columns of a query's answers."""
    fields = [("ts", pa.int64() if stream.has_integer_time else pa.timestamp("us", tz="UTC"))]
    if select.operator is OutputOperator.VIEW:
        fields.append(("op", pa.string()))
    fields.extend((name, ANSWER_TYPES[type_]) for name, type_ in select.schema)
    return pa.schema(fields)


def _changed(
    select: BoundSelect, states: States, concerned: Ints, before: Ints, now: Bools, was: Bools
) -> tuple[Ints, Ints]:
    """How many rows leave and enter by each state: those in the answer `now`, or before (`was`)."""
    if _is_bag(select):
        counts = states.ints[:, 0]
        change = np.where(now, counts[concerned], 0) - np.where(was, counts[before], 0)
        return np.maximum(-change, 0), np.maximum(change, 0)
    changed = now != was
    for call in _shown_aggregates(select):
        changed |= states.values(call).differs(concerned, before)
    return (was & changed).astype(np.int64), (now & changed).astype(np.int64)


def _is_bag(select: BoundSelect) -> bool:
    return not select.is_grouped and not select.distinct


def _shown_aggregates(select: BoundSelect) -> list[AggregateCall]:
    """The aggregates on which the output depends; those that only HAVING reads are not among them."""
    read = {name for output in select.outputs for name in output.scalar.inputs}
    return [call for i, call in enumerate(select.aggregates) if f"a{i}" in read]


def _divided(queries: Sequence[PeriodicQuery], owners: Ints, table: pa.Table) -> Answers:
    """The parts of a table that belong to queries; `owners` ascend."""
    edges = np.flatnonzero(np.diff(owners, prepend=-1, append=-1)).tolist()
    for start, stop in itertools.pairwise(edges):
        yield queries[int(owners[start])].name, table.slice(start, stop - start)
