"""The last committed state of a checkpoint, as somebody sees it who does not run it.

Nothing is locked and nothing is written: the manifest is replaced as a whole, and the files that it names do
not change. So a pipeline may run on the checkpoint meanwhile; where it has removed a file in between, the
newer manifest is taken, which does not need it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

from sash.engine.durability.checkpoint import Checkpoint, Manifest
from sash.engine.durability.plan_store import StoredPlan
from sash.engine.ingest.relations import Given
from sash.engine.ingest.retained_files import RETAINED, Snapshot
from sash.engine.ingest.watermarks import Clock
from sash.engine.observe.report import RefreshStats
from sash.engine.periodic.refreshing import elastic_fares, exact_fares, join_fares
from sash.engine.reads.archive_read import (
    known_archive,
    once_archived,
    shown_archives,
    shows_archives,
    without_archives,
)
from sash.engine.reads.one_time_query import OnceAnswer, look
from sash.engine.reads.snapshot_registry import SnapshotRegistry
from sash.engine.reads.synopsis_read import KeptPanes
from sash.errors import CheckpointError, DuplicateName, UserError
from sash.lang import Known, Program, bind_program
from sash.lang.bound import StreamDefinition
from sash.plan.join_guests import JoinGuest, served
from sash.plan.join_synopses import SharedJoin, readers_in
from sash.plan.periodic import PeriodicPlan, PeriodicQuery, SynopsisSpec
from sash.plan.run_plan import reads_archives
from sash.scheduling import report_of
from sash.sharing.of_plan import shared_of
from sash.transactions.events import Isolation

T = TypeVar("T")
# How often a newer manifest is taken.
_TRIES = 20


def question_in(text: str, known: Known) -> Program:
    """The program of one SELECT, or of SHOW ARCHIVES, over what is known."""
    # The last ';' may be left away; it stands on a line of its own in case of a comment before it.
    ended = text if text.rstrip().endswith(";") else f"{text}\n;"
    program = bind_program(ended, known)
    if len(program.statements) != 1 or not (program.one_time or shows_archives(program)):
        raise UserError(
            "a question is one SELECT, or SHOW ARCHIVES",
            hint="ask for one thing at a time",
            id="not-a-question",
        )
    return program


def ask_archives(directories: Sequence[Path], text: str, version: int | None = None) -> OnceAnswer:
    """Answer a question about archives, each called as CREATE ARCHIVE called it; no pipeline has to run.

    `version` is one that they still have, the newest if it is left out.
    """
    known = Known()
    for directory in directories:
        archive = known_archive(directory, version)
        if archive.name in known.archives:
            raise DuplicateName(
                f"two archives are called '{archive.name}'", hint="ask about one of them at a time"
            )
        known.archives[archive.name] = archive
    program = question_in(text, known)
    if shows_archives(program):
        return shown_archives(program, Path(), version)
    return once_archived(without_archives(program.one_time[0], program, Path(), version), Path())


@dataclass(frozen=True, slots=True)
class CheckpointReader:
    """A checkpoint that is only read."""

    directory: Path

    def ask(self, text: str, base_dir: Path | None = None, isolation: Isolation | None = None) -> OnceAnswer:
        """Answer a SELECT over the windows as they are, or SHOW ARCHIVES.

        Relative paths of relations count from `base_dir`; left out, from where the pipeline's do.
        """
        program = question_in(text, self.known())
        base_dir = base_dir or self._checkpoint.base_dir
        if shows_archives(program):
            return shown_archives(program, base_dir)
        (question,) = program.one_time
        given: Given = {}
        if reads_archives(question.plan):
            found = without_archives(question, program, base_dir)
            if not found.reads_changes:
                return once_archived(found, base_dir)
            program, given = found.program, found.given
        asked = replace(program, queries=(), archives=(), indexes=())
        retains = {s.name: s.retain for s in asked.streams if s.retain is not None}

        def follow() -> None:
            if registry.latest is None or self._manifest().batch != registry.latest.batch:
                registry.commit(self.snapshot(), retains)

        registry = SnapshotRegistry(follow=follow)
        follow()
        return look(asked, registry, base_dir, isolation, given)

    def snapshot(self) -> Snapshot:
        """The state after the last committed batch."""
        manifest, plan, known = self._again(lambda m: (m, self._periodic(m), self._known(m)))
        # The feeds of relations have no SLACK.
        slacks = {
            name: known.streams[name].slack if name in known.streams else 0 for name in manifest.streams
        }
        return Snapshot(
            self.directory / RETAINED,
            manifest.batch,
            Clock(slacks, frozenset(slacks.keys() - known.streams.keys())),
            manifest.streams,
            manifest.passed,
            manifest.kept,
            KeptPanes(
                plan,
                self._checkpoint.panes.directory,
                manifest.panes,
                frozenset(manifest.divided),
                manifest.partitions or 1,
                manifest.held_from,
            ),
        )

    def fares(self) -> RefreshStats:
        """How the queries of the run that synopses answer are refreshed."""
        manifest, plan, joins, watermarks = self._again(
            lambda manifest: (
                manifest,
                self._periodic(manifest),
                self._joined(manifest),
                self._watermarks(manifest),
            )
        )
        shared, found = shared_of(plan, joins), {}
        for query in plan.queries:
            row, name = manifest.refreshes.get(query.name), query.name
            fares = exact_fares(query.window.slide, watermarks[name])
            if row is not None:
                fares = elastic_fares(report_of(row), manifest.lasts.get(name), manifest.policy)
            partitions = (manifest.partitions or 1) if query.synopsis in manifest.divided else 0
            found[name] = replace(fares, shared=shared[name], partitions=partitions)
        for name, (join, reader) in readers_in(joins).items():
            found[name] = replace(join_fares(join, reader, watermarks[name]), shared=shared[name])
        return RefreshStats(manifest.refresh, manifest.policy, found)

    def known(self) -> Known:
        """The streams, relations and queries of the run."""
        return self._again(self._known)

    def _known(self, manifest: Manifest) -> Known:
        known = Known()
        for part in manifest.parts:
            program = self._stored_plan(part.number).program()
            known.streams.update({stream.name: stream for stream in program.streams})
            known.relations.update({relation.name: relation for relation in program.relations})
            known.queries.update({q.name: q for q in program.queries if q.name not in part.dropped})
            known.archives.update({a.name: a for a in program.archives if a.name not in part.dropped})
        return known

    def _periodic(self, manifest: Manifest) -> PeriodicPlan:
        """The synopses of the run, and the queries that read them."""
        hosts: dict[str, SynopsisSpec] = {}
        streams: dict[str, StreamDefinition] = {}
        queries: list[PeriodicQuery] = []
        for part in manifest.parts:
            plan = self._stored_plan(part.number).periodic(hosts)
            hosts.update({spec.name: spec for spec in plan.synopses})
            streams.update({stream.name: stream for stream in plan.streams})
            queries += [query for query in plan.queries if query.name not in part.dropped]
        return PeriodicPlan(tuple(streams.values()), tuple(hosts.values()), tuple(queries))

    def _watermarks(self, manifest: Manifest) -> dict[str, int | None]:
        """How far each query has been answered."""
        parts = manifest.parts
        return {name: part.through for part in parts for name in self._stored_plan(part.number).sinks}

    def _joined(self, manifest: Manifest) -> list[SharedJoin]:
        """The join synopses of the run, with all who read them."""
        made: list[SharedJoin] = []
        guests: list[JoinGuest] = []
        dropped: dict[str, Collection[str]] = {}
        for part in manifest.parts:
            own, coming = self._stored_plan(part.number).joined(made)
            made.extend(own)
            guests.extend(left for guest in coming if (left := guest.without(part.dropped)).queries)
            dropped.update({join.name: part.dropped for join in own})
        return [join for each in made for join in served([each], dropped[each.name], guests)]

    def _stored_plan(self, number: int) -> StoredPlan:
        return self._checkpoint.stored_plan(number)

    @property
    def _checkpoint(self) -> Checkpoint:
        return Checkpoint(self.directory)

    def _manifest(self) -> Manifest:
        manifest = self._checkpoint.read()
        if manifest is None:
            raise CheckpointError(
                f"'{self.directory}' has no committed state",
                hint="name the directory that a run was given as --checkpoint; "
                "a run that has just begun commits with its first batch",
                id="checkpoint-empty",
            )
        return manifest

    def _again(self, read: Callable[[Manifest], T]) -> T:
        """What is read of the files that a manifest names; they may be gone if there is a newer one."""
        manifest = self._manifest()
        for _ in range(_TRIES):
            try:
                return read(manifest)
            except CheckpointError:
                newer = self._manifest()
                if newer.parts == manifest.parts:
                    raise
                manifest = newer
        return read(manifest)
