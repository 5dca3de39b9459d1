"""Update patterns: how the rows on an edge of a plan come to expire (002, sections 3.2 and 3.5.1).

| pattern | name                    | an edge has it if its rows …                                      |
|---------|-------------------------|-------------------------------------------------------------------|
| MON     | monotonic               | never expire                                                      |
| WKS     | weakest non-monotonic   | expire in the order of arrival, all after the same time           |
| WK      | weak non-monotonic      | expire at times that are known when they arrive, in another order |
| STR     | strict non-monotonic    | may expire at times that nobody can know when they arrive         |

Propagation follows the rules of 3.5.1. Where two of its labels would let a plan use a structure that relies
on more than holds, the more complex label is given:

- a union of windows of different lengths is WK (3.5.1 says WKS): its rows do not expire in order of arrival;
- a join of one window with streams that do not expire is WK (3.3.2 says WKS): a row that joins late has less
  of its window's row left to live than one that joins early;
- a window over a stream with LIFETIME BY is WK, also an unbounded one: each row lives as long as its source
  says, or as the window lets it if that is shorter, and a row may outlive those that come after it;
- EXISTS is WK like duplicate elimination: a row expires with its youngest match and is appended again if a
  younger one has come meanwhile. INTERSECT counts copies on both sides, which makes it STR like EXCEPT.

INTERNAL windows never expire results, but state is maintained as if they did (3.3.2). So edges are labelled
as if windows were external, and only the output of the whole plan takes them as monotonic.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator
from functools import lru_cache

from sash.errors import InternalError
from sash.lang import algebra
from sash.lang.algebra import Node, OutputKind, WindowKind


class Pattern(enum.IntEnum):
    """In order of complexity."""

    MON = 0
    WKS = 1
    WK = 2
    STR = 3

    @property
    def is_predictable(self) -> bool:
        """Whether every row's expiration is known when it arrives, so that no negative tuples are needed."""
        return self is not Pattern.STR


def pattern_of(node: Node) -> Pattern:
    """The pattern of the edge that leaves `node` towards another operator or its state."""
    return _pattern(node, False)


def output_pattern(plan: Node) -> Pattern:
    """The pattern of a query's result, in which rows over INTERNAL windows do not expire."""
    return _pattern(plan, True)


@lru_cache(maxsize=16_384)
def _pattern(node: Node, internal_is_monotonic: bool) -> Pattern:
    inputs = [_pattern(child, internal_is_monotonic) for child in node.children]
    match node:
        case algebra.Stream():
            return Pattern.MON
        case algebra.Relation():
            return Pattern.STR if node.is_revised else Pattern.MON
        case algebra.Archive():
            return Pattern.STR
        case algebra.Window():
            return _window(node, internal_is_monotonic)
        case algebra.Select() | algebra.Project():
            return inputs[0]
        case algebra.Union():
            return _union(node, inputs)
        case algebra.Join():
            return _weak(inputs)
        case algebra.RelationJoin():
            return Pattern.STR if node.relation.is_revised else inputs[0]
        case algebra.SemiJoin():
            return Pattern.STR if node.is_anti else _weak(inputs)
        case algebra.Distinct():
            return _weak(inputs)
        case algebra.Aggregate():
            # An internal window gives an append-only stream of values; any other replaces the old value.
            return Pattern.MON if internal_is_monotonic and _is_internal(node) else Pattern.STR
        case algebra.Except() | algebra.Intersect() | algebra.Limit():
            return Pattern.STR
        case algebra.Output():
            return _output(node, inputs[0])
    raise InternalError(f"no update pattern for {type(node).__name__}")


def _window(node: algebra.Window, internal_is_monotonic: bool) -> Pattern:
    spec = node.spec
    if spec.is_internal and internal_is_monotonic:
        return Pattern.MON
    if spec.kind is WindowKind.ROWS:
        return Pattern.STR
    if spec.kind is not WindowKind.NOW and stream_with_lifetimes(node) is not None:
        return Pattern.WK
    return Pattern.MON if spec.kind is WindowKind.UNBOUNDED else Pattern.WKS


def stream_with_lifetimes(window: algebra.Window) -> algebra.Stream | None:
    """A stream under a window whose source says how long each row lives (LIFETIME BY)."""
    return next((stream for stream in _streams(window.input) if stream.has_lifetime), None)


def _streams(node: Node) -> Iterator[algebra.Stream]:
    """The streams whose rows a part of a plan has as they came."""
    match node:
        case algebra.Stream():
            yield node
        case algebra.Select() | algebra.Project() | algebra.Union():
            for child in node.children:
                yield from _streams(child)


def _weak(inputs: list[Pattern]) -> Pattern:
    """Rule 3, with streams that never expire added: what never expires on its inputs never does after."""
    greatest = max(inputs)
    return Pattern.WK if greatest is Pattern.WKS else greatest


def _union(node: algebra.Union, inputs: list[Pattern]) -> Pattern:
    """Rule 2; rows of windows of one length keep their order."""
    if max(inputs) is Pattern.WKS:
        lengths = {lifetime(child) for child in node.children}
        return Pattern.WKS if len(lengths) == 1 else Pattern.WK
    return max(inputs)


def _output(node: algebra.Output, answer: Pattern) -> Pattern:
    match node.kind:
        case OutputKind.VIEW:
            return answer
        case OutputKind.WSTREAM:
            assert node.window is not None
            return Pattern.STR if node.window.kind is WindowKind.ROWS else Pattern.WKS
        case _:
            # Istream, Dstream and Rstream are streams: what they say is never taken back.
            return Pattern.MON


def lifetime(node: Node) -> int | None:
    """How long the rows of a WKS edge live, in microseconds; None where there is no one length."""
    match node:
        case algebra.Window() if node.spec.is_time_based:
            return 0 if node.spec.kind is WindowKind.NOW else (node.spec.range or 0) - node.spec.offset
        case algebra.Select() | algebra.Project():
            return lifetime(node.input)
        case algebra.RelationJoin() if not node.relation.is_revised:
            return lifetime(node.input)
        case algebra.Union():
            lengths = {lifetime(child) for child in node.children}
            return lengths.pop() if len(lengths) == 1 else None
    return None


def _is_internal(node: Node) -> bool:
    """Whether all windows below are INTERNAL, and there is one."""
    windows = [below for below in node.walk() if isinstance(below, algebra.Window)]
    return bool(windows) and all(window.spec.is_internal for window in windows)
