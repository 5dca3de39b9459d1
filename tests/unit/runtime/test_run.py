"""A run refuses what it would otherwise pass over in silence."""

from __future__ import annotations

import pytest

from sash.errors import NotYet, UserError
from sash.lang import bind_program
from sash.runtime.run import run_program

STREAM = "CREATE STREAM s (t BIGINT, a BIGINT) TIMESTAMP BY t {more} FROM 'csv:s.csv';\n"
QUERY = "CREATE QUERY q INTO 'jsonl:q.jsonl' AS SELECT a FROM s [RANGE 2 SEC SLIDE 1 SEC];\n"


@pytest.mark.parametrize(
    ("construct", "text"),
    [
        ("a one-time query", STREAM.format(more="") + QUERY + "SELECT a FROM s [RANGE 2 SEC];"),
        ("SHOW", STREAM.format(more="") + QUERY + "SHOW QUERIES;"),
        ("CREATE INDEX", STREAM.format(more="") + QUERY + "CREATE INDEX i ON s (a) USING RING;"),
        ("RETAIN", STREAM.format(more="RETAIN 1 HOUR") + QUERY),
    ],
)
def test_what_no_runtime_executes_is_refused_by_name(tmp_path, construct, text):
    (tmp_path / "s.csv").write_text("t,a\n1,1\n")
    with pytest.raises(NotYet, match=construct):
        run_program(bind_program(text), base_dir=tmp_path, runtime="inline")
    assert [path.name for path in tmp_path.iterdir()] == ["s.csv"]


def test_a_query_without_a_sink_is_refused(tmp_path):
    text = STREAM.format(more="") + "CREATE QUERY q AS SELECT a FROM s [RANGE 2 SEC SLIDE 1 SEC];"
    with pytest.raises(UserError, match="q has no output"):
        run_program(bind_program(text), base_dir=tmp_path, runtime="inline")


def test_an_unknown_runtime_is_refused_with_those_that_exist(tmp_path):
    (tmp_path / "s.csv").write_text("t,a\n1,1\n")
    with pytest.raises(UserError, match="unknown runtime 'flink'") as caught:
        run_program(bind_program(STREAM.format(more="") + QUERY), base_dir=tmp_path, runtime="flink")
    assert caught.value.expected == "one of: spark, inline"
