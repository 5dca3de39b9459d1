"""What updates did and what an archive is like, in numbers."""

from __future__ import annotations

from dataclasses import dataclass, replace

from sash.archive.manifest import Manifest


@dataclass(frozen=True, slots=True)
class UpdateReport:
    """The counts of one update.

    `scheduled` is how many sub-indices the layout named, of `sub_indices`; of those, `rewritten` had
    something to do, for which `opened` segments were read. In `sought` sub-indices rows were looked for that
    are taken back. `inserted` and `removed` are rows, `dropped` segments that went unopened. `unmatched` rows
    were taken back that were not there. `rows` and `bytes` are what is stored afterwards, `asked` how many
    questions came since the update before. `is_repeated`: the batch had been committed before, so nothing was
    done.
    """

    version: int
    batch: int
    sub_indices: int = 0
    scheduled: int = 0
    rewritten: int = 0
    opened: int = 0
    sought: int = 0
    dropped: int = 0
    inserted: int = 0
    removed: int = 0
    unmatched: int = 0
    bytes_read: int = 0
    bytes_written: int = 0
    rows: int = 0
    bytes: int = 0
    asked: int = 0
    is_repeated: bool = False

    def after(self, before: UpdateReport | None) -> UpdateReport:
        """Both updates, one after the other, as one."""
        if before is None:
            return self
        return replace(self, **{name: getattr(before, name) + getattr(self, name) for name in COUNTED})


COUNTED = (
    "scheduled", "rewritten", "opened", "sought", "dropped", "inserted", "removed", "unmatched", "bytes_read",
    "bytes_written", "asked",
)  # fmt: skip
"""What an update does, the other figures tell what is there afterwards."""


@dataclass(frozen=True, slots=True)
class Description:
    """An archive for SHOW ARCHIVES. Sizes are of what is stored, which may have expired in part.

    `balance` is the largest sub-index compared with the average one, in rows. `techniques` are two while the
    archive migrates, the new one last, each with its grid. `pace` is about how many questions come between
    two updates.
    """

    techniques: tuple[str, ...]
    key: tuple[str, ...]
    version: int
    versions: int
    batch: int
    through: int | None
    rows: int
    bytes: int
    segments: int
    sub_indices: int
    rows_of: tuple[int, ...]
    balance: float
    variance: float
    taken_back: int
    pace: float


def describe(manifest: Manifest, versions: int) -> Description:
    layout = manifest.layout
    sizes = {key: slot.rows for key, slot in manifest.slots.items()}
    rows_of = tuple(
        sum(rows for key, rows in sizes.items() if key.layout == manifest.newest and key.slot == slot)
        for slot in range(layout.size)
    )
    mean = sum(rows_of) / len(rows_of)
    pending = (manifest.taken_rows, manifest.taken_keys)
    return Description(
        techniques=tuple(
            f"{entry.technique} {entry.grid[0]}x{entry.grid[1]}"
            for _, entry in sorted(manifest.layouts.items())
        ),
        key=manifest.spec.key,
        version=manifest.version,
        versions=versions,
        batch=manifest.batch,
        through=manifest.through,
        rows=manifest.rows,
        bytes=manifest.size,
        segments=sum(len(slot.segments) for slot in manifest.slots.values()),
        sub_indices=layout.size,
        rows_of=rows_of,
        balance=max(rows_of) / mean if mean else 1.0,
        variance=sum((rows - mean) ** 2 for rows in rows_of) / len(rows_of),
        taken_back=sum(each.rows for each in pending if each is not None),
        pace=manifest.pace,
    )
