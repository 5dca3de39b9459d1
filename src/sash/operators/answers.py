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
from sash.operators.operator import Moment, Operator, State, begin_of, news_of
from sash.operators.order import first_column, in_file_order, sort_order
from sash.operators.ordered_rows import OrderedRows
from sash.operators.resample import waiting_delta, waiting_table
from sash.operators.time_window import next_multiple
from sash.state.keytable import distinct


class Answers(Operator):
    """What all have in common: changes wait for the first instant of the query, and for their slide.

    Inputs after the first are instants (`instants.py`) at which windows and relations of the query change.
    `by_moves`: the first of them is the first instant of the query.
    """

    def __init__(
        self, fields: Sequence[Field], streams: Sequence[str], step: int, *, by_moves: bool = False
    ) -> None:
        self.fields = tuple(fields)
        self._streams = tuple(streams)
        self._step = step
        self._by_moves = by_moves
        self._moved: int | None = None
        self._waiting = empty_delta(fields)
        # Changes that came since those were put together.
        self._later: list[Delta] = []
        # Whose answers they are; a sub-query's are nobody's.
        self.query: str | None = None

    def _first(self, moment: Moment) -> int | None:
        first = self._moved if self._by_moves else moment.first_of(self._streams)
        begin = self._joined_at(moment)
        if first is not None and begin is not None:
            first = max(first, begin)
        return None if first is None else -(-first // self._step) * self._step

    def _joined_at(self, moment: Moment) -> int | None:
        """When a query begins that came into a run; None: it has been there from the start."""
        return None if self.query is None else moment.first.get(begin_of(self.query))

    def _begin(self, moment: Moment) -> int | None:
        """The first instant at which something can change."""
        return self._first(moment)

    def _ripe(self, inputs: Sequence[Delta], moment: Moment) -> Delta:
        """Changes that take effect by now, at the instant at which they do; others wait."""
        if self._by_moves and self._moved is None:
            self._moved = min((int(each.ts.min()) for each in inputs[1:] if len(each)), default=None)
        delta = inputs[0]
        begin = self._begin(moment)
        if begin is None or begin > moment.through:
            if len(delta):
                self._later.append(delta)
            return empty_delta(self.fields)
        delta = concat([self._waiting, *self._later, delta], self.fields)
        self._waiting, self._later = empty_delta(self.fields), []
        return self._from(begin, delta)

    def _from(self, begin: int, delta: Delta) -> Delta:
        """Changes from before the first instant take effect at that."""
        return Delta(np.maximum(delta.ts, begin), delta.exp, delta.columns, delta.sign)

    def _gather(self) -> None:
        """Put together what waits."""
        if self._later:
            self._waiting, self._later = concat([self._waiting, *self._later], self.fields), []

    def snapshot(self) -> State:
        self._gather()
        moved = {} if self._moved is None else {"moved": pa.table({"moved": [self._moved]})}
        return {"waiting": waiting_table(self._waiting), **moved}

    def restore(self, state: State) -> None:
        self._waiting = waiting_delta(state["waiting"])
        if "moved" in state:
            self._moved = int(state["moved"].column("moved")[0].as_py())

    @property
    def state_rows(self) -> int:
        return len(self._waiting) + sum(map(len, self._later))

    @property
    def state_bytes(self) -> int:
        return self._waiting.nbytes + sum(delta.nbytes for delta in self._later)


class ChangeLog(Answers):
    """A view, Istream or Dstream: what enters and leaves at each instant, or one of both.

    Rstream of rows that are there at one instant is what enters, also where equal rows leave; at the first
    instant of the query those from before it are gone.
    """

    def __init__(
        self,
        fields: Sequence[Field],
        streams: Sequence[str],
        step: int,
        kind: OutputKind = OutputKind.VIEW,
        *,
        is_net: bool = False,
        by_moves: bool = False,
    ) -> None:
        super().__init__(fields, streams, step, by_moves=by_moves)
        self._kind = kind
        self._is_net = is_net
        self._has_begun = False

    def _from(self, begin: int, delta: Delta) -> Delta:
        if self._kind is OutputKind.RSTREAM:
            return delta.filter(delta.ts >= begin)
        return super()._from(begin, delta)

    def process(self, inputs: Sequence[Delta], moment: Moment) -> Delta:
        ripe = self._ripe(inputs, moment)
        if self._kind is OutputKind.RSTREAM:
            entering = ripe.entering.sorted()
            return Delta(entering.ts, entering.exp, entering.columns)
        # Changes from before the first instant are told together with those of that instant.
        changes = in_order(ripe) if self._is_net and self._has_begun else net(ripe)
        self._has_begun = self._has_begun or len(ripe) > 0
        if self.query is not None and len(changes) and news_of(self.query) in moment.first:
            begin = self._joined_at(moment)
            if begin is not None:
                changes = changes.filter(changes.ts > -(-begin // self._step) * self._step)
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


class LifetimeOutput(Answers):
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
        by_moves: bool = False,
    ) -> None:
        super().__init__(fields, streams, step, by_moves=by_moves)
        self._every = every
        self.life = life
        self.may_be_taken_back = may_be_taken_back

    def process(self, inputs: Sequence[Delta], moment: Moment) -> Delta:
        ripe = self._ripe(inputs, moment)
        if not len(ripe):
            return ripe
        reached = moment.through // self._every * self._every
        self._waiting = ripe.filter((ripe.ts > reached) & (ripe.exp > ripe.ts))
        return ripe.filter((ripe.ts <= reached) & (ripe.exp > reached))


class Sequenced(Operator):
    """The stream that a sub-query gives, in the order of time.

    Within an instant rows are in `order`, by sort keys and then by their values; None: as they come. `name`
    stands for the stream where the first instant of a query over it is asked for.
    """

    def __init__(self, fields: Sequence[Field], name: str, order: Sequence[SortKey] | None) -> None:
        self.fields = tuple(fields)
        self.name = name
        self.first: int | None = None
        self._order = order

    def process(self, inputs: Sequence[Delta], moment: Moment) -> Delta:
        (delta,) = inputs
        if len(delta) and self.first is None:
            self.first = int(delta.ts.min())
        return delta.sorted() if self._order is None else in_file_order(delta, self.fields, self._order)

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
        *,
        by_moves: bool = False,
    ) -> None:
        super().__init__(fields, streams, step, by_moves=by_moves)
        self._bag = Bag(fields)
        self._order = tuple(order)
        self._limit = limit
        self._ordered: OrderedRows | None = None
        if self._stays_in_order and (order or limit is not None):
            self._ordered = OrderedRows(order[0] if order else first_column(fields), fields)

    def slices(self, inputs: Sequence[Delta], moment: Moment, most: int) -> Sequence[int]:
        """Every look at the relation may give all of it."""
        rows = int(self._bag.count.sum()) + len(inputs[0]) + super().state_rows
        rows = rows if self._limit is None else min(rows, self._limit)
        looks = self._looks(inputs, moment)
        if len(looks) * rows <= most:
            return ()
        ends = looks[max(1, most // rows) - 1 :: max(1, most // rows)]
        return (*(int(end) for end in ends if end < moment.through), moment.through)

    def _looks(self, inputs: Sequence[Delta], moment: Moment) -> Ints | range:
        """The instants at which the relation may be looked at, in their order."""
        return distinct(inputs[0].ts)

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

    def _looks(self, inputs: Sequence[Delta], moment: Moment) -> Ints | range:
        return range(0)

    def process(self, inputs: Sequence[Delta], moment: Moment) -> Delta:
        changes = net(self._ripe(inputs, moment))
        values = self._know(changes)
        self._change(values, changes.signs())
        self._forget(values)
        return empty_delta(self.fields)

    def answer(self) -> tuple[pa.Array, ...]:
        """The columns of the answer."""
        return self._bag.columns(self._rows())

    def _rows(self) -> Ints:
        rows = self._sorted(self._bag.live())
        return np.repeat(rows, self._bag.count[rows])[: self._limit]


class Sliding(Relations):
    """The base of what looks at the relation at every slide; `_next` is the slide that comes."""

    _next: int | None = None

    def _looks(self, inputs: Sequence[Delta], moment: Moment) -> Ints | range:
        first = self._first(moment) if self._next is None else self._next
        if first is None and self._by_moves:
            first = min((int(each.ts.min()) for each in inputs[1:] if len(each)), default=None)
        if first is None or first > moment.through:
            return range(0)
        return range(-(-first // self._step) * self._step, moment.through + 1, self._step)

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
    """Rstream: the whole relation at every slide, or at the instants that are given (`slides` false)."""

    def __init__(
        self,
        fields: Sequence[Field],
        streams: Sequence[str],
        step: int,
        *,
        slides: bool,
        order: Sequence[SortKey] = (),
        limit: int | None = None,
        by_moves: bool = False,
    ) -> None:
        super().__init__(fields, streams, step, order, limit, by_moves=by_moves)
        self._slides = slides

    def _looks(self, inputs: Sequence[Delta], moment: Moment) -> Ints | range:
        if self._slides:
            return super()._looks(inputs, moment)
        return distinct(np.concatenate([each.ts for each in inputs]))

    def process(self, inputs: Sequence[Delta], moment: Moment) -> Delta:
        changes = net(self._ripe(inputs, moment))
        was_begun = self._next is not None
        self._begun(moment)
        values = self._know(changes)
        signs = changes.signs()
        instants: list[int] = []
        rows: list[Ints] = []
        if not self._slides:
            self._look_at(self._asked(inputs[1:], changes, was_begun), changes, values, instants, rows)
        else:
            for instant, where in by_instant(changes.ts):
                self._look(instant - 1, instants, rows)
                self._change(values[where], signs[where])
            self._look(moment.through, instants, rows)
        given = self._at(instants, rows)
        self._forget(values)
        return given

    def _asked(self, inputs: Sequence[Delta], changes: Delta, was_begun: bool) -> Ints:
        """The instants at which it is evaluated: the first, and those at which rows come and go."""
        if self._next is None:
            return np.zeros(0, dtype=np.int64)
        begun = np.zeros(0, dtype=np.int64) if was_begun else np.array([self._next], dtype=np.int64)
        found = np.unique(np.concatenate([begun, changes.ts, *(each.ts for each in inputs)]))
        return found[found >= self._next]

    def _look_at(
        self, asked: Ints, changes: Delta, values: Ints, instants: list[int], rows: list[Ints]
    ) -> None:
        signs, done = changes.signs(), 0
        for instant, stop in zip(asked, np.searchsorted(changes.ts, asked, side="right"), strict=True):
            if stop > done:
                self._change(values[done:stop], signs[done:stop])
                done = int(stop)
            instants.append(int(instant))
            rows.append(self._rows())


class Limited(Relations):
    """The first rows of a periodic answer, as changes from slide to slide."""

    def __init__(
        self,
        fields: Sequence[Field],
        streams: Sequence[str],
        step: int,
        order: Sequence[SortKey],
        limit: int | None,
        *,
        by_moves: bool = False,
    ) -> None:
        super().__init__(fields, streams, step, order, limit, by_moves=by_moves)
        self._shown: Bag = Bag(fields)

    def process(self, inputs: Sequence[Delta], moment: Moment) -> Delta:
        changes = net(self._ripe(inputs, moment))
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
        changes = net(self._ripe(inputs, moment))
        if self._whole:
            self._begun(moment)
        slide = next_multiple(changes.ts, self._step)
        begin = self._joined_at(moment)
        begin = None if begin is None else -(-begin // self._step) * self._step
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
            restored = self._restored(values[where], signs[where])
            if begin is not None and instant <= begin:
                # What came and went before is not known in full.
                if instant < begin or not self._whole:
                    continue
                restored = restored[:0]
            instants.append(instant)
            rows.append(restored)
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
