"""Hypothesis strategies: random streams and random programs of the CQL that runs today.

Values are chosen so that a right answer is one answer: doubles are multiples of ¼ (their sums are exact in
any order), NaN and infinities come now and then, integers stay where AVG is exact. Times have ties, gaps,
bursts, negative instants and rows out of order within SLACK and beyond it. Instants are few (some dozens of
slides), because the oracle recomputes each.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

from hypothesis import strategies as st

from sash.lang.intervals import write as write_interval
from sash.testing.scenario import Scenario
from sash.testing.streams import Clock, MadeRow, MadeStream

WORDS = ("a", "b", "B", "é", "", 'q"u,o', "zz")
_ODD_DOUBLES = (float("nan"), float("inf"), float("-inf"), -0.0)
_ORIGINS = (0, 1, -37, -5, 1_000_003)

KEYS = (
    "k",
    "g",
    "b",
    "x",
    "n",
    "at",
    "n % 3",
    "n DIV 2",
    "UPPER(k)",
    "COALESCE(k, 'none')",
    "x > 0.5",
    "x - x",
    "x * -1",
    "CASE WHEN g = 1 THEN 'one' ELSE k END",
    "EXTRACT(SECOND FROM at)",
)
AGGREGATES = (
    "COUNT(*)",
    *(f"COUNT({c})" for c in ("n", "x", "k", "b", "at")),
    *(f"{f}({c})" for f in ("SUM", "AVG") for c in ("n", "x", "g * 2", "x * 0.5")),
    *(f"{f}({c})" for f in ("MIN", "MAX") for c in ("n", "x", "k", "b", "at", "UPPER(k)", "t")),
)
# Variances are of small numbers, so that rounding them does not depend on how they are computed.
OF_VALUES = (
    *(f"COUNT(DISTINCT {c})" for c in ("n", "x", "k", "b", "at", "n % 3")),
    *(f"{f}(DISTINCT {c})" for f in ("SUM", "AVG") for c in ("n", "x", "g * 2")),
    *(f"ROUND({f}({c}), 9)" for f in ("VAR", "VAR_POP", "STDDEV", "STDDEV_POP") for c in ("g", "n % 3")),
    *(f"MEDIAN({c})" for c in ("n", "x", "k", "b", "at", "t")),
    *(f"QUANTILE({c}, {p})" for c in ("n", "x", "k") for p in (0.07, 0.25, 0.9, 1)),
    *(f"TOP({c}, {k})" for c in ("n", "k", "b", "UPPER(k)") for k in (1, 3)),
    *(f"HISTOGRAM({c})" for c in ("n", "k", "b", "UPPER(k)")),
    *(f"HISTOGRAM({c}, BOUNDS({b}))" for c, b in (("n", "-1, 2"), ("x", "0.25"), ("k", "'a', 'b', 'é'"))),
    "HISTOGRAM(n % 3, -2, 2, 4)",
    "HISTOGRAM(x, -1, 1, 3)",
)
# What the oracle has no definition of.
OF_LISTS = (
    *(f"FREQUENT({c}, {k})" for c in ("k", "n", "x", "b") for k in (1, 2)),
    "APPROX_COUNT_DISTINCT(n)",
    "APPROX_QUANTILE(x, 0.25)",
    "APPROX_TOP(k, 2)",
)
COMBINED = (
    "MAX(n) - MIN(n)",
    "SUM(n) + COUNT(*)",
    "COALESCE(SUM(n), 0)",
    "SUM(x) / COUNT(*)",
    "SUM(x) * -1",
    "COUNT(*) > 2",
    "CONCAT(MIN(k), '-', MAX(k))",
    "CASE WHEN COUNT(x) = 0 THEN NULL ELSE SUM(g) END",
    "COUNT(*) * 0",
    "COUNT(DISTINCT k) < COUNT(k)",
    "MEDIAN(n) - MIN(n)",
    "CONCAT(TOP(k, 2), MEDIAN(k))",
)
WHERES = (
    "n > 0",
    "n >= 1 AND k = 'a'",
    "x < 1.5",
    "x <> 0.25",
    "k <> 'b'",
    "k IS NOT NULL",
    "b",
    "NOT b OR g = 1",
    "n IN (1, 2)",
    "x = x",
    "k > 'a'",
    "at IS NULL OR g BETWEEN 0 AND 1",
    "g = 99",
)
HAVINGS = (
    "COUNT(*) > 1",
    "SUM(n) > 2",
    "MAX(x) <= 1.0",
    "MIN(k) = 'a'",
    "COUNT(*) > 1 AND SUM(n) >= 0",
    "AVG(x) < 0.5",
    "MAX(k) <> MIN(k) OR COUNT(b) = 0",
    "COUNT(DISTINCT n) > 1",
    "MEDIAN(k) = 'a' OR QUANTILE(n, 0.9) > 1",
)
COLUMNS = ("k", "g", "n", "x", "b", "at", "n + 1", "x * 2.0", "k || '!'", "t", "7")


# Strategies that do not depend on what was drawn are made once: Hypothesis checks each new one.
_DOUBLES = st.integers(-8, 8).map(lambda quarters: quarters / 4)
_FAULTS = st.integers(0, 9)
_HALVES = st.one_of(st.integers(1, 24), st.integers(1, 12).map(lambda n: 2 * n))
_WHERE = st.one_of(st.just(""), st.sampled_from(WHERES).map(lambda c: f" WHERE {c}"))
_HAVING = st.one_of(st.just(""), st.just(""), st.sampled_from(HAVINGS).map(lambda c: f" HAVING {c}"))
_SHOWN = st.lists(st.sampled_from(COLUMNS), min_size=1, max_size=3, unique=True)
_GROUPED = st.lists(st.sampled_from(KEYS), max_size=2, unique=True)


@functools.cache
def _row(odd: bool) -> st.SearchStrategy[MadeRow]:
    """A row without its time; `odd` allows NaN and infinities."""
    return st.builds(
        MadeRow,
        time=st.none(),
        k=st.one_of(st.none(), st.sampled_from(WORDS)),
        g=st.one_of(st.none(), st.integers(0, 2)),
        n=st.one_of(
            st.none(), st.integers(-3, 5), st.integers(-3, 5), st.sampled_from((1 << 40, -(1 << 40)))
        ),
        x=st.one_of(st.none(), _DOUBLES, st.sampled_from(_ODD_DOUBLES) if odd else _DOUBLES),
        b=st.sampled_from((None, True, False)),
        at=st.one_of(st.none(), st.sampled_from((0, 1_500_000, -1, 1_700_000_000_000_000))),
    )


@functools.cache
def _among(values: tuple[int, ...], count: int) -> st.SearchStrategy[list[int]]:
    return st.lists(st.sampled_from(values), min_size=count, max_size=count)


@functools.cache
def _aggregates(defined: bool, least: int) -> st.SearchStrategy[list[str]]:
    kinds = (AGGREGATES, OF_VALUES, COMBINED) if defined else (OF_LISTS, OF_LISTS, OF_VALUES)
    kind = st.one_of(*(st.sampled_from(kind) for kind in kinds))
    return st.lists(kind, min_size=least, max_size=3, unique=True)


@st.composite
def rows(draw: st.DrawFn, times: Sequence[int], *, odd: bool, bad: bool, is_csv: bool) -> tuple[MadeRow, ...]:
    """Rows with the given times; `odd` allows NaN and infinities, `bad` rows that do not fit the schema."""
    one = _row(odd)
    made = []
    for time in times:
        row = draw(one)
        fault = draw(_FAULTS) if bad else 0
        made.append(
            MadeRow(
                None if fault == 9 else time,
                *(row.k, row.g, row.n, row.x, row.b, row.at),
                spoilt="1x" if fault == 8 and is_csv else None,
            )
        )
    return tuple(made)


@st.composite
def times(draw: st.DrawFn, count: int, slack: int, origin: int) -> list[int]:
    """Ticks in order of arrival: ties, bursts and gaps, some rows moved back by up to SLACK or more."""
    now = origin
    speed = draw(st.sampled_from(((0, 0, 0, 1, 2), (0, 1, 1, 2, 3, 7), (0, 1, 5, 19))))
    steps = draw(_among(speed, count))
    delays = (0, 0, 0, 0, 1, slack, slack, slack + 1, 11)
    backs = draw(_among(delays, count) if draw(st.booleans()) else st.just([0] * count))
    arrived = []
    for step, back in zip(steps, backs, strict=True):
        now += step
        arrived.append(now - back)
    return arrived


@st.composite
def streams(draw: st.DrawFn, name: str, most_rows: int, clock: Clock, origin: int) -> MadeStream:
    """A stream of up to `most_rows` rows in one to three files; its times begin at about `origin` ticks."""
    slack = draw(st.sampled_from((0, 0, 1, 3)))
    is_csv = draw(st.booleans())
    count = draw(st.integers(1, most_rows))
    ticks = draw(times(count, slack, origin))
    made = draw(rows(ticks, odd=draw(st.booleans()), bad=draw(st.booleans()), is_csv=is_csv))
    pieces = draw(st.lists(st.integers(1, max(1, count // 2)), max_size=2))
    return MadeStream(name, clock, slack * clock.tick, "csv" if is_csv else "parquet", made, tuple(pieces))


@st.composite
def windows(draw: st.DrawFn, clock: Clock) -> str:
    """RANGE and SLIDE in ticks: multiples, no multiples, and slides longer than the range."""
    slide = draw(st.sampled_from((1, 2, 3, 4, 5, 7, 10))) * max(clock.tick, clock.size)
    length = draw(_HALVES) * clock.tick // 2
    return f"[RANGE {write_interval(length)} SLIDE {write_interval(slide)}]"


@st.composite
def selects(draw: st.DrawFn, stream: MadeStream, *, defined: bool = True) -> str:
    """A SELECT over the stream, grouped or not; of aggregates that the oracle knows, if `defined`."""
    where = draw(_WHERE)
    source = f"FROM {stream.name} {draw(windows(stream.clock))}{where}"
    if draw(st.integers(0, 3)) == 0:
        distinct = draw(st.sampled_from(("", "DISTINCT ")))
        columns = draw(_SHOWN)
        listed = ", ".join(f"{column} AS c{i}" for i, column in enumerate(columns))
        return f"SELECT {distinct}{listed} {source}"
    keys = draw(_GROUPED)
    shown = keys if draw(st.integers(0, 2)) else draw(st.sampled_from((keys[:1], [])))
    aggregates = draw(_aggregates(defined, 0 if shown else 1))
    listed = ", ".join(f"{item} AS c{i}" for i, item in enumerate([*shown, *aggregates]))
    grouping = f" GROUP BY {', '.join(keys)}" if keys else ""
    having = draw(_HAVING)
    return f"SELECT {listed} {source}{grouping}{having}"


@st.composite
def queries(
    draw: st.DrawFn, name: str, stream: MadeStream, sinks: Sequence[str], *, defined: bool = True
) -> str:
    """A CREATE QUERY whose answers go into a file called after it."""
    operator = draw(st.sampled_from(("", "", "Istream", "Dstream", "Rstream")))
    select = draw(selects(stream, defined=defined))
    sink = draw(st.sampled_from(sinks))
    ending = "" if sink == "parquet" else f".{sink}"
    body = f"{operator}({select})" if operator else select
    return f"CREATE QUERY {name} INTO '{sink}:{name}{ending}' AS\n  {body};\n"


@st.composite
def scenarios(
    draw: st.DrawFn,
    *,
    most_rows: int = 25,
    most_queries: int = 6,
    most_streams: int = 2,
    sinks: Sequence[str] = ("jsonl", "csv", "parquet"),
    defined: bool = True,
) -> Scenario:
    """A program of one to `most_queries` queries over one or more streams, each of which is read.

    The oracle knows all of its aggregates if it is `defined`.
    """
    count = draw(st.integers(1, most_streams))
    # One clock and about one beginning for all: the oracle answers every slide of the time they span.
    clock = draw(st.sampled_from(Clock))
    origin = draw(st.sampled_from(_ORIGINS))
    made = tuple(
        draw(streams(f"s{number}", most_rows, clock, origin + draw(st.sampled_from((0, 0, 4, -9)))))
        for number in range(count)
    )
    read = [*made, *(draw(st.sampled_from(made)) for _ in range(draw(st.integers(0, most_queries - count))))]
    texts = (
        draw(queries(f"q{number}", stream, sinks, defined=defined)) for number, stream in enumerate(read)
    )
    return Scenario(made, tuple(texts))
