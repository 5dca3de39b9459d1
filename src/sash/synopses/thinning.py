"""What is kept of the values of a complete pane for approximate aggregates: at most so many a group.

Rows come ordered by pane, slot and value, and stay so; groups with few values keep them all. See
`plan/sketches.py` for what follows of it.

Time: one pass over the rows, and a sort of the groups that have too many. Space: as said there.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from sash.plan.sketches import HASHES, POINTS, SketchKind
from sash.state.jit import kernel
from sash.synopses.b_int_qnt import ValueRows
from sash.synopses.value_cells import cell_starts

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


def thinned(kind: SketchKind, rows: ValueRows) -> ValueRows:
    """The rows that stand for all."""
    most = HASHES + 1 if kind is SketchKind.DISTINCT else POINTS
    starts = cell_starts(rows.panes, rows.slots)
    if np.diff(starts).max(initial=0) <= most:
        return rows
    counts = rows.counts
    match kind:
        case SketchKind.DISTINCT:
            kept = np.arange(len(rows.values)) - np.repeat(starts[:-1], np.diff(starts)) < most
        case SketchKind.COUNTS:
            kept = _most_frequent(starts, counts, most)
        case SketchKind.RANKS:
            counts = _points(starts, counts, most)
            kept = counts > 0
    return ValueRows(rows.slots[kept], rows.panes[kept], rows.values[kept], counts[kept])


@kernel
def _most_frequent(starts: Ints, counts: Ints, most: int) -> Bools:
    """The rows with the greatest counts of each group, of equal ones the first."""
    kept = np.ones(len(counts), dtype=np.bool_)
    for i in range(len(starts) - 1):
        begin, end = starts[i], starts[i + 1]
        if end - begin > most:
            order = np.argsort(-counts[begin:end], kind="mergesort")
            kept[begin + order[most:]] = False
    return kept


@kernel
def _points(starts: Ints, counts: Ints, most: int) -> Ints:
    """Of each group `most` stretches of ranks, counted at the value in their middle."""
    weights = counts.copy()
    for i in range(len(starts) - 1):
        begin, end = starts[i], starts[i + 1]
        if end - begin <= most:
            continue
        total = 0
        for row in range(begin, end):
            total += counts[row]
            weights[row] = 0
        row, upto, before = begin, counts[begin], 0
        for point in range(1, most + 1):
            after = total // most * point + total % most * point // most
            middle = (before + after + 1) // 2
            while upto < middle:
                row += 1
                upto += counts[row]
            weights[row] += after - before
            before = after
    return weights
