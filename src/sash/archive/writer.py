"""The one who writes an archive.

An update goes in three steps, so that the middle one can run anywhere and in parallel: `prepare` reads the
manifest and says what to do to which sub-index, `rewrite_slot` does it to each of them, `commit` makes what
has been written the next version. `update` does all three here. An update that fails or is killed leaves
the last version; done again, with the same batch, it does the same.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sash.archive.asked import questions
from sash.archive.choice import FIRST_CHOICE
from sash.archive.layout import Layout
from sash.archive.manifest import LayoutEntry, Manifest, Slot, SlotKey
from sash.archive.planning import UpdatePlan, file_stem, plan_update, scheduled_slots
from sash.archive.report import UpdateReport
from sash.archive.rewrite import Rewrites, SlotResult, SlotTask, SlotWork, rewrite_here, rewrite_slot
from sash.archive.segment import read_segment
from sash.archive.snapshot import Snapshot, open_snapshot
from sash.archive.spec import BORN, DIES, ArchiveSpec
from sash.archive.taken import Located, Taken, alive, load_taken, locate, save_taken, strike
from sash.archive.techniques import Order, technique_of
from sash.archive.update import Update, lasting, net
from sash.archive.versions import DATA, Versions
from sash.errors import ArchiveError, InternalError

AUTO = "auto"


@dataclass(frozen=True, slots=True)
class Prepared:
    """An update that is planned: its tasks, and all that is taken back, old and new."""

    plan: UpdatePlan
    layout: Layout
    layout_number: int
    taken: Taken
    unmatched: int
    sought: int

    @property
    def tasks(self) -> tuple[SlotTask, ...]:
        return self.plan.tasks

    def taken_of(self, task: SlotTask) -> Taken | None:
        """What is taken back from the sub-index of a task."""
        if not self.taken:
            return None
        slot = self.plan.slots.get(task.key)
        return self.taken.of(task.key, self.plan.through if slot is None else slot.cleaned)

    def split(self, rows: pa.Table) -> dict[SlotKey, pa.Table]:
        """New rows by the sub-index that takes them."""
        return _split(rows, self.layout, self.layout_number)


class ArchiveWriter:
    """Opens, or makes, the archive in a directory; a technique other than that of the archive begins to
    migrate.

    With `anew` an archive that is there is replaced: its next version is empty. With `durable` a version
    outlives the machine, otherwise only the process.
    """

    def __init__(
        self,
        root: Path,
        spec: ArchiveSpec,
        technique: str = AUTO,
        grid: tuple[int, int] | None = None,
        *,
        seed: int = 0,
        durable: bool = True,
        anew: bool = False,
    ) -> None:
        self.root = root
        self._durable = durable
        self._seed = seed
        self._name = uuid.uuid4().hex
        self._versions = Versions(root)
        self._open = ExitStack()
        self._open.enter_context(self._versions.writing())
        try:
            if anew:
                last = max(self._versions.numbers(), default=-1)
                entry = self._entry(spec, *_chosen(technique, grid))
                asked = questions(root, 0)[1]
                self._publish(Manifest(last + 1, -1, None, spec, {0: entry}, asked=asked))
            else:
                self._manifest = self._first(spec, technique, grid)
                self._versions.collect()
        except BaseException:
            self.close()
            raise

    def _first(self, spec: ArchiveSpec, technique: str, grid: tuple[int, int] | None) -> Manifest:
        entry = self._entry(spec, *_chosen(technique, grid))
        if not self._versions.numbers():
            # Questions that were asked of an archive that was here before are not about this one.
            return Manifest(0, -1, None, spec, {0: entry}, asked=questions(self.root, 0)[1])
        manifest, lease = self._versions.lease()
        lease.close()
        _check_same(self.root, manifest.spec, spec)
        entry = replace(entry, span=manifest.entry.span)
        if technique == AUTO or manifest.entry == entry:
            return manifest
        return _with_layout(manifest, entry)

    def _entry(self, spec: ArchiveSpec, technique: str, grid: tuple[int, int] | None) -> LayoutEntry:
        return LayoutEntry(*fitting(spec, technique, grid), self._seed)

    def __enter__(self) -> ArchiveWriter:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._open.close()

    @property
    def manifest(self) -> Manifest:
        """The version that was committed last, or begun with."""
        return self._manifest

    def snapshot(self) -> Snapshot:
        return open_snapshot(self.root)

    # ------------------------------------------------------------------------------------- updates

    def update(self, update: Update, rewrite: Rewrites = rewrite_here) -> UpdateReport:
        """Plan, write and commit an update; sub-indices are written as `rewrite` does it."""
        repeated = self.repeated(update.batch)
        if repeated is not None:
            return repeated
        spec = self._manifest.spec
        floors = {**self._manifest.floors, **update.floors}
        rows = lasting(update.rows, spec, update.through, self._manifest.entry.span)
        rows = alive(rows, spec, update.through, floors)
        rows, taken = net(rows, update.taken_rows, update.taken_keys, spec, update.through)
        oldest = pc.min(rows.column(BORN)).as_py() if rows.num_rows else None
        since = None if oldest is None else oldest - 1
        prepared = self.prepare(update.batch, update.through, since, taken, update.taken_keys, update.floors)
        parts = prepared.split(rows)
        work = [SlotWork(task, parts.get(task.key), prepared.taken_of(task)) for task in prepared.tasks]
        return self.commit(prepared, rewrite(work))

    def repeated(self, batch: int) -> UpdateReport | None:
        """The counts of a batch that has been committed; None for the next one."""
        if batch > self._manifest.batch:
            return None
        counts = dict(self._manifest.report) if batch == self._manifest.batch else {}
        counts |= {"version": self._manifest.version, "batch": batch}
        return UpdateReport(**counts, is_repeated=True)

    def prepare(
        self,
        batch: int,
        through: int,
        since: int | None = None,
        taken_rows: pa.Table | None = None,
        taken_keys: pa.Table | None = None,
        floors: Mapping[str, int] | None = None,
    ) -> Prepared:
        """What an update has to do; `since`: no new row is born before or at it, None for the last update.

        `taken_rows` take back stored rows; see `sash.archive.update.net` for the new ones.
        """
        manifest = self._manifest
        if manifest.through is not None and through < manifest.through:
            raise InternalError(f"an archive at {manifest.through} is asked to go back to {through}")
        standing = load_taken(self.root, manifest)
        found = Located(standing.rows)
        if taken_rows is not None and taken_rows.num_rows:
            before = through if manifest.through is None else manifest.through
            due = scheduled_slots(manifest, through, since)
            found = locate(self.root, manifest, taken_rows, standing, before, due)
            found = replace(found, rows=pa.concat_tables([standing.rows, found.rows]))
        keys = standing.keys
        if taken_keys is not None and taken_keys.num_rows:
            keys = pa.concat_tables([keys, taken_keys.select(keys.column_names).cast(keys.schema)])
        taken = Taken(found.rows, keys)
        plan = plan_update(
            self.root,
            manifest,
            batch,
            through,
            since,
            taken.counts(),
            pc.max(keys.column(BORN)).as_py(),
            {**manifest.floors, **(floors or {})},
            writer=self._name,
            durable=self._durable,
        )
        return Prepared(plan, manifest.layout, manifest.newest, taken, found.unmatched, found.sought)

    def commit(self, prepared: Prepared, results: Sequence[SlotResult]) -> UpdateReport:
        """Make what the tasks of an update have written the next version."""
        plan, manifest = prepared.plan, self._manifest
        if {result.key for result in results} != {task.key for task in plan.tasks}:
            raise InternalError("an update is committed with results that are not those of its tasks")
        if plan.version != manifest.version + 1:
            raise InternalError(f"version {plan.version} is committed after version {manifest.version}")
        slots = dict(plan.slots)
        for result in results:
            slots[result.key] = Slot(result.segments, plan.through)
        layouts = _in_use(manifest, slots)
        slots = {key: slot for key, slot in slots.items() if key.layout in layouts and slot.segments}
        taken = _left(prepared, results, slots, manifest.spec)
        rows, keys = save_taken(self.root, plan.stem, taken, durable=self._durable)
        inserted = sum(result.inserted for result in results)
        asked, counted = questions(self.root, manifest.asked)
        report = UpdateReport(
            version=plan.version,
            batch=plan.batch,
            sub_indices=sum(
                manifest.layouts[number].layout(manifest.spec).size for number in manifest.layouts
            ),
            scheduled=len(plan.scheduled),
            rewritten=sum(result.is_rewritten for result in results),
            opened=sum(result.opened for result in results),
            sought=prepared.sought,
            dropped=plan.dropped,
            inserted=inserted,
            removed=plan.dropped_rows
            + sum(result.rows_read + result.inserted - result.rows_written for result in results),
            unmatched=prepared.unmatched,
            bytes_read=sum(result.bytes_read for result in results),
            bytes_written=sum(result.bytes_written for result in results),
            rows=sum(slot.rows for slot in slots.values()),
            bytes=sum(each.size for slot in slots.values() for each in slot.segments),
            asked=asked,
        )
        counts = {name: value for name, value in asdict(report).items() if name != "is_repeated"}
        self._publish(
            replace(
                manifest,
                version=plan.version,
                batch=plan.batch,
                through=plan.through,
                layouts=layouts,
                slots=slots,
                taken_rows=rows,
                taken_keys=keys,
                floors=plan.floors,
                report=counts,
                asked=counted,
                pace=(manifest.pace + asked) / 2,
            )
        )
        return report

    def _publish(self, manifest: Manifest) -> None:
        self._versions.commit(manifest, durable=self._durable)
        self._manifest = manifest
        self._versions.collect()

    # ----------------------------------------------------------------------------------- migration

    def migrate(
        self,
        technique: str,
        grid: tuple[int, int] | None = None,
        *,
        span: int | None = None,
        gradually: bool = True,
    ) -> None:
        """Go over to another technique: new rows go there from the next update on, or at once all rows do.

        Where deaths are guesses, `span` is how far they lie ahead at most; left out, as far as before.
        Gradually, the old sub-indices empty out as their rows die, which takes a span of time and no work.
        At once, all live rows are read and written, and pass through memory.
        """
        entry = self._entry(self._manifest.spec, technique, grid)
        entry = replace(entry, span=span or self._manifest.entry.span)
        if self._manifest.entry == entry:
            return
        changed = _with_layout(self._manifest, entry)
        changed = replace(changed, version=changed.version + 1)
        self._publish(changed if gradually else self._moved(changed))

    def _moved(self, manifest: Manifest) -> Manifest:
        """A version with all live rows in its newest layout."""
        spec, through = manifest.spec, manifest.through
        if through is None:
            return replace(manifest, layouts={manifest.newest: manifest.layouts[manifest.newest]})
        taken = load_taken(self.root, manifest)
        parts: dict[SlotKey, list[pa.Table]] = {}
        layout = manifest.layout
        for key, slot in manifest.slots.items():
            rows = pa.concat_tables([read_segment(self.root, each, spec) for each in slot.segments])
            rows = strike(alive(rows, spec, through, manifest.floors), taken.of(key, slot.cleaned), spec)
            for target, part in _split(rows, layout, manifest.newest).items():
                parts.setdefault(target, []).append(part)
        stem = file_stem(
            manifest.version,
            self._name,
            "migrate",
            layout.technique.name,
            layout.generations,
            layout.expirations,
        )
        slots = {}
        for target, tables in sorted(parts.items()):
            name = f"{DATA}/{stem}-l{target.layout}-{layout.name(target.slot)}.parquet"
            task = SlotTask(
                str(self.root), spec, target, name, through, floors=manifest.floors, durable=self._durable
            )
            slots[target] = Slot(rewrite_slot(task, pa.concat_tables(tables)).segments, through)
        return replace(
            manifest,
            layouts={manifest.newest: manifest.layouts[manifest.newest]},
            slots=slots,
            taken_rows=None,
            taken_keys=None,
        )


def fitting(spec: ArchiveSpec, technique: str, grid: tuple[int, int] | None) -> tuple[str, tuple[int, int]]:
    """A technique by its own name with its grid; ArchiveError if it cannot hold such results."""
    found = technique_of(technique)
    if spec.is_estimated and found.insertion is Order.LAZY:
        raise ArchiveError(
            f"{technique.upper()} cannot hold results of windows of rows",
            expected="COUNTREBUILD or COUNTNOREBUILD",
            hint="when all of a sub-index has expired can only be known where expirations are",
            id="archive-technique",
        )
    return found.name, found.grid(grid)


def _chosen(technique: str, grid: tuple[int, int] | None) -> tuple[str, tuple[int, int] | None]:
    """What stands for AUTO where nothing is known."""
    if technique != AUTO:
        return technique, grid
    return FIRST_CHOICE.technique, FIRST_CHOICE.grid if grid is None else grid


def _split(rows: pa.Table, layout: Layout, number: int) -> dict[SlotKey, pa.Table]:
    """Rows by the sub-index of a layout in which they lie."""
    if not rows.num_rows:
        return {}
    slots = layout.slots(rows.column(BORN).to_numpy(), rows.column(DIES).to_numpy())
    order = np.argsort(slots, kind="stable")
    found, begins = np.unique(slots[order], return_index=True)
    ordered = rows.take(pa.array(order))
    return {
        SlotKey(number, int(slot)): ordered.slice(begin, end - begin)
        for slot, (begin, end) in zip(found, pairwise([*begins.tolist(), len(slots)]), strict=True)
    }


def _with_layout(manifest: Manifest, entry: LayoutEntry) -> Manifest:
    """New rows go to another layout; those that are there stay where they are."""
    kept = {
        number: known for number, known in manifest.layouts.items() if _holds_rows(manifest.slots, number)
    }
    return replace(manifest, layouts={**kept, manifest.newest + 1: entry})


def _holds_rows(slots: Mapping[SlotKey, Slot], number: int) -> bool:
    return any(key.layout == number and slot.segments for key, slot in slots.items())


def _in_use(manifest: Manifest, slots: Mapping[SlotKey, Slot]) -> dict[int, LayoutEntry]:
    """The layouts that hold rows, and the newest."""
    newest = manifest.newest
    return {
        number: entry
        for number, entry in manifest.layouts.items()
        if number == newest or _holds_rows(slots, number)
    }


def _left(
    prepared: Prepared, results: Iterable[SlotResult], slots: Mapping[SlotKey, Slot], spec: ArchiveSpec
) -> Taken:
    """What is still to be consulted after an update."""
    taken, through = prepared.taken, prepared.plan.through
    rows, keys = taken.rows, taken.keys
    if rows.num_rows:
        done = {result.key for result in results if result.is_struck} | (taken.counts().keys() - slots.keys())
        stays = np.array([place not in done for place in taken.places()], dtype=np.bool_)
        if not spec.is_estimated:
            stays &= rows.column(DIES).to_numpy() > through
        rows = rows.filter(pa.array(stays))
    if keys.num_rows:
        since = min((slot.cleaned for slot in slots.values()), default=through)
        if not spec.is_estimated:
            since = max(since, through - spec.span)
        keys = keys.filter(pc.greater(keys.column(BORN), since))
    return Taken(rows, keys)


def _check_same(root: Path, found: ArchiveSpec, wanted: ArchiveSpec) -> None:
    if found == wanted:
        return
    names = [name for name in found.to_json() if found.to_json()[name] != wanted.to_json()[name]]
    raise ArchiveError(
        f"the archive '{root}' was made by another definition",
        expected="; ".join(f"{name} {wanted.to_json()[name]}" for name in names),
        got="; ".join(f"{name} {found.to_json()[name]}" for name in names),
        hint="name another directory, or remove this one to start anew",
        id="archive-other",
    )
