"""Aggregates that need the values of a group, from a synopsis: shared, and right as groups come and go."""

from __future__ import annotations

import json
import statistics
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.synopses.synopsis_kit import Fed, Row, feed_all, plan_of

RANGE, SLIDE = 40, 10
WINDOW = f"[RANGE {RANGE} US SLIDE {SLIDE} US]"


def windows(rows: Iterable[Row]) -> dict[int, list[Row]]:
    """The rows of each window that has any, by boundary."""
    found: dict[int, list[Row]] = defaultdict(list)
    for row in rows:
        first = -(-row[0] // SLIDE) * SLIDE
        for boundary in range(first, row[0] + RANGE, SLIDE):
            found[boundary].append(row)
    return found


def most_frequent(values: list[str], k: int) -> list[list[object]]:
    counted = sorted(Counter(values).items(), key=lambda item: (-item[1], item[0]))
    return [[value, count] for value, count in counted[:k]]


def by_definition(rows: list[Row]) -> dict[object, tuple[object, ...]]:
    """Per group: COUNT(*), COUNT(DISTINCT k), MEDIAN(n), VAR_POP(n), TOP(k, 2), MEDIAN(k)."""
    groups: dict[object, list[Row]] = defaultdict(list)
    for row in rows:
        groups[row[2]].append(row)
    answers: dict[object, tuple[object, ...]] = {}
    for key, own in groups.items():
        words = sorted(row[1] for row in own if row[1] is not None)
        numbers = sorted(row[3] for row in own if row[3] is not None)
        answers[key] = (
            len(own),
            len(set(words)),
            numbers[(len(numbers) + 1) // 2 - 1] if numbers else None,
            statistics.pvariance(numbers) if numbers else None,
            most_frequent(words, 2) if words else None,
            words[(len(words) + 1) // 2 - 1] if words else None,
        )
    return answers


def answers_of(fed: Fed) -> dict[int, dict[object, tuple[object, ...]]]:
    found: dict[int, dict[object, tuple[object, ...]]] = defaultdict(dict)
    for table in fed.tables["q0"]:
        for row in table.to_pylist():
            ts, key, *values = row.values()
            values[4] = None if values[4] is None else json.loads(values[4])
            found[ts][key] = tuple(values)
    return found


SELECT = (
    "Rstream(SELECT g, COUNT(*) AS rows, COUNT(DISTINCT k) AS words, MEDIAN(n) AS middle, "
    f"VAR_POP(n) AS spread, TOP(k, 2) AS top, MEDIAN(k) AS word FROM s {WINDOW} GROUP BY g)"
)


def check(batches: list[list[Row]]) -> Fed:
    fed = Fed(SELECT)
    feed_all(fed, batches)
    rows = [row for batch in batches for row in batch]
    last = max(row[0] for row in rows) // SLIDE * SLIDE
    expected = {at: by_definition(own) for at, own in windows(rows).items() if at <= last}
    found = answers_of(fed)
    assert found.keys() == expected.keys()
    for boundary, groups in expected.items():
        assert found[boundary] == groups
    return fed


ROW = st.tuples(
    st.integers(0, 12),
    st.sampled_from((None, "a", "b", "B", "")),
    st.sampled_from((None, 0, 1)),
    st.one_of(st.none(), st.integers(-2, 4)),
    st.just(0.0),
)


@settings(max_examples=60)
@given(st.lists(st.lists(ROW, min_size=1, max_size=8), min_size=1, max_size=8))
def test_values_answer_as_a_recount_of_every_window(batches):
    at, timed = 0, []
    for batch in batches:
        timed.append([(at := at + row[0], *row[1:]) for row in batch])
    check(timed)


def test_groups_and_words_that_come_and_go_are_forgotten_and_answers_stay_right():
    random = np.random.default_rng(5)
    batches: list[list[Row]] = []
    for batch in range(12):
        # Each batch has groups and words of its own, and a few that stay.
        keys = np.where(random.random(600) < 0.9, batch * 1000 + random.integers(0, 900, 600), 7)
        batches.append(
            [
                (batch * 30 + i // 20, f"w{batch}-{i % 590}", int(key), i % 5, 0.0)
                for i, key in enumerate(keys)
            ]
        )
    fed = check(batches)
    (group,) = fed.executor.groups.values()
    assert group.synopsis.groups.size < 4000
    for counts in group.synopsis.values.values():
        assert counts.live_rows < 4000


def test_values_of_groups_beyond_a_threshold_are_right_as_groups_pass_it_and_fall_back():
    """Doubles are listed, integers have counters; who is followed changes all the time."""
    random = np.random.default_rng(9)
    select = "SELECT g, MEDIAN(n) AS n, MEDIAN(x) AS x, COUNT(DISTINCT n) AS d"
    condition = f"FROM s {WINDOW} GROUP BY g HAVING COUNT(*) > 3"
    fed = Fed(f"Rstream({select} {condition})", f"{select} {condition}")
    batches: list[list[Row]] = []
    for batch in range(15):
        # Every few batches others of the groups are busy, and once the integers are far apart.
        keys = (batch // 3 * 40 + random.zipf(1.3, 400) % 150) % 200
        spread = 10**12 if batch == 9 else 1
        numbers, times = (
            random.integers(0, 50, 400) * spread,
            batch * 20 + np.sort(random.integers(0, 20, 400)),
        )
        doubles = np.round(random.normal(size=400), 2)
        columns = (times.tolist(), ["a"] * 400, keys.tolist(), numbers.tolist(), doubles.tolist())
        batches.append(list(zip(*columns, strict=True)))
    feed_all(fed, batches)
    rows = [row for batch in batches for row in batch]
    expected = {}
    for at, own in windows(rows).items():
        groups: dict[object, list[Row]] = defaultdict(list)
        for row in own:
            groups[row[2]].append(row)
        for key, members in groups.items():
            if len(members) > 3 and at <= rows[-1][0] // SLIDE * SLIDE:
                whole = sorted(row[3] for row in members if row[3] is not None)
                real = sorted(row[4] for row in members if row[4] is not None)
                middle = (len(members) + 1) // 2 - 1
                expected[at, key] = (whole[middle], real[middle], len(set(whole)))
    shown = [tuple(row.values()) for table in fed.tables["q0"] for row in table.to_pylist()]
    assert {row[:2]: row[2:] for row in shown} == expected
    standing: Counter[tuple[object, ...]] = Counter()
    changes = [tuple(row.values()) for table in fed.tables["q1"] for row in table.to_pylist()]
    last = max(at for at, _ in expected)
    for change in changes:
        standing[change[2:]] += 1 if change[1] == "+" else -1
    assert +standing == Counter((key, *values) for (at, key), values in expected.items() if at == last)


def test_queries_that_ask_for_different_aggregates_of_an_argument_share_its_values():
    plan = plan_of(
        f"SELECT g, MEDIAN(n) AS a FROM s {WINDOW} GROUP BY g",
        "SELECT g, VAR(n) AS a, COUNT(DISTINCT k) AS b FROM s [RANGE 20 US SLIDE 10 US] GROUP BY g",
        f"SELECT g, SUM(n) AS a, TOP(n, 3) AS b FROM s {WINDOW} GROUP BY g",
        f"SELECT g, SUM(n) AS a FROM s {WINDOW} WHERE n > 0 GROUP BY g",
    )
    assert [spec.name for spec in plan.synopses] == ["s0", "s0v0", "s0v1", "s1"]
    assert [[key.text for key in spec.keys] for spec in plan.synopses] == [
        ["g"],
        ["g", "n"],
        ["g", "k"],
        ["g"],
    ]
    assert [query.synopsis for query in plan.queries] == ["s0", "s0", "s0", "s1"]
    host = plan.synopses[0]
    (asked,) = plan_of(f"SELECT g, STDDEV(n) AS a FROM s {WINDOW} GROUP BY g").queries
    (other,) = plan_of(f"SELECT g, STDDEV(x) AS a FROM s {WINDOW} GROUP BY g").queries
    assert host.covers(asked.select)
    assert not host.covers(other.select)


def lists(rows: Sequence[Row], boundary: int, k: int) -> dict[object, object]:
    """FREQUENT(k, k) by Algorithm 6, per group: lists of sub-windows of a slide, counters, δ."""
    counters: dict[object, Counter[str]] = defaultdict(Counter)
    deltas: Counter[object] = Counter()
    has_values: set[object] = set()
    for end in range(boundary - RANGE + SLIDE, boundary + 1, SLIDE):
        words: dict[object, list[str]] = defaultdict(list)
        for t, word, group, *_ in rows:
            if end - SLIDE < t <= end and word is not None:
                words[group].append(word)
        for each, own in words.items():
            listed = most_frequent(own, k)
            has_values.add(each)
            counters[each].update({str(word): int(str(count)) for word, count in listed})
            deltas[each] += int(str(listed[-1][1])) if len(listed) == k else 0
    found: dict[object, object] = {row[2]: None for row in rows}
    for each in has_values:
        items = [(word, count) for word, count in counters[each].items() if count > deltas[each]]
        items.sort(key=lambda item: (-item[1], item[0]))
        found[each] = {"delta": deltas[each], "items": [list(item) for item in items]}
    return found


@settings(max_examples=60)
@given(st.lists(st.lists(ROW, min_size=1, max_size=12), min_size=1, max_size=8), st.integers(1, 3))
def test_frequent_has_the_counters_above_delta_of_every_window(batches, k):
    at, timed = 0, []
    for batch in batches:
        timed.append([(at := at + row[0], *row[1:]) for row in batch])
    fed = Fed(
        f"Rstream(SELECT g, FREQUENT(k, {k}) AS f FROM s {WINDOW} GROUP BY g)",
        # Its finer panes leave the sub-windows of the other alone.
        "Rstream(SELECT g, COUNT(*) AS c FROM s [RANGE 7 US SLIDE 3 US] GROUP BY g)",
        f"SELECT FREQUENT(k, {k}) AS f FROM s {WINDOW}",
    )
    feed_all(fed, timed)
    rows = [row for batch in timed for row in batch]
    last = rows[-1][0] // SLIDE * SLIDE
    expected = {at: lists(own, at, k) for at, own in windows(rows).items() if at <= last}
    found: dict[int, dict[object, object]] = defaultdict(dict)
    for table in fed.tables["q0"]:
        for ts, group, text in zip(*table.to_pydict().values(), strict=True):
            found[ts][group] = None if text is None else json.loads(text)
    assert found == expected
    shown = [row for table in fed.tables["q2"] for row in table.to_pylist() if row["op"] == "+"]
    for row in shown:
        together = [(t, word, None, n, x) for t, word, _, n, x in rows if row["ts"] - RANGE < t <= row["ts"]]
        wanted = lists(together, row["ts"], k).get(None)
        assert (row["f"] and json.loads(row["f"])) == wanted


def test_frequent_goes_on_when_groups_are_renumbered():
    fed = Fed(f"Rstream(SELECT g, FREQUENT(k, 2) AS f FROM s {WINDOW} GROUP BY g)")
    batches: list[list[Row]] = [
        [(batch * 30 + i // 20, f"w{i % 3}", batch * 1000 + i // 2, 0, 0.0) for i in range(600)]
        for batch in range(12)
    ]
    feed_all(fed, batches)
    rows = [row for batch in batches for row in batch]
    last = rows[-1][0] // SLIDE * SLIDE
    expected = lists(windows(rows)[last], last, 2)
    found = fed.tables["q0"][-1].to_pylist()
    assert {row["g"]: json.loads(row["f"]) for row in found if row["ts"] == last} == expected
    (group,) = fed.executor.groups.values()
    assert group.synopsis.groups.size < 2000
