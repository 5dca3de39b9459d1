"""Wstream in syntax trees: windows under it are internal, and inside an aggregate it is a sub-query.

`SELECT SUM(Wstream(SUM(a))[ROWS 10]) FROM s [RANGE 6 SEC SLIDE 6 SEC]` means
`SELECT SUM(c) FROM (SELECT SUM(a) AS c FROM s [RANGE 6 SEC SLIDE 6 SEC INTERNAL]) [ROWS 10]`.
Source: 002, section 3.4.
"""

from __future__ import annotations

from sqlglot import exp

from sash.lang import nodes
from sash.lang.context import Context
from sash.lang.functions import AGGREGATES
from sash.lang.nodes import mark
from sash.lang.select import made_name


def with_internal_windows(query: exp.Expression, ctx: Context) -> exp.Expression:
    """The query with each window of its level INTERNAL, those over sub-queries, too."""
    changed = query.copy()
    for reference in changed.find_all(nodes.SourceReference):
        if reference.this.name not in ctx.known.streams or _is_windowed_again(reference):
            continue
        window = reference.args.get("window")
        if window is None:
            window = mark(nodes.WindowClause(kind="unbounded"), reference.this)
            reference.set("window", window)
        window.set("internal", True)
    for inner in changed.find_all(nodes.QueryReference):
        window = inner.args.get("window")
        if window is not None and not _is_windowed_again(inner):
            window.set("internal", True)
    return changed


def _is_windowed_again(reference: exp.Expression) -> bool:
    above = reference.parent
    while above is not None:
        if isinstance(above, nodes.QueryReference) and above.args.get("window") is not None:
            return True
        above = above.parent
    return False


def nested(select: exp.Select, ctx: Context) -> exp.Select:
    """`AGG(Wstream(x)[w])` as the aggregate over a windowed sub-query; any other select as it is."""
    if len(select.expressions) != 1 or select.args.get("group") or select.args.get("having"):
        return select
    (item,) = select.expressions
    call = item.this if isinstance(item, exp.Alias) else item
    if not isinstance(call, exp.Anonymous) or call.this not in AGGREGATES or not call.expressions:
        return select
    stream = call.expressions[0]
    if not isinstance(stream, nodes.OutputCall) or stream.args["kind"] != "wstream":
        return select
    if len(stream.expressions) != 1 or stream.args.get("distinct"):
        return select
    (inner_item,) = stream.expressions
    value = inner_item.this if isinstance(inner_item, exp.Alias) else inner_item
    column = mark(exp.Identifier(this="value", quoted=True), stream)
    inner = with_internal_windows(select, ctx)
    inner.set("expressions", [mark(exp.Alias(this=value.copy(), alias=column), stream)])
    inner.set("distinct", None)
    for key in ("order", "limit"):
        inner.set(key, None)
    name = (
        item.args["alias"]
        if isinstance(item, exp.Alias)
        else exp.Identifier(this=made_name(call), quoted=True)
    )
    outer_call = call.copy()
    outer_call.expressions[0].replace(mark(exp.Column(this=column.copy()), stream))
    reference = nodes.QueryReference(this=inner, window=stream.args["window"].copy())
    outer = exp.Select(expressions=[mark(exp.Alias(this=outer_call, alias=name.copy()), item)])
    outer.set("from_", exp.From(this=mark(reference, stream)))
    for key in ("distinct", "order", "limit"):
        if select.args.get(key) is not None:
            outer.set(key, select.args[key].copy())
    return mark(outer, select) if "start" in select.meta else outer
