"""Negation: left rows for which the right has no row of the same key (NOT EXISTS; 002, sections 2.2.2 and
3.2.2).

A row enters the answer when it comes and nothing matches it, or when its last match goes. It leaves as
foreseen, with its window, or before its time, when a match comes; then a negative tuple says so. Rows with
a NULL in their key match nothing.

    left   a: 1──────────────9
    right  a:      3────5              answer  a: 1────3   5────────9
                                               − at 3, + at 5, and at 9 it goes in silence

Right input is explicit and has only keys. O(1) per row, and O(live left rows of a key) whenever its first
match comes or its last one goes.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from sash.lang.algebra import Field
from sash.lang.values import Scalar
from sash.operators.delta import Delta, Ints, as_table, empty_delta, one_array
from sash.operators.evaluate import evaluate
from sash.operators.held import HeldRows, delta_of, numbers
from sash.operators.operator import Moment, Operator, State, arrow_types
from sash.state.chains import Chains
from sash.state.expirations import Expirations
from sash.state.fingerprints import Keys, fingerprint, keys_from
from sash.state.jit import kernel
from sash.state.keytable import distinct, grown

_RIGHT, _ENTERS, _LEAVES = 0, 1, 2


@kernel
def _run(
    keys: Ints,
    ts: Ints,
    kinds: Ints,
    what: Ints,
    matches: Ints,
    heads: Ints,
    following: Ints,
    start: Ints,
    end: Ints,
    out: Ints,
) -> int:
    """Events in the order of (key, ts): changes of matches by `what`, or left rows at the slot `what`.

    Writes slot, ts and sign; what does not fit is only counted.
    """
    count = 0
    room = out.shape[1]
    i = 0
    while i < keys.shape[0]:
        key, instant, first = keys[i], ts[i], i
        had = matches[key] > 0
        while i < keys.shape[0] and keys[i] == key and ts[i] == instant:
            if kinds[i] == _RIGHT:
                matches[key] += what[i]
            i += 1
        has = matches[key] > 0
        if not had:
            for k in range(first, i):
                if kinds[k] == _LEAVES and start[what[k]] < instant:
                    if count < room:
                        out[0, count], out[1, count], out[2, count] = what[k], instant, -1
                    count += 1
        if had != has:
            # Rows that leave at this very instant leave by themselves or were taken back above.
            slot = heads[key]
            while slot >= 0:
                if end[slot] > instant and (start[slot] < instant or (had and start[slot] == instant)):
                    if count < room:
                        out[0, count], out[1, count], out[2, count] = slot, instant, 1 if had else -1
                    count += 1
                slot = following[slot]
        if not had and not has:
            for k in range(first, i):
                if kinds[k] == _ENTERS and start[what[k]] < end[what[k]]:
                    if count < room:
                        out[0, count], out[1, count], out[2, count] = what[k], instant, 1
                    count += 1
    return count


class AntiJoin(Operator):
    """`buffer` finds the left rows that expire; `may_be_negative`: left rows are taken back, too."""

    def __init__(
        self,
        fields: Sequence[Field],
        keys: Sequence[Scalar],
        buffer: Expirations,
        *,
        may_be_negative: bool,
    ) -> None:
        self.fields = tuple(fields)
        self._keys = tuple(keys)
        self._held = HeldRows(arrow_types(fields), buffer, by_row=may_be_negative)
        self._chains = Chains()
        self._matches = np.zeros(0, dtype=np.int64)

    def process(self, inputs: Sequence[Delta], moment: Moment) -> Delta:
        left, right = inputs
        entered, withdrawn = self._take_left(left)
        right_keys = fingerprint(right.columns, len(right))
        known = np.flatnonzero(~right_keys.nulls) if right_keys.nulls is not None else np.arange(len(right))
        numbers_right = self._chains.keys.intern(right_keys.take(known))
        self._make_room()
        rows, owner = self._held.rows, self._chains.owner
        # Rows whose key has a NULL are in no chain: nothing matches them.
        free = entered[owner[entered] < 0]
        gone = withdrawn[owner[withdrawn] < 0]
        entered, withdrawn = entered[owner[entered] >= 0], withdrawn[owner[withdrawn] >= 0]
        keys = np.concatenate([numbers_right, owner[entered], owner[withdrawn]])
        ts = np.concatenate([right.ts[known], rows.start[entered], rows.end[withdrawn]])
        kinds = np.repeat(
            np.array([_RIGHT, _ENTERS, _LEAVES]), [len(numbers_right), len(entered), len(withdrawn)]
        )
        what = np.concatenate([right.signs()[known].astype(np.int64), entered, withdrawn])
        changed = self._changes(keys, ts, kinds, what)
        given = self._given(changed, free, gone)
        self._clean_up(np.concatenate([withdrawn, gone]), distinct(numbers_right), moment.through)
        return given

    def _take_left(self, left: Delta) -> tuple[Ints, Ints]:
        """Keep rows that enter, and find those that negative tuples take back."""
        entering, leaving = left.entering, left.leaving
        slots = self._held.enter(entering)
        keys = self._keys_of(entering)
        known = np.flatnonzero(~keys.nulls) if keys.nulls is not None else np.arange(len(slots))
        self._chains.add(slots[known], keys.take(known))
        self._make_room()
        withdrawn = self._held.match(leaving) if leaving is not None else np.zeros(0, dtype=np.int64)
        return slots, withdrawn

    def _keys_of(self, delta: Delta) -> Keys:
        if not self._keys or not len(delta):
            return fingerprint([], len(delta))
        table = as_table(delta.columns, self.names, len(delta))
        return fingerprint([one_array(column) for column in evaluate(table, self._keys)], len(delta))

    def _make_room(self) -> None:
        chains = self._chains
        chains.heads = grown(chains.heads, chains.keys.capacity, -1)
        chains.owner = grown(chains.owner, self._held.rows.capacity, -1)
        chains.following = grown(chains.following, self._held.rows.capacity, -1)
        chains.before = grown(chains.before, self._held.rows.capacity, -1)
        self._matches = grown(self._matches, chains.keys.capacity, 0)

    def _changes(self, keys: Ints, ts: Ints, kinds: Ints, what: Ints) -> Ints:
        order = np.lexsort((ts, keys))
        keys, ts, kinds, what = keys[order], ts[order], kinds[order], what[order]
        touched = distinct(keys)
        before = self._matches[touched]
        rows, chains = self._held.rows, self._chains
        out = np.empty((3, 2 * len(keys) + 64), dtype=np.int64)
        while True:
            count = _run(
                keys,
                ts,
                kinds,
                what,
                self._matches,
                chains.heads,
                chains.following,
                rows.start,
                rows.end,
                out,
            )
            if count <= out.shape[1]:
                return out[:, :count]
            # A match that comes or goes moves all rows of its key: make room for them and begin again.
            out = np.empty((3, count), dtype=np.int64)
            self._matches[touched] = before

    def _given(self, changed: Ints, free: Ints, gone: Ints) -> Delta:
        rows = self._held.rows
        free = free[rows.start[free] < rows.end[free]]
        gone = gone[rows.start[gone] < rows.end[gone]]
        slots = np.concatenate([changed[0], free, gone])
        ts = np.concatenate([changed[1], rows.start[free], rows.end[gone]])
        sign = np.concatenate([changed[2], np.ones(len(free)), -np.ones(len(gone))]).astype(np.int8)
        if not len(slots):
            return empty_delta(self.fields)
        return Delta(ts, rows.exp[slots], rows.gather(slots), sign if (sign < 0).any() else None)

    def _clean_up(self, withdrawn: Ints, touched: Ints, through: int) -> None:
        # Rows that were taken back must not be found again as due.
        self._held.forget(withdrawn)
        due = self._held.due(through)
        gone = np.concatenate([withdrawn, due])
        emptied = self._chains.unlink(gone)
        self._held.remove(gone, is_due=True)
        candidates = distinct(np.concatenate([emptied, touched]))
        unused = (self._chains.heads[candidates] < 0) & (self._matches[candidates] == 0)
        self._chains.keys.release(candidates[unused])

    def snapshot(self) -> State:
        matched = np.flatnonzero(self._matches)
        keys = self._chains.keys.keys_of(matched)
        return {
            "left": self._held.table(),
            "matches": pa.table(
                {"first": keys.first, "second": keys.second, "matches": self._matches[matched]}
            ),
        }

    def restore(self, state: State) -> None:
        self._take_left(delta_of(state["left"]))
        table = state["matches"].combine_chunks()
        keys = keys_from(table)
        known = self._chains.keys.intern(keys)
        self._make_room()
        self._matches[known] = numbers(table, "matches")

    @property
    def state_rows(self) -> int:
        return len(self._held.rows) + int((self._matches > 0).sum())

    @property
    def state_bytes(self) -> int:
        return self._held.nbytes + self._chains.nbytes + self._matches.nbytes
