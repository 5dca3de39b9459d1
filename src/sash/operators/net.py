"""What is left of the changes of an instant when equal rows that come and go have cancelled."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from sash.operators.delta import FAR, NEVER, Bools, Delta, Ints, Signs
from sash.state.fingerprints import fingerprint
from sash.state.jit import kernel
from sash.state.keytable import KeyTable


@kernel
def _remaining(values: Ints, signs: Signs, totals: Ints, kept: Bools) -> None:
    """Of equal rows the last ones remain: as many as there are more of their sign."""
    for i in range(values.shape[0]):
        totals[values[i]] += signs[i]
    for i in range(values.shape[0] - 1, -1, -1):
        kept[i] = totals[values[i]] * signs[i] > 0
        if kept[i]:
            totals[values[i]] -= signs[i]


def net(delta: Delta) -> Delta:
    """The bag difference at each instant, in the order of time, negative tuples first.

    The delta is explicit; equal are rows of the same values. What remains keeps its order, and of equal rows
    the last ones remain.
    """
    return in_order(_cancelled(delta, [pa.array(delta.ts)]))


def net_foreseen(delta: Delta) -> Delta:
    """The same for a delta with foreseen ends: equal are rows of the same values and the same end."""
    return _cancelled(delta, [pa.array(delta.ts), pa.array(delta.exp)])


def _cancelled(delta: Delta, also: list[pa.Array]) -> Delta:
    if delta.sign is None or not len(delta) or (delta.sign > 0).all() or (delta.sign < 0).all():
        return delta
    keys = KeyTable(len(delta))
    values = keys.intern(fingerprint([*also, *delta.columns], len(delta)))
    kept = np.empty(len(delta), dtype=np.bool_)
    _remaining(values, delta.sign, np.zeros(keys.capacity, dtype=np.int64), kept)
    return delta.filter(kept)


def in_order(delta: Delta) -> Delta:
    """In the order of time, at each instant negative tuples first."""
    if delta.sign is None:
        return delta.sorted()
    # One number for both; what comes in runs that are in order is sorted nearly as fast as it is read.
    order = 2 * np.clip(delta.ts, -FAR // 2, FAR // 2) + (delta.sign > 0)
    if bool((order[1:] >= order[:-1]).all()):
        return delta
    return delta.take(np.argsort(order, kind="stable"))


def explicit(delta: Delta) -> Delta:
    """The same changes with nothing foreseen."""
    return Delta(delta.ts, np.full(len(delta), NEVER, dtype=np.int64), delta.columns, delta.sign)
