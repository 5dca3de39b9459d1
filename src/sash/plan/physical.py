"""The physical plan: which implementation each operator gets and what it keeps (002, sections 3.5.2 and 5.2).

The cost model has chosen the state buffers by update pattern and strategy (`cost/buffers.py`); here
operators get their implementations. An exec node knows its logical node and its estimate, so nothing is said
twice.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator
from dataclasses import dataclass, replace

from sash.lang import algebra
from sash.lang.algebra import Node, OutputKind
from sash.lang.values import AggregateFunction
from sash.plan.cost import Buffer, Estimate, Strategy, strategy_below
from sash.plan.patterns import Pattern, output_pattern, pattern_of


class JoinAlgorithm(enum.Enum):
    """002, section 5.2, algorithms 2 to 5."""

    EAGER = "eager"
    EAGER_LAZY_EXPIRATION = "eager, lazy expiration"
    LAZY = "lazy"
    LAZY_RESTORE = "lazy with restore"


class DistinctVariant(enum.Enum):
    """002, sections 3.2.2 and 3.5.2."""

    DELTA_STAR = "δ*"
    STORING = "storing"
    COUNTING = "counting"


@dataclass(frozen=True, slots=True)
class Held:
    """A state buffer and what it holds."""

    what: str
    buffer: Buffer


@dataclass(frozen=True, slots=True)
class Exec:
    """An operator with its implementation."""

    estimate: Estimate
    inputs: tuple[Exec, ...]

    @property
    def logical(self) -> Node:
        return self.estimate.node

    @property
    def pattern(self) -> Pattern:
        """Of the edge that leaves it."""
        return pattern_of(self.logical)

    @property
    def implementation(self) -> str:
        return ""

    @property
    def state(self) -> tuple[Held, ...]:
        """Its buffers, in the order of its inputs where it has one for each."""
        buffers = self.estimate.buffers
        if len(buffers) == len(self.inputs) > 1:
            names = [", ".join(_sources(child.logical)) for child in self.inputs]
            return tuple(Held(name, buffer) for name, buffer in zip(names, buffers, strict=True))
        return tuple(Held("state", buffer) for buffer in buffers)

    def walk(self) -> Iterator[Exec]:
        yield self
        for child in self.inputs:
            yield from child.walk()


def _sources(node: Node) -> list[str]:
    leaves = (algebra.Stream, algebra.Relation, algebra.Archive)
    return [leaf.qualifier for leaf in node.walk() if isinstance(leaf, leaves)]


@dataclass(frozen=True, slots=True)
class ScanExec(Exec):
    """A stream, relation or archive enters the plan."""


@dataclass(frozen=True, slots=True)
class WindowExec(Exec):
    """Gives each tuple its lifetime. It stores tuples only where it must announce their expiration."""

    @property
    def implementation(self) -> str:
        return "announces expirations" if self.estimate.announces else ""


@dataclass(frozen=True, slots=True)
class SelectExec(Exec):
    pass


@dataclass(frozen=True, slots=True)
class ProjectExec(Exec):
    pass


@dataclass(frozen=True, slots=True)
class UnionExec(Exec):
    pass


@dataclass(frozen=True, slots=True)
class JoinExec(Exec):
    algorithm: JoinAlgorithm

    @property
    def is_hashed(self) -> bool:
        assert isinstance(self.logical, algebra.Join)
        return bool(self.logical.equalities)

    @property
    def implementation(self) -> str:
        # In the words of 003: keys by hashing, the rows of a key chained from the newest on.
        return f"{self.algorithm.value}, {'hashed (RING BW ON H)' if self.is_hashed else 'nested loops'}"


@dataclass(frozen=True, slots=True)
class RelationJoinExec(Exec):
    @property
    def implementation(self) -> str:
        assert isinstance(self.logical, algebra.RelationJoin)
        return "⋈R: an update scans the window" if self.logical.relation.is_revised else "⋈NRR"


@dataclass(frozen=True, slots=True)
class SemiJoinExec(Exec):
    @property
    def implementation(self) -> str:
        assert isinstance(self.logical, algebra.SemiJoin)
        if not self.logical.is_anti:
            return "semi-join"
        share = self.estimate.premature_share
        return "negation" if share is None else f"negation, {share:.0%} of expirations premature"


@dataclass(frozen=True, slots=True)
class DistinctExec(Exec):
    variant: DistinctVariant

    @property
    def implementation(self) -> str:
        return self.variant.value

    @property
    def state(self) -> tuple[Held, ...]:
        names = {
            DistinctVariant.DELTA_STAR: ("output", "auxiliary output"),
            DistinctVariant.STORING: ("input", "output"),
            DistinctVariant.COUNTING: ("counters",),
        }[self.variant]
        buffers = self.estimate.buffers
        if len(buffers) > len(names):
            names = ("input", *names)
        return tuple(Held(name, buffer) for name, buffer in zip(names, buffers, strict=False))


@dataclass(frozen=True, slots=True)
class AggregateExec(Exec):
    @property
    def implementation(self) -> str:
        assert isinstance(self.logical, algebra.Aggregate)
        how = "a new value replaces the group's old one"
        if any(call.function is AggregateFunction.FREQUENT for call in self.logical.calls):
            how += "; FREQUENT by lists of sub-windows (Algorithm 6)"
        return how


@dataclass(frozen=True, slots=True)
class MultiplicityExec(Exec):
    """EXCEPT ALL and INTERSECT ALL by counting both sides (2.2.2)."""

    @property
    def implementation(self) -> str:
        return "by multiplicities, in one H-INDEX for both sides"


@dataclass(frozen=True, slots=True)
class LimitExec(Exec):
    @property
    def implementation(self) -> str:
        """What is looked at again and again is a tuple index; what is asked once is sorted."""
        assert isinstance(self.logical, algebra.Limit)
        if not self.estimate.period:
            return "sorted once"
        order, count = self.logical.order, self.logical.count
        key = order[0].scalar.text if order else self.logical.fields[0].name
        if count is None:
            return f"for Rstream, rows in a tuple index on {key} (RING ON T)"
        return f"rows in a tuple index on {key} (RING ON T), of which the first {count} are read at a slide"


@dataclass(frozen=True, slots=True)
class OutputExec(Exec):
    @property
    def pattern(self) -> Pattern:
        """Of the result: over INTERNAL windows it does not expire, though the state below does."""
        return output_pattern(self.logical)

    @property
    def state(self) -> tuple[Held, ...]:
        return tuple(Held("result", buffer) for buffer in self.estimate.buffers)


@dataclass(frozen=True, slots=True)
class Choices:
    """What a user may force with WITH (…)."""

    strategy: Strategy = Strategy.UPA
    join: JoinAlgorithm | None = None


def to_physical(estimate: Estimate, choices: Choices) -> Exec:
    """Implementations for the operators of an estimated plan."""
    is_restoring = isinstance(estimate.node, algebra.Output) and estimate.node.kind in (
        OutputKind.ISTREAM_RESTORE,
        OutputKind.RSTREAM_RESTORE,
    )
    return _physical(estimate, choices, is_restoring)


_PLAIN: dict[type[Node], type[Exec]] = {
    algebra.Stream: ScanExec,
    algebra.Relation: ScanExec,
    algebra.Archive: ScanExec,
    algebra.Window: WindowExec,
    algebra.Select: SelectExec,
    algebra.Project: ProjectExec,
    algebra.Union: UnionExec,
    algebra.RelationJoin: RelationJoinExec,
    algebra.SemiJoin: SemiJoinExec,
    algebra.Aggregate: AggregateExec,
    algebra.Except: MultiplicityExec,
    algebra.Intersect: MultiplicityExec,
    algebra.Limit: LimitExec,
    algebra.Output: OutputExec,
}


def _physical(estimate: Estimate, choices: Choices, is_restoring: bool) -> Exec:
    inner = replace(choices, strategy=strategy_below(estimate.node, choices.strategy))
    inputs = tuple(_physical(below, inner, is_restoring) for below in estimate.inputs)
    match estimate.node:
        case algebra.Join():
            return JoinExec(estimate, inputs, _join_algorithm(estimate, choices, is_restoring))
        case algebra.Distinct():
            return DistinctExec(estimate, inputs, _distinct_variant(estimate, choices.strategy))
    return _PLAIN[type(estimate.node)](estimate, inputs)


def _join_algorithm(estimate: Estimate, choices: Choices, is_restoring: bool) -> JoinAlgorithm:
    """Lazy where the answer is wanted periodically, eager where it is wanted at all times (5.2).

    Expiration is lazy where rows expire by their timestamps; negative tuples must be processed at once.
    """
    if choices.join is not None:
        return choices.join
    if estimate.period:
        return JoinAlgorithm.LAZY_RESTORE if is_restoring else JoinAlgorithm.LAZY
    is_strict = any(pattern_of(below.node) is Pattern.STR or below.announces for below in estimate.inputs)
    return JoinAlgorithm.EAGER if is_strict else JoinAlgorithm.EAGER_LAZY_EXPIRATION


def _distinct_variant(estimate: Estimate, strategy: Strategy) -> DistinctVariant:
    """δ* needs rows that expire as foreseen; with strict input counting sends fewer tuples (3.5.2)."""
    below = estimate.inputs[0]
    if pattern_of(below.node) is Pattern.STR:
        return DistinctVariant.COUNTING
    is_delta = strategy is Strategy.UPA and not below.announces
    return DistinctVariant.DELTA_STAR if is_delta else DistinctVariant.STORING
