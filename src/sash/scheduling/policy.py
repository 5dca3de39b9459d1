"""What a scheduler is made of: how a group is divided into tasks, and which tasks are executed along.

A task is what gets a deadline. Its queries are always executed together, with the period of the task.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from sash.sharing.work import Work


class Semantics(enum.Enum):
    """What SLIDE n asks for.

    ELASTIC (002, section 8.4.1): at most n updates between two executions, counted from the last one, however
    late it was. An answer is of the instant of its execution.
    BOUNDARIES: answers at the multiples of n. An execution answers the last boundary that has passed; those
    that were missed before are skipped and counted.
    """

    ELASTIC = "elastic"
    BOUNDARIES = "boundaries"


@dataclass(frozen=True, slots=True)
class Standing:
    """A query to be executed every `period`; those of one group may be executed together.

    Periods and instants are integers in one unit: numbers of updates, or microseconds. Among equal deadlines
    the greater `priority` is first. `work` is what an execution costs, for hybrid scheduling.
    """

    name: str
    group: str
    period: int
    priority: int = 0
    work: Work = field(default_factory=Work, compare=False)


@dataclass(frozen=True, slots=True)
class Block:
    """Queries that make up a task, and its period, not longer than that of any of them."""

    queries: tuple[Standing, ...]
    period: int


Divide = Callable[[Sequence[Standing], Semantics], list[Block]]
Along = Callable[[int], int | None]


def alone(until: int) -> int | None:
    """No other task is executed along."""
    return None


def same_deadline(until: int) -> int | None:
    """Those with the same deadline are executed along (Algorithm 10, line 8)."""
    return until


@dataclass(frozen=True, slots=True)
class Policy:
    """`along(d)` says which tasks of its group go along with the task of the earliest deadline, d from now.

    Those whose deadlines are at most so far from now; None: none.
    """

    name: str
    divide: Divide
    along: Along

    @property
    def slug(self) -> str:
        """The name as options have it."""
        return self.name.removesuffix(" sharing").replace(", ", "-")


def by_period(queries: Sequence[Standing]) -> list[Block]:
    """The sub-groups of queries with one period, shortest first."""
    found: dict[int, list[Standing]] = {}
    for query in queries:
        found.setdefault(query.period, []).append(query)
    return [Block(tuple(found[period]), period) for period in sorted(found)]
