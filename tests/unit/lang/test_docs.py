"""The examples of the language reference are CQL: together, in order, they are one program.

Its tables are the input of that program and its output: the oracle gives every answer on show, and so does
a run.
"""

from __future__ import annotations

import re

import pyarrow.compute as pc
import pyarrow.csv
import pytest
from tests.unit.lang.docs_kit import EXAMPLES, TEXT, agrees, arrow_table, read_doc

from sash.errors import UnknownName
from sash.lang import bind_program
from sash.lang.bound import RelationDefinition, StreamDefinition
from sash.lang.functions import AGGREGATES, EXTRACT_PARTS, FUNCTIONS
from sash.runtime.run import run_program
from sash.testing.answers import read_answers, received, schema_of_answers
from sash.testing.arrivals import Arrived
from sash.testing.oracle import expected_changes, source_names, stream_names

PROGRAM = bind_program("".join(EXAMPLES))
ROWS, SHOWN = read_doc(PROGRAM)
QUERIES = {query.name: query for query in PROGRAM.queries}
SOURCES: dict[str, StreamDefinition | RelationDefinition] = {
    **{stream.name: stream for stream in PROGRAM.streams},
    **{relation.name: relation for relation in PROGRAM.relations},
}
TABLES = {name: arrow_table(SOURCES[name], rows) for name, rows in ROWS.items()}


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


def arrived(name):
    source = SOURCES[name]
    table = TABLES[name]
    times = (
        []
        if source.timestamp is None
        else pc.multiply(table.column(source.timestamp), source.unit).to_pylist()
    )
    return Arrived(times, table)


def test_the_tables_have_rows_for_four_sources_and_answers_of_every_kind_of_query():
    assert ROWS.keys() == {"packets", "leases", "answers", "owners"}
    assert len(SHOWN) == len({shown.query for shown in SHOWN}) >= 28


@pytest.mark.parametrize("shown", SHOWN, ids=lambda shown: shown.query)
def test_the_oracle_gives_the_answers_on_show(shown):
    query = QUERIES[shown.query]
    names = stream_names(query.plan)
    # A program of this query alone: the input ends with its own streams.
    end = max(ts for name in names for ts in arrived(name).ts)
    relations = {name: arrived(name) for name in source_names(query.plan) - names}
    answers = expected_changes(PROGRAM, query, {name: arrived(name) for name in names}, relations, end)
    assert agrees(shown, query.plan, answers), answers


@pytest.mark.parametrize("shown", SHOWN, ids=lambda shown: shown.query)
def test_a_run_gives_the_answers_on_show(shown, tmp_path):
    query = QUERIES[shown.query]
    names = [name for name in ROWS if name in source_names(query.plan)]
    for name in names:
        pyarrow.csv.write_csv(TABLES[name], tmp_path / f"{name}.csv")
    # What is kept for questions that nobody asks here changes no answer.
    sources = "".join(f"{re.sub(' RETAIN 1 HOUR', '', SOURCES[name].text)};\n" for name in names)
    select = re.sub(r".*?\bAS\b", "", query.text, count=1, flags=re.DOTALL)
    program = bind_program(f"{sources}CREATE QUERY {query.name} INTO 'jsonl:answers.jsonl' AS {select};")
    (alone,) = program.queries
    run_program(program, base_dir=tmp_path, runtime="inline")
    schema = schema_of_answers(program, alone.plan)
    table = read_answers(alone.sink, schema, tmp_path)
    assert agrees(shown, alone.plan, received(program, alone.plan, table)), table
