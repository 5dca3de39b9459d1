"""What every value index is: nodes with a value (or a range of values) and how many tuples have it.

003, section 5. A node's number is what basic windows keep of a tuple, so it stays the same as long as any
of them has it. Node 0 is NULL and in no structure. One index can serve two windows (003, 7.2.3): then a
node has a count on each of two sides, and stays until both are zero.

Invariant: counts[side][node] is the number of tuples with that value in the window of that side;
`kinds[side]` is the number of nodes but NULL for which it is not zero, `totals[side]` the number of tuples
that are not NULL.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sash.errors import InternalError
from sash.indexes.domain import Bools, Domain, Ints, Read, ordinals_of
from sash.indexes.storage import NULL_NODE, BasicWindow, Nodes
from sash.state.countedtree import GREATEST, LEAST, recoded
from sash.state.jit import kernel
from sash.state.keytable import grown
from sash.state.lexicon import Moved

_SMALLEST = 64


@kernel
def _add(nodes: Nodes, amounts: Ints, is_single: bool, counts: Ints) -> int:
    """Count tuples in; gives how many values have come."""
    come = 0
    for i in range(len(nodes)):
        node = nodes[i]
        if counts[node] == 0 and node != NULL_NODE:
            come += 1
        counts[node] += 1 if is_single else amounts[i]
    return come


@kernel
def _take(
    nodes: Nodes, amounts: Ints, is_single: bool, counts: Ints, is_listed: Bools, zeros: Ints, about: Ints
) -> int:
    """Count tuples out; gives how many values have gone, and lists them; −1 if a count would be negative."""
    gone = 0
    for i in range(len(nodes)):
        node = nodes[i]
        counts[node] -= 1 if is_single else amounts[i]
        if counts[node] < 0:
            return -1
        if counts[node] == 0 and node != NULL_NODE:
            gone += 1
            if len(is_listed) and not is_listed[node]:
                is_listed[node] = True
                zeros[about[0]] = node
                about[0] += 1
    return gone


NO_AMOUNTS = np.zeros(0, dtype=np.int64)


class ValueIndex(ABC):
    """`sides` windows share it. `is_exact`: a node is a value, not a range of them."""

    name: str
    is_exact = True

    def __init__(self, type_: pa.DataType, *, sides: int = 1) -> None:
        self.type = type_
        self.sides = sides
        self.capacity = _SMALLEST
        self.counts: Ints = np.zeros((sides, _SMALLEST), dtype=np.int64)
        self.kinds = [0] * sides
        self.totals = [0] * sides
        self._is_listed: Bools = np.zeros(0, dtype=np.bool_)
        self._zeros: Ints = np.zeros(0, dtype=np.int64)
        self._about = np.zeros(1, dtype=np.int64)

    # ------------------------------------------------------------- structure

    @abstractmethod
    def read(self, values: pa.Array) -> Read:
        """Values as the index knows them."""

    @abstractmethod
    def enter(self, ordinals: Ints, holders: Ints) -> Ints:
        """The node of each value; those that are not there yet are put in with the count 0."""

    @abstractmethod
    def find(self, values: pa.Array) -> Ints:
        """The node of each value, −1 where there is none (NULL is no value)."""

    @abstractmethod
    def ordered(self, side: int = 0) -> Ints:
        """The nodes that have tuples, in order of their values, without NULL."""

    @abstractmethod
    def between(self, low: pa.Scalar | None, high: pa.Scalar | None, side: int = 0) -> Ints:
        """The nodes that have tuples and a value from low to high (None: no bound), in order."""

    @abstractmethod
    def labels(self, nodes: Ints) -> dict[str, pa.Array]:
        """What nodes stand for: a column `value`, or `low` and `high`."""

    @abstractmethod
    def purge(self) -> None:
        """Take out the nodes that no side has tuples of."""

    @property
    @abstractmethod
    def nodes(self) -> int:
        """How many nodes there are besides NULL, with tuples or without."""

    def tracks_zeros(self) -> None:
        """From now on list the nodes that lose their last tuple."""
        self._is_listed = np.zeros(self.capacity, dtype=np.bool_)
        self._zeros = np.zeros(self.capacity, dtype=np.int64)

    @property
    def zeros(self) -> int:
        """How many nodes are listed."""
        return int(self._about[0])

    # ---------------------------------------------------------------- counts

    def add(self, basic: BasicWindow, side: int = 0) -> None:
        """The tuples of a basic window come."""
        amounts = NO_AMOUNTS if basic.amounts is None else basic.amounts
        nulls = self.counts[side, NULL_NODE]
        self.kinds[side] += _add(basic.nodes, amounts, basic.amounts is None, self.counts[side])
        self.totals[side] += basic.tuples - int(self.counts[side, NULL_NODE] - nulls)

    def take(self, basic: BasicWindow, side: int = 0) -> None:
        """The tuples of a basic window go."""
        amounts = NO_AMOUNTS if basic.amounts is None else basic.amounts
        nulls = self.counts[side, NULL_NODE]
        gone = _take(
            basic.nodes,
            amounts,
            basic.amounts is None,
            self.counts[side],
            self._is_listed,
            self._zeros,
            self._about,
        )
        if gone < 0:
            raise InternalError("a value leaves a window more often than it has come")
        self.kinds[side] -= gone
        self.totals[side] -= basic.tuples - int(nulls - self.counts[side, NULL_NODE])

    def nulls(self, side: int = 0) -> int:
        return int(self.counts[side, NULL_NODE])

    def quantile(self, share: Fraction, number: int, side: int = 0) -> int:
        """The node of the value with `number` tuples before it in order; `share` is what was asked for."""
        nodes = self.ordered(side)
        running = np.cumsum(self.counts[side][nodes])
        return int(nodes[np.searchsorted(running, number, side="right")])

    def top(self, limit: int, side: int = 0) -> Ints:
        """The nodes with most tuples, most first, equal ones in order of their values."""
        counts = self.counts[side]
        nodes = np.flatnonzero(counts[1:]) + 1
        if len(nodes) > limit:
            each = counts[nodes]
            least = np.partition(each, len(each) - limit)[len(each) - limit]
            nodes = nodes[each >= least]
        chosen: Ints = nodes[np.lexsort((self.order_of(nodes), -counts[nodes]))][:limit]
        return chosen

    @abstractmethod
    def order_of(self, nodes: Ints) -> Ints:
        """Integers that compare as the nodes' values do."""

    # ------------------------------------------------------------------ room

    def _grow(self) -> None:
        """Make room for twice as many nodes."""
        self.capacity *= 2
        wider = np.zeros((self.sides, self.capacity), dtype=np.int64)
        wider[:, : self.counts.shape[1]] = self.counts
        self.counts = wider
        if len(self._is_listed):
            self._is_listed = grown(self._is_listed, self.capacity, False)
            self._zeros = grown(self._zeros, self.capacity, 0)

    @property
    def nbytes(self) -> int:
        return self.counts.nbytes + self._is_listed.nbytes + self._zeros.nbytes


class KeyedIndex(ValueIndex):
    """An index with a node for each value; how a value is found is left to the kind of index."""

    def __init__(self, type_: pa.DataType, *, sides: int = 1) -> None:
        super().__init__(type_, sides=sides)
        self.domain = Domain(type_, self.relabel)
        self.keys: Ints = np.zeros(_SMALLEST, dtype=np.int64)
        self._holders: Ints = np.zeros(_SMALLEST, dtype=np.int64)
        self._is_linked: Bools = np.zeros(_SMALLEST, dtype=np.bool_)
        self._free: Ints = np.zeros(_SMALLEST, dtype=np.int64)
        # Nodes ever used, the length of the free list, nodes that are linked.
        self._room = np.array([NULL_NODE + 1, 0, 0], dtype=np.int64)

    @property
    def nodes(self) -> int:
        return int(self._room[2])

    def read(self, values: pa.Array) -> Read:
        return self.domain.read(values)

    def enter(self, ordinals: Ints, holders: Ints) -> Ints:
        nodes = np.empty(len(ordinals), dtype=np.int64)
        fresh = np.empty(len(ordinals), dtype=np.int64)
        count = np.zeros(1, dtype=np.int64)
        done = 0
        while True:
            done = self._enter(ordinals, done, nodes, fresh, count)
            if done == len(ordinals):
                break
            self._make_room()
        if not count[0]:
            return nodes
        new = fresh[: int(count[0])]
        self._is_linked[nodes[new]] = True
        self._holders[nodes[new]] = holders[new]
        self.domain.hold(holders[new])
        self._linked(nodes[new])
        return nodes

    def _linked(self, nodes: Ints) -> None:
        """New nodes have their keys."""

    def _make_room(self) -> None:
        if self._room[1] == 0 and self._room[0] == self.capacity:
            self._grow()

    @abstractmethod
    def _enter(self, ordinals: Ints, begin: int, nodes: Ints, fresh: Ints, count: Ints) -> int:
        """Find or put in values from `begin` on, as far as there is room; `fresh` has where new ones are."""

    @abstractmethod
    def _find(self, ordinals: Ints) -> Ints:
        """The node of each ordinal or −1."""

    @abstractmethod
    def _unlink(self, nodes: Ints) -> None:
        """Take nodes out of the structure."""

    @abstractmethod
    def _recode(self, moved: Moved) -> None:
        """Ordinals are others now, in the same order; `keys` are the new ones already."""

    @abstractmethod
    def _span(self, low: int, high: int, side: int) -> Ints:
        """The nodes that have tuples and a key from low to high, in order."""

    def find(self, values: pa.Array) -> Ints:
        read = self.domain.read(values)
        found = self._find(read.ordinals)
        if self.domain.is_text:
            # Words that nobody holds are forgotten at once.
            self.domain.forget(read.holders)
        if read.present is None:
            return found
        every = np.full(read.rows, -1, dtype=np.int64)
        every[read.present] = found
        return every

    def ordered(self, side: int = 0) -> Ints:
        return self._span(LEAST, GREATEST, side)

    def between(self, low: pa.Scalar | None, high: pa.Scalar | None, side: int = 0) -> Ints:
        if self.domain.is_text:
            return self._text_between(low, high, side)
        bounds = [_ordinal(bound, self.type) for bound in (low, high)]
        return self._span(
            LEAST if bounds[0] is None else bounds[0], GREATEST if bounds[1] is None else bounds[1], side
        )

    def _text_between(self, low: pa.Scalar | None, high: pa.Scalar | None, side: int) -> Ints:
        """A bound need not be a word that is known, so it has no label: words are compared."""
        nodes = self.ordered(side)
        words = self.domain.values(self._holders[nodes])
        if low is not None:
            kept = pc.greater_equal(words, low)
            nodes, words = nodes[np.asarray(kept)], words.filter(kept)
        if high is not None:
            nodes = nodes[np.asarray(pc.less_equal(words, high))]
        return nodes

    def labels(self, nodes: Ints) -> dict[str, pa.Array]:
        return {"value": self.values(nodes)}

    def values(self, nodes: Ints) -> pa.Array:
        """The values of nodes, NULL for the node of NULL."""
        if not (nodes == NULL_NODE).any():
            return self.domain.values(self._holders[nodes])
        there = nodes != NULL_NODE
        places = np.cumsum(there) - 1
        return self.domain.values(self._holders[nodes[there]]).take(pa.array(places, mask=~there))

    def order_of(self, nodes: Ints) -> Ints:
        return self.keys[nodes]

    def purge(self) -> None:
        if len(self._is_listed):
            listed = self._zeros[: self.zeros]
            self._is_listed[listed] = False
            self._about[0] = 0
            gone = listed[~self.counts[:, listed].any(axis=0)]
            # With two sides a node may be listed by each, and unlinked once.
            gone = gone[self._is_linked[gone]]
        else:
            gone = np.flatnonzero(self._is_linked & ~self.counts.any(axis=0))
        if len(gone):
            self._unlink(gone)
            self._is_linked[gone] = False
            self._free[self._room[1] : self._room[1] + len(gone)] = gone
            self._room[1] += len(gone)
            self._room[2] -= len(gone)
            self.domain.release(self._holders[gone])

    def relabel(self, moved: Moved) -> None:
        """Ordinals that are held have become others, in the same order."""
        linked = np.flatnonzero(self._is_linked)
        self.keys[linked] = recoded(self.keys[linked], moved.old, moved.new)
        self._recode(moved)

    def _grow(self) -> None:
        super()._grow()
        self.keys = grown(self.keys, self.capacity, 0)
        self._holders = grown(self._holders, self.capacity, 0)
        self._is_linked = grown(self._is_linked, self.capacity, False)
        self._free = grown(self._free, self.capacity, 0)

    @property
    def nbytes(self) -> int:
        own = self.keys.nbytes + self._holders.nbytes + self._is_linked.nbytes + self._free.nbytes
        return super().nbytes + own + self.domain.nbytes


@kernel
def has_node(room: Ints, capacity: int) -> bool:
    """Whether there is a node to be had."""
    return bool(room[1] > 0 or room[0] < capacity)


@kernel
def take_node(room: Ints, free: Ints) -> int:
    room[2] += 1
    if room[1] > 0:
        room[1] -= 1
        return int(free[room[1]])
    room[0] += 1
    return int(room[0] - 1)


def _ordinal(bound: pa.Scalar | None, type_: pa.DataType) -> int | None:
    return None if bound is None else int(ordinals_of(pa.array([bound], type_))[0])
