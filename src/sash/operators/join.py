"""The join of n windows (002, section 5.2).

New tuples of each input probe the windows of the others; a result lives as long as all of its parts. Negative
tuples, where inputs have them, are joined like others and take back the results of the rows that they name.
One class covers algorithms 2 to 5:

- eager evaluation gives results as tuples come; lazy evaluation lets the windows slide first, so that it is
  asked only for what lives at a slide. That is decided by the windows below and costs nothing here;
- with eager expiration expired tuples are removed at every step, with lazy expiration (`expire_every`) now
  and then; a probe passes over what has expired;
- hashed: a probe follows the chain of its key; nested loops: it looks at all rows.

A row of an INTERNAL window leaves without its results. If a row of another window can be taken back, and with
it those results, the row is kept aside, for probes that look back, until no row is left that it was joined
with.

Results do not depend on any of it. A batch that brings l and r tuples costs O(l + r + results) when hashed.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from sash.lang.algebra import Equality, Field
from sash.lang.values import Scalar
from sash.operators.delta import (
    FAR,
    NEVER,
    Bools,
    Delta,
    Floats,
    Ints,
    as_table,
    concat,
    empty_delta,
    one_array,
)
from sash.operators.evaluate import ARROW_TYPES, evaluate, evaluate_mask
from sash.operators.held import HeldRows, delta_of
from sash.operators.operator import Moment, Operator, State, arrow_types, slices_of
from sash.operators.probing import (
    ALL,
    OLDER,
    OLDER_AND_STAYING,
    Step,
    collect,
    own_keys,
    probe_all,
    probe_chains,
    probe_order,
)
from sash.operators.time_window import stretch_in, stretch_of, stretched
from sash.plan.join_synopses import JoinSetting
from sash.state.chains import Chains, Hashes, hashes_of
from sash.state.expirations import Expirations
from sash.state.fingerprints import fingerprint

# Combinations that are held at once; a probe that finds more is done in parts.
_MOST = 4_000_000
# So many rows that have left an INTERNAL window are kept aside before any is looked at again.
_FEW = 1_024
_NONE = np.zeros(0, dtype=np.int64)


@dataclass(frozen=True, slots=True)
class JoinInput:
    """How an input is kept.

    `is_ordered`: its rows leave in the order in which they came (WKS). `may_be_negative`: some go early.
    `is_internal`: its rows take no results with them when they leave (002, section 3.3.2).
    """

    fields: tuple[Field, ...]
    buffer: Expirations
    is_ordered: bool = False
    may_be_negative: bool = False
    is_internal: bool = False


@dataclass(slots=True)
class _Combinations:
    """Rows that are joined so far: slots by input, and the life that they have in common, up to `until`.

    A result leaves with the first of its rows that are in external windows: at `end`, and `exp` is foreseen.
    """

    slots: dict[int, Ints]
    begin: Ints
    until: Ints
    exp: Ints
    end: Ints

    def __len__(self) -> int:
        return len(self.begin)

    def take(self, chosen: Ints | slice) -> _Combinations:
        picked = {i: slots[chosen] for i, slots in self.slots.items()}
        times = (self.begin[chosen], self.until[chosen], self.exp[chosen], self.end[chosen])
        return _Combinations(picked, *times)


@dataclass(frozen=True, slots=True)
class _Hashes:
    hashes: Hashes
    is_known: Bools


def _hashes(delta: Delta, places: Sequence[int]) -> _Hashes:
    """The hashes of the keys of changes, and which of them are not NULL."""
    keys = fingerprint([delta.columns[place] for place in places], len(delta))
    is_known = np.ones(len(delta), dtype=np.bool_) if keys.nulls is None else ~keys.nulls
    return _Hashes(hashes_of(keys), is_known)


class Side:
    """The window of one input with its indexes."""

    def __init__(self, given: JoinInput, keys: Sequence[tuple[Scalar, ...]]) -> None:
        self.fields = given.fields
        self.is_ordered = given.is_ordered and not given.may_be_negative
        self.is_internal = given.is_internal
        names = [field.name for field in given.fields]
        self._names = tuple(names)
        # Expressions that are not columns are computed once and kept beside the row.
        self._computed = tuple(dict.fromkeys(s for key in keys for s in key if s.column is None))
        self._place = {scalar: len(names) + i for i, scalar in enumerate(self._computed)}
        for key in keys:
            for scalar in key:
                if scalar.column is not None:
                    self._place[scalar] = names.index(scalar.column)
        types = [*arrow_types(given.fields), *(ARROW_TYPES[scalar.type] for scalar in self._computed)]
        self.held = HeldRows(types, given.buffer, by_row=given.may_be_negative)
        self.indexes = {self.places(key): Chains() for key in keys}
        # Rows that have left, but are still needed to find the results that they are part of.
        self.aside = _NONE

    def places(self, key: Sequence[Scalar]) -> tuple[int, ...]:
        return tuple(self._place[scalar] for scalar in key)

    def widened(self, delta: Delta) -> Delta:
        if not self._computed:
            return delta
        table = as_table(delta.columns, self._names, len(delta))
        computed = [one_array(column) for column in evaluate(table, self._computed)]
        return delta.with_columns((*delta.columns, *computed))

    def enter(self, delta: Delta, batch: int) -> Ints:
        """Keep rows that enter, widened by what is computed; gives their slots."""
        slots = self.held.enter(delta)
        self.held.rows.born[slots] = batch
        for places, chains in self.indexes.items():
            keys = fingerprint([delta.columns[place] for place in places], len(delta))
            if keys.nulls is None:
                chains.add(slots, keys)
            else:
                known = np.flatnonzero(~keys.nulls)
                chains.add(slots[known], keys.take(known))
        return slots

    def remove(self, slots: Ints, *, is_due: bool) -> None:
        for chains in self.indexes.values():
            chains.remove(slots)
        self.held.remove(slots, is_due=is_due)

    def put_aside(self, slots: Ints, *, is_due: bool) -> None:
        if not is_due:
            self.held.forget(slots)
        self.aside = np.concatenate((self.aside, slots))

    def take_aside(self, chosen: Bools) -> Ints:
        """Forget what some of the rows that are kept aside are kept for; gives them."""
        taken, self.aside = self.aside[chosen], self.aside[~chosen]
        return taken

    def snapshot(self) -> State:
        """The rows of the window and, if there are any, those that are kept aside."""
        if not len(self.aside):
            return {"": self.held.table()}
        present = np.setdiff1d(self.held.rows.live_slots(), self.aside)
        return {"": self.held.table(present), ".aside": self.held.table(self.aside)}

    def restore(self, present: pa.Table, aside: pa.Table | None) -> None:
        if aside is not None:
            self.put_aside(self.enter(delta_of(aside), 0), is_due=False)
        self.enter(delta_of(present), 0)

    @property
    def nbytes(self) -> int:
        return self.held.nbytes + sum(chains.nbytes for chains in self.indexes.values())


class WindowJoin(Operator):
    """`residual` is a condition over all fields, beside the equalities.

    The windows of one that has a `name` become longer and shorter with who reads its join synopses.
    """

    takes_early = True

    def __init__(
        self,
        inputs: Sequence[JoinInput],
        equalities: Sequence[Equality],
        residual: Scalar | None = None,
        *,
        is_hashed: bool = True,
        expire_every: int = 0,
        name: str | None = None,
    ) -> None:
        self.fields = tuple(field for given in inputs for field in given.fields)
        self._residual = residual
        self._is_hashed = is_hashed
        self._expire_every = expire_every
        self._name = name
        self._stretch = 0
        self._expired: int | None = None
        self._batch = 0
        self._steps = [probe_order(i, len(inputs), equalities) for i in range(len(inputs))]
        keys: list[dict[tuple[Scalar, ...], None]] = [{} for _ in inputs]
        for steps in self._steps:
            for step in steps:
                if step.links:
                    keys[step.input][own_keys(step)] = None
        self._sides = [Side(given, list(own)) for given, own in zip(inputs, keys, strict=True)]
        # Results of rows in INTERNAL windows are taken back with the rows of these inputs.
        self._withdrawing = [
            side
            for side, given in zip(self._sides, inputs, strict=True)
            if given.may_be_negative and not given.is_internal
        ]
        self._few = _FEW
        self._is_mixed = any(given.is_internal for given in inputs)

    def adapt(self, joins: Sequence[JoinSetting]) -> None:
        by = stretch_of(self._name, joins, self._stretch) - self._stretch
        if by:
            self._stretch += by
            for side in self._sides:
                side.held.postpone(by)

    # ------------------------------------------------------------------ a batch

    def slices(self, inputs: Sequence[Delta], moment: Moment, most: int) -> Sequence[int]:
        sizes = [len(delta) for delta in inputs]
        present = [len(side.held.rows) + size for side, size in zip(self._sides, sizes, strict=True)]
        if (
            sum(size * math.prod(present) // max(1, here) for size, here in zip(sizes, present, strict=True))
            <= most
        ):
            return ()
        widened = [side.widened(delta) for side, delta in zip(self._sides, inputs, strict=True)]
        expected = [
            self._expected(i, widened, present) if size else np.zeros(0) for i, size in enumerate(sizes)
        ]
        return slices_of(
            np.concatenate([delta.ts for delta in inputs]), np.concatenate(expected), moment, most
        )

    def _expected(self, start: int, widened: Sequence[Delta], present: Sequence[int]) -> Floats:
        """How many combinations each change of an input gives, about: for the input probed first at most."""
        first, *later = self._steps[start]
        expected = np.full(len(widened[start]), float(present[first.input]))
        if first.links:
            asked = _hashes(
                widened[start], [self._sides[start].places((link.other,))[0] for link in first.links]
            )
            added = _hashes(widened[first.input], self._sides[first.input].places(own_keys(first)))
            known = np.flatnonzero(asked.is_known)
            expected[:] = 0
            expected[known] = self._index(first).expected(asked.hashes[known], added.hashes[added.is_known])
        for step in later:
            keys = len(self._index(step).keys) if step.links else 1
            expected *= present[step.input] / max(1, keys)
        return expected

    def process(self, inputs: Sequence[Delta], moment: Moment) -> Delta:
        self._batch += 1
        entered: list[Ints] = []
        withdrawn: list[Ints] = []
        for side, delta in zip(self._sides, inputs, strict=True):
            arriving, leaving = side.widened(delta.entering), delta.leaving
            if side.is_ordered:
                arriving = arriving.sorted()
            entered.append(side.enter(arriving, self._batch) if len(arriving) else _NONE)
            slots = _NONE if leaving is None else side.held.match(side.widened(leaving))
            withdrawn.append(slots)
        given: list[Delta] = []
        for i, slots in enumerate(entered):
            given.extend(self._results(i, slots, ALL, OLDER, is_new=True))
        for i, slots in enumerate(withdrawn):
            if self._sides[i].is_internal:
                continue
            older = slots[self._sides[i].held.rows.born[slots] < self._batch]
            given.extend(self._results(i, older, OLDER_AND_STAYING, OLDER, is_new=False))
        for side, slots in zip(self._sides, withdrawn, strict=True):
            self._leave(side, slots, is_due=False)
        self._expire(moment.through)
        return concat(given, self.fields) if given else empty_delta(self.fields)

    def _expire(self, through: int) -> None:
        if self._expired is not None and through - self._expired < self._expire_every:
            return
        for side in self._sides:
            self._leave(side, side.held.due(through), is_due=True)
        self._expired = through

    def _leave(self, side: Side, slots: Ints, *, is_due: bool) -> None:
        if not (side.is_internal and self._withdrawing):
            side.remove(slots, is_due=is_due)
            return
        side.put_aside(slots, is_due=is_due)
        if len(side.aside) < self._few:
            return
        starts = [other.held.rows.start[other.held.rows.live_slots()] for other in self._withdrawing]
        first = min((int(start.min()) for start in starts if len(start)), default=NEVER)
        is_needed = side.held.rows.end[side.aside] > first
        unneeded, side.aside = side.aside[~is_needed], side.aside[is_needed]
        side.remove(unneeded, is_due=True)
        self._few = max(_FEW, 2 * max(len(each.aside) for each in self._sides))

    def _results(self, start: int, slots: Ints, before: int, after: int, *, is_new: bool) -> Iterator[Delta]:
        """What rows of one input give; `before` and `after` say what is seen of inputs before and after it.

        So a combination of rows that are new on several inputs is found once, from the last of them.
        """
        rows = self._sides[start].held.rows
        slots = slots[rows.start[slots] < rows.end[slots]]
        found = _Combinations({start: slots}, rows.start[slots], rows.end[slots], *self._ends(start, slots))
        modes = [
            (before if is_new or not side.is_internal else OLDER) if i < start else after
            for i, side in enumerate(self._sides)
        ]
        for combined in self._extend(found, self._steps[start], modes):
            yield from self._changes(combined, is_new)

    def _extend(
        self, found: _Combinations, steps: Sequence[Step], modes: Sequence[int]
    ) -> Iterator[_Combinations]:
        if not len(found):
            return
        if not steps:
            yield found
            return
        step = steps[0]
        numbers = self._numbers(found, step)
        for part in self._probe(found, step, numbers, modes[step.input]):
            yield from self._extend(part, steps[1:], modes)

    def _numbers(self, found: _Combinations, step: Step) -> Ints:
        """The number, at the probed input, of the key that each combination asks for; −1: there is none."""
        if not step.links:
            return np.zeros(len(found), dtype=np.int64)
        columns: list[pa.Array] = []
        for link in step.links:
            other = self._sides[link.other_input]
            (place,) = other.places((link.other,))
            columns.extend(other.held.rows.gather(found.slots[link.other_input], [place]))
        keys = fingerprint(columns, len(found))
        numbers = self._index(step).keys.find(keys)
        return numbers if keys.nulls is None else np.where(keys.nulls, -1, numbers)

    def _index(self, step: Step) -> Chains:
        side = self._sides[step.input]
        return side.indexes[side.places(own_keys(step))]

    def _probe(self, found: _Combinations, step: Step, numbers: Ints, mode: int) -> Iterator[_Combinations]:
        side = self._sides[step.input]
        rows = side.held.rows
        is_chained = self._is_hashed and bool(step.links)
        live = _NONE if is_chained else rows.live_slots()

        for first, last in self._parts(len(found), is_chained, len(live)):
            part = found.take(slice(first, last))
            asked = numbers[first:last]

            def probe(origin: Ints, slots: Ints, part: _Combinations = part, asked: Ints = asked) -> int:
                times = (rows.start, rows.exp, rows.end, rows.born)
                if is_chained:
                    index = self._index(step)
                    arrays = (index.heads, index.following, *times)
                    seen = (mode, self._batch, side.is_ordered)
                    return probe_chains(asked, part.begin, part.until, *arrays, *seen, origin, slots)
                keyed = bool(step.links)
                owner = self._index(step).owner if keyed else _NONE
                rest = (mode, self._batch, origin, slots)
                return probe_all(asked, part.begin, part.until, live, owner, keyed, *times, *rest)

            origin, slots = collect(probe, 2 * len(part))
            if len(origin):
                yield self._joined(part.take(origin), step.input, slots)

    def _ends(self, position: int, slots: Ints) -> tuple[Ints, Ints]:
        """When results leave because of rows of an input: as foreseen, and really."""
        if self._sides[position].is_internal:
            # They do not end results.
            never = np.full(len(slots), NEVER, dtype=np.int64)
            return never, never
        rows = self._sides[position].held.rows
        exp, end = rows.exp[slots], rows.end[slots]
        if not self._is_mixed:
            return exp, end
        # An end that only tells equal rows apart is none of a result.
        return np.where(exp > FAR, NEVER, exp), np.where(end > FAR, NEVER, end)

    def _joined(self, found: _Combinations, position: int, slots: Ints) -> _Combinations:
        rows = self._sides[position].held.rows
        exp, end = self._ends(position, slots)
        return _Combinations(
            {**found.slots, position: slots},
            np.maximum(found.begin, rows.start[slots]),
            np.minimum(found.until, rows.end[slots]),
            np.minimum(found.exp, exp),
            np.minimum(found.end, end),
        )

    def _parts(self, count: int, is_chained: bool, live: int) -> Iterator[tuple[int, int]]:
        size = count if is_chained else max(1, _MOST // max(1, live))
        for first in range(0, count, max(1, size)):
            yield first, min(first + size, count)

    # ------------------------------------------------------------------ results

    def _changes(self, found: _Combinations, is_new: bool) -> Iterator[Delta]:
        if self._residual is not None:
            found = self._matching(found, self._residual)
        premature = np.flatnonzero(found.end < found.exp)
        if is_new and len(found):
            yield Delta(found.begin, found.exp, self._columns(found))
        if len(premature):
            gone = found.take(premature)
            sign = np.full(len(gone), -1, dtype=np.int8)
            yield Delta(gone.end, gone.exp, self._columns(gone), sign)

    def _matching(self, found: _Combinations, residual: Scalar) -> _Combinations:
        columns: list[pa.Array] = []
        names: list[str] = []
        for i, side in enumerate(self._sides):
            places = [k for k, field in enumerate(side.fields) if field.name in residual.inputs]
            names.extend(side.fields[k].name for k in places)
            columns.extend(side.held.rows.gather(found.slots[i], places))
        mask = evaluate_mask(as_table(columns, names, len(found)), residual).to_numpy(zero_copy_only=False)
        return found if mask.all() else found.take(np.flatnonzero(mask))

    def _columns(self, found: _Combinations) -> tuple[pa.Array, ...]:
        return tuple(
            column
            for i, side in enumerate(self._sides)
            for column in side.held.rows.gather(found.slots[i], range(len(side.fields)))
        )

    # ------------------------------------------------------------------ state

    def snapshot(self) -> State:
        state = stretched(self._stretch)
        for i, side in enumerate(self._sides):
            state.update({f"input{i}{name}": table for name, table in side.snapshot().items()})
        return state

    def restore(self, state: State) -> None:
        for i, side in enumerate(self._sides):
            side.restore(state[f"input{i}"], state.get(f"input{i}.aside"))
            side.held.postpone(self._stretch - stretch_in(state))

    @property
    def state_rows(self) -> int:
        return sum(len(side.held.rows) for side in self._sides)

    @property
    def state_bytes(self) -> int:
        return sum(side.nbytes for side in self._sides)
