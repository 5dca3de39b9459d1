"""Planning an update: which sub-indices it has to touch and what happens to each; nothing is read.

Rebuild writes each of them anew, as one segment clustered by key. NoRebuild appends the new rows as another
segment; a segment is merged with them when half of its rows are dead, when more than an eighth of the
sub-index is taken back, or when the sub-index has too many segments. Segments in which nothing lives go
without being opened.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from sash.archive.manifest import Manifest, Slot, SlotKey
from sash.archive.rewrite import SlotTask
from sash.archive.segment import Segment
from sash.archive.versions import DATA

# About 2.5 buckets for each key are a good compromise (000, section 5.1).
_MOST_SEGMENTS = 4
_FEWEST_SEGMENTS = 2
_SPARSE = 0.5
_TAKEN_SHARE = 8


@dataclass(frozen=True, slots=True)
class UpdatePlan:
    """The update of a batch. `scheduled` are the sub-indices that the layout names, `tasks` what to do to
    them.

    `dropped` are segments, with their rows, that go unopened, `slots` all sub-indices without them. The names
    of its files begin with `stem`.
    """

    stem: str
    version: int
    batch: int
    through: int
    since: int
    scheduled: frozenset[SlotKey]
    tasks: tuple[SlotTask, ...]
    slots: Mapping[SlotKey, Slot]
    dropped: int = 0
    dropped_rows: int = 0
    floors: Mapping[str, int] = field(default_factory=dict)


def file_stem(version: int, *what: object) -> str:
    """How the names of the files of a version begin; another plan for it has other names."""
    digest = hashlib.sha256(repr(what).encode()).hexdigest()[:8]
    return f"v{version:012d}-{digest}"


def plan_update(
    root: Path,
    manifest: Manifest,
    batch: int,
    through: int,
    since: int | None,
    taken: Mapping[SlotKey, int],
    latest_key: int | None,
    floors: Mapping[str, int],
    *,
    writer: str,
    durable: bool,
) -> UpdatePlan:
    """The plan of bringing an archive from its instant to a later one, by a `writer` of this name.

    New rows are born after `since`, which is the archive's instant if it is None. `taken` counts the rows
    that are taken back in each sub-index, and `latest_key` is the greatest instant of a key that is taken
    back.
    """
    spec = manifest.spec
    since = _since(manifest, through, since)
    slots = {}
    dropped = dropped_rows = 0
    for key, slot in manifest.slots.items():
        left = tuple(each for each in slot.segments if not _is_dead(each, manifest, through, floors))
        dropped += len(slot.segments) - len(left)
        dropped_rows += slot.rows - sum(each.rows for each in left)
        slots[key] = Slot(left, slot.cleaned)
    scheduled = scheduled_slots(manifest, through, since)
    # A task of a writer that was killed may go on somewhere: it must not write to a file of the next one.
    stem = file_stem(manifest.version + 1, writer, "update", batch, through, since)
    tasks = []
    for key in sorted(scheduled):
        slot = slots.get(key, Slot((), through))
        count = taken.get(key, 0)
        has_keys = latest_key is not None and latest_key > slot.cleaned
        layout = manifest.layouts[key.layout].layout(spec)
        if layout.technique.reclusters:
            merged = slot.segments
            has_dead = spec.is_estimated or any(each.deaths[0] <= through for each in merged)
            is_due = bool(merged) and (has_dead or count > 0 or has_keys)
        else:
            is_crowded = count * _TAKEN_SHARE > slot.rows or (count > 0 and spec.is_estimated) or has_keys
            merged = slot.segments if is_crowded else _sparse(slot.segments, through)
            is_due = bool(merged)
        kept = tuple(each for each in slot.segments if each not in merged)
        name = f"{DATA}/{stem}-l{key.layout}-{layout.name(key.slot)}.parquet"
        tasks.append(
            SlotTask(str(root), spec, key, name, through, merged, kept, is_due, dict(floors), durable)
        )
    return UpdatePlan(
        stem,
        manifest.version + 1,
        batch,
        through,
        since,
        scheduled,
        tuple(tasks),
        slots,
        dropped,
        dropped_rows,
        dict(floors),
    )


def scheduled_slots(manifest: Manifest, through: int, since: int | None) -> frozenset[SlotKey]:
    """The sub-indices that an update has to touch, in all layouts."""
    before, since = _before(manifest, through), _since(manifest, through, since)
    scheduled: set[SlotKey] = set()
    for number, entry in manifest.layouts.items():
        layout = entry.layout(manifest.spec)
        touched = set(layout.expired(before, through))
        if number == manifest.newest:
            touched.update(layout.inserted(since, through))
        scheduled.update(SlotKey(number, slot) for slot in touched)
    return frozenset(scheduled)


def _before(manifest: Manifest, through: int) -> int:
    return manifest.through if manifest.through is not None else through - manifest.spec.span


def _since(manifest: Manifest, through: int, since: int | None) -> int:
    before = _before(manifest, through)
    return before if since is None else min(since, before)


def _is_dead(segment: Segment, manifest: Manifest, through: int, floors: Mapping[str, int]) -> bool:
    if not manifest.spec.is_estimated:
        return segment.deaths[-1] <= through
    highest = zip(manifest.spec.positions, segment.highest, strict=True)
    return any(most < floors.get(name, most) for name, most in highest)


def _sparse(segments: tuple[Segment, ...], through: int) -> tuple[Segment, ...]:
    """The segments that are worth writing anew."""
    chosen = [each for each in segments if each.live_share(through) <= _SPARSE]
    rest = sorted((each for each in segments if each not in chosen), key=lambda each: each.rows)
    if len(rest) >= _MOST_SEGMENTS:
        chosen.extend(rest[: len(rest) - _FEWEST_SEGMENTS])
    return tuple(chosen)
