"""Scans: the part of continuous queries that runs in the first stage, row by row and without state."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sash.lang import algebra
from sash.lang.algebra import Node
from sash.lang.bound import Scalar, StreamDefinition
from sash.operators.delta import NEVER, Delta, as_table, one_array
from sash.operators.evaluate import evaluate, evaluate_mask
from sash.plan.run_plan import Scan, leaf_of
from sash.state.groups import plain

Int64Array = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class ScanRows:
    """What a scan makes of a chunk, in its order. `exp` is when rows end, where their source says so."""

    scan: str
    ts: Int64Array
    exp: Int64Array | None
    columns: tuple[pa.Array, ...]

    @property
    def delta(self) -> Delta:
        exp = np.full(len(self.ts), NEVER, dtype=np.int64) if self.exp is None else self.exp
        return Delta(self.ts, exp, self.columns)


def scan_rows(scan: Scan, stream: StreamDefinition, ts: Int64Array, table: pa.Table) -> ScanRows:
    """Filter and project the rows of a chunk; `table` has at least the columns that the scan reads."""
    exp = None if stream.lifetime is None else _ends(stream, ts, table)
    leaf = leaf_of(scan.node)
    names = list(scan.columns)
    columns = [plain(one_array(table.column(name))) for name in names]
    names = [f"{leaf.qualifier}.{name}" for name in names]
    for node in _upwards(scan.node):
        match node:
            case algebra.Select():
                rows = _read(columns, names, [node.predicate], len(ts))
                mask = evaluate_mask(rows, node.predicate).to_numpy(zero_copy_only=False)
                if not mask.all():
                    kept = pa.array(np.flatnonzero(mask))
                    columns = [column.take(kept) for column in columns]
                    ts, exp = ts[mask], None if exp is None else exp[mask]
            case algebra.Project():
                scalars = [output.scalar for output in node.outputs]
                plainly = [scalar.column for scalar in scalars if scalar.column is not None]
                if len(plainly) == len(scalars):
                    columns = [columns[names.index(name)] for name in plainly]
                else:
                    rows = _read(columns, names, scalars, len(ts))
                    columns = [one_array(column) for column in evaluate(rows, scalars)]
                names = [output.name for output in node.outputs]
    if not columns:
        # Who asks for no column asks when rows come and go.
        ts, exp = _instants(ts, exp)
    return ScanRows(scan.name, ts, exp, tuple(columns))


def _instants(ts: Int64Array, exp: Int64Array | None) -> tuple[Int64Array, Int64Array | None]:
    """Each life once."""
    if exp is None:
        return np.unique(ts), None
    lives = np.unique(np.stack([ts, exp]), axis=1)
    return lives[0].copy(), lives[1].copy()


def _read(columns: Sequence[pa.Array], names: list[str], scalars: Sequence[Scalar], rows: int) -> pa.Table:
    """The columns that some scalars read."""
    read = list(dict.fromkeys(name for scalar in scalars for name in scalar.inputs))
    return as_table([columns[names.index(name)] for name in read], read, rows)


def _upwards(node: Node) -> list[algebra.Select | algebra.Project]:
    """The selections and projections of a scan, the first to be done first."""
    found = []
    while isinstance(node, algebra.Select | algebra.Project):
        found.append(node)
        node = node.input
    return found[::-1]


def _ends(stream: StreamDefinition, ts: Int64Array, table: pa.Table) -> Int64Array:
    """When each row ends: after its lifetime, cut at the longest that is allowed, which NULL means."""
    assert stream.lifetime is not None
    assert stream.max_lifetime is not None
    longest = -(-stream.max_lifetime // stream.lifetime_unit)
    units = np.asarray(plain(table.column(stream.lifetime)).fill_null(longest))
    spans = np.clip(units, 0, longest) * stream.lifetime_unit
    ends: Int64Array = ts + np.minimum(spans, stream.max_lifetime)
    return ends
