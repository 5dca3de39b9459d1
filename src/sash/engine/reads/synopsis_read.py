"""One-time aggregates from a synopsis: what standing queries keep of a stream answers questions, too.

A question that has the stream, the filter and the grouping of a synopsis, asks for no other measures, and
whose window begins and ends on edges of its panes, is looked up in it: in memory, in the process of the run,
or in its pane files; no row of the stream is touched. A window without SLIDE is that of the last edge, which
the answer names. A synopsis answers only where it is complete since the beginning of the window.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import pyarrow as pa

from sash.engine.durability.pane_files import PaneFile, read_partials
from sash.engine.ingest.retained_files import Gone
from sash.engine.ingest.watermarks import Streams
from sash.engine.periodic.groups import QueryGroup, latest
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
from sash.synopses.basic_interval import BasicIntervalSynopsis
from sash.synopses.combined import Combined
from sash.synopses.refresh import looked_up


@dataclass(frozen=True, slots=True)
class KeptPanes:
    """The synopses of a run after a commit: what they are, their files, and since when they are complete.

    Those that are `divided` are among so many `partitions`. They know everything that came after the instant
    in `complete_since`; those that are not named have everything. `groups`: where others have their rows in
    memory, which may be read in the run's turn only. `has_all_files`: those have files, too.
    """

    plan: PeriodicPlan
    directory: Path | None
    files: tuple[PaneFile, ...]
    divided: frozenset[str] = frozenset()
    partitions: int = 1
    complete_since: Mapping[str, int] = field(default_factory=dict)
    groups: Mapping[str, QueryGroup] = field(default_factory=dict)
    has_all_files: bool = True

    def has_files(self, spec: SynopsisSpec) -> bool:
        """Whether a synopsis can be read from files."""
        return self.directory is not None and (self.has_all_files or spec.name in self.divided)

    def in_files(self) -> KeptPanes:
        """The same for who reads files."""
        return replace(self, groups={}) if self.groups else self

    def in_memory(self, spec: SynopsisSpec) -> QueryGroup | None:
        """Where a synopsis is in this process."""
        return None if spec.name in self.divided else self.groups.get(spec.name)

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
        assert self.directory is not None
        directory = self.directory
        synopsis = BasicIntervalSynopsis(spec)
        specs = (spec, *spec.counting())
        try:
            for partial in read_partials(directory, self.files, specs, partition, self.partitions):
                synopsis.absorb(partial)
        except CheckpointError as failure:
            gone = next((f.name for f in self.files if not (directory / f.name).exists()), None)
            if gone is None:
                raise
            raise Gone(gone) from failure
        return synopsis

    def since(self, spec: SynopsisSpec) -> int | None:
        """A synopsis knows everything that came after this instant; None: everything."""
        return latest(*(self.complete_since.get(name) for name in spec.bases))


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


@dataclass(frozen=True, slots=True)
class Covering:
    """A synopsis that answers a question as of `instant`, over the window (left, right]."""

    spec: SynopsisSpec
    instant: int
    left: int
    right: int
    is_in_memory: bool


def covering(asked: Asked, kept: KeptPanes, through: int) -> Covering | None:
    """The synopsis that answers a one-time query, one in memory first; None if there is none."""
    first: Covering | None = None
    for spec in kept.plan.synopses:
        group = kept.in_memory(spec)
        can_be_read = group is not None and group.can_be_asked(asked.select)
        if not can_be_read and not kept.has_files(spec):
            continue
        found = _spans(asked, spec, kept, through)
        if found is not None:
            chosen = Covering(spec, *found, can_be_read)
            if can_be_read:
                return chosen
            first = first or chosen
    return first


def from_synopsis(asked: Asked, found: Covering, kept: KeptPanes, streams: Streams) -> pa.Table:
    """The answer of a one-time query from the synopsis that covers it."""
    edges = found.left, found.right
    return _answer(asked, found.spec, kept, streams, found.instant, edges, is_in_memory=found.is_in_memory)


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
    since = kept.since(spec)
    for instant in instants:
        left, right = instant - select.window.range, instant - asked.spec.offset
        edges = (panes.right_edge(panes.number_at(edge)) == edge for edge in (left, right))
        if all(edges) and (since is None or left >= since):
            return instant, left, right
    return None


def _answer(
    asked: Asked,
    spec: SynopsisSpec,
    kept: KeptPanes,
    streams: Streams,
    instant: int,
    edges: tuple[int, int],
    *,
    is_in_memory: bool,
) -> pa.Table:
    stream: StreamDefinition = kept.plan.stream(spec.stream)
    first = streams[spec.stream].first
    tables = []
    synopses = kept.parts(spec)
    if is_in_memory:
        group = kept.in_memory(spec)
        assert group is not None
        synopses = iter((group.synopsis,))
    for synopsis in synopses:
        if not is_in_memory:
            synopsis.seal(instant)
            synopsis.move_to(instant)
        table = looked_up(synopsis, asked.select, stream, synopsis.between(*edges), edges)
        # No part has more of the answer than the answer is.
        tables.append(_limited(asked, table))
    if first is None or instant < first:
        return tables[0].slice(0, 0)
    return tables[0] if len(tables) == 1 else _limited(asked, pa.concat_tables(tables))


def _limited(asked: Asked, table: pa.Table) -> pa.Table:
    """Rows in the order that is asked for, else in that of their values, as many as are asked for."""
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
