"""NaN, infinities and both zeros: SQL has one NaN and one zero, whatever their bits are."""

from __future__ import annotations

import math

from sash.testing.rows import normal
from sash.testing.scenario import Scenario
from sash.testing.streams import Clock, MadeRow, MadeStream

NAN, INF = math.nan, math.inf
ONE_NAN = normal(NAN)


def scenario_of(rows, *selects):
    queries = tuple(
        f"CREATE QUERY q{number} INTO 'jsonl:q{number}.jsonl' AS {select};\n"
        for number, select in enumerate(selects)
    )
    return Scenario((MadeStream("s", Clock.SECONDS, 0, "parquet", tuple(rows)),), queries)


def test_a_nan_from_the_data_and_one_from_inf_minus_inf_are_one_group(tmp_path):
    rows = [MadeRow(1, x=NAN), MadeRow(1, x=INF), MadeRow(2, x=-INF), MadeRow(4, x=1.0)]
    scenario = scenario_of(
        rows, "SELECT x - x AS d, COUNT(*) AS n FROM s [RANGE 4 SEC SLIDE 2 SEC] GROUP BY d"
    )
    outcome = scenario.run(tmp_path / "run")
    assert outcome.answers("q0")[2_000_000, "+"] == {(ONE_NAN, 3): 1}
    scenario.check(outcome)


def test_a_sum_that_stays_nan_does_not_change_when_the_reason_does(tmp_path):
    #  τ   window         SUM(x)
    #  2   NaN            NaN, as in the data
    #  4   NaN, inf       NaN
    #  6   inf, −inf      NaN, computed: other bits
    rows = [MadeRow(2, x=NAN), MadeRow(4, x=INF), MadeRow(6, x=-INF)]
    window = "FROM s [RANGE 4 SEC SLIDE 2 SEC]"
    scenario = scenario_of(rows, f"SELECT SUM(x) AS total {window}", f"SELECT AVG(x) AS mean {window}")
    outcome = scenario.run(tmp_path / "run")
    assert outcome.answers("q0") == {(2_000_000, "+"): {(ONE_NAN,): 1}}
    assert outcome.answers("q1") == {(2_000_000, "+"): {(ONE_NAN,): 1}}


def test_rows_that_differ_only_in_the_sign_of_zero_cancel_when_keys_are_not_shown(tmp_path):
    #  τ   window     groups          shown
    #  1   (g=1)      1 → 0.0·1       0.0
    #  2   (g=−1)     −1 → 0.0·−1     −0.0, the same
    rows = [MadeRow(1, g=1, x=0.0), MadeRow(2, g=-1, x=0.0)]
    scenario = scenario_of(rows, "SELECT SUM(x) * g AS z FROM s [RANGE 1 SEC SLIDE 1 SEC] GROUP BY g")
    outcome = scenario.run(tmp_path / "run")
    assert outcome.answers("q0") == {(1_000_000, "+"): {(0.0,): 1}}


def test_rows_that_are_nan_with_other_bits_cancel_when_keys_are_not_shown(tmp_path):
    rows = [MadeRow(1, g=1, x=NAN), MadeRow(2, g=2, x=INF)]
    scenario = scenario_of(
        rows, "SELECT MAX(x) - MIN(x) AS spread FROM s [RANGE 1 SEC SLIDE 1 SEC] GROUP BY g"
    )
    outcome = scenario.run(tmp_path / "run")
    assert outcome.answers("q0") == {(1_000_000, "+"): {(ONE_NAN,): 1}}
