"""EXPLAIN ANALYZE: the plan with what a run of it measured."""

from __future__ import annotations

import json

import pytest

from sash.errors import UserError
from sash.lang import bind_program
from sash.plan.explain import explain_program
from sash.runtime.analyze import analyze

STREAM = "CREATE STREAM s (t BIGINT, a STRING, n INT) TIMESTAMP BY t FROM 'csv:s.csv';"
ROWS = "t,a,n\n1,x,1\n2,y,2\n3,x,3\n8,x,4\n"


def _explained(tmp_path, text: str, *, everything: bool = False):
    (tmp_path / "s.csv").write_text(ROWS)
    program = bind_program(STREAM + text)
    run = analyze(program, base_dir=tmp_path, everything=everything)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["s.csv"], "nothing is left behind"
    return program, run


def test_each_operator_shows_the_rows_that_left_it_and_what_it_kept(tmp_path):
    """
    [RANGE 5 SEC] of x at 1, y at 2, x at 3, x at 8: the row of 3 leaves as that of 8 comes, so x stays
    """
    program, run = _explained(tmp_path, "EXPLAIN ANALYZE SELECT DISTINCT a FROM s [RANGE 5 SEC] WHERE n < 9;")
    (shown,) = json.loads(explain_program(program, "json", None, run))
    measured: dict[str, dict[str, int]] = {}
    step = shown["tree"]
    while True:
        if step["measured"] is not None:
            measured.setdefault(step["operator"], step["measured"])
        if not step["inputs"]:
            break
        (step,) = step["inputs"]
    assert measured["Window"]["rows"] == 4
    assert (measured["Output"]["rows"], measured["Output"]["negative"]) == (2, 1)
    assert measured["Distinct"]["state_rows"] == 1
    assert any(note.startswith("measured rates: s 0.571") for note in shown["notes"])


def test_the_text_says_the_same(tmp_path):
    program, run = _explained(tmp_path, "EXPLAIN ANALYZE SELECT a, n FROM s [ROWS 2];")
    text = explain_program(program, run=run)
    assert "✓ 4 rows; 2 negative" in text
    assert "the same plan" in text


def test_a_periodic_query_shows_what_its_synopsis_holds(tmp_path):
    query = "CREATE QUERY q AS SELECT a, SUM(n) AS n FROM s [RANGE 4 SEC SLIDE 2 SEC] GROUP BY a;"
    program, run = _explained(tmp_path, query, everything=True)
    text = explain_program(program, run=run)
    assert "✓ 4 rows; state" in text


def test_the_cost_is_told_again_with_the_measured_rates(tmp_path):
    declared = "".join(
        f"CREATE STREAM {name} (t BIGINT, a STRING) TIMESTAMP BY t FROM 'csv:{name}.csv' "
        f"WITH (rate = {rate});"
        for name, rate in (("f", 1), ("g", 900), ("h", 1))
    )
    (tmp_path / "f.csv").write_text("t,a\n" + "1,x\n" * 400 + "2,y\n")
    (tmp_path / "g.csv").write_text("t,a\n1,x\n90,y\n")
    (tmp_path / "h.csv").write_text("t,a\n1,x\n90,y\n")
    program = bind_program(
        declared + "EXPLAIN ANALYZE SELECT f.a FROM f [RANGE 1 MIN], g [RANGE 1 MIN], h [RANGE 1 MIN] "
        "WHERE f.a = g.a AND g.a = h.a;"
    )
    run = analyze(program, base_dir=tmp_path)
    assert run.rates["f"] == pytest.approx(401)
    assert "with these rates: cost" in explain_program(program, run=run)


def test_a_program_without_queries_has_nothing_to_analyze(tmp_path):
    with pytest.raises(UserError, match="no query to analyze"):
        analyze(bind_program(STREAM), base_dir=tmp_path)


def test_a_periodic_query_says_what_the_run_chose_for_it(tmp_path):
    select = "SELECT a, COUNT(*) AS c FROM s [RANGE 4 SEC SLIDE 2 SEC] GROUP BY a HAVING COUNT(*) > 1"
    program, run = _explained(tmp_path, f"EXPLAIN ANALYZE {select};")
    text = explain_program(program, run=run)
    assert "s0: groups with COUNT(*) > 1 are looked at" in text
    assert "s0 was answered from basic intervals" in text
    assert "s0: groups are found by totals: CI-COUNT(*) would take" in text
