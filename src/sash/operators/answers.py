"""What leaves a query: the change log of its view, or one of CQL's streams (docs/cql.md).

All take explicit deltas and give rows in the order of time. An answer begins at the first instant of the
query: the first row of its streams, or the first slide after it. What was there before (rows of relations,
the one row of an aggregate without groups) appears then.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from sash.lang.algebra import Field, OutputKind, SortKey
from sash.operators.bag import Bag
from sash.operators.delta import ALWAYS, NEVER, Delta, Ints, Signs, concat, empty_delta
from sash.operators.net import in_order, net
from sash.operators.operator import Moment, Operator, State
from sash.operators.order import first_column, sort_order, value_order
from sash.operators.ordered_rows import OrderedRows
from sash.operators.resample import waiting_delta, waiting_table
from sash.operators.time_window import next_multiple
from sash.state.keytable import distinct


class Answers(Operator):
    """What all have in common: changes wait for the first instant of the query, and for their slide."""

    def __init__(self, fields: Sequence[Field], streams: Sequence[str], step: int) -> None:
        self.fields = tuple(fields)
        self._streams = tuple(streams)
        self._step = step
        self._waiting = empty_delta(fields)

    def _first(self, moment: Moment) -> int | None:
        first = moment.first_of(self._streams)
        return None if first is None else -(-first // self._step) * self._step

    def _begin(self, moment: Moment) -> int | None:
        """The first instant at which something can change."""
        return self._first(moment)

    def _ripe(self, delta: Delta, moment: Moment) -> Delta:
        """Changes that take effect by now, at the instant at which they do; others wait."""
        delta = concat([self._waiting, delta], self.fields)
        self._waiting = empty_delta(self.fields)
        begin = self._begin(moment)
        if begin is None or begin > moment.through:
            self._waiting = delta
            return empty_delta(self.fields)
        ts = np.maximum(delta.ts, begin)
        return Delta(ts, delta.exp, delta.columns, delta.sign)

    def snapshot(self) -> State:
        return {"waiting": waiting_table(self._waiting)}

    def restore(self, state: State) -> None:
        self._waiting = waiting_delta(state["waiting"])

    @property
    def state_rows(self) -> int:
        return len(self._waiting)

    @property
    def state_bytes(self) -> int:
        return self._waiting.nbytes


class ChangeLog(Answers):
    """A view, Istream or Dstream: what enters and leaves at each instant, or one of both."""

    def __init__(
        self,
        fields: Sequence[Field],
        streams: Sequence[str],
        step: int,
        kind: OutputKind = OutputKind.VIEW,
        *,
        is_net: bool = False,
    ) -> None:
        super().__init__(fields, streams, step)
        self._kind = kind
        self._is_net = is_net
        self._has_begun = False

    def process(self, inputs: Sequence[Delta], moment: Moment) -> Delta:
        ripe = self._ripe(inputs[0], moment)
        # Changes from before the first instant are told together with those of that instant.
        changes = in_order(ripe) if self._is_net and self._has_begun else net(ripe)
        self._has_begun = self._has_begun or len(ripe) > 0
        match self._kind:
            case OutputKind.ISTREAM:
                entering = changes.entering
                return Delta(entering.ts, entering.exp, entering.columns)
            case OutputKind.DSTREAM:
                leaving = changes.leaving
                if leaving is None:
                    return empty_delta(self.fields)
                return Delta(leaving.ts, leaving.exp, leaving.columns)
        return changes


class Lives(Answers):
    """What an archive is given: changes with foreseen ends, when time has passed a multiple of `every`.

    `life` is how long a row lives at most; None: nothing is foreseen, and every departure comes as a negative
    tuple. `may_be_taken_back`: negative tuples come.
    """

    def __init__(
        self,
        fields: Sequence[Field],
        streams: Sequence[str],
        step: int,
        every: int,
        life: int | None,
        *,
        may_be_taken_back: bool,
    ) -> None:
        super().__init__(fields, streams, step)
        self._every = every
        self.life = life
        self.may_be_taken_back = may_be_taken_back

    def process(self, inputs: Sequence[Delta], moment: Moment) -> Delta:
        ripe = self._ripe(inputs[0], moment)
        if not len(ripe):
            return ripe
        reached = moment.through // self._every * self._every
        self._waiting = ripe.filter((ripe.ts > reached) & (ripe.exp > ripe.ts))
        return ripe.filter((ripe.ts <= reached) & (ripe.exp > reached))


class Sequenced(Operator):
    """The stream that a sub-query gives: in the order of time and, within an instant, of its values.

    `name` stands for the stream where the first instant of a query over it is asked for.
    """

    def __init__(self, fields: Sequence[Field], name: str) -> None:
        self.fields = tuple(fields)
        self.name = name
        self.first: int | None = None

    def process(self, inputs: Sequence[Delta], moment: Moment) -> Delta:
        (delta,) = inputs
        if len(delta) and self.first is None:
            self.first = int(delta.ts.min())
        return delta.take(value_order(delta.ts, delta.columns, self.fields)) if len(delta) > 1 else delta

    def snapshot(self) -> State:
        return {"first": pa.table({"first": pa.array([self.first], pa.int64())})}

    def restore(self, state: State) -> None:
        self.first = state["first"].column("first")[0].as_py()


class Relations(Answers):
    """The base of what looks at the whole relation, instant by instant.

    What is looked at again and again in order, or in part, is kept in order.
    """

    _stays_in_order = True

    def __init__(
        self,
        fields: Sequence[Field],
        streams: Sequence[str],
        step: int,
        order: Sequence[SortKey] = (),
        limit: int | None = None,
    ) -> None:
        super().__init__(fields, streams, step)
        self._bag = Bag(fields)
        self._order = tuple(order)
        self._limit = limit
        self._ordered: OrderedRows | None = None
        if self._stays_in_order and (order or limit is not None):
            self._ordered = OrderedRows(order[0] if order else first_column(fields), fields)

    def _know(self, changes: Delta) -> Ints:
        """The numbers of the rows that changes are about."""
        values = self._bag.know(changes)
        if self._ordered is not None:
            self._ordered.know(values, changes.columns, len(self._bag.count))
        return values

    def _change(self, values: Ints, signs: Signs) -> None:
        """Rows come and go."""
        if self._ordered is None:
            np.add.at(self._bag.count, values, signs)
            return
        touched = distinct(values)
        was_there = self._bag.count[touched] > 0
        np.add.at(self._bag.count, values, signs)
        is_there = self._bag.count[touched] > 0
        self._ordered.put(touched[is_there & ~was_there])
        self._ordered.take(touched[was_there & ~is_there])

    def _forget(self, values: Ints) -> None:
        """Let go of those of some rows that are not there any more."""
        gone = self._bag.forget(values)
        if self._ordered is not None:
            self._ordered.forget(gone)

    def _rows(self) -> Ints:
        """The numbers of the rows that are there, as often as they are; in order and limited if so asked."""
        if self._ordered is None:
            rows = self._bag.live()
        else:
            rows, is_tied = self._ordered.first(self._bag.count, self._limit)
            rows[is_tied] = self._sorted(rows[is_tied])
        return np.repeat(rows, self._bag.count[rows])[: self._limit]

    def _sorted(self, rows: Ints) -> Ints:
        return rows[sort_order(self._bag.columns(rows), self.fields, self._order)]

    def _at(self, instants: Sequence[int], rows: Sequence[Ints]) -> Delta:
        ts = np.repeat(np.array(instants, dtype=np.int64), [len(each) for each in rows])
        values = np.concatenate(rows) if rows else np.zeros(0, dtype=np.int64)
        never = np.full(len(ts), NEVER, dtype=np.int64)
        return Delta(ts, never, self._bag.columns(values))

    def snapshot(self) -> State:
        return {**super().snapshot(), "bag": self._bag.table()}

    def restore(self, state: State) -> None:
        super().restore(state)
        self._bag.load(state["bag"].combine_chunks())
        if self._ordered is not None:
            live = self._bag.live()
            self._ordered.know(live, self._bag.columns(live), len(self._bag.count))
            self._ordered.put(live)

    @property
    def state_rows(self) -> int:
        return super().state_rows + len(self._bag)

    @property
    def state_bytes(self) -> int:
        ordered = 0 if self._ordered is None else self._ordered.nbytes
        return super().state_bytes + self._bag.nbytes + ordered


def by_instant(ts: Ints) -> Iterator[tuple[int, slice]]:
    """The instants of sorted timestamps and where each of them stands."""
    if not len(ts):
        return
    starts = np.flatnonzero(np.concatenate([[True], ts[1:] != ts[:-1]]))
    for start, stop in zip(starts, np.concatenate([starts[1:], [len(ts)]]), strict=True):
        yield int(ts[start]), slice(int(start), int(stop))


class Once(Relations):
    """A one-time query: the relation as it is when somebody asks. It gives no changes."""

    # What is looked at once is sorted once.
    _stays_in_order = False

    def _begin(self, moment: Moment) -> int | None:
        """A query over relations alone needs no stream to begin."""
        return super()._begin(moment) if self._streams else ALWAYS

    def process(self, inputs: Sequence[Delta], moment: Moment) -> Delta:
        changes = net(self._ripe(inputs[0], moment))
        values = self._know(changes)
        self._change(values, changes.signs())
        self._forget(values)
        return empty_delta(self.fields)

    def answer(self) -> tuple[pa.Array, ...]:
        """The columns of the answer."""
        return self._bag.columns(self._rows())

    def _rows(self) -> Ints:
        rows = self._bag.live()
        if self._order or self._limit is not None:
            rows = self._sorted(rows)
        return np.repeat(rows, self._bag.count[rows])[: self._limit]


class Sliding(Relations):
    """The base of what looks at the relation at every slide; `_next` is the slide that comes."""

    _next: int | None = None

    def _begun(self, moment: Moment) -> None:
        """Know the first slide, but not before its time: an earlier row may still come within the SLACK."""
        first = self._first(moment) if self._next is None else None
        if first is not None and first <= moment.through:
            self._next = first

    def _look(self, through: int, instants: list[int], rows: list[Ints]) -> None:
        """Give the relation as it is at the slides up to `through`."""
        if self._next is None or self._next > through:
            return
        last = through // self._step * self._step
        now = self._rows()
        if len(now):
            slides = range(self._next, last + 1, self._step)
            instants.extend(slides)
            rows.extend([now] * len(slides))
        self._next = last + self._step

    def snapshot(self) -> State:
        state = super().snapshot()
        following = "" if self._next is None else str(self._next)
        return {**state, "bag": state["bag"].replace_schema_metadata({"next": following})}

    def restore(self, state: State) -> None:
        super().restore(state)
        following = (state["bag"].schema.metadata or {}).get(b"next", b"")
        self._next = int(following) if following else None


class Snapshots(Sliding):
    """Rstream: the whole relation at every slide, or whenever it changes (`slides` false)."""

    def __init__(
        self,
        fields: Sequence[Field],
        streams: Sequence[str],
        step: int,
        *,
        slides: bool,
        order: Sequence[SortKey] = (),
        limit: int | None = None,
    ) -> None:
        super().__init__(fields, streams, step, order, limit)
        self._slides = slides

    def process(self, inputs: Sequence[Delta], moment: Moment) -> Delta:
        changes = net(self._ripe(inputs[0], moment))
        if self._slides:
            self._begun(moment)
        values = self._know(changes)
        signs = changes.signs()
        instants: list[int] = []
        rows: list[Ints] = []
        for instant, where in by_instant(changes.ts):
            self._look(instant - 1, instants, rows)
            self._change(values[where], signs[where])
            if not self._slides:
                instants.append(instant)
                rows.append(self._rows())
        self._look(moment.through, instants, rows)
        given = self._at(instants, rows)
        self._forget(values)
        return given


class Limited(Relations):
    """The first rows of a periodic answer, as changes from slide to slide."""

    def __init__(
        self,
        fields: Sequence[Field],
        streams: Sequence[str],
        step: int,
        order: Sequence[SortKey],
        limit: int | None,
    ) -> None:
        super().__init__(fields, streams, step, order, limit)
        self._shown: Bag = Bag(fields)

    def process(self, inputs: Sequence[Delta], moment: Moment) -> Delta:
        changes = net(self._ripe(inputs[0], moment))
        values = self._know(changes)
        signs = changes.signs()
        given: list[Delta] = []
        before = self._given_now()
        for instant, where in by_instant(changes.ts):
            self._change(values[where], signs[where])
            now = self._at([instant], [self._rows()])
            taken_back = Delta(
                np.full(len(before), instant, dtype=np.int64),
                before.exp,
                before.columns,
                np.full(len(before), -1, dtype=np.int8),
            )
            given.append(net(concat([taken_back, now], self.fields)))
            before = now
        if given:
            self._shown = Bag(self.fields)
            values_shown = self._shown.know(before)
            np.add.at(self._shown.count, values_shown, 1)
        self._forget(values)
        return concat(given, self.fields)

    def _given_now(self) -> Delta:
        live = self._shown.live()
        rows = np.repeat(live, self._shown.count[live])
        never = np.full(len(rows), NEVER, dtype=np.int64)
        return Delta(never, never, self._shown.columns(rows))

    def snapshot(self) -> State:
        return {**super().snapshot(), "shown": self._shown.table()}

    def restore(self, state: State) -> None:
        super().restore(state)
        self._shown.load(state["shown"].combine_chunks())


class Restored(Sliding):
    """Istream-restore and Rstream-restore: also what came and went between two slides (002, 3.3.4 and 3.4).

    Of a row that was there r times at the slide before and of which d copies have left since, max(0, d − r)
    copies must have come and gone in between.
    """

    def __init__(self, fields: Sequence[Field], streams: Sequence[str], step: int, *, whole: bool) -> None:
        super().__init__(fields, streams, step)
        self._whole = whole

    def _begin(self, moment: Moment) -> int | None:
        """Changes count from the first row on, also those before the first slide."""
        return moment.first_of(self._streams)

    def process(self, inputs: Sequence[Delta], moment: Moment) -> Delta:
        changes = net(self._ripe(inputs[0], moment))
        if self._whole:
            self._begun(moment)
        slide = next_multiple(changes.ts, self._step)
        if len(slide) and int(slide.max()) > moment.through:
            self._waiting = changes.filter(slide > moment.through)
            changes = changes.filter(slide <= moment.through)
            slide = slide[slide <= moment.through]
        values = self._know(changes)
        signs = changes.signs()
        instants: list[int] = []
        rows: list[Ints] = []
        for instant, where in by_instant(slide):
            self._look(instant - 1, instants, rows)
            instants.append(instant)
            rows.append(self._restored(values[where], signs[where]))
            if self._whole:
                rows[-1] = np.concatenate([self._rows(), rows[-1]])
                self._next = instant + self._step
        self._look(moment.through, instants, rows)
        given = self._at(instants, rows)
        self._forget(values)
        return given

    def _restored(self, values: Ints, signs: Signs) -> Ints:
        """Take in the changes since the last slide; gives what is new beside the relation itself."""
        touched, where = np.unique(values, return_inverse=True)
        came = np.bincount(where, weights=signs > 0, minlength=len(touched)).astype(np.int64)
        left = np.bincount(where, weights=signs < 0, minlength=len(touched)).astype(np.int64)
        before = self._bag.count[touched]
        short = np.maximum(0, left - before)
        self._bag.count[touched] = before + came - left
        return np.repeat(touched, short if self._whole else short + np.maximum(0, came - left))
