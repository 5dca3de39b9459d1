"""FREQUENT(x, k): what Algorithm 6 promises holds, and answers are those of the algorithm written plainly.

    sub-window     1            2            3            4          k = 2, windows of three sub-windows
    values      a a a b c    a b b c      (none)       c c d a
    list        a 3, b 1     b 2, a 1                  c 2, a 1
    adds to δ   1            1            0            1

At the end of sub-window 3: a 4, b 3, δ 2, so both are reported. At the end of 4: b 2, a 2, c 2, δ 2: nothing.
"""

from __future__ import annotations

import collections
import json

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sash.lang.bound import Window
from sash.lang.types import Type
from sash.lang.values import Scalar
from sash.operators.preaggregate import preaggregate
from sash.synopses.frequent_items import FrequentItems, counting_spec

COLUMNS = {"g": (Type.BIGINT, pa.int64()), "x": (Type.STRING, pa.string()), "n": (Type.BIGINT, pa.int64())}


def column(name):
    return Scalar(f'"{name}"', COLUMNS[name][0], (name,), name, name)


def synopsis(limit, window, *, argument="x", is_grouped=True):
    keys = (column("g"),) if is_grouped else ()
    return FrequentItems(counting_spec("f", "s", None, keys, column(argument), window), limit)


def table_of(rows):
    """Rows are (ts, g, x); n is a number that is equal where x is."""
    return pa.table(
        {
            "g": pa.array([g for _, g, _ in rows], pa.int64()),
            "x": pa.array([x for _, _, x in rows], pa.string()),
            "n": pa.array([None if x is None else sum(x.encode()) - 98 for _, _, x in rows], pa.int64()),
        }
    )


def feed(items, rows):
    ts = np.array([row[0] for row in rows], dtype=np.int64)
    if len(rows):
        for partial in preaggregate(ts, table_of(rows), [items.spec]):
            items.absorb(partial)


class Plain:
    """Algorithm 6 for one group, over sub-windows given as lists of values."""

    def __init__(self, limit, sub_windows):
        self.counters: collections.Counter[object] = collections.Counter()
        self.threshold = 0
        for values in sub_windows:
            local = collections.Counter(value for value in values if value is not None)
            summary = sorted(local.items(), key=lambda pair: (-pair[1], pair[0]))[:limit]
            self.counters.update(dict(summary))
            if len(summary) == limit:
                self.threshold += summary[-1][1]

    def reported(self):
        found = [(value, count) for value, count in self.counters.items() if count > self.threshold]
        return sorted(found, key=lambda pair: (-pair[1], pair[0]))


def cut(rows, group, panes, boundary, range_):
    """The values of a group by sub-window of the window at `boundary`."""
    held = collections.defaultdict(list)
    for ts, g, value in rows:
        if g == group and boundary - range_ < ts <= boundary:
            held[panes.number_at(ts)].append(value)
    return list(held.values())


ROWS = st.lists(
    st.tuples(
        st.integers(1, 40),
        st.sampled_from([None, 1, 1, 2]),
        st.sampled_from([None, "a", "a", "a", "b", "b", "c", "d", "e"]),
    ),
    max_size=80,
)
WINDOWS = st.sampled_from([Window(12, 4), Window(8, 8), Window(10, 4), Window(7, 3), Window(20, 5)])


def answer_of(items, group=None):
    """What is reported of a group, and its δ."""
    found = items.answer()
    keys = items.groups.keys_of(found.slots)[0].to_pylist() if items.groups.types else [None]
    row = keys.index(group)
    mine = found.groups == found.slots[row]
    pairs = list(
        zip(found.values.filter(pa.array(mine)).to_pylist(), found.counts[mine].tolist(), strict=True)
    )
    return pairs, int(found.thresholds[row])


@given(rows=ROWS, window=WINDOWS, limit=st.integers(1, 4), data=st.data())
def test_answers_are_those_of_the_algorithm_for_every_group(rows, window, limit, data):
    """Rows come in several batches, in any order within them; the state is taken up in between."""
    items = synopsis(limit, window)
    rows = sorted(rows, key=lambda row: row[0])
    boundary = window.slide
    begin = 0
    while boundary < 40 + window.range + window.slide:
        # What has come by the boundary, and something beyond it.
        end = sum(ts <= boundary + data.draw(st.integers(0, 6)) for ts, _, _ in rows)
        for chunk in np.array_split(np.arange(begin, max(begin, end)), 2):
            feed(items, [rows[i] for i in chunk[::-1]])
        begin = max(begin, end)
        if data.draw(st.booleans()):
            state = items.snapshot()
            items = synopsis(limit, window)
            items.restore(state)
        items.seal(boundary)
        items.advance(boundary)
        check(items, rows, window, limit, boundary)
        boundary += window.slide
    assert items.pairs == 0


def check(items, rows, window, limit, boundary):
    live = [(g, x) for ts, g, x in rows if boundary - window.range < ts <= boundary]
    found = items.answer()
    keys = items.groups.keys_of(found.slots)[0].to_pylist()
    assert sorted(keys, key=str) == sorted({g for g, _ in live}, key=str)
    texts = found.texts().to_pylist()
    for row, group in enumerate(keys):
        plain_ = Plain(limit, cut(rows, group, items.spec.panes, boundary, window.range))
        reported, threshold = answer_of(items, group)
        assert (reported, threshold) == (plain_.reported(), plain_.threshold)
        true = collections.Counter(x for g, x in live if g == group and x is not None)
        for value, count in reported:
            assert true[value] >= count > threshold
        for value in true.keys() - dict(reported).keys():
            assert plain_.counters[value] <= threshold
            assert value in plain_.counters or true[value] <= threshold
        for value, count in true.items():
            assert plain_.counters[value] <= count <= plain_.counters[value] + threshold
        if true:
            assert json.loads(texts[row]) == {"delta": threshold, "items": [list(pair) for pair in reported]}
        else:
            assert texts[row] is None


@given(rows=ROWS, limit=st.integers(1, 4))
def test_numbers_and_words_are_counted_alike_without_groups(rows, limit):
    """Numbers are negative, too; windows of rows count rows where others count time."""
    window = Window(9, 3)
    counted = [(position + 1, None, x) for position, (_, _, x) in enumerate(rows)]
    for argument in ("x", "n"):
        items = synopsis(limit, window, argument=argument, is_grouped=False)
        feed(items, counted)
        values = table_of(counted).column(argument).to_pylist()
        for boundary in range(3, len(rows) + 12, 3):
            items.seal(boundary)
            items.advance(boundary)
            named = [(ts, None, value) for (ts, _, _), value in zip(counted, values, strict=True)]
            plain_ = Plain(limit, cut(named, None, items.spec.panes, boundary, 9))
            assert answer_of(items) == (plain_.reported(), plain_.threshold)


def test_the_example_above():
    items = synopsis(2, Window(3, 1), is_grouped=False)
    subs = {1: "aaabc", 2: "abbc", 4: "ccda"}
    feed(items, [(ts, None, x) for ts, values in subs.items() for x in values])
    items.seal(4)
    items.advance(3)
    assert answer_of(items) == ([("a", 4), ("b", 3)], 2)
    assert items.answer().texts().to_pylist() == ['{"delta": 2, "items": [["a", 4], ["b", 3]]}']
    items.advance(4)
    assert answer_of(items) == ([], 2)
    assert items.answer().texts().to_pylist() == ['{"delta": 2, "items": []}']


def test_an_empty_window_without_groups_has_an_answer_without_values():
    items = synopsis(2, Window(3, 1), is_grouped=False)
    items.advance(3)
    assert answer_of(items) == ([], 0)
    assert items.answer().texts().to_pylist() == [None]


def test_only_groups_that_changed_are_named_and_answered():
    items = synopsis(2, Window(4, 2))
    feed(items, [(1, 1, "a"), (3, 2, "b"), (3, 2, "b")])
    items.seal(4)
    items.advance(2)
    touched = items.advance(4)
    assert items.groups.keys_of(touched)[0].to_pylist() == [2]
    found = items.answer(touched)
    assert (found.values.to_pylist(), found.counts.tolist()) == (["b"], [2])


@pytest.mark.parametrize("argument", ["x", "n"])
def test_groups_and_values_that_are_gone_are_forgotten(argument):
    items = synopsis(3, Window(4, 1), argument=argument)
    sizes = []
    for now in range(1, 60):
        feed(items, [(now, 1000 * now + i, f"{now}-{i}") for i in range(300)])
        items.seal(now)
        items.advance(now)
        items.trim()
        sizes.append(items.nbytes)
    assert items.groups.size < 3000
    assert max(sizes[30:]) < 1.5 * max(sizes[10:20])
    found = items.answer()
    assert len(found.slots) == 4 * 300
    keys = items.groups.keys_of(found.slots)[0].to_pylist()
    assert sorted(keys) == [1000 * now + i for now in range(56, 60) for i in range(300)]
