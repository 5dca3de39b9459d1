from __future__ import annotations

from datetime import UTC, datetime

import pytest

from sash.cli import format as show


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.214, "0.21 s"),
        (9.99, "9.99 s"),
        (12.34, "12.3 s"),
        (59.99, "1 min 00 s"),
        (125, "2 min 05 s"),
        (3720, "1 h 02 min"),
    ],
)
def test_durations_take_the_unit_that_fits(seconds, text):
    assert show.duration(seconds) == text


@pytest.mark.parametrize(
    ("item", "text"),
    [
        (None, "NULL"),
        (True, "true"),
        (1234567, "1,234,567"),
        (-1234.5, "-1,234.50"),
        (0.000123456, "0.0001235"),
        (1e18, "1e+18"),
        (0.0, "0.00"),
        ("10.0.0.1", "10.0.0.1"),
        (datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC), "2026-01-02 03:04:05"),
    ],
)
def test_values_are_written_for_people(item, text):
    assert show.value(item) == text


def test_a_number_that_names_something_has_no_separators():
    assert show.value(8080, separators=False) == "8080"


def test_control_characters_never_reach_the_terminal():
    assert show.value("a\x1b[31mb\n") == "a\\x1b[31mb\\n"


def test_an_instant_is_utc_or_the_stream_s_own_integer():
    micros = 1_790_000_000_500_000
    assert show.instant(micros, None) == "2026-09-21 14:13:20.5 UTC"
    assert show.instant(42_000_000, 1_000_000) == "42"
    assert show.instant(42_000_000, 1_000) == "42000"


def test_an_instant_beyond_the_calendar_is_still_shown():
    assert show.instant(2**62, None) == f"{2**62} µs"


def test_percent_says_hundred_only_at_the_end():
    assert show.percent(0.999) == "99 %"
    assert show.percent(1.0) == "100 %"


def test_rate_of_no_time_is_no_number():
    assert show.rate(10, 0.0) == "– rows/s"
    assert show.rate(10_000, 2.0) == "5,000 rows/s"


def test_counted_knows_singular_and_plural():
    assert show.counted(1, "query", "queries") == "1 query"
    assert show.counted(2000, "row") == "2,000 rows"


def test_the_clock_of_a_run_is_shown_to_the_tenth_of_a_second():
    assert show.clock(1_790_000_000_987_654, None) == "2026-09-21 14:13:20.9 UTC"
    assert show.clock(-1, None) == "1969-12-31 23:59:59.9 UTC"
    assert show.clock(1_234_567, 1) == "1234567"


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0 B"), (812, "812 B"), (1_500, "1.5 kB"), (999_600, "1 MB"), (2_250_000_000, "2.25 GB")],
)
def test_sizes_have_three_digits(count, text):
    assert show.size(count) == text
