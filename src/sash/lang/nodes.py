"""The nodes of a CQL syntax tree that SQL does not have, and where a node stands in the text.

Scalar expressions, SELECT and its clauses are sqlglot's own nodes; statements, windows and output
operators are the ones below. Invariant: printing a tree that the parser made, with the `Cql` dialect,
gives text that parses to an equal tree. Positions live in `meta`, so they take no part in equality.
"""

from __future__ import annotations

from typing import Any, ClassVar, TypeVar

from sqlglot import exp
from sqlglot.tokenizer_core import Token

from sash.errors import Place

Node = exp.Expression
N = TypeVar("N", bound=exp.Expression)


class Duration(exp.Expression):
    """A length of time. `this` is a literal of whole microseconds, however it was spelled."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True}

    @property
    def microseconds(self) -> int:
        return int(self.this.this)


class WindowClause(exp.Expression):
    """`[RANGE range SLIDE slide]`."""

    arg_types: ClassVar[dict[str, bool]] = {"range": True, "slide": True}


class StreamReference(exp.Expression):
    """A stream in FROM, with its window and its alias."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True, "window": True, "alias": False}


class OutputClause(exp.Expression):
    """`Istream(select)`, `Dstream(select)` or `Rstream(select)`; `kind` is the lower-case name."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True, "kind": True}


class TimestampLiteral(exp.Expression):
    """`TIMESTAMP '2026-01-31 12:00:00'`."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True}


class Option(exp.Expression):
    """`key = literal` in WITH (…)."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True, "expression": True}


class CreateStream(exp.Expression):
    arg_types: ClassVar[dict[str, bool]] = {
        "this": True,
        "columns": True,
        "timestamp": True,
        "slack": False,
        "source": True,
        "options": False,
    }


class CreateQuery(exp.Expression):
    arg_types: ClassVar[dict[str, bool]] = {"this": True, "sink": True, "expression": True}


class Explain(exp.Expression):
    arg_types: ClassVar[dict[str, bool]] = {"this": True}


def mark(node: N, start: Token | exp.Expression, end: Token | exp.Expression | None = None) -> N:
    """Note that `node` stands in the text from `start` to `end`, each a token or a marked node."""
    meta = node.meta
    meta["start"] = _offset(start, "start")
    meta["end"] = _offset(start if end is None else end, "end")
    return node


def _offset(of: Token | exp.Expression, which: str) -> int:
    if isinstance(of, exp.Expression):
        return int(of.meta[which])
    return of.start if which == "start" else of.end


def span_of(node: Any) -> tuple[int, int] | None:
    """Offsets of the node's first character and of the one after its last, if the parser made it."""
    if isinstance(node, exp.Expression) and "start" in node.meta:
        return node.meta["start"], node.meta["end"] + 1
    return None


def place_of(node: Any, text: str) -> Place | None:
    span = span_of(node)
    return None if span is None else Place(text, *span)


def source_of(node: Any, text: str) -> str:
    """The text that the node was read from; empty for a node that was not read."""
    span = span_of(node)
    return "" if span is None else text[span[0] : span[1]]
