"""A segment: one Parquet file of a sub-index, clustered by the search key.

Rows are sorted by key and, among equal keys, by death. A row group is a bucket: it ends where the key
changes, as soon as it has enough rows, so a probe reads little more than the rows of its key. The first and
the last key of every row group are the directory, kept in the metadata of the file (statistics of Parquet
cut long strings and leave NaN out). Pages have checksums; size and checksum of the footer are in the
manifest. A file has its name only when it is complete and, unless told otherwise, on disk; it is never
changed.
"""

from __future__ import annotations

import base64
import os
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from sash.archive.conditions import Condition, EdgeColumn, Edges, groups_of
from sash.archive.failures import damaged, missing, told
from sash.archive.spec import DIES, ArchiveSpec
from sash.files import sync_directory, sync_file
from sash.state.groups import plain

Ints = npt.NDArray[np.int64]

# A bucket has at least so many rows, unless the file ends, so that the directory stays small …
_LEAST_BUCKET = 64
# … and a file has about so many buckets at most.
_MOST_BUCKETS = 512
# One key has several row groups if it has more rows than this.
_MOST_ROWS = 65_536
_SAMPLES = 17
_DIRECTORY = b"sash.directory"
_TAIL = 8
_MAGIC = b"PAR1"
# Arrays of strings count their bytes in 32 bits; tables above this size are sorted with 64.
_LARGE = 1 << 30


@dataclass(frozen=True, slots=True)
class Segment:
    """A file of a sub-index. `deaths` are quantiles of DIES; `highest` the greatest of each position."""

    name: str
    rows: int
    size: int
    footer: int
    deaths: tuple[int, ...]
    highest: tuple[int, ...] = ()

    def to_json(self) -> list[Any]:
        return [self.name, self.rows, self.size, self.footer, list(self.deaths), list(self.highest)]

    @staticmethod
    def from_json(data: Sequence[Any]) -> Segment:
        name, rows, size, footer, deaths, highest = data
        return Segment(name, rows, size, footer, tuple(deaths), tuple(highest))

    def live_share(self, through: int) -> float:
        """About which share of the rows lives at an instant; 0 and 1 only if none or all of them do."""
        return sum(death > through for death in self.deaths) / len(self.deaths)


# ------------------------------------------------------------------------------------------- writing


def write_segment(
    root: Path, name: str, spec: ArchiveSpec, table: pa.Table, token: str, *, durable: bool
) -> Segment:
    """Sort some rows, at least one, and write them; `token` makes the temporary name one's own."""
    path = root / name
    temporary = path.with_name(f".{path.name}.{token}.tmp")
    table, order, bounds = _clustered(spec, table)
    with told(path):
        try:
            _write_parquet(temporary, spec, table, order, bounds)
            footer = zlib.crc32(_footer(temporary))
            size = os.stat(temporary).st_size
            if durable:
                sync_file(temporary)
            os.replace(temporary, path)
        except OSError:
            # Half a file is of no use, and on a full disk its room is.
            with suppress(OSError):
                os.unlink(temporary)
            raise
        if durable:
            sync_directory(path.parent)
    deaths = np.sort(table.column(DIES).to_numpy())
    samples = deaths[np.linspace(0, len(deaths) - 1, _SAMPLES).astype(np.int64)]
    highest = tuple(int(pc.max(table.column(each)).as_py()) for each in spec.positions)
    return Segment(name, len(deaths), size, footer, tuple(samples.tolist()), highest)


def _clustered(spec: ArchiveSpec, table: pa.Table) -> tuple[pa.Table, pa.Array, Ints]:
    """The rows, their order, and where buckets begin in it and the last one ends."""
    if table.nbytes > _LARGE:
        wide = [f.with_type(pa.large_string()) if pa.types.is_string(f.type) else f for f in table.schema]
        table = table.cast(pa.schema(wide))
    table = table.combine_chunks()
    # NULL comes last.
    order = pc.sort_indices(table, [(name, "ascending") for name in (*spec.key, DIES)])
    changes = np.zeros(max(0, table.num_rows - 1), dtype=np.bool_)
    for name in spec.key:
        column = plain(table.column(name).take(order))
        same = pc.equal(column[1:], column[:-1]).fill_null(False).to_numpy(zero_copy_only=False)
        changes |= ~same
    return table, order, _bounds(np.flatnonzero(changes) + 1, table.num_rows)


def _bounds(changes: Ints, rows: int) -> Ints:
    """Buckets of whole keys with enough rows each; a key with very many rows has several."""
    least = max(_LEAST_BUCKET, rows // _MOST_BUCKETS)
    # The first change after each multiple of the least size.
    at = np.searchsorted(changes, np.arange(least, rows, least))
    cuts = changes[np.unique(at[at < len(changes)])]
    bounds = np.concatenate([[0], cuts, [rows]])
    long = [
        np.arange(begin + _MOST_ROWS, end, _MOST_ROWS)
        for begin, end in pairwise(bounds)
        if end - begin > _MOST_ROWS
    ]
    return np.sort(np.concatenate([bounds, *long])).astype(np.int64)


def _write_parquet(path: Path, spec: ArchiveSpec, table: pa.Table, order: pa.Array, bounds: Ints) -> None:
    with pq.ParquetWriter(
        path,
        spec.schema.with_metadata(None),
        compression="snappy",
        use_dictionary=list(spec.key),
        write_statistics=[*spec.key, DIES],
        write_page_checksum=True,
    ) as writer:
        for begin, end in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True):
            # A bucket is copied on its own: strings of a slice of a large table are beyond 32 bits.
            bucket = table.take(order[begin:end]).cast(spec.schema)
            writer.write_table(bucket, row_group_size=end - begin)
        edges = [table.select(spec.key).take(order.take(places)) for places in (bounds[:-1], bounds[1:] - 1)]
        writer.add_key_value_metadata({_DIRECTORY: base64.b64encode(_pack(edges))})


def _pack(edges: Sequence[pa.Table]) -> bytes:
    firsts, lasts = edges
    names = [f"{side}{i}" for side in ("first", "last") for i in range(firsts.num_columns)]
    both = pa.Table.from_arrays([*firsts.columns, *lasts.columns], names=names)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, both.schema) as writer:
        writer.write_table(both)
    content: bytes = sink.getvalue().to_pybytes()
    return content


def _footer(path: Path) -> bytes:
    """The metadata of a Parquet file with what frames them."""
    with open(path, "rb") as file:
        file.seek(-_TAIL, os.SEEK_END)
        tail = file.read(_TAIL)
        length = int.from_bytes(tail[:4], "little")
        file.seek(-(length + _TAIL), os.SEEK_END)
        return file.read(length + _TAIL)


# ------------------------------------------------------------------------------------------- reading


@dataclass(frozen=True, slots=True)
class _Opened:
    """What is kept in memory of a file: its metadata and the edges of its buckets."""

    metadata: pq.FileMetaData
    edges: Edges


@lru_cache(maxsize=4096)
def _opened(path: Path, size: int, footer: int) -> _Opened:
    """The metadata of a file, checked; files never change, so they are read once."""
    found = os.stat(path).st_size
    if found != size:
        raise damaged(path, f"{size} bytes", f"{found} bytes")
    try:
        content = _footer(path)
    except (OSError, ValueError) as failure:
        raise damaged(path, "the footer of a Parquet file", str(failure)) from failure
    if zlib.crc32(content) != footer:
        raise damaged(path, f"checksum {footer:08x}", f"checksum {zlib.crc32(content):08x}")
    metadata = pq.read_metadata(pa.BufferReader(_MAGIC + content))
    packed = base64.b64decode(metadata.metadata[_DIRECTORY])
    both = pa.ipc.open_stream(packed).read_all()
    half = both.num_columns // 2
    columns = [plain(column) for column in both.columns]
    edges = zip(columns[:half], columns[half:], strict=True)
    return _Opened(metadata, tuple(EdgeColumn.of(*both) for both in edges))


def read_segment(
    root: Path,
    segment: Segment,
    spec: ArchiveSpec,
    where: Sequence[Condition] = (),
    columns: Sequence[str] | None = None,
) -> pa.Table:
    """The buckets that can hold rows which fulfil the conditions, with some columns of the file."""
    path = root / segment.name
    names = list(spec.schema.names if columns is None else columns)
    with _checked(path):
        opened = _opened(path, segment.size, segment.footer)
        groups = groups_of(opened.edges, spec.key, where) if where else None
        if groups is not None and not len(groups):
            return spec.schema.empty_table().select(names)
        with (
            pa.OSFile(str(path)) as handle,
            pq.ParquetFile(
                handle, metadata=opened.metadata, pre_buffer=groups is None, page_checksum_verification=True
            ) as file,
        ):
            if groups is None:
                table = file.read(names, use_threads=False)
            else:
                table = file.read_row_groups(groups.tolist(), names, use_threads=False)
    return table.select(names)


@contextmanager
def _checked(path: Path) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError as failure:
        raise missing(path) from failure
    except pa.ArrowInvalid as failure:
        raise damaged(path, "a Parquet file", str(failure).splitlines()[0]) from failure
    except OSError as failure:
        # Arrow tells a page that does not fit its checksum as an error of the disk, without a number.
        if failure.errno is None:
            raise damaged(path, "pages that fit their checksums", str(failure).splitlines()[0]) from failure
        with told(path, "read"):
            raise
