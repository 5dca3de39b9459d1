"""FROM: the streams, relations, archives and sub-queries of a SELECT, each with its window."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sqlglot import exp

from sash.errors import BindError, DuplicateName, UnknownName
from sash.lang import algebra, nodes
from sash.lang.algebra import Field, OutputKind
from sash.lang.bound import ArchiveDefinition, RelationDefinition, StreamDefinition
from sash.lang.context import BoundQuery, Context
from sash.lang.growth import as_stream, is_append_only, is_internal, level_windows
from sash.lang.scopes import Source
from sash.lang.types import Type
from sash.lang.windows import UNBOUNDED, bind_window, check_slides


def bind_sources(select: exp.Select, ctx: Context) -> tuple[Source, ...]:
    sources: list[Source] = []
    taken: set[str] = set()
    for reference in references(select):
        source = _bind_source(reference, ctx)
        label = source.alias or source.name
        if label is not None and label in taken:
            place = reference.args.get("alias") or reference.this
            raise DuplicateName(
                f"two sources of FROM are called '{label}'",
                place=ctx.place(place),
                hint="give one of them another alias with AS",
            )
        if label is not None:
            taken.add(label)
        sources.append(source)
    return tuple(sources)


def references(select: exp.Select) -> Iterator[exp.Expression]:
    yield select.args["from_"].this
    for join in select.args.get("joins") or ():
        yield join.this


def _bind_source(reference: exp.Expression, ctx: Context) -> Source:
    if isinstance(reference, nodes.QueryReference):
        return _bind_subquery(reference, ctx)
    name = reference.this.name
    known = ctx.known
    stream = known.streams.get(name)
    if stream is not None:
        return _bind_stream(reference, stream, ctx)
    relation = known.relations.get(name)
    if relation is not None:
        return _bind_relation(reference, relation, ctx)
    archive = known.archives.get(name)
    if archive is not None:
        return _bind_archive(reference, archive, ctx)
    kinds = {"stream": [*known.streams], "relation": [*known.relations], "archive": [*known.archives]}
    there = [kind for kind, names in kinds.items() if names] or ["stream"]
    known_names = [each for names in kinds.values() for each in names]
    kind = " or ".join(filter(None, (", ".join(there[:-1]), there[-1])))
    raise UnknownName(kind, name, known_names, place=ctx.place(reference.this))


def _source(
    kind: str, reference: exp.Expression, columns: dict[str, Field], node: algebra.Node, ctx: Context
) -> Source:
    alias = reference.args.get("alias")
    name = None if kind == "query" else reference.this.name
    place = ctx.place(reference.args.get("window") or reference.this)
    source = Source(kind, name, None if alias is None else alias.name, columns, node, place)
    for found in node.walk():
        if isinstance(found, algebra.Window):
            ctx.windows.setdefault(id(found), (found, reference.args.get("window") or reference.this))
    return source


def _fields(qualifier: str, columns: Sequence[tuple[str, Type]]) -> dict[str, Field]:
    return {name: Field(f"{qualifier}.{name}", type_) for name, type_ in columns}


def _bind_stream(reference: exp.Expression, stream: StreamDefinition, ctx: Context) -> Source:
    qualifier = ctx.qualifier(stream.name)
    columns = _fields(qualifier, [(c.name, c.type) for c in stream.schema])
    clause = reference.args.get("window")
    spec = UNBOUNDED if clause is None else bind_window(clause, ctx, columns, stream.unit, stream.name)
    leaf = algebra.Stream(stream.name, qualifier, tuple(columns.values()), stream.lifetime is not None)
    return _source("stream", reference, columns, algebra.Window(leaf, spec), ctx)


def _bind_relation(reference: exp.Expression, relation: RelationDefinition, ctx: Context) -> Source:
    clause = reference.args.get("window")
    if clause is not None:
        raise BindError(
            f"'{relation.name}' is a relation and has no window",
            place=ctx.place(clause),
            expected=f"{relation.name} without a window",
            got=nodes.source_of(clause, ctx.text),
            hint="windows are for streams; a relation is always what it is now",
        )
    qualifier = ctx.qualifier(relation.name)
    columns = _fields(qualifier, [(c.name, c.type) for c in relation.visible])
    leaf = algebra.Relation(
        relation.name,
        qualifier,
        tuple(columns.values()),
        tuple(columns[name].name for name in relation.key),
        relation.is_retroactive,
        relation.is_static,
    )
    return _source("relation", reference, columns, leaf, ctx)


def _bind_archive(reference: exp.Expression, archive: ArchiveDefinition, ctx: Context) -> Source:
    if not ctx.is_one_time:
        raise BindError(
            f"'{archive.name}' is an archive, which a standing query cannot read",
            place=ctx.place(reference.this),
            hint="ask the archive with a one-time query: SELECT … without CREATE QUERY",
        )
    clause = reference.args.get("window")
    length = None
    if clause is not None:
        spec = bind_window(clause, ctx, {})
        if spec != algebra.WindowSpec(algebra.WindowKind.RANGE, range=spec.range):
            raise BindError(
                "a window that an archive cannot have",
                place=ctx.place(clause),
                expected="[RANGE t], or no window for all that the archive holds",
                got=nodes.source_of(clause, ctx.text),
            )
        length = spec.range
    qualifier = ctx.qualifier(archive.name)
    columns = _fields(qualifier, [(f.name, f.type) for f in archive.plan.fields])
    leaf = algebra.Archive(archive.name, qualifier, tuple(columns.values()), length)
    return _source("archive", reference, columns, leaf, ctx)


# ---------------------------------------------------------------- sub-queries


def _bind_subquery(reference: nodes.QueryReference, ctx: Context) -> Source:
    qualifier = ctx.subquery_qualifier()
    bound = ctx.bind_query(
        reference.this, ctx.inner(), lambda names: [f"{qualifier}.c{i}" for i in range(len(names))]
    )
    columns = dict(zip(bound.names, bound.node.fields, strict=True))
    clause = reference.args.get("window")
    is_stream = bound.kind not in (OutputKind.VIEW, OutputKind.WSTREAM)
    node: algebra.Node = bound.output() if is_stream else bound.node
    spec = None
    if clause is not None:
        spec = bind_window(clause, ctx, columns)
        node = node if is_stream else _windowed(reference, bound, ctx)
    elif bound.kind is OutputKind.WSTREAM:
        spec = bound.window
    elif bound.kind is not OutputKind.VIEW or is_internal(bound.node):
        spec = UNBOUNDED
    if spec is not None:
        check_slides(bound.node, ctx)
        node = algebra.Window(node, spec)
    return _source("query", reference, columns, node, ctx)


def _windowed(reference: nodes.QueryReference, bound: BoundQuery, ctx: Context) -> algebra.Node:
    """What the window is over, if a sub-query has no output operator: a stream, or append-only results."""
    clause = reference.args["window"]
    if bound.kind is OutputKind.WSTREAM:
        raise BindError(
            "a window over Wstream, which is a window already",
            place=ctx.place(clause),
            hint="take one of the two windows away",
        )
    stream = as_stream(bound.node)
    if stream is not None:
        return stream
    if not is_append_only(bound.node):
        raise BindError(
            "a window over a sub-query whose results expire",
            place=ctx.place(clause),
            expected="a sub-query that only adds results",
            hint="make the windows of the sub-query INTERNAL, or put Istream(…) around it",
        )
    windows = list(level_windows(bound.node))
    if not windows or not all(window.is_internal for window in windows):
        raise BindError(
            "a window over a sub-query that is not a stream",
            place=ctx.place(clause),
            expected="a sub-query that only selects, projects or unites (UNION ALL) streams",
            hint="put Istream(…) around the sub-query: it makes a stream of its new results",
        )
    return bound.node
