"""Program text to statements, one at a time.

Invariant: the offsets in a statement's tree count from the start of the whole program, so any node can
be shown in its place. Whatever the text is, only `UserError`s leave here.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from sash.errors import CqlSyntaxError, Place
from sash.lang import tokens
from sash.lang.dialect import Cql
from sash.lang.nodes import mark


@dataclass(frozen=True, slots=True)
class Statement:
    """A syntax tree and where it stands: `program[start:end]` is its text with the final ';'."""

    node: exp.Expression
    program: str
    start: int
    end: int

    @property
    def source(self) -> str:
        return self.program[self.start : self.end]

    @property
    def place(self) -> Place:
        return Place(self.program, self.start, self.end)


def parse(text: str) -> list[Statement]:
    return list(iterate(text))


def iterate(text: str) -> Iterator[Statement]:
    """Statements as they are read: an error in the second comes after the first was given out."""
    dialect = Cql()
    chunk: list[Token] = []
    for token in tokens.tokenize(text, dialect.tokenizer()):
        if token.token_type is not TokenType.SEMICOLON:
            chunk.append(token)
        elif chunk:
            node = _parse_one(dialect, chunk, text)
            mark(node, chunk[0], token)
            yield Statement(node, text, chunk[0].start, token.end + 1)
            chunk = []
    if chunk:
        _parse_one(dialect, chunk, text)
        end = chunk[-1].end + 1
        raise CqlSyntaxError(
            "the last statement does not end",
            place=Place(text, end, end + 1),
            expected="';'",
            got="the end of the text",
        )


def unparse(node: exp.Expression) -> str:
    """The tree as CQL text, without the final ';'."""
    return node.sql(dialect=Cql)


def _parse_one(dialect: Cql, chunk: list[Token], text: str) -> exp.Expression:
    (node,) = dialect.parser().parse(chunk, text)
    assert isinstance(node, exp.Expression)
    return node
