"""Writes CQL syntax trees as CQL text: expressions here, queries and statements in `writers`.

Parentheses are nodes of the tree, so nothing is added or dropped; a chain of binary operators is
written without recursion, because a condition may have hundreds of terms.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from sqlglot import exp, generator

from sash.lang import intervals, nodes
from sash.lang.tokens import RESERVED
from sash.lang.writers import WRITERS

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
        nodes.Duration: lambda self, e: _duration(e),
        nodes.TimestampLiteral: lambda self, e: f"TIMESTAMP {self.sql(e, 'this')}",
        nodes.Option: lambda self, e: f"{self.sql(e, 'this')} = {self.sql(e, 'expression')}",
        **{kind: lambda self, e: WRITERS[type(e)](self, e) for kind in WRITERS},
    }


def _duration(node: exp.Expression) -> str:
    """Bare after a keyword of a clause; an expression needs the word INTERVAL before it."""
    written = intervals.write(int(node.this.this))
    parent = node.parent
    return written if isinstance(parent, _CLAUSES) else f"INTERVAL {written}"


_CLAUSES = (nodes.WindowClause, nodes.CreateStream, nodes.CreateArchive)
