"""From calls of aggregates to the measures they need, and from measures to their values.

Calls share arguments and measures: SUM(x), AVG(x) and COUNT(x) read x once and count it once.

| aggregate                     | measures            | algebra                                       |
|-------------------------------|---------------------|-----------------------------------------------|
| COUNT                         | count               | distributive, subtractable                    |
| SUM, AVG                      | count, sum          | distributive / algebraic, subtractable        |
| VAR, STDDEV and their _POP    | count, moments      | algebraic, subtractable                       |
| MIN, MAX                      | count, values       | distributive, not subtractable: ordered values|
| QUANTILE                      | count, values       | holistic: ordered values                      |
| TOP                           | value counts        | holistic                                      |
| HISTOGRAM                     | ordered value counts| holistic; with ranges distributive            |
| FREQUENT                      | lists of frequent values | holistic; rows leave in order            |
| DISTINCT                      | value counts        | holistic; narrows what the others read        |
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import pyarrow as pa

from sash.errors import DataError, InternalError, NotYet
from sash.lang.values import AggregateCall, AggregateFunction
from sash.operators.aggregates.arguments import Argument, Distinct, Given, Numbers, Presence, Rows, Strings
from sash.operators.aggregates.counts import Counts
from sash.operators.aggregates.events import Events
from sash.operators.aggregates.extremes import OrderedValues
from sash.operators.aggregates.frequent import Frequencies
from sash.operators.aggregates.frequent_lists import Cut, FrequentLists
from sash.operators.aggregates.histograms import Histograms
from sash.operators.aggregates.measure import Measure
from sash.operators.aggregates.moments import Floats, Moments
from sash.operators.aggregates.monotone import MonotoneQueues
from sash.operators.aggregates.sums import DoubleSums, IntegerSums
from sash.operators.aggregates.values import Coded, Values, doubles
from sash.operators.delta import Bools, Ints
from sash.operators.operator import State, part, prefixed
from sash.state.kernels import LOW_BITS

_F = AggregateFunction
# Which variance each of them is made of.
_SPREADS = {_F.VAR: 0, _F.STDDEV: 0, _F.VAR_POP: 1, _F.STDDEV_POP: 1}
_POPULATIONS = frozenset({_F.VAR_POP, _F.STDDEV_POP})
_ROOTS = frozenset({_F.STDDEV, _F.STDDEV_POP})

ArgumentKey = tuple[str, int]
MeasureKey = tuple[str, ArgumentKey]
_ROWS: ArgumentKey = ("rows", -1)


@dataclass(frozen=True, slots=True)
class _Plan:
    """The measures that a call is made of: a count and, mostly, another one over the same argument."""

    call: AggregateCall
    argument: ArgumentKey
    kind: str | None = None


class Calls:
    """All aggregates of one grouping: a pass over their arguments, then one over their measures."""

    def __init__(
        self,
        calls: Sequence[AggregateCall],
        positions: Sequence[int | None],
        types: Sequence[pa.DataType],
        *,
        fifo: bool,
        endless: bool = False,
        cut: Cut | None = None,
    ) -> None:
        """`cut`: where sub-windows end, if rows leave in the order in which they came."""
        self.types = tuple(types)
        self._fifo = fifo or endless
        self._endless = endless
        self._cut = cut
        self._arguments: dict[ArgumentKey, Argument] = {_ROWS: Rows()}
        self._rows = Counts()
        self._measures: dict[MeasureKey, Measure] = {("count", _ROWS): self._rows}
        pairs = list(zip(calls, positions, strict=True))
        self._read = {position for call, position in pairs if not _is_plain_count(call)}
        self._plans = [self._plan(call, position) for call, position in pairs]

    def _plan(self, call: AggregateCall, position: int | None) -> _Plan:
        function = call.function
        if function is _F.FREQUENT and self._cut is None:
            raise NotYet(
                "FREQUENT is not run over these rows yet: they may leave in another order than they came",
                hint="use it over a window of RANGE (a multiple of its SLIDE) or ROWS of a stream, or TOP, "
                "which is exact",
            )
        if position is None:
            return _Plan(call, _ROWS)
        is_distinct = call.is_distinct or function is _F.APPROX_COUNT_DISTINCT
        key = self._argument(position, is_distinct=is_distinct)
        argument = self._arguments[key]
        is_double = pa.types.is_floating(argument.type)
        self._measure("count", key, Counts)
        match function:
            case _F.COUNT | _F.APPROX_COUNT_DISTINCT:
                return _Plan(call, key)
            case _F.SUM | _F.AVG:
                return self._measured(call, "sum", key, DoubleSums if is_double else IntegerSums)
            case _F.VAR | _F.VAR_POP | _F.STDDEV | _F.STDDEV_POP:
                return self._measured(call, "moments", key, lambda: Moments(is_double=is_double))
            case _F.MIN if self._fifo:
                return self._measured(call, "min", key, lambda: self._queues(argument, is_max=False))
            case _F.MAX if self._fifo:
                return self._measured(call, "max", key, lambda: self._queues(argument, is_max=True))
            case _F.MIN | _F.MAX | _F.QUANTILE | _F.APPROX_QUANTILE:
                plan = self._measured(call, "values", key, lambda: OrderedValues(argument))
                values = self._measures["values", key]
                assert isinstance(values, OrderedValues)
                values.probe(fraction_of(call))
                return plan
            case _F.TOP | _F.APPROX_TOP:
                limit = call.limit
                return self._measured(call, f"top {limit}", key, lambda: Frequencies(argument, limit))
            case _F.HISTOGRAM:
                ranges = call.ranges
                kind = "histogram" if ranges is None else "ranges"
                return self._measured(call, kind, key, lambda: Histograms(argument, ranges))
            case _F.FREQUENT if self._cut is not None:
                limit, cut = call.limit, self._cut
                return self._measured(
                    call, f"frequent {limit}", key, lambda: FrequentLists(argument, limit, cut)
                )
            case _:
                raise InternalError(f"{function.value} has no incremental form")

    def _queues(self, argument: Argument, *, is_max: bool) -> MonotoneQueues:
        return MonotoneQueues(argument, is_max=is_max, endless=self._endless)

    def _argument(self, position: int, *, is_distinct: bool) -> ArgumentKey:
        type_ = self.types[position]
        if position not in self._read:
            self._arguments.setdefault(("presence", position), Presence(position, type_))
            return "presence", position
        if ("column", position) not in self._arguments:
            is_string = pa.types.is_string(type_)
            column = Strings(position) if is_string else Numbers(position, type_)
            self._arguments["column", position] = column
        if not is_distinct:
            return "column", position
        if ("distinct", position) not in self._arguments:
            self._arguments["distinct", position] = Distinct(self._arguments["column", position])
        return "distinct", position

    def _measure(self, kind: str, argument: ArgumentKey, make: Callable[[], Measure]) -> None:
        if (kind, argument) not in self._measures:
            self._measures[kind, argument] = make()

    def _measured(
        self, call: AggregateCall, kind: str, argument: ArgumentKey, make: Callable[[], Measure]
    ) -> _Plan:
        self._measure(kind, argument, make)
        return _Plan(call, argument, kind)

    def follow(self, events: Events, columns: Sequence[pa.Array]) -> None:
        """Take a batch; `columns` are in the order of the events."""
        given: dict[ArgumentKey, Given] = {}
        for key, argument in self._arguments.items():
            if isinstance(argument, Distinct):
                given[key] = argument.narrow(events, given["column", key[1]])
            else:
                given[key] = argument.read(events, columns)
        for (_, key), measure in self._measures.items():
            measure.follow(events, given[key])

    @property
    def row_counts(self) -> Ints:
        """How many rows a group has at each sample."""
        return self._rows.samples

    def rows_now(self, numbers: Ints) -> Ints:
        return self._rows.now(numbers)

    def values(self) -> list[Values]:
        """The value of each call at each sample."""
        return [self._finish(plan) for plan in self._plans]

    def _finish(self, plan: _Plan) -> Values:
        call, argument = plan.call, self._arguments[plan.argument]
        counts = self._measures["count", plan.argument]
        assert isinstance(counts, Counts)
        present = counts.samples
        if plan.kind is None:
            return Coded(present, None, pa.int64())
        valid = present > 0
        match self._measures[plan.kind, plan.argument]:
            case IntegerSums() as sums if call.function is _F.AVG:
                total = sums.high * float(1 << LOW_BITS) + sums.low
                return doubles(np.divide(total, present, out=np.zeros(len(present)), where=valid), valid)
            case IntegerSums() as sums:
                check_range(call, sums.high)
                return Coded((sums.high << LOW_BITS) + sums.low, valid, pa.int64())
            case DoubleSums() as sums if call.function is _F.AVG:
                mean = np.divide(sums.samples, present, out=np.zeros(len(present)), where=valid)
                return doubles(mean, valid)
            case DoubleSums() as sums:
                return doubles(sums.samples, valid)
            case Moments() as moments:
                return doubles(*spread_of(call, moments.samples, present))
            case OrderedValues() as values:
                ordinals = values.samples[:, values.probe(fraction_of(call))]
                return Coded(ordinals, valid, argument.type, argument.decode)
            case MonotoneQueues() as queues:
                return Coded(queues.samples, valid, argument.type, argument.decode)
            case Frequencies() | Histograms() as listed:
                return listed.pairs()
            case FrequentLists() as lists:
                return lists.reported(valid)
            case measure:
                raise InternalError(f"{type(measure).__name__} is no measure of {call.function.value}")

    def settle(self) -> None:
        """After a batch: forget samples, and values that no row has any more."""
        for measure in self._measures.values():
            measure.settle()
        for argument in self._arguments.values():
            argument.settle()

    def reset(self, numbers: Ints) -> None:
        for measure in self._measures.values():
            measure.reset(numbers)

    def snapshot(self, numbers: Ints, rows: Ints) -> State:
        """The state of groups with these numbers; `rows` is the row of each number in that order."""
        state: State = {}
        for (kind, position), argument in self._arguments.items():
            state |= prefixed(f"{kind} {position}", argument.snapshot(rows))
        for (measured, (kind, position)), measure in self._measures.items():
            state |= prefixed(f"{measured} of {kind} {position}", measure.snapshot(numbers, rows))
        return state

    def restore(self, state: State, numbers: Ints, capacity: int) -> None:
        """Take up a state, for groups that have these numbers now."""
        for (kind, position), argument in self._arguments.items():
            argument.restore(part(f"{kind} {position}", state), numbers)
        for (measured, (kind, position)), measure in self._measures.items():
            measure.restore(part(f"{measured} of {kind} {position}", state), numbers, capacity)

    @property
    def entries(self) -> int:
        held = sum(measure.entries for measure in self._measures.values())
        return held + sum(argument.entries for argument in self._arguments.values())

    @property
    def nbytes(self) -> int:
        held = sum(measure.nbytes for measure in self._measures.values())
        return held + sum(argument.nbytes for argument in self._arguments.values())


def _is_plain_count(call: AggregateCall) -> bool:
    return call.function is _F.COUNT and not call.is_distinct


def spread_of(call: AggregateCall, variances: Floats, present: Ints) -> tuple[Floats, Bools]:
    """What VAR, STDDEV and their _POP are, from both variances and the number of values, and where."""
    spread = variances[:, _SPREADS[call.function]]
    spread = np.sqrt(spread) if call.function in _ROOTS else spread
    return spread, present > (0 if call.function in _POPULATIONS else 1)


def fraction_of(call: AggregateCall) -> Fraction:
    """Where in the order of the values a call looks: 0 for the least, 1 for the greatest."""
    if call.function is _F.MIN:
        return Fraction(0)
    if call.function is _F.MAX:
        return Fraction(1)
    # As it was written: 0.07 of 100 values is the seventh, though 0.07 * 100 is more than 7 in binary.
    return Fraction(repr(call.share))


def check_range(call: AggregateCall, high: Ints) -> None:
    """Refuse integer sums, of which `high` are the upper parts, that do not fit."""
    limit = 1 << (63 - LOW_BITS)
    if ((high < -limit) | (high >= limit)).any():
        text = "x" if call.argument is None else call.argument.text or call.argument.sql
        raise DataError(
            f"SUM({text}) does not fit into BIGINT",
            hint=f"sum doubles instead: SUM(CAST({text} AS DOUBLE))",
            id="overflow",
        )
