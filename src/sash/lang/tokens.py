"""Tokens of CQL: sqlglot's tokenizer with no keywords, and the lexical check that runs before it.

Every word is a plain VAR token; the parser decides by its place whether it is a keyword, so that
`window`, `range`, `count` or `timestamp` can also be column names. RESERVED words are the exception:
they are names only in double quotes. Invariant: after `check_characters` passed, the tokenizer
accepts the text.
"""

from __future__ import annotations

import re
from typing import ClassVar

from sqlglot import tokens
from sqlglot.errors import TokenError
from sqlglot.tokenizer_core import Token, TokenType

from sash.errors import CqlSyntaxError, Place

_RESERVED = """all and as between by case cast create cross div distinct drop else end except exists explain
    false from full group having in inner intersect into is join left like limit natural not null on
    or order right select then true union using when where"""
RESERVED = frozenset(_RESERVED.split())

_LEXEME = re.compile(
    r"""
      --[^\r\n]*
    | /\*.*?\*/
    | '(?:[^']|'')*+'
    | "(?:[^"]|"")*+"
    | [\w\s]+
    | /(?!\*)
    | [()\[\],.;+\-*%<>=|!]
    """,
    re.VERBOSE | re.DOTALL,
)


class CqlTokenizer(tokens.Tokenizer):
    NESTED_COMMENTS = False
    KEYWORDS: ClassVar[dict[str, TokenType]] = {
        "<>": TokenType.NEQ,
        "!=": TokenType.NEQ,
        "<=": TokenType.LTE,
        ">=": TokenType.GTE,
        "||": TokenType.DPIPE,
    }
    COMMANDS: ClassVar[set[TokenType]] = set()


def check_characters(text: str) -> None:
    """Refuse what the tokenizer would misread: open strings and comments, characters CQL has no use for."""
    position = 0
    while position < len(text):
        match = _LEXEME.match(text, position)
        if match is None:
            raise _lexical_error(text, position)
        position = match.end()
    for position, character in enumerate(text):
        if character == "\0" or "\ud800" <= character <= "\udfff":
            raise _lexical_error(text, position)


def tokenize(text: str, tokenizer: tokens.Tokenizer) -> list[Token]:
    check_characters(text)
    try:
        return tokenizer.tokenize(text)
    except TokenError as error:  # pragma: no cover - the check above leaves nothing to refuse
        raise CqlSyntaxError("the text cannot be read as CQL", place=Place(text, 0, 1)) from error


def _lexical_error(text: str, position: int) -> CqlSyntaxError:
    character = text[position]
    place = Place(text, position, position + 1)
    if character == "'":
        return CqlSyntaxError("a string that does not end", place=place, expected="a closing '")
    if character == '"':
        return CqlSyntaxError("a quoted name that does not end", place=place, expected='a closing "')
    if character == "/":
        place = Place(text, position, position + 2)
        return CqlSyntaxError("a comment that does not end", place=place, expected="a closing */")
    hint = {"`": 'names are quoted with "…"', "{": "CQL has no braces", ":": "write CAST(x AS type)"}
    return CqlSyntaxError(
        f"the character {character!r} means nothing in CQL", place=place, hint=hint.get(character)
    )
