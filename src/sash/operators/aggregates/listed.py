"""Measures that list values of a group with their counts.

A counted tree has the values of all groups. Each group is looked at before the batch and where an event is
marked; what is seen lies in arrays that samples share, which grow when there is no room for another list.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from sash.errors import InternalError
from sash.operators.aggregates.arguments import Argument
from sash.operators.aggregates.events import Events
from sash.operators.aggregates.json_text import json_values, pairs_text, ranges_text
from sash.operators.aggregates.measure import Measure
from sash.operators.aggregates.values import Values
from sash.operators.delta import Bools, Ints
from sash.state.countedtree import CountedTree, Tree, has_room
from sash.state.jit import kernel
from sash.state.keytable import grown


@kernel
def _differ(
    samples: Ints, others: Ints, begins: Ints, ends: Ints, values: Ints, counts: Ints, out: Bools
) -> None:
    for i in range(len(samples)):
        a, b = begins[samples[i]], begins[others[i]]
        length = ends[samples[i]] - a
        out[i] = length != ends[others[i]] - b
        for k in range(length):
            if out[i]:
                break
            out[i] = values[a + k] != values[b + k] or counts[a + k] != counts[b + k]


class Pairs(Values):
    """Lists of values and counts; sample i has those from begins[i] to ends[i]. An empty list is NULL.

    `ranges`: what the values 0, 1, … are called; then a list that is not empty has all of them.
    """

    def __init__(
        self,
        begins: Ints,
        ends: Ints,
        values: Ints,
        counts: Ints,
        argument: Argument,
        ranges: tuple[str, ...] | None = None,
    ) -> None:
        self._begins = begins
        self._ends = ends
        self._values = values
        self._counts = counts
        self._argument = argument
        self._ranges = ranges

    def differs(self, samples: Ints, others: Ints) -> Bools:
        out: Bools = np.empty(len(samples), dtype=np.bool_)
        _differ(samples, others, self._begins, self._ends, self._values, self._counts, out)
        return out

    def take(self, samples: Ints) -> pa.Array:
        lengths = self._ends[samples] - self._begins[samples]
        offsets = np.zeros(len(samples) + 1, dtype=np.int64)
        np.cumsum(lengths, out=offsets[1:])
        places = np.repeat(self._begins[samples] - offsets[:-1], lengths) + np.arange(offsets[-1])
        if self._ranges is not None:
            return ranges_text(self._ranges, self._values[places], self._counts[places], offsets)
        # A value is written once, however often it stands among the samples.
        unique, which = np.unique(self._values[places], return_inverse=True)
        texts = json_values(self._argument.decode(unique)).take(pa.array(which))
        return pairs_text(texts, self._counts[places], offsets)


class Samples(NamedTuple):
    """Lists as `Pairs` has them; `about` holds how much of `values` and `counts` is used."""

    begins: Ints
    ends: Ints
    values: Ints
    counts: Ints
    about: Ints

    @staticmethod
    def of(number: int, size: int) -> Samples:
        begins, ends = (np.zeros(number, dtype=np.int64) for _ in range(2))
        values, counts = (np.zeros(size, dtype=np.int64) for _ in range(2))
        return Samples(begins, ends, values, counts, np.zeros(1, dtype=np.int64))

    def with_room(self) -> Samples:
        size = 2 * len(self.values)
        return self._replace(values=grown(self.values, size, 0), counts=grown(self.counts, size, 0))


Step = Callable[[int, Tree, Samples], int]
"""Goes on from somewhere, up to where tree or samples need room; gives where that is."""


class Listed(Measure):
    """`ranges`: what the values are called, if they are numbers of ranges."""

    def __init__(self, argument: Argument, ranges: tuple[str, ...] | None = None) -> None:
        self._argument = argument
        self._ranges = ranges
        # How many values each group has.
        self._kinds = np.zeros(0, dtype=np.int64)
        self._tree = CountedTree()
        self._pairs: Pairs | None = None

    def _sample(self, events: Events, size: int, look: Step, take: Step) -> None:
        """Look at all groups, then take the events; −1 of `take` means that a value is missing."""
        samples = Samples.of(events.samples, size)
        done = 0
        while (done := look(done, self._tree.tree, samples)) < len(events.groups):
            samples = samples.with_room()
        done = 0
        while (done := take(done, self._tree.tree, samples)) < len(events):
            if done < 0:
                raise InternalError("a negative tuple takes back a value that is not there")
            if has_room(self._tree.tree):
                samples = samples.with_room()
            else:
                self._tree.grow()
        begins, ends, values, counts, _ = samples
        self._pairs = Pairs(begins, ends, values, counts, self._argument, self._ranges)

    def pairs(self) -> Pairs:
        """The samples of the last batch."""
        assert self._pairs is not None
        return self._pairs

    def settle(self) -> None:
        self._pairs = None

    def reset(self, numbers: Ints) -> None:
        self._kinds[numbers] = 0
