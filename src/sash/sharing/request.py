"""What a query asks of synopses, without how often: the form in which rules compare queries.

`request_of` takes periodic queries over one stream, and aggregates over a join of two windows of streams. The
source of the latter is the join without the lengths of its windows and without its conditions on rows, in
the one form that equal joins have (`plan/canonical.py`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

from sash.lang import algebra
from sash.lang.algebra import Node, WindowKind
from sash.lang.bound import AggregateCall, QueryDefinition, Scalar
from sash.lang.bound import Window as PeriodicWindow
from sash.lang.periodic import renamed
from sash.plan.canonical import canonical
from sash.plan.duplicates import Algebra, algebra_of, counts_matter
from sash.plan.measures import ROWS, Measure, measures_of
from sash.plan.panes import Panes
from sash.plan.predicates import Predicate, predicate_of
from sash.plan.scalars import conjunction

_INSENSITIVE = ("MIN", "MAX")


@dataclass(frozen=True, slots=True)
class Request:
    """`windows` has one length for a stream, two for a join.

    `answer` is all that must be equal for one answer to serve two queries, besides `windows`, the source, the
    condition and the keys.
    """

    name: str
    source: str | Node
    where: Scalar | None
    keys: tuple[Scalar, ...]
    measures: tuple[Measure, ...]
    windows: tuple[int, ...]
    slide: int
    algebra: Algebra
    answer: object = field(default=None, repr=False)
    calls: tuple[AggregateCall, ...] = ()

    @property
    def predicate(self) -> Predicate:
        return predicate_of(self.where)

    @property
    def is_join(self) -> bool:
        return len(self.windows) == 2

    @property
    def longest(self) -> int:
        return max(self.windows)

    @property
    def spread(self) -> int:
        """How much longer one window of a join is than the other."""
        return self.longest - min(self.windows)

    @property
    def panes(self) -> Panes:
        """The coarsest panes that its windows begin and end on; a join's are all of one length."""
        if self.is_join:
            width = math.gcd(*self.windows, self.slide)
            return Panes(width, (width,))
        panes = Panes.covering((PeriodicWindow(self.windows[0], self.slide),))
        assert panes is not None, "one window has at most two edges a slide"
        return panes


def request_of(query: QueryDefinition) -> Request | None:
    """None where no synopsis answers the query."""
    select = query.select
    if select is None:
        return _join_request(query)
    measures = _measures(select.aggregates)
    kind = algebra_of(measures, counts_matter=counts_matter(select))
    answer = (
        select.is_grouped,
        select.distinct,
        select.aggregates,
        select.having,
        select.outputs,
        select.operator,
    )
    return Request(
        query.name,
        select.stream,
        select.where,
        select.keys,
        measures,
        (select.window.range,),
        select.window.slide,
        kind,
        answer,
        select.aggregates,
    )


def _measures(calls: tuple[AggregateCall, ...]) -> tuple[Measure, ...]:
    return tuple(dict.fromkeys((ROWS, *(m for call in calls for m in measures_of(call)))))


def _join_request(query: QueryDefinition) -> Request | None:
    project = query.plan.input
    if not isinstance(project, algebra.Project):
        return None
    node, having = _below_select(project.input)
    if not isinstance(node, algebra.Aggregate) or any(not _is_simple(call) for call in node.calls):
        return None
    aggregate = node
    node, where = _below_select(aggregate.input)
    if not isinstance(node, algebra.Join) or len(node.inputs) != 2:
        return None
    windows = [_window(side) for side in node.inputs]
    slides = {window.spec.slide for window in windows if window is not None}
    if None in windows or len(slides) != 1 or None in slides:
        return None
    (slide,) = slides
    lengths = tuple(window.spec.range for window in windows if window is not None)
    assert slide is not None
    where = conjunction([part for part in (where, node.residual) if part is not None])
    bare = algebra.Join(tuple(_without_length(side) for side in node.inputs), node.equalities)
    source = canonical(bare)
    names = dict(zip(bare.names, source.names, strict=True))
    calls = tuple(
        replace(call, argument=None if call.argument is None else renamed(call.argument, names))
        for call in aggregate.calls
    )
    measures = _measures(calls)
    matter = any(call.function.value not in _INSENSITIVE for call in calls)
    return Request(
        query.name,
        source,
        where and renamed(where, names),
        tuple(renamed(key, names) for key in aggregate.keys),
        measures,
        tuple(length for length in lengths if length is not None),
        slide,
        algebra_of(measures, counts_matter=matter),
        (calls, having, project.outputs, query.plan.kind),
        calls,
    )


def _is_simple(call: AggregateCall) -> bool:
    return not call.is_distinct and call.function.value in ("COUNT", "SUM", "AVG", *_INSENSITIVE)


def _below_select(node: Node) -> tuple[Node, Scalar | None]:
    return (node.input, node.predicate) if isinstance(node, algebra.Select) else (node, None)


def _window(node: Node) -> algebra.Window | None:
    if not isinstance(node, algebra.Window) or not isinstance(node.input, algebra.Stream):
        return None
    spec = node.spec
    is_plain = spec.kind is WindowKind.RANGE and not spec.offset and not spec.is_internal
    return node if is_plain and spec.range and not node.input.has_lifetime else None


def _without_length(node: Node) -> Node:
    assert isinstance(node, algebra.Window)
    return node.input
