"""EXPLAIN in the form that is asked for: by the command, or by each statement for itself."""

from __future__ import annotations

import json

import pytest

from sash.errors import UnknownName, UserError
from sash.lang import bind_program
from sash.plan.explain import explain_program

PROGRAM = """
CREATE STREAM packets (t BIGINT, src STRING, length BIGINT) TIMESTAMP BY t FROM 'csv:packets.csv';
CREATE QUERY sources AS SELECT DISTINCT src FROM packets [RANGE 1 MIN];
EXPLAIN FORMAT JSON SELECT src FROM packets [RANGE 1 MIN] WHERE length > 100;
EXPLAIN FORMAT SVG sources;
EXPLAIN SELECT length FROM packets [NOW];
"""


def test_each_statement_has_its_own_format_and_queries_are_text():
    text, found, picture, last = explain_program(bind_program(PROGRAM)).split("\n\n")
    assert text.startswith("sources\nstrategy upa")
    assert json.loads(found)[0]["name"] == "explain 1"
    assert picture.startswith("<svg")
    assert picture.endswith("</svg>")
    assert last.startswith("explain 3\nstrategy upa")


def test_the_format_of_the_command_counts_for_all():
    assert [each["name"] for each in json.loads(explain_program(bind_program(PROGRAM), "json"))] == [
        "sources",
        "explain 1",
        "sources",
        "explain 3",
    ]
    assert "<svg" not in explain_program(bind_program(PROGRAM), "text")


def test_a_named_query_is_shown_once_in_the_format_of_its_explain():
    assert explain_program(bind_program(PROGRAM), query="sources").startswith("<svg")
    assert explain_program(bind_program(PROGRAM), "text", "sources").count("strategy upa") == 1
    assert explain_program(bind_program(PROGRAM), "svg", "sources").startswith("<svg")


def test_a_picture_of_several_queries_and_an_unknown_name_are_refused():
    with pytest.raises(UserError, match="a picture shows one query, and there are 4"):
        explain_program(bind_program(PROGRAM), "svg")
    with pytest.raises(UnknownName):
        explain_program(bind_program(PROGRAM), query="sourses")
