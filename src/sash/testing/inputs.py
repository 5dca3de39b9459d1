"""Hypothesis strategies for the input of random programs: streams and relations that meet.

Values are few, so that rows join, repeat and collide; there are NULLs, NaN, infinities and both zeros.
Doubles are multiples of ¼. Times have ties, gaps, bursts and rows out of order within SLACK and beyond it.
Streams of one program begin at about the same time.
"""

from __future__ import annotations

from dataclasses import replace

from hypothesis import strategies as st

from sash.testing.relations import MadeChange, MadeRelation
from sash.testing.streams import Clock, MadeRow, MadeStream

_WORDS = st.sampled_from(("a", "b", "a", "b", "a", None, "é", 'q"u,o', ""))
_SMALL = st.sampled_from((0, 1, 0, 1, 2, None))
_NUMBERS = st.sampled_from((0, 1, 2, 1, 2, 3, -1, None, 1 << 40))
_DOUBLES = st.sampled_from((0.5, 0.0, 0.5, 1.0, 0.25, None, -0.0, float("nan"), float("inf"), float("-inf")))
_FLAGS = st.sampled_from((True, False, None))
_MOMENTS = st.sampled_from((0, 1_500_000, None, -1))
_LIVES = st.sampled_from((3, 1, 5, 2, None, 0, -2, 100))
# How far time goes on before a row, in ticks, and how far the row itself is back: within SLACK or beyond.
_SPEEDS = ((1, 0, 0, 2), (1, 0, 2, 3, 7), (1, 0, 5, 19))
_BACK = st.sampled_from(("", "", "", "", "a tick", "slack", "slack", "late", "very late"))
_ROW = st.tuples(
    st.integers(0, 4), _BACK, _LIVES, st.tuples(_WORDS, _SMALL, _NUMBERS, _DOUBLES, _FLAGS, _MOMENTS)
)
_ORIGINS = (0, 1, -7, 1_000_003)
# Clocks whose ticks are the same length.
_MIXED = (Clock.SECONDS, Clock.COARSE_MILLISECONDS, Clock.COARSE_TIMESTAMP)


@st.composite
def made_streams(
    draw: st.DrawFn, most_streams: int, most_rows: int, least_rows: int = 0
) -> tuple[MadeStream, ...]:
    """One or more streams s0, s1, …, mostly of one clock."""
    origin = draw(st.sampled_from(_ORIGINS))
    clock = draw(st.sampled_from((Clock.SECONDS, Clock.TIMESTAMP, Clock.MILLISECONDS)))
    is_mixed = clock is Clock.SECONDS and draw(st.integers(0, 2)) == 2
    stream = _stream(least_rows, most_rows, st.sampled_from(_MIXED) if is_mixed else st.just(clock), origin)
    made = draw(st.lists(stream, min_size=1, max_size=most_streams))
    return tuple(replace(one, name=f"s{number}") for number, one in enumerate(made))


@st.composite
def _stream(
    draw: st.DrawFn, least_rows: int, most_rows: int, clocks: st.SearchStrategy[Clock], origin: int
) -> MadeStream:
    clock = draw(clocks)
    slack = draw(st.sampled_from((0, 0, 1, 3)))
    lifetime = draw(st.sampled_from((None, None, None, 4, 9)))
    # Further than the longest step, or not even that.
    ahead = draw(st.sampled_from((None, None, None, 20, 3)))
    # A lifetime counts the unit of integer time, or seconds.
    per_tick = 1 if clock.unit is None else clock.tick // clock.size
    speed = draw(st.sampled_from(_SPEEDS))
    is_in_order = draw(st.booleans())
    now = origin + draw(st.sampled_from((0, 0, 3)))
    made: list[MadeRow] = []
    # Two lists are longer on average than one. All of a row is drawn together, so that it can be left out.
    half = st.lists(_ROW, min_size=least_rows // 2, max_size=most_rows // 2)
    for step, delay, life, (k, g, n, x, b, at) in (*draw(half), *draw(half)):
        now += speed[step % len(speed)] if made else 0
        back = (
            0
            if is_in_order
            else {"a tick": 1, "slack": slack, "late": slack + 1, "very late": 11}.get(delay, 0)
        )
        if ahead is not None and delay == "very late":
            back = -ahead - 11
        lives = None if lifetime is None or life is None else life * per_tick
        made.append(MadeRow(now - back, k, g, n, x, b, at, lives))
    return MadeStream(
        "s",
        clock,
        slack * clock.tick,
        draw(st.sampled_from(("csv", "csv", "parquet"))),
        tuple(made),
        (len(made) // 2,) if draw(st.integers(0, 5)) == 5 else (),
        None if lifetime is None else lifetime * clock.tick,
        max_ahead=None if ahead is None else ahead * clock.tick,
    )


@st.composite
def made_relations(
    draw: st.DrawFn, streams: tuple[MadeStream, ...], most: int = 2
) -> tuple[MadeRelation, ...]:
    """None or more relations r0, r1, … with values that occur in the streams."""
    made = draw(st.lists(_relation(streams[0]), max_size=most))
    return tuple(replace(one, name=f"r{number}") for number, one in enumerate(made))


@st.composite
def _relation(draw: st.DrawFn, stream: MadeStream) -> MadeRelation:
    kind = draw(st.sampled_from(("static", "feed", "inserts")))
    is_retroactive = draw(st.sampled_from((True, False)))
    form = draw(st.sampled_from(("csv", "csv", "parquet")))
    if kind == "static":
        rows = draw(st.lists(st.builds(MadeChange, g=_SMALL, k=_WORDS, w=_DOUBLES), max_size=4))
        return MadeRelation("r", tuple(rows), is_retroactive=is_retroactive, format=form)
    known = [row.time for row in stream.rows if row.time is not None]
    now = min(known, default=0) - 1
    changes: list[MadeChange] = []
    there: set[int] = set()
    gone: set[int] = set()
    for step in draw(st.lists(st.sampled_from((0, 1, 0, 2, 5)), max_size=6)):
        now += step
        g = draw(st.integers(0, 3))
        if kind == "inserts":
            operation = "insert"
        elif g in there:
            operation = draw(st.sampled_from(("update", "delete")))
        elif g in gone and not is_retroactive:
            # A key that was deleted does not come back.
            continue
        else:
            operation = "insert"
        (there.discard if operation == "delete" else there.add)(g)
        (gone.add if operation == "delete" else gone.discard)(g)
        changes.append(MadeChange(g, draw(_WORDS), draw(_DOUBLES), now, operation))
    has_operations = kind == "feed"
    key = ("g",) if has_operations else ()
    return MadeRelation("r", tuple(changes), key, stream.clock, has_operations, is_retroactive, form)
