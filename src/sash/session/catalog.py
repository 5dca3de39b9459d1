"""What a session knows: copies of it, the program that it makes, and queries that are added to it."""

from __future__ import annotations

from dataclasses import replace

from sash.errors import BindError, UserError
from sash.lang import Known, Program, bind_statement
from sash.lang.bound import Definition, QueryDefinition
from sash.lang.tokens import RESERVED
from sash.session.texts import (
    first_word,
    only_statement,
    places_without,
    quoted_name,
    quoted_text,
    without_prefix,
)


def copied(known: Known) -> Known:
    """What is known, to be changed without changing it."""
    return Known(
        dict(known.streams),
        dict(known.relations),
        dict(known.queries),
        dict(known.archives),
        dict(known.indexes),
    )


def program_of(
    known: Known,
    *,
    statements: tuple[Definition, ...] = (),
    queries: tuple[QueryDefinition, ...] | None = None,
) -> Program:
    """What is known as a program; queries without an output of their own write nowhere."""
    chosen = tuple(known.queries.values()) if queries is None else queries
    return Program(
        statements,
        tuple(known.streams.values()),
        tuple(known.relations.values()),
        tuple(query if query.sink else replace(query, sink="noop:") for query in chosen),
        tuple(known.archives.values()) if queries is None else (),
        tuple(known.indexes.values()) if queries is None else (),
    )


def define(text: str, name: str | None, into: str | None, known: Known) -> QueryDefinition:
    """Bind what `Session.query` was given; the query is known afterwards."""
    prefix = ""
    if first_word(text) != "CREATE":
        name = free_name(known) if name is None else plain_name(name)
        sink = "" if into is None else f"INTO {quoted_text(into)} "
        prefix = f"CREATE QUERY {quoted_name(name)} {sink}AS "
    elif name is not None or into is not None:
        raise UserError(
            "a CREATE QUERY says its name and its output itself",
            hint="leave name= and into= away, or give query() the SELECT alone",
            id="option",
        )
    with places_without(prefix):
        statement = only_statement(prefix, text, "query")
        definition = bind_statement(statement, known)
    if not isinstance(definition, QueryDefinition):
        raise BindError(
            "query() takes a SELECT or a CREATE QUERY",
            place=statement.place,
            hint="sql() takes every other statement",
        )
    definition = without_prefix(definition, prefix)
    known.queries[definition.name] = definition
    return definition


def plain_name(name: str) -> str:
    """A name as CQL takes it: small letters, unless it would have to stand in double quotes."""
    if name.isidentifier() and name.lower() not in RESERVED:
        return name.lower()
    return name


def free_name(known: Known) -> str:
    number = 1
    while f"q{number}" in known.queries:
        number += 1
    return f"q{number}"
