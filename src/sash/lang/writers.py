"""How queries and statements are written as CQL text, one function per kind of node."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from sqlglot import exp, generator

from sash.lang import nodes

Writer = Callable[[generator.Generator, Any], str]


def _joined(self: generator.Generator, items: Iterable[exp.Expression] | None) -> str:
    return ", ".join(self.sql(item) for item in items or ())


def _clause(self: generator.Generator, node: exp.Expression, key: str, before: str) -> str:
    """The argument after its keyword and a blank, or nothing."""
    written = self.sql(node, key)
    return f" {before} {written}" if written else ""


# ------------------------------------------------------------------- queries


def _select(self: generator.Generator, node: exp.Select) -> str:
    distinct = "DISTINCT " if node.args.get("distinct") is not None else ""
    text = f"SELECT {distinct}{_joined(self, node.expressions)} FROM {self.sql(node.args['from_'].this)}"
    text += "".join(self.sql(join) for join in node.args.get("joins") or ())
    for key, keyword in (("where", "WHERE"), ("group", "GROUP BY"), ("having", "HAVING")):
        clause = node.args.get(key)
        if clause is not None:
            written = _joined(self, clause.expressions) if key == "group" else self.sql(clause.this)
            text += f" {keyword} {written}"
    return text + _order(self, node)


def _order(self: generator.Generator, node: exp.Expression) -> str:
    order, limit = node.args.get("order"), node.args.get("limit")
    text = "" if order is None else f" ORDER BY {_joined(self, order.expressions)}"
    return text if limit is None else f"{text} LIMIT {self.sql(limit, 'expression')}"


def _sort_key(self: generator.Generator, node: nodes.SortKey) -> str:
    nulls = node.args.get("nulls")
    descending = " DESC" if node.args.get("descending") else ""
    return f"{self.sql(node, 'this')}{descending}" + (f" NULLS {nulls.upper()}" if nulls else "")


def _set_operation(self: generator.Generator, node: exp.Expression) -> str:
    every = "" if node.args.get("distinct") else " ALL"
    word = type(node).__name__.upper()
    return f"{self.sql(node, 'this')} {word}{every} {self.sql(node, 'expression')}{_order(self, node)}"


def _parentheses(self: generator.Generator, node: exp.Subquery) -> str:
    return f"({self.sql(node, 'this')}){_order(self, node)}"


def _join(self: generator.Generator, node: exp.Join) -> str:
    source = self.sql(node, "this")
    if node.args.get("on") is not None:
        side = "LEFT JOIN" if node.args.get("side") else "JOIN"
        return f" {side} {source} ON {self.sql(node, 'on')}"
    return f" CROSS JOIN {source}" if node.args.get("kind") else f", {source}"


def _source(self: generator.Generator, node: exp.Expression) -> str:
    written = self.sql(node, "this")
    if isinstance(node, nodes.QueryReference):
        written = f"({written})"
    return f"{written}{_clause(self, node, 'window', '')[1:]}{_clause(self, node, 'alias', 'AS')}"


def _window(self: generator.Generator, node: nodes.WindowClause) -> str:
    kind = node.args["kind"]
    partition = _joined(self, node.args.get("partition"))
    text = f"PARTITION BY {partition} {kind.upper()}" if partition else kind.upper()
    if kind in ("range", "rows"):
        text += f" {self.sql(node, kind)}"
    text += _clause(self, node, "slide", "SLIDE") + _clause(self, node, "offset", "OFFSET")
    return f"[{text}{' INTERNAL' if node.args.get('internal') else ''}]"


def _output(self: generator.Generator, node: nodes.OutputClause | nodes.OutputCall) -> str:
    name = node.args["kind"].capitalize()
    if isinstance(node, nodes.OutputClause):
        inner = self.sql(node, "this")
    else:
        inner = ("DISTINCT " if node.args.get("distinct") else "") + _joined(self, node.expressions)
    return f"{name}({inner}){self.sql(node, 'window')}"


def _in(self: generator.Generator, node: exp.In) -> str:
    query = node.args.get("query")
    values = _joined(self, node.expressions) if query is None else self.sql(query)
    return f"{self.sql(node, 'this')} IN ({values})"


# ---------------------------------------------------------------- statements


def _options(self: generator.Generator, node: exp.Expression) -> str:
    options = _joined(self, node.args.get("options"))
    return f" WITH ({options})" if options else ""


def _unbounded(node: exp.Expression) -> str:
    return " ALLOW UNBOUNDED STATE" if node.args.get("allow_unbounded") else ""


def _create_stream(self: generator.Generator, node: nodes.CreateStream) -> str:
    return (
        f"CREATE STREAM {self.sql(node, 'this')} ({_joined(self, node.args['columns'])})"
        f" TIMESTAMP BY {self.sql(node, 'timestamp')}"
        + _clause(self, node, "slack", "SLACK")
        + _clause(self, node, "max_ahead", "MAX AHEAD")
        + _clause(self, node, "retain", "RETAIN")
        + _clause(self, node, "lifetime", "LIFETIME BY")
        + _clause(self, node, "max_lifetime", "MAX LIFETIME")
        + f" FROM {self.sql(node, 'source')}{_options(self, node)}"
    )


def _create_relation(self: generator.Generator, node: nodes.CreateRelation) -> str:
    key = _joined(self, node.args.get("key"))
    return (
        f"CREATE RELATION {self.sql(node, 'this')} ({_joined(self, node.args['columns'])})"
        + (f" KEY ({key})" if key else "")
        + (" NON RETROACTIVE" if node.args.get("non_retroactive") else "")
        + _clause(self, node, "timestamp", "TIMESTAMP BY")
        + _clause(self, node, "operation", "OP BY")
        + f" FROM {self.sql(node, 'source')}{_options(self, node)}"
    )


def _create_query(self: generator.Generator, node: nodes.CreateQuery) -> str:
    return (
        f"CREATE QUERY {self.sql(node, 'this')}{_clause(self, node, 'sink', 'INTO')}"
        f" AS {self.sql(node, 'expression')}{_options(self, node)}{_unbounded(node)}"
    )


def _technique(self: generator.Generator, node: nodes.Technique) -> str:
    grid = self.sql(node, "generations")
    return str(node.this.this).upper() + (f" {grid}x{self.sql(node, 'expirations')}" if grid else "")


def _create_archive(self: generator.Generator, node: nodes.CreateArchive) -> str:
    return (
        f"CREATE ARCHIVE {self.sql(node, 'this')} KEY ({_joined(self, node.args['key'])})"
        f"{_clause(self, node, 'technique', 'USING')} EVERY {self.sql(node, 'every')}"
        f" INTO {self.sql(node, 'sink')} AS {self.sql(node, 'expression')}{_options(self, node)}"
    )


def _create_index(self: generator.Generator, node: nodes.CreateIndex) -> str:
    return (
        f"CREATE INDEX {self.sql(node, 'this')} ON {self.sql(node, 'stream')} ({self.sql(node, 'column')})"
        f" USING {self.sql(node, 'technique')}{_options(self, node)}"
    )


def _show(self: generator.Generator, node: nodes.ShowStatement) -> str:
    kind = node.args["kind"].upper()
    return f"SHOW {kind[:-1] + 'IES' if kind == 'QUERY' else kind + ('ES' if kind == 'INDEX' else 'S')}"


def _drop(self: generator.Generator, node: nodes.DropStatement) -> str:
    return f"DROP {node.args['kind'].upper()} {self.sql(node, 'this')}"


def _explain(self: generator.Generator, node: nodes.Explain) -> str:
    form = node.args.get("format")
    return (
        "EXPLAIN "
        + ("ANALYZE " if node.args.get("analyze") else "")
        + (f"FORMAT {form.upper()} " if form else "")
        + f"{self.sql(node, 'this')}{_options(self, node)}{_unbounded(node)}"
    )


def _question(self: generator.Generator, node: nodes.Question) -> str:
    return f"{self.sql(node, 'this')}{_options(self, node)}"


WRITERS: dict[type[exp.Expr], Writer] = {
    exp.Select: _select,
    exp.Union: _set_operation,
    exp.Except: _set_operation,
    exp.Intersect: _set_operation,
    exp.Subquery: _parentheses,
    exp.Join: _join,
    exp.In: _in,
    exp.Exists: lambda self, e: f"EXISTS ({self.sql(e, 'this')})",
    nodes.SortKey: _sort_key,
    nodes.SourceReference: _source,
    nodes.QueryReference: _source,
    nodes.WindowClause: _window,
    nodes.OutputClause: _output,
    nodes.OutputCall: _output,
    nodes.CreateStream: _create_stream,
    nodes.CreateRelation: _create_relation,
    nodes.CreateQuery: _create_query,
    nodes.CreateArchive: _create_archive,
    nodes.CreateIndex: _create_index,
    nodes.Technique: _technique,
    nodes.DropStatement: _drop,
    nodes.ShowStatement: _show,
    nodes.Explain: _explain,
    nodes.Question: _question,
}
