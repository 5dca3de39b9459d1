"""The parameters of the examples in 002, section 5.3.2. Streams are numbered from 1 there, from 0 here."""

from sash.plan.cost.joins import WindowStatistics

TABLE_5_3 = (
    WindowStatistics(10, 100, 500),
    WindowStatistics(1, 100, 50),
    WindowStatistics(1, 200, 40),
    WindowStatistics(3, 100, 5),
)
_REST_OF_5_5 = (
    WindowStatistics(1, 100, 100),
    WindowStatistics(1, 100, 8),
    WindowStatistics(1, 100, 5),
)
# The published costs follow from λ₁ = 10, although the table prints 100.
TABLE_5_5 = (WindowStatistics(10, 100, 40), *_REST_OF_5_5)
TABLE_5_5_AS_PRINTED = (WindowStatistics(100, 100, 40), *_REST_OF_5_5)
TABLE_5_6 = (
    WindowStatistics(11, 100, 200),
    WindowStatistics(10, 100, 100),
    WindowStatistics(1, 100, 65),
    WindowStatistics(1, 100, 20),
)


def order(streams: str) -> tuple[int, ...]:
    """S3, S1, … written as "31…"."""
    return tuple(int(stream) - 1 for stream in streams)
