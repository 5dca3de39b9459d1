"""The examples of the language reference are CQL: together, in order, they are one program."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from sash.errors import UnknownName
from sash.lang import bind_program
from sash.lang.functions import AGGREGATES, EXTRACT_PARTS, FUNCTIONS

TEXT = (Path(__file__).parents[3] / "docs" / "cql.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"^```sql\n(.*?)^```", TEXT, re.MULTILINE | re.DOTALL)


def test_every_example_parses_and_binds_after_those_before_it():
    assert len(EXAMPLES) >= 6
    for end in range(1, len(EXAMPLES) + 1):
        bind_program("".join(EXAMPLES[:end]))


def test_the_error_on_show_is_the_error_that_is_given():
    shown = re.search(r"^```text\n(.*?)\n```", TEXT, re.MULTILINE | re.DOTALL)
    assert shown is not None
    program = EXAMPLES[0] + (
        "  SELECT src, SUM(lenght) AS bytes FROM packets [RANGE 20 SEC SLIDE 10 SEC]\n  GROUP BY src;"
    )
    program = program.replace("  FROM 'csv:packets.csv';\n", "FROM 'c:x'; EXPLAIN\n")
    with pytest.raises(UnknownName) as caught:
        bind_program(program)
    assert caught.value.render() == shown[1]


def test_every_function_is_in_the_reference():
    for name in (*FUNCTIONS, *AGGREGATES, *EXTRACT_PARTS):
        assert re.search(rf"\b{name}\b", TEXT), name
