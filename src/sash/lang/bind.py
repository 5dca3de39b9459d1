"""A whole program to definitions, statement by statement.

Invariant: what leaves here is fully checked; a runtime need not look at names or types again. Errors
carry places in the whole program's text.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from sqlglot import exp

from sash.errors import BindError, DuplicateName, InternalError, UnknownName
from sash.lang import algebra, nodes
from sash.lang.bound import (
    ArchiveDefinition,
    Definition,
    DropDefinition,
    ExplainDefinition,
    IndexDefinition,
    OneTimeQuery,
    QueryDefinition,
    RelationDefinition,
    ShowDefinition,
    StreamDefinition,
)
from sash.lang.context import Known
from sash.lang.declare import (
    bind_archive,
    bind_index,
    bind_isolation,
    bind_options,
    bind_query_definition,
    bind_relation,
    bind_stream,
)
from sash.lang.parse import Statement, iterate
from sash.lang.queries import bind_plan

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Program:
    """What a text says: all statements in their order, and what is defined after the last of them."""

    statements: tuple[Definition, ...]
    streams: tuple[StreamDefinition, ...]
    relations: tuple[RelationDefinition, ...]
    queries: tuple[QueryDefinition, ...]
    archives: tuple[ArchiveDefinition, ...]
    indexes: tuple[IndexDefinition, ...]

    @property
    def explains(self) -> tuple[ExplainDefinition, ...]:
        return self._all(ExplainDefinition)

    @property
    def one_time(self) -> tuple[OneTimeQuery, ...]:
        return self._all(OneTimeQuery)

    @property
    def shows(self) -> tuple[ShowDefinition, ...]:
        return self._all(ShowDefinition)

    def _all(self, kind: type[T]) -> tuple[T, ...]:
        return tuple(statement for statement in self.statements if isinstance(statement, kind))


def bind_program(text: str, known: Known | None = None) -> Program:
    """Parse and bind a text, statement by statement: the first error in the text is the one reported.

    `known` holds what was defined before; the statements change it.
    """
    known = Known() if known is None else known
    statements = tuple(bind_statement(statement, known) for statement in iterate(text))
    return Program(
        statements,
        tuple(known.streams.values()),
        tuple(known.relations.values()),
        tuple(known.queries.values()),
        tuple(known.archives.values()),
        tuple(known.indexes.values()),
    )


def bind_statement(statement: Statement, known: Known) -> Definition:
    """One statement; what it defines or drops is noted in `known`."""
    node, text = statement.node, statement.program
    match node:
        case nodes.CreateStream():
            _claim_source(node.this, known, text)
            stream = bind_stream(node, text)
            known.streams[stream.name] = stream
            return stream
        case nodes.CreateRelation():
            _claim_source(node.this, known, text)
            relation = bind_relation(node, text)
            known.relations[relation.name] = relation
            return relation
        case nodes.CreateArchive():
            _claim_source(node.this, known, text)
            _claim("query", node.this, known.queries, text)
            archive = bind_archive(node, known, text)
            known.archives[archive.name] = archive
            return archive
        case nodes.CreateQuery():
            _claim("query", node.this, known.queries, text)
            _claim("archive", node.this, known.archives, text)
            query = bind_query_definition(node, known, text)
            known.queries[query.name] = query
            return query
        case nodes.CreateIndex():
            _claim("index", node.this, known.indexes, text)
            index = bind_index(node, known, text)
            known.indexes[index.name] = index
            return index
        case nodes.DropStatement():
            return _drop(node, known, statement)
        case nodes.ShowStatement():
            return ShowDefinition(node.args["kind"], statement.source)
        case nodes.Explain():
            return _explain(node, known, statement)
    asked = node.this if isinstance(node, nodes.Question) else node
    plan = bind_plan(asked, known, text, is_one_time=True)
    return OneTimeQuery(plan, statement.source, nodes.place_of(asked, text), bind_isolation(node, text))


def _explain(node: nodes.Explain, known: Known, statement: Statement) -> ExplainDefinition:
    analyze = bool(node.args.get("analyze"))
    form = node.args.get("format") or "text"
    target = node.this
    if isinstance(target, exp.Identifier):
        archive = known.archives.get(target.name)
        query = known.queries.get(target.name) if archive is None else archive.query
        if query is None:
            place = nodes.place_of(target, statement.program)
            raise UnknownName("query", target.name, (*known.queries, *known.archives), place=place)
        return ExplainDefinition(
            query.plan, query.name, analyze, form, query.options, query.allow_unbounded, statement.source
        )
    allow = bool(node.args.get("allow_unbounded"))
    plan = bind_plan(target, known, statement.program, allow_unbounded=allow, is_explained=True)
    options = bind_options(node, statement.program)
    return ExplainDefinition(plan, None, analyze, form, options, allow, statement.source)


# ---------------------------------------------------------------------- names


def _claim_source(name: exp.Expression, known: Known, text: str) -> None:
    """Streams, relations and archives stand in FROM, so no two of them have one name."""
    for kind, taken in (
        ("stream", known.streams),
        ("relation", known.relations),
        ("archive", known.archives),
    ):
        _claim(kind, name, taken, text)


def _claim(kind: str, name: exp.Expression, taken: Mapping[str, object], text: str) -> None:
    if name.name in taken:
        raise DuplicateName(
            f"there is a {kind} '{name.name}' already",
            place=nodes.place_of(name, text),
            hint="give this one another name",
        )


def _drop(node: nodes.DropStatement, known: Known, statement: Statement) -> DropDefinition:
    kind, name = str(node.args["kind"]), str(node.this.name)
    place = nodes.place_of(node.this, statement.program)
    defined: dict[str, dict[str, object]] = {
        "stream": {**known.streams},
        "relation": {**known.relations},
        "query": {**known.queries},
        "archive": {**known.archives},
        "index": {**known.indexes},
    }
    if name not in defined[kind]:
        raise UnknownName(kind, name, defined[kind], place=place)
    users = list(_users(kind, name, known))
    if users:
        raise BindError(
            f"the {kind} '{name}' is in use",
            place=place,
            got=f"it is used by {', '.join(users)}",
            hint="drop what uses it first",
        )
    match kind:
        case "stream":
            del known.streams[name]
        case "relation":
            del known.relations[name]
        case "query":
            del known.queries[name]
        case "archive":
            del known.archives[name]
        case "index":
            del known.indexes[name]
        case _:
            raise InternalError(f"nothing drops {kind}")
    return DropDefinition(kind, name, statement.source)


def _users(kind: str, name: str, known: Known) -> Iterable[str]:
    """What reads the stream, relation or archive of that name."""
    leaf = {"stream": algebra.Stream, "relation": algebra.Relation, "archive": algebra.Archive}.get(kind)
    if leaf is None:
        return
    plans = [(f"the query '{query.name}'", query.plan) for query in known.queries.values()]
    plans += [(f"the archive '{archive.name}'", archive.plan) for archive in known.archives.values()]
    for user, plan in plans:
        for node in plan.walk():
            if isinstance(node, leaf) and getattr(node, "name", None) == name:
                yield user
                break
    if kind == "stream":
        yield from (f"the index '{index.name}'" for index in known.indexes.values() if index.stream == name)
