"""Columns as text: how numbers, times and flags are spelled in JSON, CSV and on the console.

Vectorised with Arrow compute; large strings throughout, so no amount of text overflows an offset.
NULL stays NULL: what it looks like is the format's affair.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sash.state.jit import kernel

# The years that Arrow's formatting is known to get right, in microseconds since 1970.
_YEAR_1, _YEAR_10000 = -62_135_596_800_000_000, 253_402_300_800_000_000

TEXT = pa.large_string()


def text_of(column: pa.ChunkedArray | pa.Array) -> pa.Array:
    """The column as large strings: ISO 8601 in UTC with six digits, shortest doubles, true and false."""
    array = flat(column)
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    if pa.types.is_timestamp(array.type):
        return _timestamps(array)
    if pa.types.is_floating(array.type):
        return _doubles(array.cast(pa.float64()))
    return array.cast(TEXT)


def flat(column: pa.ChunkedArray | pa.Array) -> pa.Array:
    if isinstance(column, pa.ChunkedArray):
        if column.num_chunks == 1:
            return column.chunk(0)
        return pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)
    return column


def literal(text: str) -> pa.Scalar:
    return pa.scalar(text, TEXT)


def join(*parts: pa.Array | pa.Scalar) -> pa.Array:
    """Parts glued row by row; NULL where one is NULL."""
    return pc.binary_join_element_wise(*parts, literal(""))


def not_finite(column: pa.ChunkedArray | pa.Array) -> pa.Array | None:
    """Which values of a double column are NaN or infinite; None where that cannot be."""
    array = flat(column)
    if not pa.types.is_floating(array.type):
        return None
    finite = pc.is_finite(array)
    return None if pc.all(finite).as_py() is not False else pc.invert(finite)


def _timestamps(array: pa.Array) -> pa.Array:
    micros = array.cast(pa.timestamp("us", array.type.tz)).cast(pa.int64())
    values = micros.fill_null(0).to_numpy(zero_copy_only=False)
    if values.min(initial=0) >= _YEAR_1 and values.max(initial=0) < _YEAR_10000:
        return _iso(micros, values)
    # Arrow's years have 16 bits; numpy's have enough.
    text = np.char.add(np.datetime_as_string(values.view("datetime64[us]"), unit="us"), "Z")
    return pc.if_else(micros.is_valid(), pa.array(text.tolist(), TEXT), pa.scalar(None, TEXT))


@kernel
def _put(out: npt.NDArray[np.uint8], row: int, at: int, places: int, value: int) -> None:
    for place in range(at + places - 1, at - 1, -1):
        out[row, place] = 48 + value % 10
        value //= 10


@kernel
def _spell(micros: npt.NDArray[np.int64], out: npt.NDArray[np.uint8]) -> None:
    for row in range(len(micros)):
        if row > 0 and micros[row] == micros[row - 1]:
            # Rows of one answer have one instant.
            for place in range(out.shape[1]):
                out[row, place] = out[row - 1, place]
            continue
        days = micros[row] // 86_400_000_000
        rest = micros[row] - days * 86_400_000_000
        # The civil date of a day number, by way of years that begin in March.
        shifted = days + 719468
        era = shifted // 146097
        of_era = shifted - era * 146097
        year_of_era = (of_era - of_era // 1460 + of_era // 36524 - of_era // 146096) // 365
        of_year = of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
        shifted_month = (5 * of_year + 2) // 153
        day = of_year - (153 * shifted_month + 2) // 5 + 1
        month = shifted_month + 3 if shifted_month < 10 else shifted_month - 9
        year = year_of_era + era * 400 + (1 if month <= 2 else 0)
        seconds = rest // 1_000_000
        _put(out, row, 0, 4, year)
        _put(out, row, 5, 2, month)
        _put(out, row, 8, 2, day)
        _put(out, row, 11, 2, seconds // 3600)
        _put(out, row, 14, 2, seconds // 60 % 60)
        _put(out, row, 17, 2, seconds % 60)
        _put(out, row, 20, 6, rest - seconds * 1_000_000)


_SHAPE = np.frombuffer(b"0000-00-00T00:00:00.000000Z", np.uint8)


def _iso(micros: pa.Array, values: npt.NDArray[np.int64]) -> pa.Array:
    n = len(micros)
    out = np.tile(_SHAPE, (n, 1))
    _spell(values, out)
    offsets = np.arange(n + 1, dtype=np.int64) * len(_SHAPE)
    text = pa.LargeStringArray.from_buffers(n, pa.py_buffer(offsets), pa.py_buffer(out))
    return text if not micros.null_count else pc.if_else(micros.is_valid(), text, pa.scalar(None, TEXT))


def _doubles(array: pa.Array) -> pa.Array:
    text = array.cast(TEXT)
    # 1.0 and not 1: a reader that infers types should find a double.
    whole = pc.match_substring_regex(text, r"^-?[0-9]+$")
    if pc.any(whole).as_py():
        text = pc.if_else(whole, join(text, literal(".0")), text)
    odd = not_finite(array)
    if odd is not None:
        infinity = pc.if_else(pc.greater(array, 0), literal("Infinity"), literal("-Infinity"))
        text = pc.if_else(odd, pc.if_else(pc.is_nan(array), literal("NaN"), infinity), text)
    return text
