"""How an answer is computed while its sub-windows come in, one at a time and in an order nobody knows.

The order of reading must not matter to the answer (002, section 7.4.2): a fold gathers or adds up.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Generic, TypeVar

from sash.errors import RunError
from sash.transactions.events import Isolation, SubWindow

V = TypeVar("V")
R = TypeVar("R")

ATTEMPTS = 20


def overtaken(query: str, attempts: int, why: str) -> RunError:
    """What a query is told whose windows slide faster than it reads them."""
    return RunError(
        f"query '{query}' was aborted {attempts} times",
        got=why,
        hint="its windows slide faster than they are read; WITH (isolation = 'ws') reads the windows as they "
        "were when it began",
        id="isolation",
    )


class Fold(ABC, Generic[V, R]):
    """One attempt of a query; every attempt has a new one."""

    @abstractmethod
    def add(self, sub_window: SubWindow, value: V) -> None:
        """Take in a sub-window. Its value stays what it is until the fold has finished."""

    def insert(self, sub_window: SubWindow, added: V) -> None:
        """Take in what was inserted into a sub-window that was added before."""
        self.add(sub_window, added)

    @abstractmethod
    def finish(self) -> R:
        """The answer. The transaction has committed; what happens now does not change what it reflects."""


class UndoableFold(Fold[V, R]):
    """A fold that can take a sub-window back reads on where others are aborted and start again."""

    @abstractmethod
    def remove(self, sub_window: SubWindow, value: V) -> None:
        """Take back a sub-window, with all that was inserted into it."""


@dataclass(frozen=True, slots=True)
class Answer(Generic[R]):
    """`value` is that of the windows at `instant`, after movement `state`.

    `attempts` is one more than the aborts that it took, `rescans` how many sub-windows were taken back.
    """

    value: R
    instant: int
    state: int
    isolation: Isolation
    attempts: int = 1
    rescans: int = 0
