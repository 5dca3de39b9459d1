from __future__ import annotations

import datetime as dt
import math
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.connectors.sources.source_kit import B, D, F, S, T

from sash.connectors.sources.convert import complaint, convert
from sash.lang.types import Type

BAD = object()


def converted(text: str | None, type: Type) -> Any:
    values, bad = convert(pa.array([text], pa.string()), type)
    if bad is not None and bad[0]:
        assert values[0].as_py() is None
        return BAD
    if type is T:
        values = values.cast(pa.int64())
    return values[0].as_py()


@pytest.mark.parametrize(
    ("type", "text", "expected"),
    [
        (B, "0", 0),
        (B, " +7 ", 7),
        (B, "-007", -7),
        (B, "9223372036854775807", 2**63 - 1),
        (B, "-9223372036854775808", -(2**63)),
        (B, "9223372036854775808", BAD),
        (B, "-9223372036854775809", BAD),
        (B, "99999999999999999999999", BAD),
        (B, "0x10", BAD),
        (B, "1.0", BAD),
        (B, "1e3", BAD),
        (B, "", BAD),
        (B, "  ", BAD),
        (B, "-", BAD),
        (B, "1_000", BAD),
        (B, "١", BAD),
        (B, None, None),
        (D, " 1.5 ", 1.5),
        (D, "+.5", 0.5),
        (D, "5.", 5.0),
        (D, "-1E-3", -0.001),
        (D, "-Inf", -math.inf),
        (D, "Infinity", math.inf),
        (D, "1e400", math.inf),
        (D, "0.1", 0.1),
        (D, "0x10", BAD),
        (D, ".", BAD),
        (D, "1e", BAD),
        (D, "", BAD),
        (D, "1,5", BAD),
        (D, "infin", BAD),
        (D, None, None),
        (F, "TRUE", True),
        (F, " f ", False),
        (F, "False", False),
        (F, "1", True),
        (F, "0", False),
        (F, "yes", BAD),
        (F, "tru", BAD),
        (F, "\x11", BAD),
        (F, "", BAD),
        (F, None, None),
        (S, "", ""),
        (S, " x ", " x "),
        (S, None, None),
        (T, "1970-01-01", 0),
        (T, " 1970-01-01T00:00:01Z ", 1_000_000),
        (T, "1970-01-01 00:00", 0),
        (T, "1970-01-01T00:00:00.1", 100_000),
        (T, "1970-01-01T00:00:00.123456789z", 123_456),
        (T, "1969-12-31T23:59:59.9999999", -1),
        (T, "1970-01-01T01:00:00+01:00", 0),
        (T, "1970-01-01T00:00:00-0130", 5_400_000_000),
        (T, "1970-01-01T02:00:00+02", 0),
        (T, "2000-02-29", 951_782_400_000_000),
        (T, "1900-02-29", BAD),
        (T, "2023-02-29", BAD),
        (T, "2023-04-31", BAD),
        (T, "2023-13-01", BAD),
        (T, "0000-01-01", BAD),
        (T, "10000-01-01", BAD),
        (T, "-001-01-01", BAD),
        (T, "2023-01-01T24:00:00", BAD),
        (T, "2023-01-01T00:60:00", BAD),
        (T, "2023-01-01T00:00:60", BAD),
        (T, "2023-01-01T00:00:00.", BAD),
        (T, "2023-01-01T00:00:00.1234567890", BAD),
        (T, "2023-01-01T00:00:00+1", BAD),
        (T, "2023-01-01T00:00:00+01:", BAD),
        (T, "2023-01-01T", BAD),
        (T, "2023-01-01T00", BAD),
        (T, "2023-01-01x00:00:00", BAD),
        (T, "2023/01/01", BAD),
        (T, "2023-1-1", BAD),
        (T, "2023-01-01T00:00:00Zx", BAD),
        (T, "", BAD),
        (T, "x", BAD),
        (T, None, None),
    ],
)
def test_spelling(type: Type, text: str | None, expected: Any) -> None:
    assert converted(text, type) == expected


def test_nan_and_negative_zero() -> None:
    assert math.isnan(converted("NaN", D))
    assert math.copysign(1, converted("-0", D)) == -1


def test_sliced_arrays_and_mixed_values() -> None:
    strings = pa.array(["9", "1", None, "x", " 2", "8"])[1:5]
    values, bad = convert(strings, B)
    assert values.to_pylist() == [1, None, None, 2]
    assert bad is not None
    assert bad.tolist() == [False, False, True, False]
    assert convert(pa.array([], pa.string()), T)[0].to_pylist() == []
    assert convert(pa.nulls(2, pa.string()), D)[0].to_pylist() == [None, None]


def test_complaints_are_short() -> None:
    assert complaint("length", "abc", B) == "length: 'abc' is not a BIGINT"
    assert len(complaint("x", "9" * 1000, B)) < 110


@settings(derandomize=True, deadline=None, max_examples=200)
@given(st.datetimes(), st.integers(-14 * 60, 14 * 60), st.sampled_from("T "))
def test_timestamps_agree_with_datetime(moment: dt.datetime, minutes: int, separator: str) -> None:
    zone = dt.timezone(dt.timedelta(minutes=minutes))
    expected = (moment - dt.datetime(1970, 1, 1) - dt.timedelta(minutes=minutes)) // dt.timedelta(
        microseconds=1
    )
    assert converted(moment.replace(tzinfo=zone).isoformat(separator), T) == expected


@settings(derandomize=True, deadline=None, max_examples=200)
@given(st.floats(allow_nan=False), st.integers(-(2**63), 2**63 - 1), st.text(max_size=8))
def test_numbers_round_trip_and_text_never_breaks_a_converter(x: float, n: int, text: str) -> None:
    assert converted(repr(x), D) == x
    assert converted(str(n), B) == n
    for type in Type:
        converted(text, type)
