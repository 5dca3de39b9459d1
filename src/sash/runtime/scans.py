"""Scans: the part of continuous queries that runs in the first stage, row by row and without state."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sash.lang import algebra
from sash.lang.algebra import Node
from sash.lang.bound import StreamDefinition
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
        rows = as_table(columns, names, len(ts))
        match node:
            case algebra.Select():
                mask = evaluate_mask(rows, node.predicate).to_numpy(zero_copy_only=False)
                if not mask.all():
                    kept = pa.array(np.flatnonzero(mask))
                    columns = [column.take(kept) for column in columns]
                    ts, exp = ts[mask], None if exp is None else exp[mask]
            case algebra.Project():
                columns = [one_array(c) for c in evaluate(rows, [o.scalar for o in node.outputs])]
                names = [output.name for output in node.outputs]
    return ScanRows(scan.name, ts, exp, tuple(columns))


def _upwards(node: Node) -> list[Node]:
    """The selections and projections of a scan, the first to be done first."""
    return [below for below in node.walk() if not isinstance(below, algebra.Stream)][::-1]


def _ends(stream: StreamDefinition, ts: Int64Array, table: pa.Table) -> Int64Array:
    """When each row ends: after its lifetime, cut at the longest that is allowed, which NULL means."""
    assert stream.lifetime is not None
    assert stream.max_lifetime is not None
    longest = -(-stream.max_lifetime // stream.lifetime_unit)
    units = np.asarray(plain(table.column(stream.lifetime)).fill_null(longest))
    spans = np.clip(units, 0, longest) * stream.lifetime_unit
    ends: Int64Array = ts + np.minimum(spans, stream.max_lifetime)
    return ends
