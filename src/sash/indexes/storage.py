"""Basic windows: what a sub-window keeps of the values of its tuples (003, section 3.2).

The window is a queue of basic windows. Each has entries: a node of the index (the domain storage model: the
value itself stands in the index alone) and, where equal values are stored once, how many tuples have it.
NULL is an entry like the others; its node is NULL_NODE.

| storage | a basic window has                          | time a tuple                | space      |
|---------|---------------------------------------------|-----------------------------|------------|
| LIST    | an entry for each tuple, in order           | O(1)                        | O(b)       |
| AGGR    | an entry for each value, in order of values | O(log b): sorted at once    | O(d)       |
| HASH    | an entry for each value, by hashing         | O(1 + d/h)                  | O(d)       |
| GROUP   | a count for each range of values            | O(log g)                    | O(g)       |

b tuples and d values in a basic window, h buckets, g ranges.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sash.indexes.domain import Ints, Read

Nodes = npt.NDArray[np.int32]
NULL_NODE = 0
State = dict[str, pa.Table]
"""What is taken out to be put back elsewhere: named Arrow tables."""


@dataclass(frozen=True, slots=True)
class Folded:
    """The entries that a storage makes of a batch, before the index has given them nodes.

    `amounts` is None where each entry is one tuple.
    """

    ordinals: Ints
    holders: Ints
    amounts: Ints | None


@dataclass(frozen=True, slots=True)
class BasicWindow:
    """Entries with their nodes; `amounts` is None where each is one tuple."""

    nodes: Nodes
    amounts: Ints | None
    tuples: int

    @property
    def nbytes(self) -> int:
        return self.nodes.nbytes + (0 if self.amounts is None else self.amounts.nbytes)


class BasicWindowStorage(ABC):
    """How entries are made."""

    name: str

    @abstractmethod
    def fold(self, read: Read) -> Folded:
        """The entries of the values that are not NULL."""

    def bind(self, read: Read, folded: Folded, nodes: Ints) -> BasicWindow:
        """The basic window, when the index has found a node for each entry."""
        if folded.amounts is None:
            return BasicWindow(in_order(read, nodes), None, read.rows)
        if not read.nulls:
            return BasicWindow(nodes.astype(np.int32), folded.amounts, read.rows)
        nodes = np.append(nodes, NULL_NODE)
        return BasicWindow(nodes.astype(np.int32), np.append(folded.amounts, read.nulls), read.rows)


def in_order(read: Read, nodes: Ints) -> Nodes:
    """A node for each tuple in the order of arrival, those that are NULL among them."""
    if read.present is None:
        return nodes.astype(np.int32)
    every = np.full(read.rows, NULL_NODE, dtype=np.int32)
    every[read.present] = nodes
    return every
