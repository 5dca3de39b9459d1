"""What is taken back before it dies: results of strict queries whose premature deletions are deferred.

A sub-index that an update need not touch keeps rows that have been taken back; the list of them stands beside
it until the sub-index is written anew, and every reader consults it (000, section 3.5). There are two kinds:

- a row: it takes back one row with the same values, birth and death in the sub-index that it names. Of the
  values the list has the key and the hash that stands beside each row, so it is small and quick to compare;
- a key with an instant: it takes back all rows of the key that were born before, wherever they are. A
  sub-index is rid of them when it has been written anew after that instant.
"""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from sash.archive.conditions import Condition, among_rows
from sash.archive.failures import damaged, told
from sash.archive.manifest import Manifest, PendingFile, SlotKey
from sash.archive.segment import read_segment
from sash.archive.spec import BORN, DIES, IDENTITY, ArchiveSpec
from sash.archive.versions import DATA, read_named
from sash.files import replace_file
from sash.state.fingerprints import Keys, fingerprint
from sash.state.groups import plain
from sash.state.keytable import KeyTable

Bools = npt.NDArray[np.bool_]
Ints = npt.NDArray[np.int64]

LAYOUT, SLOT = "sash_layout", "sash_slot"
MARKS = (IDENTITY, BORN, DIES)
"""By which a row in a sub-index is told from others."""


@dataclass(frozen=True, slots=True)
class Taken:
    """`rows` have LAYOUT, SLOT, the columns of the key and `MARKS`; `keys` those of the key, and BORN."""

    rows: pa.Table
    keys: pa.Table

    @staticmethod
    def none(spec: ArchiveSpec) -> Taken:
        places = [pa.field(name, pa.int32()) for name in (LAYOUT, SLOT)]
        keys = [spec.schema.field(name) for name in (*spec.key, BORN)]
        rows = pa.schema([*places, *keys[:-1], *(pa.field(name, pa.int64()) for name in MARKS)])
        return Taken(rows.empty_table(), pa.schema(keys).empty_table())

    def __bool__(self) -> bool:
        return bool(self.rows.num_rows or self.keys.num_rows)

    def narrowed(self, where: Sequence[Condition]) -> Taken:
        """What concerns rows that fulfil some conditions."""
        rows, keys = self.rows, self.keys
        for each in where:
            rows = rows.filter(pa.array(each.holds(plain(rows.column(each.column)))))
            keys = keys.filter(pa.array(each.holds(plain(keys.column(each.column)))))
        return Taken(rows, keys)

    def of(self, key: SlotKey, cleaned: int) -> Taken:
        """What concerns one sub-index."""
        rows, keys = self.rows, self.keys
        if rows.num_rows:
            here = pc.and_(pc.equal(rows.column(LAYOUT), key.layout), pc.equal(rows.column(SLOT), key.slot))
            rows = rows.filter(here)
        if keys.num_rows:
            keys = keys.filter(pc.greater(keys.column(BORN), cleaned))
        return Taken(rows, keys)

    def places(self) -> list[SlotKey]:
        """The sub-index of each row."""
        columns = (self.rows.column(name).to_pylist() for name in (LAYOUT, SLOT))
        return [SlotKey(*place) for place in zip(*columns, strict=True)]

    def counts(self) -> Counter[SlotKey]:
        """How many rows are taken back in each sub-index."""
        return Counter(self.places())


# -------------------------------------------------------------------------------------- on the disk


def load_taken(root: Path, manifest: Manifest) -> Taken:
    none = Taken.none(manifest.spec)
    rows = none.rows if manifest.taken_rows is None else _read(root, manifest.taken_rows)
    keys = none.keys if manifest.taken_keys is None else _read(root, manifest.taken_keys)
    return Taken(rows, keys)


def save_taken(
    root: Path, name: str, taken: Taken, *, durable: bool
) -> tuple[PendingFile | None, PendingFile | None]:
    """Write both lists; an empty one needs no file."""
    rows = _write(root, f"{DATA}/{name}-rows.parquet", taken.rows, durable=durable)
    return rows, _write(root, f"{DATA}/{name}-keys.parquet", taken.keys, durable=durable)


def _read(root: Path, file: PendingFile) -> pa.Table:
    content = read_named(root, file.name)
    if zlib.crc32(content) != file.checksum:
        path = root / file.name
        raise damaged(path, f"checksum {file.checksum:08x}", f"checksum {zlib.crc32(content):08x}")
    return pq.read_table(pa.BufferReader(content))


def _write(root: Path, name: str, table: pa.Table, *, durable: bool) -> PendingFile | None:
    if not table.num_rows:
        return None
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, compression="snappy")
    content = sink.getvalue().to_pybytes()
    with told(root / name):
        replace_file(root / name, content, durable=durable)
    return PendingFile(name, table.num_rows, zlib.crc32(content))


# ---------------------------------------------------------------------------------------- matching


def strike(table: pa.Table, taken: Taken, spec: ArchiveSpec) -> pa.Table:
    """The rows of a sub-index without those that are taken back from it."""
    kept = np.ones(table.num_rows, dtype=np.bool_)
    if taken.keys.num_rows and table.num_rows:
        kept &= ~_of_keys(table, taken.keys, spec)
    if taken.rows.num_rows and table.num_rows:
        kept &= ~cancel(table, taken.rows, MARKS)[0]
    return having(table, kept)


def cancel(table: pa.Table, taken: pa.Table, marks: Sequence[str]) -> tuple[Bools, Bools]:
    """Which rows of a table go when each of some rows takes an equal one away, and which of those find one.

    Rows are equal that have equal marks. Of equal rows the first goes first.
    """
    numbers = KeyTable()
    taking = numbers.intern(_prints(taken, marks))
    wanted = np.bincount(taking, minlength=1)
    rows = numbers.find(_prints(table, marks))
    candidates = np.flatnonzero(rows >= 0)
    of = rows[candidates]
    going = np.zeros(table.num_rows, dtype=np.bool_)
    going[candidates[_rank(of) < wanted[of]]] = True
    found = np.bincount(rows[going], minlength=len(wanted))
    return going, _rank(taking) < found[taking]


def _rank(values: Ints) -> Ints:
    """How many equal values stand before each one."""
    order = np.argsort(values, kind="stable")
    ordered = values[order]
    rank = np.empty(len(values), dtype=np.int64)
    rank[order] = np.arange(len(values)) - np.searchsorted(ordered, ordered, side="left")
    return rank


def _prints(table: pa.Table, names: Sequence[str]) -> Keys:
    return fingerprint([plain(table.column(name)) for name in names], table.num_rows)


def _of_keys(table: pa.Table, keys: pa.Table, spec: ArchiveSpec) -> Bools:
    """Which rows are taken back by a key: those born before the latest instant of theirs."""
    numbers = KeyTable()
    known = numbers.intern(_prints(keys, spec.key))
    rows = numbers.find(_prints(table, spec.key))
    before = np.full(int(known.max()) + 1, np.iinfo(np.int64).min, dtype=np.int64)
    np.maximum.at(before, known, keys.column(BORN).to_numpy())
    found: Bools = (rows >= 0) & (table.column(BORN).to_numpy() < before[rows])
    return found


def strike_keys(table: pa.Table, keys: pa.Table, spec: ArchiveSpec) -> pa.Table:
    """Rows without those that keys take back."""
    if not keys.num_rows or not table.num_rows:
        return table
    return table.filter(pa.array(~_of_keys(table, keys, spec)))


# ---------------------------------------------------------------------------------------- locating


def told_marks(taken: pa.Table, spec: ArchiveSpec) -> tuple[str, ...]:
    """By which marks rows that take back others find them: guessed deaths are known to nobody else."""
    if spec.is_estimated:
        return (IDENTITY,)
    return (IDENTITY, BORN, DIES) if BORN in taken.column_names else (IDENTITY, DIES)


@dataclass(frozen=True, slots=True)
class Located:
    """Stored rows that are taken back, as rows of `Taken`; how many were not there, and how many sub-indices
    were looked into.
    """

    rows: pa.Table
    unmatched: int = 0
    sought: int = 0


def locate(
    root: Path, manifest: Manifest, asked: pa.Table, standing: Taken, through: int, due: Collection[SlotKey]
) -> Located:
    """The stored rows that some rows take back.

    With birth and death a row's place is arithmetic. Otherwise rows of its key are looked at, in the
    sub-indices that foresee its death. Where deaths are guesses, those that are `due` come first, and the
    others if a guess was wrong. Of equal rows the one goes that was to die first, so that who stays is
    found where the guess says.
    """
    spec = manifest.spec
    marks = told_marks(asked, spec)
    if BORN in marks and len(manifest.layouts) == 1:
        ts, exp = (asked.column(name).to_numpy() for name in (BORN, DIES))
        return Located(_placed(asked, spec, manifest.newest, manifest.layout.slots(ts, exp)))
    rows = [Taken.none(spec).rows]
    sought = 0
    for keys in _candidates(manifest, asked, due):
        if not asked.num_rows:
            break
        stored = _stored(root, manifest, asked, standing, through, keys)
        going, found = cancel(stored, asked, marks)
        rows.append(stored.filter(pa.array(going)))
        asked = asked.filter(pa.array(~found))
        sought += len(keys)
    return Located(pa.concat_tables(rows), asked.num_rows, sought)


def _stored(
    root: Path,
    manifest: Manifest,
    asked: pa.Table,
    standing: Taken,
    through: int,
    keys: Collection[SlotKey],
) -> pa.Table:
    """Live rows of the keys of some rows in some sub-indices, with their places, first those to die first."""
    spec = manifest.spec
    where = among_rows(asked, spec.columns, spec.key)
    standing = standing.narrowed(where)
    names = [name for name in spec.schema.names if name in (*spec.key, *spec.positions, *MARKS)]
    found = [Taken.none(spec).rows]
    for key in keys:
        slot = manifest.slots[key]
        tables = [read_segment(root, segment, spec, where, names) for segment in slot.segments]
        rows = pa.concat_tables([spec.schema.empty_table().select(names), *tables])
        rows = strike(alive(rows, spec, through, manifest.floors), standing.of(key, slot.cleaned), spec)
        found.append(_placed(rows, spec, key.layout, np.full(rows.num_rows, key.slot)))
    table = pa.concat_tables(found)
    return table.take(pc.sort_indices(table, [(DIES, "ascending"), (BORN, "ascending")]))


def _candidates(
    manifest: Manifest, asked: pa.Table, due: Collection[SlotKey]
) -> Sequence[Collection[SlotKey]]:
    """Where rows may lie, in the order in which to look for them."""
    spec = manifest.spec
    if spec.is_estimated:
        likely = [key for key in manifest.slots if key in due]
        return likely, [key for key in manifest.slots if key not in due]
    columns = {}
    for number, entry in manifest.layouts.items():
        layout = entry.layout(spec)
        deaths = asked.column(DIES).to_numpy()
        columns[number] = (layout.expirations, set(layout.columns(deaths).tolist()))
    return ([key for key in manifest.slots if key.slot % columns[key.layout][0] in columns[key.layout][1]],)


def _placed(rows: pa.Table, spec: ArchiveSpec, layout: int, slots: Ints) -> pa.Table:
    schema = Taken.none(spec).rows.schema
    place = pa.array(np.full(rows.num_rows, layout, dtype=np.int32))
    columns = [place, pa.array(slots, pa.int32()), *(rows.column(name) for name in schema.names[2:])]
    return pa.Table.from_arrays(columns, schema=schema)


def alive(table: pa.Table, spec: ArchiveSpec, after: int, floors: Mapping[str, int]) -> pa.Table:
    """Rows that die after an instant; where deaths are guesses, those whose places are still in the
    windows.
    """
    if not spec.is_estimated:
        return having(table, table.column(DIES).to_numpy() > after)
    for name, floor in floors.items():
        table = having(table, table.column(name).to_numpy() >= floor)
    return table


def having(table: pa.Table, wanted: Bools) -> pa.Table:
    """The rows that are wanted; often all are, and then none is copied."""
    return table if wanted.all() else table.filter(pa.array(wanted))
