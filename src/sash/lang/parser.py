"""The parser of CQL statements: CREATE, DROP, SHOW, EXPLAIN and one-time queries."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from sqlglot import exp
from sqlglot.tokenizer_core import TokenType

from sash.lang import nodes
from sash.lang.nodes import Node, mark
from sash.lang.query_parser import QueryParser

_KINDS = {kind.upper(): kind for kind in ("stream", "relation", "query", "archive", "index")}
_PLURALS = {
    "STREAMS": "stream",
    "RELATIONS": "relation",
    "QUERIES": "query",
    "ARCHIVES": "archive",
    "INDEXES": "index",
}
_FORMATS = ("TEXT", "JSON", "SVG")
_STATEMENTS = "a statement: CREATE, DROP, SHOW, EXPLAIN or SELECT"
_SOURCE = "FROM and the source, such as FROM 'csv:packets.csv'"

# Options that are called like a keyword.
KEYWORD_OPTIONS = ("join", "null")

Clauses = dict[str, object]


class CqlParser(QueryParser):
    def _parse_statement(self) -> exp.Expr | None:
        self._nesting = 0
        self._set_operations = 0
        if self.at(TokenType.SENTINEL):
            return None
        first = self._curr
        if self.accept("CREATE"):
            create = self._CREATE.get(self.word())
            if create is None:
                self.fail("STREAM, RELATION, QUERY, ARCHIVE or INDEX")
            self._advance()
            return mark(create(self), first, self._prev)
        if self.accept("EXPLAIN"):
            return mark(self._explain(), first, self._prev)
        if self.accept("DROP"):
            kind = _KINDS.get(self.word())
            if kind is None:
                self.fail("STREAM, RELATION, QUERY, ARCHIVE or INDEX")
            self._advance()
            name = self.name(f"the name of {_a(kind)}")
            return mark(nodes.DropStatement(this=name, kind=kind), first, self._prev)
        if self.accept("SHOW"):
            kind = _PLURALS.get(self.word())
            if kind is None:
                self.fail("STREAMS, RELATIONS, QUERIES, ARCHIVES or INDEXES")
            self._advance()
            return mark(nodes.ShowStatement(kind=kind), first, self._prev)
        if self.starts_query():
            query = self.subquery()
            if not self.accept("WITH"):
                return query
            return mark(nodes.Question(this=query, options=self._options()), first, self._prev)
        self.fail(_STATEMENTS)

    # ------------------------------------------------------ streams, relations

    def _create_stream(self) -> Node:
        name = self.name("a name for the stream")
        columns = self._columns()
        if not self.accept("TIMESTAMP"):
            self.fail("TIMESTAMP BY and the column that holds the time")
        self.expect("BY")
        clauses: Clauses = {"timestamp": self.name("the column that holds the time")}
        self._clauses(clauses, self._STREAM_CLAUSES, "SLACK, MAX AHEAD, RETAIN, LIFETIME, FROM, WITH or ';'")
        if "source" not in clauses:
            self.fail(_SOURCE)
        return nodes.CreateStream(this=name, columns=columns, **clauses)

    def _create_relation(self) -> Node:
        name = self.name("a name for the relation")
        columns = self._columns()
        clauses: Clauses = {}
        self._clauses(
            clauses, self._RELATION_CLAUSES, "KEY, NON RETROACTIVE, TIMESTAMP BY, OP BY, FROM, WITH or ';'"
        )
        if "source" not in clauses:
            self.fail(_SOURCE)
        return nodes.CreateRelation(this=name, columns=columns, **clauses)

    def _columns(self) -> list[Node]:
        self.expect_token(TokenType.L_PAREN, "'(' and the columns")
        columns = [self._column_definition()]
        while self._match(TokenType.COMMA):
            columns.append(self._column_definition())
        self.expect_token(TokenType.R_PAREN, "',' or ')'")
        return columns

    def _column_definition(self) -> Node:
        name = self.name("a column name")
        kind = self.type_name()
        return mark(exp.ColumnDef(this=name, kind=kind), name, kind)

    def _clauses(
        self, clauses: Clauses, known: dict[str, tuple[str, Callable[[CqlParser], object]]], expected: str
    ) -> None:
        """Clauses in any order, each once, up to the end of the statement."""
        while not self.at(TokenType.SENTINEL):
            keyword = self._curr
            word = self.word()
            if word not in known:
                # A clause may begin with two words.
                word = f"{word} {self.word(self._next)}"
                if word not in known:
                    self.fail(expected)
                self._advance()
            key, read = known[word]
            if key in clauses:
                self.fail("each clause once", message=f"a second {word}", token=keyword)
            self._advance()
            clauses[key] = read(self)

    def _name_list(self, what: str) -> list[exp.Identifier]:
        self.expect_token(TokenType.L_PAREN, f"'(' and {what}")
        names = [self.name(what)]
        while self._match(TokenType.COMMA):
            names.append(self.name(what))
        self.expect_token(TokenType.R_PAREN, "',' or ')'")
        return names

    def _by(self, what: str) -> exp.Identifier:
        self.expect("BY")
        return self.name(what)

    def _non_retroactive(self) -> bool:
        self.expect("RETROACTIVE")
        return True

    def _source_address(self) -> Node:
        return self.string("the source as a string, such as 'csv:packets.csv'")

    def _options(self) -> list[Node]:
        self.expect_token(TokenType.L_PAREN, "'('")
        options = [self._option()]
        while self._match(TokenType.COMMA):
            options.append(self._option())
        self.expect_token(TokenType.R_PAREN, "',' or ')'")
        return options

    def _option_name(self) -> exp.Identifier:
        """A name; an option may be called like a keyword, as in WITH (join = 'lazy')."""
        token = self._curr
        if token.text.lower() not in KEYWORD_OPTIONS:
            return self.name("the name of an option")
        self._advance()
        return mark(exp.Identifier(this=token.text.lower(), quoted=False), token)

    def _option(self) -> Node:
        key = self._option_name()
        self.expect_token(TokenType.EQ, "'='")
        value = self._unary()
        number = value.this if isinstance(value, exp.Neg) else value
        if not (
            isinstance(value, exp.Literal | exp.Boolean)
            or (isinstance(number, exp.Literal) and not number.is_string)
        ):
            self.fail("a string, a number, TRUE or FALSE", token=self._prev)
        return mark(nodes.Option(this=key, expression=value), key, value)

    # ------------------------------------------------ queries, archives, indexes

    def _create_query(self) -> Node:
        name = self.name("a name for the query")
        sink = None
        if self.accept("INTO"):
            sink = self.string("the output as a string, such as 'jsonl:out.jsonl'")
        if not self.accept("AS"):
            self.fail("INTO or AS" if sink is None else "AS")
        query = self._whole_query()
        return nodes.CreateQuery(this=name, sink=sink, expression=query, **self._query_clauses())

    def _whole_query(self) -> Node:
        if not self.starts_query():
            self.fail("SELECT")
        return self.subquery()

    def _query_clauses(self) -> Clauses:
        clauses: Clauses = {}
        self._clauses(clauses, self._QUERY_CLAUSES, "WITH, ALLOW UNBOUNDED STATE or ';'")
        return clauses

    def _allow(self) -> bool:
        self.expect("UNBOUNDED", "STATE")
        return True

    def _create_archive(self) -> Node:
        name = self.name("a name for the archive")
        self.expect("KEY")
        key = self._name_list("the columns of the key")
        technique = self._technique() if self.accept("USING") else None
        if not self.accept("EVERY"):
            self.fail("USING or EVERY" if technique is None else "EVERY")
        every = self.duration("how often the archive is brought up to date")
        self.expect("INTO")
        sink = self.string("the directory as a string, such as 'archive/pairs'")
        self.expect("AS")
        query = self._whole_query()
        options = self._options() if self.accept("WITH") else None
        return nodes.CreateArchive(
            this=name,
            key=key,
            technique=technique,
            every=every,
            sink=sink,
            expression=query,
            options=options,
        )

    def _create_index(self) -> Node:
        name = self.name("a name for the index")
        self.expect("ON")
        stream = self.name("the name of a stream")
        self.expect_token(TokenType.L_PAREN, "'(' and a column")
        column = self.name("a column")
        self.expect_token(TokenType.R_PAREN, "')'")
        self.expect("USING")
        technique = self._structure()
        options = self._options() if self.accept("WITH") else None
        return nodes.CreateIndex(
            this=name, stream=stream, column=column, technique=technique, options=options
        )

    def _technique(self) -> nodes.Technique:
        """A name, which may have a hyphen, and a grid."""
        first, what = self._curr, "a technique, such as REBUILD 4x4, or AUTO"
        if self.word() == "EVERY":
            self.fail(what)
        name = self._hyphenated(what).lower()
        technique = mark(nodes.Technique(this=exp.Var(this=name)), first, self._prev)
        self._grid(technique)
        return technique

    def _structure(self) -> nodes.Technique:
        """`H OVER HASH`, `RING DB ON T`, `G(50)`: what indexes values, stores them, links rows."""
        first = self._curr
        words = [self._sized("a structure, such as T, RING DB or AUTO")]
        if words == ["ring"] and self.word() and self.word() not in ("ON", "WITH"):
            words.append(self.name("AUX, BW or DB").name)
        if self.accept("ON"):
            words += ["on", self._sized("T, H, UH, L or G(50)")]
        elif self.accept("OVER"):
            storage = "group" if self.accept("GROUP") else self.name("LIST, AGGR, HASH or GROUP").name
            words += ["over", storage]
        return mark(nodes.Technique(this=exp.Var(this=" ".join(words))), first, self._prev)

    def _sized(self, what: str) -> str:
        """A name, which may have a hyphen and a number in parentheses."""
        name = self._hyphenated(what)
        if self._match(TokenType.L_PAREN):
            name += f"({self.count('how many groups or buckets').this})"
            self.expect_token(TokenType.R_PAREN, "')'")
        return name

    def _hyphenated(self, what: str) -> str:
        name = self.name(what).name
        return f"{name}-{self.name(what).name}" if self._match(TokenType.DASH) else name

    def _grid(self, technique: nodes.Technique) -> None:
        """`4x4`: the partitions of generation and of expiration times."""
        if not self.at(TokenType.NUMBER):
            return
        generations = self.count("how many partitions of generation times")
        token = self._curr
        letter, digits = self.word()[:1], self.word()[1:]
        if letter != "X" or not ((digits.isascii() and digits.isdigit() and len(digits) < 10) or not digits):
            self.fail("a grid, such as 4x4")
        self._advance()
        if digits:
            expirations = mark(exp.Literal.number(str(int(digits))), token)
        else:
            expirations = self.count("how many partitions of expiration times")
        technique.set("generations", generations)
        technique.set("expirations", expirations)
        mark(technique, technique, self._prev)

    # ---------------------------------------------------------------- EXPLAIN

    def _explain(self) -> Node:
        more = self._next.token_type is not TokenType.SENTINEL
        analyze = more and self.accept("ANALYZE")
        form = None
        if self.word() == "FORMAT" and self.word(self._next):
            self._advance()
            if self.word() not in _FORMATS:
                self.fail("TEXT, JSON or SVG")
            form = self.word().lower()
            self._advance()
        if self.starts_query():
            query = self.subquery()
            return nodes.Explain(this=query, analyze=analyze, format=form, **self._query_clauses())
        name = self.name("SELECT or the name of a query")
        return nodes.Explain(this=name, analyze=analyze, format=form)

    # ----------------------------------------------------------------- tables

    _STREAM_CLAUSES: ClassVar[dict[str, tuple[str, Callable[[CqlParser], object]]]] = {
        "SLACK": ("slack", lambda self: self.duration("how late a row may come")),
        "RETAIN": ("retain", lambda self: self.duration("how long rows are kept")),
        "LIFETIME": ("lifetime", lambda self: self._by("the column that holds the lifetime")),
        "MAX LIFETIME": ("max_lifetime", lambda self: self.duration("how long a row lives at most")),
        "MAX AHEAD": ("max_ahead", lambda self: self.duration("how far ahead a row may be")),
        "FROM": ("source", _source_address),
        "WITH": ("options", _options),
    }
    _RELATION_CLAUSES: ClassVar[dict[str, tuple[str, Callable[[CqlParser], object]]]] = {
        "KEY": ("key", lambda self: self._name_list("the columns of the key")),
        "NON": ("non_retroactive", _non_retroactive),
        "TIMESTAMP": ("timestamp", lambda self: self._by("the column that holds the time")),
        "OP": ("operation", lambda self: self._by("the column that says insert, update or delete")),
        "FROM": ("source", _source_address),
        "WITH": ("options", _options),
    }
    _QUERY_CLAUSES: ClassVar[dict[str, tuple[str, Callable[[CqlParser], object]]]] = {
        "WITH": ("options", _options),
        "ALLOW": ("allow_unbounded", _allow),
    }
    _CREATE: ClassVar[dict[str, Callable[[CqlParser], Node]]] = {
        "STREAM": _create_stream,
        "RELATION": _create_relation,
        "QUERY": _create_query,
        "ARCHIVE": _create_archive,
        "INDEX": _create_index,
    }


def _a(kind: str) -> str:
    return f"an {kind}" if kind[0] in "aeiou" else f"a {kind}"
