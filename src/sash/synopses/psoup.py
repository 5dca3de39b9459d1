"""PSoup's tree (004 section 3.1.3): elements in the leaves, aggregates of what is below in the inner nodes.

It is what B-INT is compared with. Every new leaf changes all nodes on its way from the root, and a look-up
goes down from the root to both ends of its window. Leaves are reused in a ring, so the tree has one shape
and needs no rotations: what is left out is in its favour.

Needs: measures that can be merged. Time: n·logₙ N merges a pane and group and up to as many for a look-up,
N being `span` and n the children of a node. Space: n / (n − 1) cells per group and pane, of `span` rounded
up to a power of n.
"""

from __future__ import annotations

import numpy as np

from sash.plan.measures import Measure
from sash.state.jit import kernel
from sash.synopses.cell_store import CellStore
from sash.synopses.cells import Floats, Ints, clear, merge_row, put

ARITY = 4


@kernel
def append(
    ints: Ints,
    floats: Floats,
    ops: Ints,
    identity: Ints,
    capacity: int,
    slots: int,
    new_slots: Ints,
    new_panes: Ints,
    new_ints: Ints,
    new_floats: Floats,
    start: int,
    first: int,
    through: int,
) -> int:
    for pane in range(first, through + 1):
        place = pane % capacity
        clear(ints, floats, identity, place, slots)
        start = put(ints, floats, ops, place, new_slots, new_panes, new_ints, new_floats, start, pane)
        level, nodes = 0, capacity
        while nodes > 1:
            place //= ARITY
            below = level
            level += nodes
            nodes //= ARITY
            clear(ints, floats, identity, level + place, slots)
            for child in range(ARITY):
                merge_row(ints, floats, ops, level + place, below + ARITY * place + child, slots)
    return start


@kernel
def _descend(begin: int, end: int, capacity: int, rows: Ints, count: int, work: Ints) -> int:
    """Rows of the highest nodes inside the leaves begin … end, found from the root down."""
    root = 0
    nodes = capacity
    while nodes > 1:
        root += nodes
        nodes //= ARITY
    # A node to visit: its level's first row, its number there, how many leaves it has, nodes of its level.
    work[0, 0], work[0, 1], work[0, 2], work[0, 3] = root, 0, capacity, 1
    height = 1
    while height > 0:
        height -= 1
        level, number, leaves, nodes = work[height, 0], work[height, 1], work[height, 2], work[height, 3]
        first = number * leaves
        if end < first or begin >= first + leaves:
            continue
        if begin <= first and first + leaves - 1 <= end:
            rows[count] = level + number
            count += 1
            continue
        for child in range(ARITY - 1, -1, -1):
            work[height, 0] = level - nodes * ARITY
            work[height, 1] = number * ARITY + child
            work[height, 2] = leaves // ARITY
            work[height, 3] = nodes * ARITY
            height += 1
    return count


@kernel
def decompose(left: int, right: int, capacity: int, rows: Ints, work: Ints) -> int:
    """Write the rows of the nodes that make up (left, right]; gives how many they are."""
    begin, end = (left + 1) % capacity, right % capacity
    if begin <= end:
        return _descend(begin, end, capacity, rows, 0, work)
    count = _descend(begin, capacity - 1, capacity, rows, 0, work)
    return _descend(0, end, capacity, rows, count, work)


def scratch(capacity: int) -> tuple[Ints, Ints]:
    """Room for the rows of a window, and for the nodes that are still to be visited."""
    levels = capacity.bit_length()
    return (
        np.empty(4 * ARITY * (levels + 1), dtype=np.int64),
        np.empty((ARITY * (levels + 2), 4), dtype=np.int64),
    )


class PSoup(CellStore):
    _write = staticmethod(append)

    def __init__(self, measures: tuple[Measure, ...], span: int) -> None:
        self.capacity = 1
        while self.capacity < span:
            self.capacity *= ARITY
        nodes = (ARITY * self.capacity - 1) // (ARITY - 1)
        super().__init__(measures, span, nodes)
        self._rows_found, self._work = scratch(self.capacity)

    def _rows(self, left: int, right: int) -> Ints:
        return self._rows_found[: decompose(left, right, self.capacity, self._rows_found, self._work)]
