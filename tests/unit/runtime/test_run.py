"""A run refuses what it would otherwise pass over in silence."""

from __future__ import annotations

import pytest

from sash.errors import UserError
from sash.lang import bind_program
from sash.runtime.run import run_program

STREAM = "CREATE STREAM s (t BIGINT, a BIGINT) TIMESTAMP BY t {more} FROM 'csv:s.csv';\n"
QUERY = "CREATE QUERY q INTO 'jsonl:q.jsonl' AS SELECT a FROM s [RANGE 2 SEC SLIDE 1 SEC];\n"


def test_a_query_without_a_sink_is_refused(tmp_path):
    text = STREAM.format(more="") + "CREATE QUERY q AS SELECT a FROM s [RANGE 2 SEC SLIDE 1 SEC];"
    with pytest.raises(UserError, match="q has no output"):
        run_program(bind_program(text), base_dir=tmp_path, runtime="inline")


def test_an_unknown_runtime_is_refused_with_those_that_exist(tmp_path):
    (tmp_path / "s.csv").write_text("t,a\n1,1\n")
    with pytest.raises(UserError, match="unknown runtime 'flink'") as caught:
        run_program(bind_program(STREAM.format(more="") + QUERY), base_dir=tmp_path, runtime="flink")
    assert caught.value.expected == "one of: spark, inline"


def test_a_one_time_query_is_answered_over_the_windows_at_the_end(tmp_path):
    """
    [RANGE 2 SEC] at 5 holds the rows of 4 and 5
    """
    (tmp_path / "s.csv").write_text("t,a\n1,1\n4,4\n5,5\n5,7\n")
    text = (
        STREAM.format(more="")
        + "SELECT a FROM s [RANGE 2 SEC] ORDER BY a DESC LIMIT 2; SELECT COUNT(*) AS n FROM s;"
    )
    summary = run_program(bind_program(text), base_dir=tmp_path, runtime="inline")
    answers = [table.to_pydict() for table in summary.once.values()]
    assert answers == [{"a": [7, 5]}, {"n": [4]}]


def test_a_one_time_query_over_a_relation_alone_needs_no_stream(tmp_path):
    (tmp_path / "r.csv").write_text("k,v\n1,x\n2,y\n")
    text = "CREATE RELATION r (k INT, v STRING) KEY (k) FROM 'csv:r.csv'; SELECT v FROM r WHERE k > 1;"
    summary = run_program(bind_program(text), base_dir=tmp_path, runtime="inline")
    assert [table.to_pydict() for table in summary.once.values()] == [{"v": ["y"]}]
