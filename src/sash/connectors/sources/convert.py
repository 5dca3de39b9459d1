"""Text to typed columns: the one place that says how a BIGINT, DOUBLE, BOOLEAN or TIMESTAMP is spelled.

Every converter takes an Arrow string array and gives a typed array of the same length, NULL where the
text was NULL or bad, and the mask of the bad ones. Spaces around a value do not count, except in a
STRING. The grammars are spelled out in compiled kernels rather than left to a library's cast, whose
ideas (hexadecimal integers, say) are not ours and change between versions.

Cost, measured on a busy core: about 50 M integers/s, 15 to 30 M timestamps/s.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sash.connectors.sources.chunk import Bools, Int64s
from sash.connectors.sources.records import Bytes, as_bytes
from sash.lang.types import Type
from sash.state.jit import kernel

Offsets = npt.NDArray[np.int32]

ARROW_TYPES = {
    Type.BIGINT: pa.int64(),
    Type.DOUBLE: pa.float64(),
    Type.STRING: pa.string(),
    Type.BOOLEAN: pa.bool_(),
    Type.TIMESTAMP: pa.timestamp("us"),
}

TS_LIMIT = 1 << 62
"""Timestamps lie within ±TS_LIMIT microseconds, so that adding a window's range never overflows."""

_SHOWN = 80


@kernel
def _bigints(data: Bytes, offsets: Offsets, null: Bools, out: Int64s, bad: Bools) -> int:
    count = 0
    for row in range(len(out)):
        out[row] = 0
        if null[row]:
            continue
        i, end = offsets[row], offsets[row + 1]
        while i < end and data[i] == 32:
            i += 1
        while i < end and data[end - 1] == 32:
            end -= 1
        negative = False
        if i < end and (data[i] == 43 or data[i] == 45):
            negative = data[i] == 45
            i += 1
        ok = i < end
        # Summed up as a negative number: that side reaches one further.
        value = np.int64(0)
        while i < end and ok:
            digit = np.int64(data[i]) - 48
            full = value < -922337203685477580 or (value == -922337203685477580 and digit > 8)
            ok = digit >= 0 and digit <= 9 and not full
            if ok:
                value = value * 10 - digit
            i += 1
        if ok and not negative:
            if value == np.int64(-9223372036854775808):
                ok = False
            value = -value
        if ok:
            out[row] = value
        else:
            bad[row] = True
            count += 1
    return count


@kernel
def _matches(data: Bytes, i: int, end: int, word: Bytes) -> bool:
    if end - i != len(word):
        return False
    same = True
    for k in range(len(word)):
        same = same and data[i + k] | 32 == word[k]
    return same


@kernel
def _booleans(
    data: Bytes, offsets: Offsets, null: Bools, true: Bytes, false: Bytes, out: Bools, bad: Bools
) -> int:
    count = 0
    for row in range(len(out)):
        out[row] = False
        if null[row]:
            continue
        i, end = offsets[row], offsets[row + 1]
        while i < end and data[i] == 32:
            i += 1
        while i < end and data[end - 1] == 32:
            end -= 1
        size = end - i
        first = data[i] | 32 if size else 0
        ok = False
        if size == 1:
            digit = data[i]
            ok = first == 116 or first == 102 or digit == 49 or digit == 48
            out[row] = first == 116 or digit == 49
        elif size == 4:
            ok = _matches(data, i, end, true)
            out[row] = ok
        elif size == 5:
            ok = _matches(data, i, end, false)
        if not ok:
            bad[row] = True
            count += 1
    return count


@kernel
def _check_doubles(
    data: Bytes, offsets: Offsets, null: Bools, inf: Bytes, infinity: Bytes, nan: Bytes, bad: Bools
) -> tuple[int, bool]:
    """Mark what is not [sign] digits [. digits] [e [sign] digits], inf, infinity or nan; any spaces?"""
    count = 0
    spaces = False
    for row in range(len(bad)):
        if null[row]:
            continue
        i, end = offsets[row], offsets[row + 1]
        while i < end and data[i] == 32:
            i += 1
            spaces = True
        while i < end and data[end - 1] == 32:
            end -= 1
            spaces = True
        if i < end and (data[i] == 43 or data[i] == 45):
            i += 1
        digits = 0
        word = i
        while i < end and data[i] >= 48 and data[i] <= 57:
            i += 1
            digits += 1
        if i < end and data[i] == 46:
            i += 1
            while i < end and data[i] >= 48 and data[i] <= 57:
                i += 1
                digits += 1
        ok = digits > 0
        if ok and i < end and data[i] | 32 == 101:
            i += 1
            if i < end and (data[i] == 43 or data[i] == 45):
                i += 1
            ok = i < end
            while i < end and data[i] >= 48 and data[i] <= 57:
                i += 1
        ok = ok and i == end
        if not ok:
            ok = _matches(data, word, end, inf) or _matches(data, word, end, infinity)
            ok = ok or _matches(data, word, end, nan)
        if not ok:
            bad[row] = True
            count += 1
    return count, spaces


@kernel
def _digits(data: Bytes, i: int, end: int, n: int) -> int:
    """The number in exactly n digits at i, or -1."""
    if i + n > end:
        return -1
    value = 0
    for k in range(i, i + n):
        if data[k] < 48 or data[k] > 57:
            return -1
        value = value * 10 + data[k] - 48
    return value


@kernel
def _timestamps(data: Bytes, offsets: Offsets, null: Bools, out: Int64s, bad: Bools) -> int:
    count = 0
    for row in range(len(out)):
        out[row] = 0
        if null[row]:
            continue
        i, end = offsets[row], offsets[row + 1]
        while i < end and data[i] == 32:
            i += 1
        while i < end and data[end - 1] == 32:
            end -= 1
        year = _digits(data, i, end, 4)
        month = _digits(data, i + 5, end, 2)
        day = _digits(data, i + 8, end, 2)
        ok = year >= 1 and month >= 1 and month <= 12 and day >= 1 and day <= 31
        ok = ok and data[i + 4] == 45 and data[i + 7] == 45
        if ok and day > 28:
            last = 31
            if month == 4 or month == 6 or month == 9 or month == 11:
                last = 30
            elif month == 2:
                last = 29 if year % 4 == 0 and (year % 100 != 0 or year % 400 == 0) else 28
            ok = day <= last
        i += 10
        micros = np.int64(0)
        if ok and i < end:
            ok = data[i] == 84 or data[i] == 116 or data[i] == 32
            hour = _digits(data, i + 1, end, 2)
            minute = _digits(data, i + 4, end, 2)
            ok = ok and hour >= 0 and hour <= 23 and minute >= 0 and minute <= 59 and data[i + 3] == 58
            i += 6
            second = 0
            if ok and i < end and data[i] == 58:
                second = _digits(data, i + 1, end, 2)
                ok = second >= 0 and second <= 59
                i += 3
            fraction = 0
            if ok and i < end and data[i] == 46:
                i += 1
                places = 0
                while i < end and data[i] >= 48 and data[i] <= 57:
                    if places < 6:
                        fraction = fraction * 10 + data[i] - 48
                    places += 1
                    i += 1
                ok = places >= 1 and places <= 9
                while places < 6:
                    fraction *= 10
                    places += 1
            zone = 0
            if ok and i < end:
                if data[i] == 90 or data[i] == 122:
                    i += 1
                elif data[i] == 43 or data[i] == 45:
                    sign = -1 if data[i] == 45 else 1
                    zone_hour = _digits(data, i + 1, end, 2)
                    zone_minute = 0
                    i += 3
                    if i < end:
                        if data[i] == 58:
                            i += 1
                        zone_minute = _digits(data, i, end, 2)
                        i += 2
                    ok = zone_hour >= 0 and zone_hour <= 23 and zone_minute >= 0 and zone_minute <= 59
                    zone = sign * (zone_hour * 60 + zone_minute)
                ok = ok and i == end
            if ok:
                micros = np.int64((hour * 60 + minute - zone) * 60 + second) * 1_000_000 + fraction
        if ok:
            # Days since 1970-01-01, with years that begin in March so that leap days come last.
            shifted = year - 1 if month <= 2 else year
            era = shifted // 400
            of_era = shifted - era * 400
            of_year = (153 * (month - 3 if month > 2 else month + 9) + 2) // 5 + day - 1
            days = era * 146097 + of_era * 365 + of_era // 4 - of_era // 100 + of_year - 719468
            out[row] = np.int64(days) * 86_400_000_000 + micros
        else:
            bad[row] = True
            count += 1
    return count


_INF, _INFINITY, _NAN = (as_bytes(word) for word in (b"inf", b"infinity", b"nan"))
_TRUE, _FALSE = as_bytes(b"true"), as_bytes(b"false")


def convert(strings: pa.Array, type: Type, *, decimals: bool = False) -> tuple[pa.Array, Bools | None]:
    """The typed array and the mask of bad values; no mask where all are good.

    `decimals`: a BIGINT may have a point or an exponent if it is a whole number, as in JSON, which has one
    kind of numbers only.
    """
    if type is Type.STRING:
        return strings, None
    data, offsets, null = _parts(strings)
    n = len(strings)
    bad = np.zeros(n, np.bool_)
    if type is Type.DOUBLE:
        return _doubles(strings, data, offsets, null, bad)
    if type is Type.BOOLEAN:
        flags = np.empty(n, np.bool_)
        wrong = _booleans(data, offsets, null, _TRUE, _FALSE, flags, bad)
        return pa.array(flags, mask=null | bad), bad if wrong else None
    values = np.empty(n, np.int64)
    parse: Callable[[Bytes, Offsets, Bools, Int64s, Bools], int]
    parse = _bigints if type is Type.BIGINT else _timestamps
    wrong = parse(data, offsets, null, values, bad)
    if wrong and decimals and type is Type.BIGINT:
        wrong -= _whole_decimals(strings, values, bad)
    mask = null | bad if wrong or strings.null_count else None
    return pa.array(values, ARROW_TYPES[type], mask=mask), bad if wrong else None


# Above it a double does not tell a whole number from the one next to it.
_WHOLE_LIMIT = 1 << 53


def _whole_decimals(strings: pa.Array, values: Int64s, bad: Bools) -> int:
    """Take whole numbers that are spelled with a point or an exponent for good; gives how many there were."""
    places = np.flatnonzero(bad)
    numbers, _ = convert(strings.take(pa.array(places)), Type.DOUBLE)
    doubles = numbers.fill_null(np.nan).to_numpy(zero_copy_only=False)
    good = (np.abs(doubles) < _WHOLE_LIMIT) & (np.floor(doubles) == doubles)
    values[places[good]] = doubles[good].astype(np.int64)
    bad[places[good]] = False
    return int(good.sum())


def _doubles(
    strings: pa.Array, data: Bytes, offsets: Offsets, null: Bools, bad: Bools
) -> tuple[pa.Array, Bools | None]:
    wrong, spaces = _check_doubles(data, offsets, null, _INF, _INFINITY, _NAN, bad)
    if wrong:
        strings = pc.if_else(pa.array(bad), pa.scalar(None, pa.string()), strings)
    if spaces:
        strings = pc.ascii_trim(strings, " ")
    return strings.cast(pa.float64()), bad if wrong else None


def _parts(strings: pa.Array) -> tuple[Bytes, Offsets, Bools]:
    n = len(strings)
    null = np.zeros(n, np.bool_)
    if strings.null_count:
        null = strings.is_null().to_numpy(zero_copy_only=False)
    _, offsets, data = strings.buffers()
    if n == 0 or offsets is None:
        return np.zeros(0, np.uint8), np.zeros(n + 1, np.int32), null
    first = strings.offset
    bytes_ = np.frombuffer(data, np.uint8) if data is not None and data.size else np.zeros(0, np.uint8)
    return bytes_, np.frombuffer(offsets, np.int32)[first : first + n + 1], null


def complaint(column: str, text: str | None, type: Type) -> str:
    """Why a value was refused, with as much of it as fits a line."""
    shown = text or ""
    if len(shown) > _SHOWN:
        shown = shown[:_SHOWN] + "…"
    return f"{column}: '{shown}' is not a {type}"


NO_TIMESTAMP = "no timestamp"
OUT_OF_RANGE = "out of range"


def event_times(column: pa.Array | None, unit: int, rows: int) -> tuple[Int64s, Bools, Bools]:
    """Microseconds of a BIGINT or TIMESTAMP column, and the masks of the missing and the too large.

    Rows without such a column, those of a relation that is read once, have the time 0.
    """
    if column is None:
        return np.zeros(rows, np.int64), np.zeros(rows, np.bool_), np.zeros(rows, np.bool_)
    if column.null_count:
        missing = column.is_null().to_numpy(zero_copy_only=False)
        values = column.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
    else:
        missing = np.zeros(len(column), np.bool_)
        values = column.cast(pa.int64()).to_numpy(zero_copy_only=False)
    limit = TS_LIMIT // unit
    outside = (values > limit) | (values < -limit)
    if unit != 1:
        values = np.where(outside, 0, values) * unit
    return values, missing, outside
