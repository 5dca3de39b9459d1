"""An update as it is given, and its checks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sash.archive.spec import BORN, DIES, IDENTITY, ArchiveSpec
from sash.archive.taken import cancel, strike_keys, told_marks
from sash.errors import DataError, InternalError


@dataclass(frozen=True, slots=True)
class Update:
    """What has happened to a result since the last update, up to and including `through`.

    `rows` entered: the columns of the archive, its positions, BORN and DIES. `taken_rows` were taken back,
    each for one row: the columns of the archive and DIES, and BORN if it is known; only the columns of the
    archive where deaths are guesses. `taken_keys` has the columns of the key, and in BORN an instant: all
    rows of the key born before it are taken back. `floors` has the least position in each window of rows.
    Batches have increasing numbers; one that was committed does nothing again.
    """

    batch: int
    through: int
    rows: pa.Table
    taken_rows: pa.Table | None = None
    taken_keys: pa.Table | None = None
    floors: Mapping[str, int] = field(default_factory=dict)


def lasting(rows: pa.Table, spec: ArchiveSpec, through: int, guessed: int | None = None) -> pa.Table:
    """The rows that an update adds: those that live when it is made.

    A row that lives longer than the archive's span is the data's fault. Where deaths are guesses they are
    brought into the span, or into the `guessed` one.
    """
    rows = spec.fit(rows)
    if any(rows.column(name).null_count for name in (BORN, DIES, *spec.positions)):
        raise InternalError("a row for an archive without its times")
    born, dies = (rows.column(name).to_numpy() for name in (BORN, DIES))
    if len(born) and born.max() > through:
        raise InternalError(f"a row for an archive is born at {born.max()}, after its update at {through}")
    if spec.is_estimated:
        # The subtraction stands on the side of the birth: a guess may be as late as time goes.
        span = guessed or spec.span
        guesses = np.maximum(np.where(dies - span > born, born + span, dies), through + 1)
        return rows.set_column(rows.column_names.index(DIES), DIES, pa.array(guesses))
    beyond = dies > born + spec.span
    if beyond.any():
        row = int(np.flatnonzero(beyond)[0])
        raise DataError(
            "a row lives longer than the archive allows",
            expected=f"at most {spec.span} microseconds",
            got=f"{int(dies[row]) - int(born[row])} microseconds",
            hint="the longest lifetime is that of the shortest window, or MAX LIFETIME of the stream",
            id="archive-lifetime",
        )
    return rows.filter(pc.greater(rows.column(DIES), through))


def net(
    rows: pa.Table, taken: pa.Table | None, keys: pa.Table | None, spec: ArchiveSpec, through: int
) -> tuple[pa.Table, pa.Table | None]:
    """New rows without those that are taken back already, and what takes back older ones."""
    if keys is not None:
        rows = strike_keys(rows, keys, spec)
    if taken is None or not taken.num_rows:
        return rows, None
    if not spec.is_strict:
        raise InternalError("rows are taken back from an archive that is not strict")
    if not spec.is_estimated:
        # What has died meanwhile needs nobody to take it back.
        taken = taken.filter(pc.greater(taken.column(DIES), through))
    names = [name for name in spec.schema.names if name in taken.column_names]
    taken = taken.select(names).cast(pa.schema([spec.schema.field(name) for name in names]))
    taken = taken.append_column(IDENTITY, spec.identities(taken))
    going, found = cancel(rows, taken, told_marks(taken, spec))
    return rows.filter(pa.array(~going)), taken.filter(pa.array(~found))
