"""Plans and errors, compared with golden files.

    > a query; a '!' before it makes it a one-time query
    its plan in one line, or its error as a person reads it

`PYTHONPATH=src:. python tests/unit/lang/test_golden.py --write` writes them anew from the queries in them.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from tests.unit.lang.plan_kit import CATALOG, once, outline, plan

from sash.errors import InternalError, SashError
from sash.lang import bind_program

PLANS = Path(__file__).with_name("plans.golden")
ERRORS = Path(__file__).with_name("errors.golden")


def entries(path: Path) -> list[tuple[str, str]]:
    """Queries and what is expected of them; blocks are set apart by blank lines."""
    found = []
    for block in path.read_text(encoding="utf-8").strip().split("\n\n"):
        query, _, expected = block.partition("\n")
        found.append((query.removeprefix("> "), expected))
    return found


def planned(query: str) -> str:
    return outline(once(query[1:]) if query.startswith("!") else plan(query))


def refused(statement: str) -> str:
    with pytest.raises(SashError) as caught:
        bind_program(f"{CATALOG}{statement}")
    assert not isinstance(caught.value, InternalError)
    return caught.value.render()


@pytest.mark.parametrize(("query", "expected"), entries(PLANS))
def test_a_query_has_its_plan(query, expected):
    assert planned(query) == expected


@pytest.mark.parametrize(("statement", "expected"), entries(ERRORS))
def test_a_wrong_statement_has_its_error(statement, expected):
    assert refused(statement) == expected


def test_there_are_at_least_fifty_wrong_statements():
    assert len(entries(ERRORS)) >= 50


if __name__ == "__main__" and "--write" in sys.argv:
    for path, made in ((PLANS, planned), (ERRORS, refused)):
        blocks = [f"> {query}\n{made(query)}\n" for query, _ in entries(path)]
        path.write_text("\n".join(blocks), encoding="utf-8")
