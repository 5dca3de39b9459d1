"""Rings: tuples of equal value linked with each other and with their node, so that an index finds tuples.

003, section 6. A tuple is known by its position: how many came before it. Links stand in a circular array by
position; a link is the position of the next tuple of the ring, or, in the last one, leads back to the index.
A tuple does not know its node otherwise (the published procedures are about finding it).

| rings | a tuple comes                              | a tuple goes                      | extra space       |
|-------|--------------------------------------------|-----------------------------------|-------------------|
| RING  | D, and its whole ring is followed          | its whole ring is followed        |                   |
| AUX   | an auxiliary index; D and the ring once a value | its whole ring is followed   | 3d pointers       |
| BW    | an auxiliary index; D once a value         | the ring is followed once a value | as AUX            |
| DB    | an auxiliary index; D once a value         | O(1)                              | D bits, N numbers |

D stands for finding a value in the index below. N tuples in the window, d values in a basic window.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
import numpy.typing as npt

from sash.indexes.domain import Ints, Read
from sash.indexes.hash_storage import equal_values
from sash.indexes.storage import Nodes, in_order
from sash.indexes.value_index import ValueIndex
from sash.state.jit import kernel
from sash.state.keytable import grown

_SMALLEST = 64


@kernel
def back_to(node: int) -> int:
    """The link that leads to a node; applied again, the node to which a link leads."""
    return -1 - node


@kernel
def find_nodes_forward(begin: int, end: int, links: Ints, heads: Ints, out: Nodes) -> None:
    """The oldest tuples leave rings that run from old to new: each ring is followed to its node."""
    mask = len(links) - 1
    for position in range(begin, end):
        at = position
        while links[at & mask] >= 0:
            at = links[at & mask]
        node = back_to(links[at & mask])
        heads[node] = max(links[position & mask], -1)
        out[position - begin] = node


@kernel
def gather_forward(nodes: Ints, ends: Ints, links: Ints, heads: Ints, out: Ints) -> None:
    """The positions of the tuples of some nodes; those of node i end at ends[i]."""
    mask = len(links) - 1
    for i in range(len(nodes)):
        place = 0 if i == 0 else ends[i - 1]
        at = heads[nodes[i]]
        while at >= 0:
            out[place] = at
            place += 1
            at = links[at & mask]


class Rings(ABC):
    """The rings of the tuples begin … end."""

    name: str

    def __init__(self) -> None:
        self.begin = 0
        self.end = 0
        self.links: Ints = np.zeros(_SMALLEST, dtype=np.int64)
        self.heads: Ints = np.full(_SMALLEST, -1, dtype=np.int64)

    def insert(self, read: Read, index: ValueIndex) -> Nodes:
        """Tuples come; gives their nodes."""
        nodes = self._look_up(read, index)
        self._reserve(read.rows, index.capacity)
        self._link(nodes)
        self.end += read.rows
        return nodes

    def build(self, begin: int, nodes: Nodes, capacity: int) -> None:
        """Link all tuples of a window at once, the oldest at the position `begin`: a state is taken up."""
        self.begin = self.end = begin
        self._reserve(len(nodes), capacity)
        self._link_all(nodes)
        self.end += len(nodes)

    def _link_all(self, nodes: Nodes) -> None:
        self._link(nodes)

    def _look_up(self, read: Read, index: ValueIndex) -> Nodes:
        """By an auxiliary index of the new tuples: the main index is asked once a value (003, 6.2)."""
        first, _, local = equal_values(read.ordinals)
        return in_order(read, index.enter(read.ordinals[first], read.holders[first])[local])

    @abstractmethod
    def _link(self, nodes: Nodes) -> None:
        """Link new tuples, whose nodes these are."""

    def expire(self, count: int) -> Nodes:
        """The oldest tuples go; gives their nodes."""
        nodes = np.empty(count, dtype=np.int32)
        self._unlink(self.begin + count, nodes)
        self.begin += count
        return nodes

    @abstractmethod
    def _unlink(self, end: int, nodes: Nodes) -> None:
        """Unlink tuples before `end` and write their nodes."""

    def gather(self, nodes: Ints, counts: Ints) -> Ints:
        """The positions of all tuples of some nodes, those of a node in order of arrival."""
        ends = np.cumsum(counts)
        out = np.empty(int(ends[-1]) if len(ends) else 0, dtype=np.int64)
        self._gather(nodes, ends, out)
        return out

    @abstractmethod
    def _gather(self, nodes: Ints, ends: Ints, out: Ints) -> None:
        """Write the positions of node i's tuples up to ends[i]."""

    def _reserve(self, rows: int, nodes: int) -> None:
        self.heads = grown(self.heads, nodes, -1)
        needed = self.end - self.begin + rows
        if needed > len(self.links):
            self._enlarge(1 << (needed - 1).bit_length())

    def _enlarge(self, size: int) -> None:
        self.links = self._spread(self.links, size)

    def _spread(self, array: npt.NDArray[Any], size: int) -> npt.NDArray[Any]:
        """A circular array with more room; positions stay what they are."""
        larger = np.zeros(size, dtype=array.dtype)
        positions = np.arange(self.begin, self.end)
        larger[positions & (size - 1)] = array[positions & (len(array) - 1)]
        return larger

    @property
    def nbytes(self) -> int:
        return self.links.nbytes + self.heads.nbytes
