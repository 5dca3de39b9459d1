"""Texts as people type them into a session: without the last ';', a SELECT alone, a name.

What is put before a text to make a statement of it is taken out of the places of errors again, so that they
show what was typed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TypeVar

from sash.errors import Place, SashError, UserError
from sash.lang.bound import Definition, OneTimeQuery, QueryDefinition
from sash.lang.parse import Statement, parse

D = TypeVar("D", bound=Definition)

_WORD = re.compile(r"(?:\s|--[^\n]*(?:\n|$)|/\*.*?\*/)*+(\w+)", re.DOTALL)


def ended(text: str) -> str:
    """The text with a ';' at its end."""
    text = text.rstrip()
    if text.endswith(";"):
        return text
    # A comment to the end of the line would swallow it.
    return text + ("\n;" if "--" in text.rpartition("\n")[2] else ";")


def first_word(text: str) -> str:
    """The first word in capitals, after comments; empty where the text begins otherwise."""
    found = _WORD.match(text)
    return "" if found is None else found[1].upper()


def quoted_name(name: str) -> str:
    """The name as CQL writes it, whatever it is."""
    return '"' + name.replace('"', '""') + '"'


def quoted_text(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def only_statement(prefix: str, text: str, method: str) -> Statement:
    """The one statement that `prefix` and the text make together."""
    statements = parse(ended(prefix + text))
    if len(statements) != 1:
        raise UserError(
            f"{method}() takes one statement",
            place=statements[1].place if statements else None,
            got=f"{len(statements)} statements" if statements else "an empty text",
            hint="sql() takes any number of them",
            id="one-statement",
        )
    return statements[0]


@contextmanager
def places_without(prefix: str) -> Iterator[None]:
    """Errors inside show their places in the text that follows the prefix."""
    try:
        yield
    except SashError as error:
        error.place = _moved(error.place, prefix)
        raise


def without_prefix(definition: D, prefix: str) -> D:
    """The definition, with its place in the text that follows the prefix."""
    if isinstance(definition, QueryDefinition | OneTimeQuery):
        return replace(definition, place=_moved(definition.place, prefix))
    return definition


def _moved(place: Place | None, prefix: str) -> Place | None:
    if place is None or not prefix or not place.text.startswith(prefix):
        return place
    if place.start < len(prefix):
        return None
    return Place(place.text[len(prefix) :], place.start - len(prefix), place.end - len(prefix))
