"""`parquet:`: columns straight from Parquet files.

Only the asked columns and the timestamp are read. Strings come as dictionaries where the file stores
them so, because grouping wants codes. A chunk is a range of rows; the row groups that hold it are
named too. Types are held to the schema when the file is checked, so the only rows that can be refused are
those without a usable timestamp and those with another TIMESTAMP that microseconds cannot hold; the
latter are looked for in columns nobody asked for only where the file's statistics do not rule them out.

Cost: about 20 M rows/s and core with six columns. A row group is decoded from its start, so a chunk
from the middle of a large one pays for what precedes it; planning keeps row groups whole where it can.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import lru_cache
from os import stat
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from sash.connectors.sources.chunk import Bools, Chunk, Int64s, Rejects, Rows
from sash.connectors.sources.convert import NO_TIMESTAMP, OUT_OF_RANGE, event_times
from sash.connectors.sources.failures import unreadable
from sash.connectors.sources.files import FilePlan, FileSource, Piece, column_places
from sash.errors import DataError, SourceError
from sash.lang.bound import StreamDefinition
from sash.lang.types import Column, Type
from sash.operators.delta import one_array

_TICKS = {"s": 1_000_000, "ms": 1_000, "us": 1}


class ParquetSource(FileSource):
    endings = (".parquet", ".pq")
    format_name = "parquet"

    def check_file(self, path: str) -> None:
        try:
            check_schema(self.stream, path, _metadata(path).schema.to_arrow_schema())
        except SourceError as failure:
            raise self.error(
                failure.message, expected=failure.expected, got=failure.got, hint=failure.hint
            ) from failure

    def plan_file(self, path: str, offset: int, row: int, budget: int, target_rows: int) -> FilePlan:
        if row == 0:
            self.check_file(path)
        starts = _group_starts(path)
        total = int(starts[-1])
        if row > total:
            raise self.error(f"'{path}' is shorter than it was", expected=f"{row} rows", got=f"{total}")
        pieces: list[Piece] = []
        while row < total and budget > 0:
            group = int(np.searchsorted(starts, row, side="right")) - 1
            # Whole row groups up to the target, or one up to 2.5 times the target (which lets the usual
            # million rows pass in one piece), or else a part of one.
            fitting = int(np.searchsorted(starts, row + min(budget, target_rows), side="right")) - 1
            group_end = int(starts[group + 1])
            if fitting > group:
                rows = int(starts[fitting]) - row
            elif group_end - row <= min(budget, target_rows * 5 // 2):
                rows = group_end - row
            else:
                rows = min(budget, target_rows)
            last = int(np.searchsorted(starts, row + rows, side="left"))
            pieces.append(Piece(row, rows, group, last))
            row += rows
            budget -= rows
        return FilePlan(tuple(pieces), row, row, row >= total)

    def share_of_file(self, path: str, offset: int, row: int) -> float:
        return row / max(1, int(_group_starts(path)[-1]))


def _metadata(path: str) -> pq.FileMetaData:
    try:
        status = stat(path)
        return _cached_metadata(path, status.st_mtime_ns, status.st_size)
    except (OSError, pa.ArrowException) as failure:
        raise unreadable(path, failure, "Parquet") from failure


@lru_cache(maxsize=64)
def _cached_metadata(path: str, mtime_ns: int, size: int) -> pq.FileMetaData:
    return pq.read_metadata(path)


def _group_starts(path: str) -> Int64s:
    """The number of the first row of each row group, then the number of rows."""
    metadata = _metadata(path)
    sizes = [metadata.row_group(i).num_rows for i in range(metadata.num_row_groups)]
    return np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)]).astype(np.int64)


def check_schema(stream: StreamDefinition, path: str, schema: pa.Schema) -> dict[str, pa.Field]:
    """The file's field for every column of the stream, or SourceError."""
    found: dict[str, pa.Field] = {}
    for column, place in zip(stream.schema, column_places(stream, schema.names, path), strict=True):
        field = schema.field(place)
        if not _fits(field.type, column.type):
            raise SourceError(
                f"'{path}': column '{column.name}' cannot be read as {column.type}",
                expected=_EXPECTED[column.type],
                got=str(field.type),
                hint="change the column's type in CREATE STREAM, or cast it when writing the file",
            )
        found[column.name] = field
    return found


_EXPECTED = {
    Type.BIGINT: "an integer of at most 64 bits, signed if it has all 64",
    Type.DOUBLE: "a float, a double or an integer",
    Type.STRING: "a string",
    Type.BOOLEAN: "a boolean",
    Type.TIMESTAMP: "a timestamp or a date",
}


def _fits(stored: pa.DataType, type: Type) -> bool:
    if pa.types.is_dictionary(stored):
        stored = stored.value_type
    is_integer = pa.types.is_integer(stored) and stored != pa.uint64()
    if type is Type.BIGINT:
        return bool(is_integer)
    if type is Type.DOUBLE:
        return bool(pa.types.is_floating(stored) or is_integer)
    if type is Type.STRING:
        return bool(pa.types.is_string(stored) or pa.types.is_large_string(stored))
    if type is Type.BOOLEAN:
        return bool(pa.types.is_boolean(stored))
    return bool(pa.types.is_timestamp(stored) or pa.types.is_date32(stored))


def read_parquet(stream: StreamDefinition, chunk: Chunk, columns: Sequence[str] | None) -> Rows:
    """The rows of a chunk."""
    metadata = _metadata(chunk.path)
    fields = check_schema(stream, chunk.path, metadata.schema.to_arrow_schema())
    asked = list(stream.schema.names if columns is None else columns)
    needed = [
        column
        for column in stream.schema
        if column.name in asked
        or column.name == stream.timestamp
        or (column.type is Type.TIMESTAMP and _may_overflow(metadata, fields[column.name], chunk))
    ]
    table = _read_range(chunk, metadata, [fields[column.name].name for column in needed], fields)
    typed: dict[str, pa.Array] = {}
    reasons: dict[int, list[str]] = {}
    keep = np.ones(chunk.rows, np.bool_)
    for column in needed:
        values, bad = _typed(column, table[fields[column.name].name], chunk.path)
        typed[column.name] = values
        if bad is not None:
            keep &= ~bad
            for i in np.flatnonzero(bad).tolist():
                reasons.setdefault(i, []).append(f"{column.name}: {OUT_OF_RANGE}")
    ts, missing, outside = event_times(typed.get(stream.timestamp), stream.unit, chunk.rows)
    if missing.any() or outside.any():
        for mask, why in ((missing, NO_TIMESTAMP), (outside, OUT_OF_RANGE)):
            for i in np.flatnonzero(mask).tolist():
                reasons.setdefault(i, []).append(f"{stream.timestamp}: {why}")
        keep &= ~(missing | outside)
    rejects = Rejects(chunk.path)
    # A value that microseconds cannot hold has become NULL; one reason for it is enough.
    for i in sorted(reasons):
        rejects.add(chunk.first_row + i, reasons[i][0], _row_text(table, i))
    numbers = np.arange(chunk.first_row, chunk.first_row + chunk.rows, dtype=np.int64)
    answer = pa.table({name: typed[name] for name in asked})
    if reasons:
        ts, numbers = ts[keep], numbers[keep]
        answer = answer.filter(pa.array(keep)) if asked else answer
    return Rows(ts, answer, numbers, rejects.to_table())


def _read_range(
    chunk: Chunk, metadata: pq.FileMetaData, names: list[str], fields: dict[str, pa.Field]
) -> pa.Table:
    """Rows `first_row … first_row + rows`, decoding as little after them as possible."""
    before = sum(metadata.row_group(i).num_rows for i in range(chunk.begin))
    skip = chunk.first_row - before
    in_groups = sum(metadata.row_group(i).num_rows for i in range(chunk.begin, chunk.end))
    dictionaries = [f.name for f in fields.values() if _is_stored_as_dictionary(metadata, f, chunk)]
    groups = list(range(chunk.begin, chunk.end))
    try:
        with pq.ParquetFile(
            chunk.path, metadata=metadata, read_dictionary=dictionaries, memory_map=True
        ) as file:
            if skip + chunk.rows == in_groups:
                return file.read_row_groups(groups, columns=names, use_threads=False).slice(skip, chunk.rows)
            wanted: list[pa.RecordBatch] = []
            seen = 0
            for batch in file.iter_batches(131_072, groups, names, use_threads=False):
                first, last = max(skip - seen, 0), min(skip + chunk.rows - seen, len(batch))
                if first < last:
                    wanted.append(batch.slice(first, last - first))
                seen += len(batch)
                if seen >= skip + chunk.rows:
                    break
            return pa.Table.from_batches(wanted)
    except (OSError, pa.ArrowException) as failure:
        raise unreadable(chunk.path, failure) from failure


def _column_index(metadata: pq.FileMetaData, field: pa.Field) -> int:
    return next(i for i in range(metadata.num_columns) if metadata.schema.column(i).path == field.name)


def _is_stored_as_dictionary(metadata: pq.FileMetaData, field: pa.Field, chunk: Chunk) -> bool:
    if not (pa.types.is_string(field.type) or pa.types.is_large_string(field.type)):
        return False
    index = _column_index(metadata, field)
    # The first row group decides: a file's writer treats a column alike throughout, and a plain page
    # in a column read as dictionary costs time but not correctness.
    return bool(metadata.row_group(chunk.begin).column(index).has_dictionary_page)


def _may_overflow(metadata: pq.FileMetaData, field: pa.Field, chunk: Chunk) -> bool:
    """Whether a timestamp of a coarser unit may lie beyond what 64 bits of microseconds hold."""
    if not pa.types.is_timestamp(field.type) or field.type.unit in ("us", "ns"):
        return False
    index = _column_index(metadata, field)
    for group in range(chunk.begin, chunk.end):
        column = metadata.row_group(group).column(index)
        if not column.is_stats_set or not column.statistics.has_min_max:
            return True
        try:
            years = (column.statistics.min.year, column.statistics.max.year)
        except (AttributeError, ValueError, OverflowError):
            return True
        if not all(1 <= year <= 9999 for year in years):
            return True
    return False


def _typed(column: Column, values: pa.ChunkedArray, path: str) -> tuple[pa.Array, Bools | None]:
    """The column in its CQL type, and the mask of TIMESTAMP values that have no microseconds."""
    array = one_array(values)
    if isinstance(array, pa.ChunkedArray):
        array = pa.concat_arrays(array.chunks) if array.num_chunks else pa.array([], array.type)
    if column.type is Type.STRING:
        return _strings(column, array, path), None
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    if column.type is Type.TIMESTAMP:
        return _timestamps(array)
    # Integers beyond 2**53 lose digits as doubles; that is what the user asked for by declaring DOUBLE.
    return array.cast(pa.int64() if column.type is Type.BIGINT else _target(column.type), safe=False), None


def _target(type: Type) -> pa.DataType:
    return pa.float64() if type is Type.DOUBLE else pa.bool_()


def _strings(column: Column, array: pa.Array, path: str) -> pa.Array:
    target = pa.string()
    if pa.types.is_dictionary(array.type):
        target = pa.dictionary(pa.int32(), pa.string())
    try:
        if array.type != target:
            array = array.cast(target)
        values = array.dictionary if pa.types.is_dictionary(target) else array
        values.validate(full=True)
    except pa.ArrowInvalid as failure:
        raise DataError(
            f"'{path}': column '{column.name}' holds bytes that are not UTF-8",
            hint="Parquet strings must be UTF-8: write the file anew",
        ) from failure
    return array


def _timestamps(array: pa.Array) -> tuple[pa.Array, Bools | None]:
    if pa.types.is_date32(array.type):
        return array.cast(pa.timestamp("us")), None
    ticks = array.cast(pa.int64())
    unit = array.type.unit
    if unit == "ns":
        return _floor_divide(ticks, 1_000).cast(pa.timestamp("us")), None
    scale = _TICKS[unit]
    limit = (2**63 - 1) // scale
    outside = None
    if scale != 1:
        beyond = pc.fill_null(pc.or_(pc.greater(ticks, limit), pc.less(ticks, -limit)), False)
        mask = beyond.to_numpy(zero_copy_only=False)
        if mask.any():
            outside = mask
            ticks = pc.if_else(beyond, pa.scalar(None, pa.int64()), ticks)
        ticks = pc.multiply(ticks, scale)
    return ticks.cast(pa.timestamp("us")), outside


def _floor_divide(ticks: pa.Array, by: int) -> pa.Array:
    """Arrow divides towards zero; time before 1970 must round the same way as after it."""
    values = ticks.fill_null(0).to_numpy(zero_copy_only=False) // by
    return pa.array(values, mask=ticks.is_null().to_numpy(zero_copy_only=False))


def _row_text(table: pa.Table, i: int) -> str:
    row: dict[str, Any] = {}
    for name in table.column_names:
        try:
            row[name] = table[name][i].as_py()
        except (ValueError, OverflowError):
            row[name] = table[name][i].cast(pa.int64()).as_py()
    return json.dumps(row, default=str, ensure_ascii=False)
