"""A measure: what is kept per group so that rows can come and go, shared by all aggregates that need it."""

from __future__ import annotations

from abc import ABC, abstractmethod

from sash.operators.aggregates.arguments import Given
from sash.operators.aggregates.events import Events
from sash.operators.delta import Ints
from sash.operators.operator import State


class Measure(ABC):
    """State by the number of a group. A group without rows has the state of a new one."""

    @abstractmethod
    def follow(self, events: Events, given: Given) -> None:
        """Take a batch; the samples can be read until `settle`."""

    def settle(self) -> None:
        """After a batch: forget samples and what no row has any more."""

    def reset(self, numbers: Ints) -> None:
        """Groups are gone."""

    @abstractmethod
    def snapshot(self, numbers: Ints, rows: Ints) -> State:
        """The state of the groups with some numbers; `rows` is the row of each number in that order."""

    @abstractmethod
    def restore(self, state: State, numbers: Ints, capacity: int) -> None:
        """Put back what `snapshot` gave, for groups that have these numbers now."""

    @property
    def entries(self) -> int:
        """Values that are held one by one."""
        return 0

    @property
    @abstractmethod
    def nbytes(self) -> int: ...
