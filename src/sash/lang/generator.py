"""Writes CQL syntax trees as CQL text.

Parentheses are nodes of the tree, so nothing is added or dropped; a chain of binary operators is
written without recursion, because a condition may have hundreds of terms.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from sqlglot import exp, generator

from sash.lang import intervals, nodes
from sash.lang.tokens import RESERVED

SYMBOLS: dict[type[exp.Expr], str] = {
    exp.Or: "OR",
    exp.And: "AND",
    exp.EQ: "=",
    exp.NEQ: "<>",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
    exp.Is: "IS",
    exp.Like: "LIKE",
    exp.DPipe: "||",
    exp.Add: "+",
    exp.Sub: "-",
    exp.Mul: "*",
    exp.Div: "/",
    exp.Mod: "%",
    exp.IntDiv: "DIV",
}


def write_chain(self: generator.Generator, node: Any, symbols: dict[type[exp.Expr], str] = SYMBOLS) -> str:
    """A left-deep chain of binary operators, from its last operand to its first."""
    parts: list[str] = []
    while type(node) in symbols:
        parts += (self.sql(node, "expression"), symbols[type(node)])
        node = node.this
    parts.append(self.sql(node))
    return " ".join(reversed(parts))


class CqlGenerator(generator.Generator):
    RESERVED_KEYWORDS: ClassVar[set[str]] = set(RESERVED)
    TYPE_MAPPING: ClassVar[dict[exp.DType, str]] = {
        **generator.Generator.TYPE_MAPPING,
        exp.DType.TEXT: "STRING",
    }
    TRANSFORMS: ClassVar[dict[type[exp.Expr], Callable[..., str]]] = {
        **generator.Generator.TRANSFORMS,
        **dict.fromkeys(SYMBOLS, write_chain),
        nodes.Duration: lambda self, e: intervals.write(e.microseconds),
        nodes.TimestampLiteral: lambda self, e: f"TIMESTAMP {self.sql(e, 'this')}",
        nodes.WindowClause: lambda self, e: f"[RANGE {self.sql(e, 'range')} SLIDE {self.sql(e, 'slide')}]",
        nodes.OutputClause: lambda self, e: f"{e.args['kind'].capitalize()}({self.sql(e, 'this')})",
        nodes.Option: lambda self, e: f"{self.sql(e, 'this')} = {self.sql(e, 'expression')}",
        nodes.Explain: lambda self, e: f"EXPLAIN {self.sql(e, 'this')}",
        nodes.StreamReference: lambda self, e: _stream_reference(self, e),
        nodes.CreateStream: lambda self, e: _create_stream(self, e),
        nodes.CreateQuery: lambda self, e: (
            f"CREATE QUERY {self.sql(e, 'this')} INTO {self.sql(e, 'sink')} AS {self.sql(e, 'expression')}"
        ),
    }


def _stream_reference(self: generator.Generator, node: exp.Expression) -> str:
    alias = self.sql(node, "alias")
    return f"{self.sql(node, 'this')} {self.sql(node, 'window')}" + (f" AS {alias}" if alias else "")


def _create_stream(self: generator.Generator, node: exp.Expression) -> str:
    columns = ", ".join(self.sql(column) for column in node.args["columns"])
    options = ", ".join(self.sql(option) for option in node.args.get("options") or ())
    slack = self.sql(node, "slack")
    return (
        f"CREATE STREAM {self.sql(node, 'this')} ({columns}) TIMESTAMP BY {self.sql(node, 'timestamp')}"
        + (f" SLACK {slack}" if slack else "")
        + f" FROM {self.sql(node, 'source')}"
        + (f" WITH ({options})" if options else "")
    )
