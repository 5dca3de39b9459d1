"""ORDER BY and LIMIT over a window that slides: the index that keeps rows in order, against sorting anew."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from random import Random

import numpy as np
import pyarrow as pa
import pytest

from sash.lang.algebra import Field, SortKey
from sash.lang.types import Type
from sash.lang.values import Scalar
from sash.operators.answers import Limited, Once, Snapshots
from sash.operators.delta import ARROW_TYPES, NEVER, Delta
from sash.operators.operator import Moment
from sash.operators.order import sort_order

FIELDS = (Field("w", Type.STRING), Field("n", Type.BIGINT), Field("x", Type.DOUBLE))
Row = tuple[str | None, int | None, float | None]

ORDERS = {
    "words": (SortKey(Scalar('"w"', Type.STRING, ("w",), "w")),),
    "words, greatest first": (
        SortKey(Scalar('"w"', Type.STRING, ("w",), "w"), is_descending=True, nulls_first=True),
    ),
    "numbers": (SortKey(Scalar('"n"', Type.BIGINT, ("n",), "n"), nulls_first=True),),
    "doubles, then words": (
        SortKey(Scalar('"x"', Type.DOUBLE, ("x",), "x"), is_descending=True),
        SortKey(Scalar('"w"', Type.STRING, ("w",), "w"), is_descending=True),
    ),
    "an expression": (SortKey(Scalar('"n" % 2', Type.BIGINT, ("n",)), is_descending=True),),
    "no order": (),
}


def made(random: Random) -> Row:
    """Words that are new every now and then, between those that are known; few of the others."""
    word = random.choice([None, "", "b", f"{random.random():.6f}", f"b{random.randint(0, 99)}"])
    odd = random.choice([None, -0.0, 0.0, float("nan"), float("inf"), 1.5])
    return word, random.choice([None, -2, -1, 0, 1, 2**62]), odd


def columns_of(rows: Sequence[Row]) -> tuple[pa.Array, ...]:
    values = list(zip(*rows, strict=True)) if rows else [(), (), ()]
    return tuple(
        pa.array(list(column), ARROW_TYPES[field.type]) for column, field in zip(values, FIELDS, strict=True)
    )


def delta_of(changes: Sequence[tuple[int, int, Row]]) -> Delta:
    ts, signs = (np.array([change[i] for change in changes], dtype=np.int64) for i in range(2))
    never = np.full(len(changes), NEVER, dtype=np.int64)
    return Delta(ts, never, columns_of([row for *_, row in changes]), signs.astype(np.int8))


def shown(columns: Sequence[pa.Array]) -> list[str]:
    """Rows as texts, so that NaN is equal to NaN; there is one zero."""
    rows = zip(*(column.to_pylist() for column in columns), strict=True)
    return [repr(tuple(v + 0.0 if isinstance(v, float) else v for v in row)) for row in rows]


def expected(rows: Sequence[Row], order: Sequence[SortKey], limit: int | None) -> list[str]:
    """Sorted from scratch."""
    columns = columns_of(rows)
    places = sort_order(columns, FIELDS, order)[:limit]
    return shown([column.take(pa.array(places)) for column in columns])


def slides(random: Random, count: int) -> list[tuple[list[tuple[int, int, Row]], list[Row]]]:
    """What comes and goes at each slide, and the window then: it grows, is emptied, and comes back."""
    window: list[Row] = []
    found = []
    for instant in range(1, count + 1):
        coming = [made(random) for _ in range(0 if instant % 9 == 0 else random.randint(0, 6))]
        coming += random.sample(window, min(2, len(window)))
        leaving = window[:] if instant % 11 == 0 else window[: random.randint(0, 6)]
        window = window[len(leaving) :] + coming
        changes = [(instant, -1, row) for row in leaving] + [(instant, 1, row) for row in coming]
        found.append((changes, window))
    return found


CASES = [(name, 3) for name in ORDERS] + [(name, None) for name in ORDERS if ORDERS[name]]


@pytest.mark.parametrize(("name", "limit"), CASES)
def test_the_first_rows_are_those_of_a_window_that_is_sorted_anew(name, limit):
    order = ORDERS[name]
    history = slides(Random(f"{name} {limit}"), 48)
    views = [Limited(FIELDS, ("s",), 1, order, limit) for _ in range(2)]
    whole = Snapshots(FIELDS, ("s",), 1, slides=True, order=order, limit=limit)
    once = Once(FIELDS, ("s",), 1, order, limit)
    view: Counter[str] = Counter()
    for batch in range(0, len(history), 4):
        steps = history[batch : batch + 4]
        delta = delta_of([change for changes, _ in steps for change in changes])
        moment = Moment(batch + 4, {"s": 1})
        (changed, *others) = [each.process([delta], moment) for each in (*views, whole, once)]
        assert shown(others[0].columns) == shown(changed.columns)
        signs, instants = changed.signs(), changed.ts
        given = shown(changed.columns)
        for place, (_, window) in enumerate(steps):
            instant = batch + place + 1
            for i in np.flatnonzero(instants == instant):
                view[given[i]] += int(signs[i])
            wanted = expected(window, order, limit)
            assert +view == Counter(wanted)
            is_now = others[1].ts == instant
            now = shown([column.filter(pa.array(is_now)) for column in others[1].columns])
            assert now == wanted
        assert shown(once.answer()) == wanted
        # One of both goes on from its state; so do the others.
        restored = Limited(FIELDS, ("s",), 1, order, limit)
        restored.restore(views[1].snapshot())
        views[1] = restored
        kept = whole.snapshot()
        whole = Snapshots(FIELDS, ("s",), 1, slides=True, order=order, limit=limit)
        whole.restore(kept)
