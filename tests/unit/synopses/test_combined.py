"""Synopses read as one: unions, and one less others, give the answers of a synopsis of their own."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.synopses.synopsis_kit import Fed, Row
from tests.unit.synopses.test_answer_from import plain
from tests.unit.synopses.test_basic_interval import row, short_lived

from sash.synopses import basic_interval, combined
from sash.synopses.combined import Combined

WINDOW, LONGER = "FROM s [RANGE 9 US SLIDE 3 US]", "FROM s [RANGE 18 US SLIDE 6 US]"
UNION = (
    f"SELECT g, COUNT(*) AS c, SUM(n) AS s, SUM(x) AS x, MAX(n) AS m {WINDOW} WHERE n < 2 GROUP BY g",
    f"SELECT g, COUNT(*) AS c {WINDOW} WHERE n >= 2 GROUP BY g",
    f"SELECT g, SUM(n) AS s, SUM(x) AS x, MIN(n) AS m {LONGER} WHERE n IS NOT NULL GROUP BY g",
    f"Rstream(SELECT g, COUNT(*) AS c {WINDOW} WHERE n IS NOT NULL GROUP BY g HAVING SUM(n) > 2)",
)
# The panes of the parts are too coarse for the whole, so it is one of them that is not kept.
DIFFERENCE = (
    f"SELECT g, COUNT(*) AS c, SUM(n) AS s {WINDOW} GROUP BY g",
    f"SELECT g, COUNT(*) AS c, SUM(n) AS s {LONGER} WHERE n < 2 GROUP BY g",
    f"SELECT g, AVG(n) AS a, COUNT(n) AS c {LONGER} WHERE n IS NULL OR n >= 2 GROUP BY g",
)
GLOBAL = (
    f"SELECT COUNT(*) AS c, SUM(n) AS s {WINDOW} WHERE n < 2",
    f"SELECT COUNT(*) AS c, SUM(n) AS s {WINDOW} WHERE n >= 2",
    f"Rstream(SELECT SUM(n) AS s {LONGER} WHERE n IS NOT NULL)",
    f"SELECT SUM(n) AS s, COUNT(*) AS c {WINDOW} WHERE n < 2 OR n >= 2",
)
OVERLAPPING = (
    f"SELECT g, MAX(n) AS m {WINDOW} WHERE n < 4 GROUP BY g",
    f"SELECT g, MAX(n) AS m {WINDOW} WHERE n >= 2 GROUP BY g",
    f"SELECT g, MAX(n) AS m {LONGER} WHERE n IS NOT NULL GROUP BY g",
)


@settings(max_examples=40)
@given(st.integers(0, 2**32), st.sampled_from([UNION, DIFFERENCE, GLOBAL, OVERLAPPING]))
def test_answers_are_those_of_synopses_of_their_own(seed, selects):
    rng = np.random.default_rng(seed)
    fed = Fed(*selects)
    assert any(isinstance(group.synopsis, Combined) for group in fed.executor.groups.values())
    time = int(rng.integers(-20, 20))
    for _ in range(6):
        rows: list[Row] = []
        for _ in range(int(rng.integers(0, 9))):
            time += int(rng.choice([0, 1, 2, 9]))
            rows.append(plain(row(time, rng, 4)))
        fed.feed(rows)
    fed.feed([plain(row(time + 1, rng, 4))], end=True)
    fed.check()


@pytest.mark.parametrize("selects", [UNION, DIFFERENCE])
def test_groups_that_are_gone_leave_it(selects, monkeypatch):
    monkeypatch.setattr(basic_interval, "_LEAST_TO_COMPACT", 16)
    monkeypatch.setattr(combined, "_LEAST_TO_COMPACT", 16)
    fed = Fed(*selects)
    for batch in short_lived(25, 8):
        fed.feed(batch)
    fed.feed([], end=True)
    (put_together,) = (g.synopsis for g in fed.executor.groups.values() if isinstance(g.synopsis, Combined))
    assert put_together.groups.size < 25 * 8 / 2, "groups were dropped"
    fed.check()
