"""Synopses in partitions: what a partition does for the groups that belong to it, in whatever process.

A grouping that is too large for the driver is divided by a hash of its keys. Each partition has the same
synopses and refreshers as the driver would have, over its own groups, and gives the answers of those; the
driver puts them together (`synopses/changes.py`).

The truth is in the pane files: those of a partition's own groups, and older ones with all groups, of the time
when the driver had them. So moving a grouping costs the driver nothing but to forget it: partitions read what
it has written. A partition whose state is not there, or of another batch, begins with the files, too.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa

from sash.engine.durability.pane_files import PaneFile, read_partials, save_partials
from sash.engine.observe.report import Held
from sash.engine.periodic.groups import Reached
from sash.engine.periodic.synopsis_set import Firsts, Readers, SynopsisSet
from sash.lang.bound import IndexDefinition
from sash.operators.preaggregate import Partial
from sash.plan.periodic import PeriodicPlan


@dataclass(frozen=True, slots=True)
class PartitionedPlan:
    """What partitions must know of the synopses that they have and of the queries that read them."""

    plan: PeriodicPlan
    parts: tuple[Readers, ...]
    indexes: tuple[IndexDefinition, ...]

    @staticmethod
    def of(
        plan: PeriodicPlan,
        parts: Sequence[Readers],
        divided: Mapping[str, str],
        indexes: Sequence[IndexDefinition],
    ) -> PartitionedPlan:
        specs = tuple(spec for spec in plan.synopses if (spec.of or spec.name) in divided)
        names = {spec.name for spec in specs}
        queries = tuple(query for query in plan.queries if query.synopsis in names)
        return PartitionedPlan(
            PeriodicPlan(plan.streams, specs, queries),
            tuple(part.only(names) for part in parts),
            tuple(indexes),
        )


@dataclass(frozen=True, slots=True)
class PartitionedTurn:
    """The version of the plan that holds for a batch, and the pane files that were live before it."""

    version: int
    files: tuple[PaneFile, ...]

    def for_one(self, partition: int, of: int) -> PartitionedTurn:
        """What one partition of so many needs of it."""
        return PartitionedTurn(self.version, tuple(f for f in self.files if f.has_groups_of(partition, of)))


@dataclass(frozen=True, slots=True)
class Moment:
    """How far time has come (or moved on), by stream, and the first instants of streams."""

    throughs: Mapping[str, int]
    firsts: Firsts


@dataclass(frozen=True, slots=True)
class PartitionedResult:
    """What a partition gives for a batch: answers of its groups, its files, and what it holds by synopsis.

    `notes` has what it has chosen.
    """

    partition: int
    answers: Mapping[str, Sequence[pa.Table]]
    files: tuple[PaneFile, ...] = ()
    held: Mapping[str, Held] = field(default_factory=dict)
    notes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


class PartitionedSynopses:
    """The synopses of one partition. `plan_of` gives the plan of a version."""

    def __init__(
        self,
        plan_of: Callable[[int], PartitionedPlan],
        partition: int,
        of: int,
        directory: Path,
        *,
        durable: bool,
    ) -> None:
        self._plan_of = plan_of
        self._partition = partition
        self._of = of
        self._directory = directory
        self._durable = durable
        self.forget()

    def forget(self) -> None:
        """Hold nothing."""
        self._executor = SynopsisSet(is_part=True)
        self._divided = PartitionedPlan(PeriodicPlan((), (), ()), (), ())
        self._version = self._batch = -1
        # What the last batch gave, for who asks again.
        self._given: PartitionedResult | None = None

    def take(
        self, batch: int, turn: PartitionedTurn, before: Moment, after: Moment, partials: Sequence[Partial]
    ) -> PartitionedResult:
        """Take part in a batch; asked again, it gives the same again."""
        if self._given is not None and self._batch == batch:
            return self._given
        try:
            self._go_to(batch - 1, turn, before)
            self._given = self._apply(batch, after, partials)
        except BaseException:
            # What has been done by half must not be gone on with.
            self.forget()
            raise
        self._batch = batch
        return self._given

    def _go_to(self, batch: int, turn: PartitionedTurn, moment: Moment) -> None:
        """Have the state after a batch, of the synopses that there are now."""
        if self._batch != batch:
            self.forget()
        if self._version == turn.version:
            return
        self._divided = self._plan_of(turn.version)
        executor, known = self._executor, set(self._executor.groups)
        executor.change(self._divided.plan, self._divided.parts)
        executor.index_values(self._divided.indexes)
        new = executor.groups.keys() - known
        specs = [spec for spec in self._divided.plan.synopses if (spec.of or spec.name) in new]
        for partial in read_partials(self._directory, turn.files, specs, self._partition, self._of):
            executor.absorb(partial)
        executor.begin(moment.firsts)
        # Here every boundary is answered.
        executor.catch_up(Reached(moment.throughs, {}, ()), new)
        self._version = turn.version

    def _apply(self, batch: int, after: Moment, partials: Sequence[Partial]) -> PartitionedResult:
        """`after.throughs` has the streams whose time has moved."""
        executor = self._executor
        for partial in partials:
            executor.absorb(partial)
        files = save_partials(
            self._directory,
            batch,
            partials,
            self._divided.plan.synopses,
            self._partition,
            self._of,
            durable=self._durable,
        )
        executor.begin(after.firsts)
        answers: dict[str, list[pa.Table]] = defaultdict(list)
        for name, table in executor.answer(after.throughs):
            answers[name].append(table)
        executor.settle(after.throughs)
        notes = {name: group.notes for name, group in executor.groups.items()}
        return PartitionedResult(self._partition, dict(answers), tuple(files), executor.held, notes)
