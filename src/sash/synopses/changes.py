"""Changes of an answer: equal rows that leave and enter at one instant cancel, and parts become a whole.

The answer of a grouping is that of its groups together. So where the groups are divided among partitions, an
answer is what each of them gives, in order of instant. Only where rows of different groups may be equal must
changes be compared once more: a partition then gives both kinds, with their signs, whatever is asked for.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sash.lang.bound import BoundSelect, OutputOperator
from sash.operators.order import places_by_value
from sash.state.groups import GroupTable, plain

Int64Array = npt.NDArray[np.int64]
SIGN = "sash_sign"
"""The column of the signs in what a partition gives for Istream and Dstream."""


def tells_groups_apart(select: BoundSelect) -> bool:
    """Whether the output tells groups and their states apart, so that no two changes can be equal."""
    shown = {output.scalar.column for output in select.outputs}
    read = {name for output in select.outputs for name in output.scalar.inputs}
    keys = {f"k{i}" for i in range(len(select.keys))}
    return keys | read <= shown


def uncancelled(
    owners: Int64Array, instants: Int64Array, signs: Int64Array, columns: Sequence[pa.Array]
) -> Int64Array:
    """The rows that remain when equal rows with opposite signs at one instant cancel, in order."""
    if len(signs) == 0:
        return np.zeros(0, dtype=np.int64)
    groups = GroupTable([pa.int64(), pa.int64(), *(column.type for column in columns)])
    ids = groups.encode([pa.array(owners), pa.array(instants), *columns])
    net = np.bincount(ids, weights=signs, minlength=groups.size).astype(np.int64)
    candidates = np.flatnonzero(signs == np.sign(net)[ids])
    order = candidates[np.argsort(ids[candidates], kind="stable")]
    starts = np.flatnonzero(np.diff(ids[order], prepend=-1))
    rank = np.arange(len(order)) - np.repeat(starts, np.diff(np.append(starts, len(order))))
    return np.sort(order[rank < np.abs(net)[ids[order]]])


def merged(select: BoundSelect, parts: Sequence[pa.Table]) -> pa.Table:
    """The answers of a query, of which partitions have given these."""
    table = pa.concat_tables(parts)
    instants = np.asarray(plain(table.column("ts")).cast(pa.int64()))
    is_comparable = select.operator is not OutputOperator.RSTREAM and not tells_groups_apart(select)
    if select.operator is not OutputOperator.VIEW and not is_comparable:
        order = np.argsort(instants, kind="stable")
        return _in_order(select, table.take(pa.array(order)), instants[order], np.zeros_like(order))
    sign = "op" if select.operator is OutputOperator.VIEW else SIGN
    signs = np.where(np.asarray(pc.equal(plain(table.column(sign)), "+")), 1, -1)
    order = np.lexsort((signs, instants))
    if is_comparable:
        columns = [plain(table.column(output.name)).take(pa.array(order)) for output in select.outputs]
        order = order[uncancelled(np.zeros_like(order), instants[order], signs[order], columns)]
    if select.operator is not OutputOperator.VIEW:
        table = table.drop_columns([SIGN])
        order = order[signs[order] == (1 if select.operator is OutputOperator.ISTREAM else -1)]
    return _in_order(select, table.take(pa.array(order)), instants[order], signs[order])


def _in_order(select: BoundSelect, table: pa.Table, instants: Int64Array, signs: Int64Array) -> pa.Table:
    """The table with rows of one instant and sign in the order of their values."""
    apart = (instants[1:] != instants[:-1]) | (signs[1:] != signs[:-1])
    columns = [plain(table.column(name)) for name, _ in select.schema]
    places = places_by_value(apart, columns, [type_ for _, type_ in select.schema])
    return table if places is None else table.take(pa.array(places))
