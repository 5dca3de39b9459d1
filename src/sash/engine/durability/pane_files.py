"""Pane files: the partials of each batch, one Arrow file per batch and synopsis, never changed, with a name
of its own for each attempt to write it.

They are the state of synopses on disk: whoever takes in all that are live, and knows how far answers had
come, has the synopsis again. Where a synopsis is kept in partitions, each writes the files of its own groups.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from sash.engine.durability.files import forget_unnamed, new_attempt, save_file, stamp
from sash.engine.durability.operator_state import read_file
from sash.engine.durability.partials import from_table, part_of, to_table
from sash.operators.preaggregate import Partial
from sash.plan.periodic import SynopsisSpec

PANES = "panes"


@dataclass(frozen=True, slots=True)
class PaneFile:
    """The partials that one batch gave one synopsis. It can go when the horizon reaches `until`.

    `partition`: all of its groups are of that one, `of` so many; None: it has all groups.
    """

    name: str
    synopsis: str
    until: int
    checksum: int
    partition: int | None = None
    of: int = 1

    def is_mixed(self, of: int) -> bool:
        """Whether it has groups of several partitions, of which there are so many."""
        return self.partition is None or self.of != of

    def has_groups_of(self, partition: int | None, of: int) -> bool:
        """Whether some of its groups may be of a partition of so many; None stands for all."""
        return partition is None or self.is_mixed(of) or self.partition == partition


def save_partials(
    directory: Path,
    batch: int,
    partials: Iterable[Partial],
    synopses: Iterable[SynopsisSpec],
    partition: int | None = None,
    of: int = 1,
    *,
    durable: bool,
) -> list[PaneFile]:
    """Write the partials of a batch, of one partition of so many or of all groups.

    The files count once a manifest names them.
    """
    specs = {spec.name: spec for spec in synopses}
    attempt = stamp(batch, new_attempt())
    by_synopsis: dict[str, list[pa.Table]] = {}
    for partial in partials:
        by_synopsis.setdefault(partial.synopsis, []).append(to_table(specs[partial.synopsis], partial))
    files = []
    for synopsis, tables in by_synopsis.items():
        table = pa.concat_tables(tables)
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table)
        content = sink.getvalue()
        whose = "" if partition is None else f".{partition}"
        name = f"{synopsis}{whose}.{attempt}.arrow"
        save_file(directory / name, [content], durable=durable)
        until = specs[synopsis].panes.right_edge(int(table.column("pane").to_numpy().max()))
        files.append(PaneFile(name, synopsis, until, zlib.crc32(content), partition, of))
    return files


def read_partials(
    directory: Path,
    files: Iterable[PaneFile],
    synopses: Iterable[SynopsisSpec],
    partition: int | None = None,
    of: int = 1,
) -> Iterator[Partial]:
    """The partials of some synopses, in the order of the files; of one partition of so many, or of all."""
    specs = {spec.name: spec for spec in synopses}
    for file in files:
        if file.synopsis not in specs or not file.has_groups_of(partition, of):
            continue
        content = read_file(directory / file.name, file.checksum)
        partial = from_table(specs[file.synopsis], pa.ipc.open_stream(content).read_all())
        if partition is not None and file.is_mixed(of):
            partial = part_of(partial, partition, of)
        yield partial


def still_needed(files: Iterable[PaneFile], horizons: Mapping[str, int | None]) -> Iterator[PaneFile]:
    """The files that windows need, which reach back as far as the horizon of their synopsis."""
    for file in files:
        # Nobody reads synopses that have none.
        if file.synopsis in horizons:
            horizon = horizons[file.synopsis]
            if horizon is None or file.until > horizon:
                yield file


class PaneFolder:
    """The pane files of a run. `live` are those that count."""

    def __init__(self, directory: Path, *, durable: bool) -> None:
        self.directory = directory
        self.live: list[PaneFile] = []
        self._durable = durable

    def open(self, live: Iterable[PaneFile]) -> None:
        """Go on with the files that a manifest names; others are of no use."""
        self.live = list(live)
        forget_unnamed(self.directory, {file.name for file in self.live}, None)

    def partials(self, synopses: Iterable[SynopsisSpec]) -> Iterator[Partial]:
        """The partials of all live panes of some synopses, oldest batch first."""
        return read_partials(self.directory, self.live, synopses)

    def save(self, batch: int, partials: Iterable[Partial], synopses: Iterable[SynopsisSpec]) -> None:
        """Write the partials of a batch."""
        self.live += save_partials(self.directory, batch, partials, synopses, durable=self._durable)

    def keep(self, files: Iterable[PaneFile]) -> None:
        """Only these count any more: `clear` removes the others."""
        self.live = list(files)

    def clear(self, batch: int, read: Iterable[PaneFile] = ()) -> None:
        """Remove files that count no more after a batch, but for those that somebody reads.

        Files of batches that are under way stay.
        """
        forget_unnamed(self.directory, {file.name for file in (*self.live, *read)}, batch)
