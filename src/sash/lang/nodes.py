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
    """`[RANGE t]`, `[ROWS n]`, `[NOW]` or `[UNBOUNDED]`, by `kind`, which is the lower-case word.

    `partition` holds the identifiers of PARTITION BY; `slide` is a `Duration`, or a literal number of
    rows for ROWS.
    """

    arg_types: ClassVar[dict[str, bool]] = {
        "kind": True,
        "range": False,
        "rows": False,
        "partition": False,
        "slide": False,
        "offset": False,
        "internal": False,
    }


class SourceReference(exp.Expression):
    """A name in FROM (a stream, a relation or an archive), with its window and its alias."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True, "window": False, "alias": False}


class QueryReference(exp.Expression):
    """A sub-query in FROM, with the window over its output and its alias."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True, "window": False, "alias": False}


class OutputClause(exp.Expression):
    """An output operator around a query; `kind` is its lower-case name, `window` that of Wstream.

    An operator around a select list, `SELECT Istream(a) FROM s`, is read as this, too.
    """

    arg_types: ClassVar[dict[str, bool]] = {"this": True, "kind": True, "window": False}


class OutputCall(exp.Expression):
    """An output operator inside an expression, such as `Wstream(SUM(a))[ROWS 10]`."""

    arg_types: ClassVar[dict[str, bool]] = {
        "expressions": True,
        "kind": True,
        "distinct": False,
        "window": False,
    }


class SortKey(exp.Expression):
    """`this [DESC] [NULLS FIRST | LAST]`; `nulls` is "first", "last" or nothing."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True, "descending": False, "nulls": False}


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
        "retain": False,
        "lifetime": False,
        "max_lifetime": False,
        "max_ahead": False,
        "source": True,
        "options": False,
    }


class CreateRelation(exp.Expression):
    arg_types: ClassVar[dict[str, bool]] = {
        "this": True,
        "columns": True,
        "key": False,
        "non_retroactive": False,
        "timestamp": False,
        "operation": False,
        "source": True,
        "options": False,
    }


class CreateQuery(exp.Expression):
    arg_types: ClassVar[dict[str, bool]] = {
        "this": True,
        "sink": False,
        "expression": True,
        "options": False,
        "allow_unbounded": False,
    }


class Technique(exp.Expression):
    """What stands after USING, in lower case, with the grid G×E of an archive."""

    arg_types: ClassVar[dict[str, bool]] = {
        "this": True,
        "generations": False,
        "expirations": False,
    }


class CreateArchive(exp.Expression):
    arg_types: ClassVar[dict[str, bool]] = {
        "this": True,
        "key": True,
        "technique": False,
        "every": True,
        "sink": True,
        "expression": True,
        "options": False,
    }


class CreateIndex(exp.Expression):
    """CREATE INDEX this ON stream (column) USING technique."""

    arg_types: ClassVar[dict[str, bool]] = {
        "this": True,
        "stream": True,
        "column": True,
        "technique": True,
        "options": False,
    }


class DropStatement(exp.Expression):
    """`kind` is the lower-case word: stream, relation, query, archive or index."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True, "kind": True}


class ShowStatement(exp.Expression):
    """`kind` as in `DropStatement`."""

    arg_types: ClassVar[dict[str, bool]] = {"kind": True}


class Explain(exp.Expression):
    """EXPLAIN of a query, or of the name of one; `format` is text, json or svg."""

    arg_types: ClassVar[dict[str, bool]] = {
        "this": True,
        "analyze": False,
        "format": False,
        "options": False,
        "allow_unbounded": False,
    }


class Question(exp.Expression):
    """A query that is answered once, with options."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True, "options": True}


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
