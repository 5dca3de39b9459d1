"""One-time aggregates from a synopsis: what standing queries keep of a stream answers questions, too.

A question that has the stream, the filter and the grouping of a synopsis, asks for no other measures, and
whose window begins and ends on edges of its panes, is looked up in the pane files of the checkpoint; no row
of the stream is touched. A window without SLIDE is that of the last edge, which the answer names.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa

from sash.errors import CheckpointError
from sash.lang import algebra
from sash.lang.bound import BoundSelect, StreamDefinition
from sash.lang.periodic import periodic_select
from sash.operators.delta import one_array
from sash.operators.order import sort_order
from sash.plan.measures import frequent_of
from sash.plan.panes import last_boundary
from sash.plan.periodic import PeriodicPlan, SynopsisSpec
from sash.plan.rules.transform import bottom_up
from sash.runtime.clock import Streams
from sash.runtime.pane_files import PaneFile, read_partials
from sash.runtime.retained import Gone
from sash.synopses.basic_interval import BasicIntervalSynopsis
from sash.synopses.combined import Combined
from sash.synopses.refresh import looked_up


@dataclass(frozen=True, slots=True)
class KeptPanes:
    """The synopses of a run after a commit: what they are, who reads them, and their files.

    Those that are `divided` are among so many `partitions`.
    """

    plan: PeriodicPlan
    directory: Path
    files: tuple[PaneFile, ...]
    divided: frozenset[str] = frozenset()
    partitions: int = 1

    def parts(self, spec: SynopsisSpec) -> Iterator[BasicIntervalSynopsis | Combined]:
        """A synopsis with all that its files hold; one that is divided part by part, as one fits in here."""
        is_divided = spec.name in self.divided
        for partition in range(self.partitions) if is_divided else (None,):
            yield self._synopsis(spec, partition)

    def _synopsis(self, spec: SynopsisSpec, partition: int | None) -> BasicIntervalSynopsis | Combined:
        if spec.cover is None:
            return self._loaded(spec, partition)
        signed = spec.cover.signed
        loaded = ((self._loaded(self.plan.synopsis(name), partition), sign) for name, sign in signed)
        return Combined(spec, list(loaded))

    def _loaded(self, spec: SynopsisSpec, partition: int | None) -> BasicIntervalSynopsis:
        synopsis = BasicIntervalSynopsis(spec)
        specs = (spec, *spec.counting())
        try:
            for partial in read_partials(self.directory, self.files, specs, partition, self.partitions):
                synopsis.absorb(partial)
        except CheckpointError as failure:
            gone = next((f.name for f in self.files if not (self.directory / f.name).exists()), None)
            if gone is None:
                raise
            raise Gone(gone) from failure
        return synopsis

    def horizon(self, spec: SynopsisSpec, through: int) -> int:
        """All panes that end after this instant are there."""
        return max(self._horizon(name, through) for name in spec.bases)

    def _horizon(self, name: str, through: int) -> int:
        windows = [query.window for query in self.plan.readers_of(name)]
        return min((last_boundary(through, w.slide) - w.range for w in windows), default=through)


@dataclass(frozen=True, slots=True)
class Asked:
    """A question that a synopsis may answer: what it selects, of what, and how that is ordered."""

    select: BoundSelect
    spec: algebra.WindowSpec
    order: tuple[algebra.SortKey, ...]
    limit: int | None
    fields: tuple[algebra.Field, ...]

    @staticmethod
    def of(plan: algebra.Output) -> Asked | None:
        """None if it is not an aggregate over one window of RANGE."""
        node: algebra.Node = plan.input
        order: tuple[algebra.SortKey, ...] = ()
        limit = None
        if isinstance(node, algebra.Limit):
            order, limit = node.order, node.count
            node = node.input
        windows = [below for below in node.walk() if isinstance(below, algebra.Window)]
        if len(windows) != 1 or windows[0].spec.range is None:
            return None
        spec = windows[0].spec
        # What the periodic runtime takes has a SLIDE and no OFFSET; both are looked after here.
        plain = replace(spec, slide=spec.slide or spec.range, offset=0)
        bare = _with_window(algebra.Output(node, plan.kind, plan.window), plain)
        select = periodic_select(bare)
        return None if select is None else Asked(select, spec, order, limit, plan.fields)


def is_covered(asked: Asked, kept: KeptPanes, through: int) -> bool:
    """Whether a synopsis answers a one-time query."""
    return any(_spans(asked, spec, kept, through) is not None for spec in kept.plan.synopses)


def from_synopsis(
    asked: Asked, kept: KeptPanes, streams: Streams, through: int
) -> tuple[pa.Table, int] | None:
    """The answer of a one-time query and its instant; None if no synopsis covers it."""
    for spec in kept.plan.synopses:
        found = _spans(asked, spec, kept, through)
        if found is not None:
            instant, left, right = found
            return _answer(asked, spec, kept, streams, instant, (left, right)), instant
    return None


def _spans(asked: Asked, spec: SynopsisSpec, kept: KeptPanes, through: int) -> tuple[int, int, int] | None:
    """The instant, and the first and the last edge of the window then, if the synopsis has them."""
    select = asked.select
    if not spec.covers_groups(select) or (asked.spec.offset and frequent_of(select.aggregates)):
        return None
    panes = spec.panes
    if asked.spec.slide is None:
        last, count = panes.last_closed(through), len(panes.offsets)
        instants: Iterator[int] = (panes.right_edge(last - back) for back in range(count))
    else:
        instants = iter((last_boundary(through, asked.spec.slide),))
    for instant in instants:
        left, right = instant - select.window.range, instant - asked.spec.offset
        edges = (panes.right_edge(panes.number_at(edge)) == edge for edge in (left, right))
        if all(edges) and left >= kept.horizon(spec, through):
            return instant, left, right
    return None


def _answer(
    asked: Asked,
    spec: SynopsisSpec,
    kept: KeptPanes,
    streams: Streams,
    instant: int,
    edges: tuple[int, int],
) -> pa.Table:
    stream: StreamDefinition = kept.plan.stream(spec.stream)
    first = streams[spec.stream].first
    tables = []
    for synopsis in kept.parts(spec):
        synopsis.seal(instant)
        synopsis.move_to(instant)
        table = looked_up(synopsis, asked.select, stream, synopsis.between(*edges), edges)
        # No part has more of the answer than the answer is.
        tables.append(_limited(asked, table))
    if first is None or instant < first:
        return tables[0].slice(0, 0)
    return tables[0] if len(tables) == 1 else _limited(asked, pa.concat_tables(tables))


def _limited(asked: Asked, table: pa.Table) -> pa.Table:
    """Rows in the order that is asked for, as many as are asked for."""
    if asked.order:
        columns = [one_array(column) for column in table.columns]
        table = table.take(pa.array(sort_order(columns, asked.fields, asked.order)))
    return table if asked.limit is None else table.slice(0, asked.limit)


def _with_window(node: algebra.Output, spec: algebra.WindowSpec) -> algebra.Output:
    """The plan with another window in the place of its only one."""

    def changed(below: algebra.Node) -> algebra.Node:
        if isinstance(below, algebra.Window):
            return replace(below, spec=spec)
        return below

    plan = bottom_up(node, changed)
    assert isinstance(plan, algebra.Output)
    return plan
