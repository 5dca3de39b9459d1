"""MIN and MAX of rows that leave in the order in which they came: a monotone queue per group.

A queue holds the values that can still become the extreme: one is dropped when a later one is at least as
good, so the queue is sorted, the extreme stands at its head, and a row costs a constant time, amortised. Rows
are known by their number in the order of arrival, so it does not matter in which order the departures of one
instant are given. The order in which rows of one group enter does matter.

Where rows never leave (`endless`), only the extreme itself is held.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from sash.errors import InternalError
from sash.operators.aggregates.arguments import Argument, Given
from sash.operators.aggregates.events import Events
from sash.operators.aggregates.measure import Measure
from sash.operators.delta import Ints, one_array
from sash.operators.operator import State
from sash.state.countedtree import recoded
from sash.state.jit import kernel
from sash.state.keytable import grown

_AFTER, _BEFORE, _VALUE, _ARRIVAL = 0, 1, 2, 3
_HEAD, _TAIL, _CAME, _WENT = 0, 1, 2, 3
_FREE, _ENTRIES = 0, 1


@kernel
def _link_free(nodes: Ints, about: Ints, begin: int) -> None:
    for node in range(begin, len(nodes)):
        nodes[node, _AFTER] = about[_FREE]
        about[_FREE] = node


@kernel
def _drop(node: int, nodes: Ints, about: Ints, queue: Ints) -> None:
    after, earlier = nodes[node, _AFTER], nodes[node, _BEFORE]
    if earlier >= 0:
        nodes[earlier, _AFTER] = after
    else:
        queue[_HEAD] = after
    if after >= 0:
        nodes[after, _BEFORE] = earlier
    else:
        queue[_TAIL] = earlier
    nodes[node, _AFTER] = about[_FREE]
    about[_FREE] = node
    about[_ENTRIES] -= 1


@kernel
def _push(value: int, arrival: int, nodes: Ints, about: Ints, queue: Ints) -> None:
    node, tail = about[_FREE], queue[_TAIL]
    about[_FREE] = nodes[node, _AFTER]
    about[_ENTRIES] += 1
    nodes[node, _AFTER] = -1
    nodes[node, _BEFORE] = tail
    nodes[node, _VALUE] = value
    nodes[node, _ARRIVAL] = arrival
    if tail >= 0:
        nodes[tail, _AFTER] = node
    else:
        queue[_HEAD] = node
    queue[_TAIL] = node


@kernel
def _follow(
    begin: int,
    numbers: Ints,
    signs: Ints,
    ordinals: Ints,
    marks: Ints,
    is_max: bool,
    endless: bool,
    nodes: Ints,
    about: Ints,
    queues: Ints,
    out: Ints,
) -> int:
    """Take events from `begin` on until there is no free node; gives how far it came."""
    for i in range(begin, len(numbers)):
        queue = queues[numbers[i]]
        if signs[i] > 0:
            if about[_FREE] < 0:
                return i
            value = ordinals[i]
            while queue[_TAIL] >= 0:
                last = nodes[queue[_TAIL], _VALUE]
                if (is_max and last > value) or (not is_max and last < value):
                    break
                _drop(queue[_TAIL], nodes, about, queue)
            if not endless or queue[_TAIL] < 0:
                _push(value, queue[_CAME], nodes, about, queue)
            queue[_CAME] += 1
        elif signs[i] < 0:
            queue[_WENT] += 1
            if queue[_HEAD] >= 0 and nodes[queue[_HEAD], _ARRIVAL] < queue[_WENT]:
                _drop(queue[_HEAD], nodes, about, queue)
        if marks[i] >= 0:
            out[marks[i]] = nodes[queue[_HEAD], _VALUE] if queue[_HEAD] >= 0 else 0
    return len(numbers)


@kernel
def _load(owners: Ints, values: Ints, arrivals: Ints, nodes: Ints, about: Ints, queues: Ints) -> None:
    for i in range(len(owners)):
        _push(values[i], arrivals[i], nodes, about, queues[owners[i]])


@kernel
def _entries(rows: Ints, nodes: Ints, queues: Ints, owners: Ints, values: Ints, arrivals: Ints) -> None:
    count = 0
    for number in range(len(rows)):
        if rows[number] >= 0:
            node = queues[number, _HEAD]
            while node >= 0:
                owners[count] = rows[number]
                values[count] = nodes[node, _VALUE]
                arrivals[count] = nodes[node, _ARRIVAL]
                count += 1
                node = nodes[node, _AFTER]


class MonotoneQueues(Measure):
    """`samples` are ordinals; 0 where there is no value."""

    def __init__(self, argument: Argument, *, is_max: bool, endless: bool = False) -> None:
        self._argument = argument
        self._is_max = is_max
        self._endless = endless
        self._nodes = np.zeros((64, 4), dtype=np.int64)
        self._about = np.array([-1, 0], dtype=np.int64)
        _link_free(self._nodes, self._about, 0)
        self._queues = np.zeros((0, 4), dtype=np.int64)
        self.samples = np.zeros(0, dtype=np.int64)

    def follow(self, events: Events, given: Given) -> None:
        self._grow(events.capacity)
        if given.moved is not None:
            self._nodes[:, _VALUE] = recoded(self._nodes[:, _VALUE], *given.moved)
        heads = self._queues[events.groups, _HEAD]
        self.samples = np.zeros(events.samples, dtype=np.int64)
        self.samples[: len(heads)] = np.where(heads >= 0, self._nodes[heads, _VALUE], 0)
        done = 0
        while True:
            done = _follow(
                done,
                events.numbers,
                given.signs,
                given.ordinals,
                events.marks,
                self._is_max,
                self._endless,
                self._nodes,
                self._about,
                self._queues,
                self.samples,
            )
            if done == len(events):
                break
            self._make_nodes(len(self._nodes))
        waiting = self._queues[events.groups]
        if (waiting[:, _WENT] > waiting[:, _CAME]).any():
            raise InternalError("a negative tuple takes back a value that is not there")

    def _grow(self, capacity: int) -> None:
        old = len(self._queues)
        if capacity > old:
            self._queues = grown(self._queues, capacity, 0)
            self._queues[old:, : _TAIL + 1] = -1

    def _make_nodes(self, count: int) -> None:
        old = len(self._nodes)
        self._nodes = grown(self._nodes, old + count, 0)
        _link_free(self._nodes, self._about, old)

    def settle(self) -> None:
        self.samples = np.zeros(0, dtype=np.int64)

    def reset(self, numbers: Ints) -> None:
        """Their queues are empty, as all their rows have left."""
        self._queues[numbers, _CAME] = 0
        self._queues[numbers, _WENT] = 0

    def snapshot(self, numbers: Ints, rows: Ints) -> State:
        owners, values, arrivals = (np.empty(self.entries, dtype=np.int64) for _ in range(3))
        _entries(rows, self._nodes, self._queues, owners, values, arrivals)
        queues = self._queues[numbers]
        return {
            "groups": pa.table({"came": queues[:, _CAME].copy(), "went": queues[:, _WENT].copy()}),
            "values": pa.table(
                {"group": owners, "value": self._argument.decode(values), "arrival": arrivals}
            ),
        }

    def restore(self, state: State, numbers: Ints, capacity: int) -> None:
        self._grow(capacity)
        self._queues[numbers, _CAME] = state["groups"].column("came").to_numpy()
        self._queues[numbers, _WENT] = state["groups"].column("went").to_numpy()
        table = state["values"]
        ordinals, _ = self._argument.encode(one_array(table.column("value")))
        owners, arrivals = (
            numbers[table.column("group").to_numpy()],
            table.column("arrival").to_numpy().copy(),
        )
        self._make_nodes(len(owners))
        _load(owners, ordinals, arrivals, self._nodes, self._about, self._queues)

    @property
    def entries(self) -> int:
        return int(self._about[_ENTRIES])

    @property
    def nbytes(self) -> int:
        return self._nodes.nbytes + self._queues.nbytes
