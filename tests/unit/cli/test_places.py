"""`sash check` finds schemes and options that do not exist, and leaves files alone."""

from __future__ import annotations

import pytest

from sash.cli import calls
from sash.errors import SinkError, SourceError

TEXT = """
CREATE STREAM s (t BIGINT, a BIGINT) TIMESTAMP BY t FROM '{source}' {more};
CREATE QUERY q INTO '{sink}' AS SELECT a FROM s [RANGE 2 SEC SLIDE 1 SEC];
"""


def check(folder, source="csv:none.csv", sink="jsonl:out/q.jsonl", more=""):
    calls.check(calls.bind(TEXT.format(source=source, sink=sink, more=more)), folder)


def test_files_need_not_exist_and_none_is_made(tmp_path):
    check(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_an_unknown_scheme_of_a_source_or_sink_is_found(tmp_path):
    with pytest.raises(SourceError, match="kafka:s"):
        check(tmp_path, source="kafka:s")
    with pytest.raises(SinkError, match="xml:q"):
        check(tmp_path, sink="xml:q")


def test_an_unknown_option_of_a_source_is_found(tmp_path):
    with pytest.raises(SourceError, match="delimeter"):
        check(tmp_path, more="WITH (delimeter = ';')")


def test_what_the_planner_wants_to_know_of_a_stream_is_no_business_of_its_source(tmp_path):
    check(tmp_path, more="WITH (rate = 50, distinct_a = 10, selectivity_a = 0.5)")
