"""What is left of the changes of an instant when equal rows that come and go have cancelled."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from sash.operators.delta import FAR, NEVER, Delta, Ints
from sash.state.fingerprints import fingerprint
from sash.state.jit import kernel
from sash.state.keytable import KeyTable


@kernel
def _sum(values: Ints, signs: Ints, totals: Ints, example: Ints) -> None:
    for i in range(values.shape[0]):
        totals[values[i]] += signs[i]
        example[values[i]] = i


def net(delta: Delta) -> Delta:
    """The bag difference at each instant, in the order of time, negative tuples first.

    The delta is explicit; equal are rows of the same values.
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
    totals = np.zeros(keys.capacity, dtype=np.int64)
    example = np.zeros(keys.capacity, dtype=np.int64)
    _sum(values, delta.sign.astype(np.int64), totals, example)
    changed = np.flatnonzero(totals)
    copies = np.repeat(changed, np.abs(totals[changed]))
    rows = delta.take(example[copies])
    return Delta(rows.ts, rows.exp, rows.columns, np.sign(totals[copies]).astype(np.int8))


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
