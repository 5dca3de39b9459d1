"""Join results pre-aggregated where they are made, before they are sent to the place of their group.

A row is what some results with the same interval, class, group and pane of arrival add up to. Its columns are
the keys, those three numbers, and measures; extrema of strings are strings.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from sash.lang.algebra import Field
from sash.lang.types import Type
from sash.operators.delta import NEVER, Delta, Ints, as_table, concat, empty_delta
from sash.operators.operator import Moment, Operator
from sash.operators.preaggregate import Partial
from sash.operators.time_window import next_multiple
from sash.plan.duplicates import is_coded
from sash.plan.join_synopses import FIRST, SECOND, JoinSpec
from sash.plan.periodic import SynopsisSpec
from sash.state.groups import plain
from sash.state.layout import Layout
from sash.state.ordering import is_code, ranked_words
from sash.synopses.joined.results import preaggregate_results

_NUMBERS = ("pane", "class", "arrival")


def summary_of(spec: JoinSpec) -> SynopsisSpec:
    """What a join synopsis keeps of results."""
    longest = spec.b * spec.panes.period
    return SynopsisSpec(spec.name, "", None, spec.keys, spec.panes, spec.measures, longest)


def _coded_columns(layout: Layout) -> list[int]:
    """The columns of integers that are codes of strings."""
    return [layout.column(m.kind, m.argument)[0] for m in layout.measures if is_coded(m)]


class JoinPartials(Operator):
    takes_early = True

    def __init__(self, spec: JoinSpec, inputs: Sequence[Field], step: int = 1) -> None:
        self.spec = spec
        self._step = step
        self._inputs = tuple(inputs)
        self._summary = summary_of(spec)
        layout = Layout.of(spec.measures)
        self._coded = _coded_columns(layout)
        ints = (
            Field(f"i{i}", Type.STRING if i in self._coded else Type.BIGINT)
            for i in range(len(layout.operations))
        )
        floats = (Field(f"f{i}", Type.DOUBLE) for i in range(layout.float_columns))
        numbers = (Field(name, Type.BIGINT) for name in _NUMBERS)
        self.fields = (*inputs[: len(spec.keys)], *numbers, *ints, *floats)

    def process(self, inputs: Sequence[Delta], moment: Moment) -> Delta:
        (delta,) = inputs
        # What does not live at a multiple of the step is seen by nobody.
        arrived = next_multiple(delta.ts, self._step)
        lives = arrived < next_multiple(delta.exp, self._step)
        delta, arrived = delta.filter(lives), arrived[lives]
        if not len(delta):
            return empty_delta(self.fields)
        table = as_table(delta.columns, [field.name for field in self._inputs], len(delta))
        first, second = (
            np.asarray(plain(table.column(name)).cast(pa.int64())) * unit - shift
            for name, unit, shift in zip((FIRST, SECOND), self.spec.units, self.spec.shifts, strict=True)
        )
        arrivals = self.spec.panes.number_of(arrived)
        made = preaggregate_results(first, second, table, self._summary, self.spec.g, arrivals)
        return concat([self._delta(partial) for partial in made], self.fields)

    def _delta(self, partial: Partial) -> Delta:
        rows = pa.array(partial.groups)
        *keys, classes, arrivals = (plain(key.take(rows)) for key in partial.keys)
        ints = [
            _words(column, partial.words[i]) if i in self._coded else pa.array(column)
            for i, column in enumerate(partial.ints.T)
        ]
        floats = [pa.array(column) for column in partial.floats.T]
        ts = (np.asarray(arrivals) + 1) * self.spec.panes.period
        columns = (*keys, pa.array(partial.panes), classes, arrivals, *ints, *floats)
        return Delta(ts, np.full(len(ts), NEVER, dtype=np.int64), columns)


def _words(codes: Ints, words: pa.Array) -> pa.Array:
    """The words that codes stand for, NULL where there is none."""
    return words.take(pa.array(codes, mask=~is_code(codes)))


def partial_of(delta: Delta, summary: SynopsisSpec) -> Partial:
    """What rows of `JoinPartials` add to a synopsis, as it takes them."""
    layout = Layout.of(summary.measures)
    count = len(summary.keys)
    keys, (panes, classes, arrivals) = delta.columns[:count], delta.columns[count : count + 3]
    measures = delta.columns[count + 3 :]
    ints, _ = layout.empty(len(delta))
    words: dict[int, pa.Array] = {}
    coded = _coded_columns(layout)
    for i in range(len(layout.operations)):
        if i in coded:
            codes, words[i] = ranked_words(measures[i])
            present = np.asarray(measures[i].is_valid())
            ints[present, i] = codes[present]
        else:
            ints[:, i] = np.asarray(measures[i])
    floats = [np.asarray(column) for column in measures[len(layout.operations) :]]
    return Partial(
        summary.name,
        (*keys, classes, arrivals),
        np.arange(len(delta)),
        np.asarray(panes),
        ints,
        np.column_stack(floats) if floats else np.zeros((len(delta), 0)),
        words,
    )
