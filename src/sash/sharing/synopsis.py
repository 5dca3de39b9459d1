"""A synopsis as sharing sees it: what it summarises, how finely, how far back, and in which structure."""

from __future__ import annotations

from dataclasses import dataclass

from sash.lang.algebra import Node
from sash.lang.bound import Scalar
from sash.plan.kinds import Kind
from sash.plan.measures import Measure
from sash.plan.panes import Panes
from sash.plan.periodic import SynopsisSpec
from sash.plan.predicates import Predicate, predicate_of


@dataclass(frozen=True, slots=True)
class SharedSynopsis:
    """`longest` is b·s, how far back it reaches; `spread` is g·s, how much two windows of a join may differ.

    It knows what came after `held_from`, at most `longest` back; None: from the beginning of the stream.
    """

    name: str
    source: str | Node
    where: Scalar | None
    keys: tuple[Scalar, ...]
    measures: tuple[Measure, ...]
    panes: Panes
    longest: int
    kind: Kind
    spread: int = 0
    held_from: int | None = None

    @property
    def predicate(self) -> Predicate:
        return predicate_of(self.where)

    @property
    def is_join(self) -> bool:
        return not isinstance(self.source, str)

    @property
    def intervals(self) -> int:
        """b: how many panes it holds."""
        return panes_in(self.panes, self.longest)

    @property
    def g(self) -> int:
        """By how many panes the two windows of a join may differ."""
        return self.spread // self.panes.period if self.is_join else 0

    @property
    def spec(self) -> SynopsisSpec:
        """What the first stage pre-aggregates for a synopsis of a stream."""
        assert isinstance(self.source, str)
        return SynopsisSpec(
            self.name, self.source, self.where, self.keys, self.panes, self.measures, self.longest
        )

    def __str__(self) -> str:
        what = "" if self.where is None else f" where {self.where.text or self.where.sql}"
        return f"{self.name}{what}"


def panes_in(panes: Panes, span: int) -> int:
    """How many panes a window of that length has, at the most where they are not all of one length."""
    if len(panes.offsets) == 1:
        return -(-span // panes.period)
    return panes.count_in(span)
