"""What EXPLAIN knows of a query, before it is shown in one form or another."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Measured:
    """What came of an operator in a run: rows and negative tuples that left it, and its state at the end."""

    rows: int
    negative: int = 0
    state_rows: int = 0
    state_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Step:
    """One operator and the edge that leaves it.

    `pattern` and `rate` (rows a second) are of that edge; `implementation` and `state` say how the operator
    works and what it keeps, each buffer with its bound; `cost` is its own work a second. `uses` is how often
    the query needs its result, which is computed once, and `shared_with` names other queries that need it.
    EXPLAIN ANALYZE knows what was `measured`.
    """

    operator: str
    detail: str
    pattern: str
    rate: float
    implementation: str = ""
    state: tuple[str, ...] = ()
    cost: float = 0.0
    inputs: tuple[Step, ...] = ()
    uses: int = 1
    shared_with: tuple[str, ...] = ()
    measured: Measured | None = None

    def walk(self) -> Iterator[Step]:
        yield self
        for step in self.inputs:
            yield from step.walk()


@dataclass(frozen=True, slots=True)
class Considered:
    """An alternative that the optimizer looked at, and its cost."""

    name: str
    cost: float


@dataclass(frozen=True, slots=True)
class Explained:
    """A query's plan with the reasons for it."""

    name: str
    sink: str
    strategy: str
    cost: float
    rewrites: tuple[str, ...]
    considered: tuple[Considered, ...]
    tree: Step
    notes: tuple[str, ...] = ()
