"""The parser of CQL statements: CREATE STREAM, CREATE QUERY, EXPLAIN, SELECT, windows.

What belongs to the language and cannot be run yet is refused as `NotYet` where it is recognised; each
such refusal gives way to a rule here when its construct arrives.
"""

from __future__ import annotations

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from sash.lang import nodes
from sash.lang.expressions import ExpressionParser
from sash.lang.nodes import Node, mark
from sash.lang.tokens import RESERVED

_OUTPUT_OPERATORS = ("ISTREAM", "DSTREAM", "RSTREAM")
_WINDOW_HINT = "write a window such as [RANGE 1 MIN SLIDE 10 SEC]"
_JOINS = ("JOIN", "LEFT", "INNER", "CROSS")
_SET_OPERATIONS = ("UNION", "EXCEPT", "INTERSECT")


class CqlParser(ExpressionParser):
    def _parse_statement(self) -> exp.Expr | None:
        self._nesting = 0
        if self.at(TokenType.SENTINEL):
            return None
        first = self._curr
        word = self.word()
        if self.accept("CREATE"):
            return self._create(first)
        if self.accept("EXPLAIN"):
            select = self._select()
            return mark(nodes.Explain(this=select), first, select)
        if word in ("DROP", "SHOW"):
            self.not_yet(word)
        if word == "SELECT" or (word in _OUTPUT_OPERATORS and self.next_is(TokenType.L_PAREN)):
            self.not_yet(
                "a one-time query", hint="write CREATE QUERY name INTO 'jsonl:out.jsonl' AS before the SELECT"
            )
        self.fail("a statement: CREATE STREAM, CREATE QUERY or EXPLAIN")

    # ----------------------------------------------------------------- CREATE

    def _create(self, first: Token) -> Node:
        if self.accept("STREAM"):
            return self._create_stream(first)
        if self.accept("QUERY"):
            name = self.name("a name for the query")
            self.expect("INTO")
            sink = self.string("the output as a string, such as 'jsonl:out.jsonl'")
            self.expect("AS")
            select = self._select()
            return mark(nodes.CreateQuery(this=name, sink=sink, expression=select), first, select)
        if self.word() in ("RELATION", "ARCHIVE"):
            self.not_yet(f"CREATE {self.word()}")
        self.fail("STREAM or QUERY")

    def _create_stream(self, first: Token) -> Node:
        name = self.name("a name for the stream")
        self.expect_token(TokenType.L_PAREN, "'(' and the columns")
        columns = [self._column_definition()]
        while self._match(TokenType.COMMA):
            columns.append(self._column_definition())
        self.expect_token(TokenType.R_PAREN, "',' or ')'")
        if not self.accept("TIMESTAMP"):
            self.fail("TIMESTAMP BY and the column that holds the time")
        self.expect("BY")
        clauses: dict[str, object] = {"timestamp": self.name("the column that holds the time")}
        while not self.at(TokenType.SENTINEL):
            self._stream_clause(clauses)
        if "source" not in clauses:
            self.fail("FROM and the source, such as FROM 'csv:packets.csv'")
        return mark(nodes.CreateStream(this=name, columns=columns, **clauses), first, self._prev)

    def _stream_clause(self, clauses: dict[str, object]) -> None:
        keyword = self._curr
        word = self.word()
        if word in ("RETAIN", "LIFETIME", "MAX"):
            self.not_yet("RETAIN" if word == "RETAIN" else "LIFETIME")
        key = {"SLACK": "slack", "FROM": "source", "WITH": "options"}.get(word)
        if key is None:
            self.fail("SLACK, FROM, WITH or ';'")
        if key in clauses:
            self.fail("each clause once", message=f"a second {word}", token=keyword)
        self._advance()
        if key == "slack":
            clauses[key] = self.duration("how late a row may come")
        elif key == "source":
            clauses[key] = self.string("the source as a string, such as 'csv:packets.csv'")
        else:
            clauses[key] = self._options()

    def _column_definition(self) -> Node:
        name = self.name("a column name")
        kind = self.type_name()
        return mark(exp.ColumnDef(this=name, kind=kind), name, kind)

    def _options(self) -> list[Node]:
        self.expect_token(TokenType.L_PAREN, "'('")
        options = [self._option()]
        while self._match(TokenType.COMMA):
            options.append(self._option())
        self.expect_token(TokenType.R_PAREN, "',' or ')'")
        return options

    def _option(self) -> Node:
        key = self.name("the name of an option")
        self.expect_token(TokenType.EQ, "'='")
        value = self._unary()
        number = value.this if isinstance(value, exp.Neg) else value
        if not (
            isinstance(value, exp.Literal | exp.Boolean)
            or (isinstance(number, exp.Literal) and not number.is_string)
        ):
            self.fail("a string, a number, TRUE or FALSE", token=self._prev)
        return mark(nodes.Option(this=key, expression=value), key, value)

    # ----------------------------------------------------------------- SELECT

    def _select(self) -> Node:
        """A SELECT, bare or inside an output operator."""
        first = self._curr
        word = self.word()
        if word == "WSTREAM":
            self.not_yet("Wstream")
        if word in _OUTPUT_OPERATORS:
            self._advance()
            if self.at(TokenType.DASH):
                self.not_yet(f"{word.capitalize()}-restore", token=first)
            self.expect_token(TokenType.L_PAREN, "'('")
            select = self._select_core()
            self.expect_token(TokenType.R_PAREN, "')'")
            self._refuse_rest()
            return mark(nodes.OutputClause(this=select, kind=word.lower()), first, self._prev)
        if self.at(TokenType.L_PAREN):
            self.not_yet("a SELECT in parentheses")
        return self._select_core()

    def _select_core(self) -> Node:
        first = self._curr
        if self.word() != "SELECT":
            self.fail("SELECT")
        self._advance()
        distinct = mark(exp.Distinct(), self._prev) if self.accept("DISTINCT") else None
        items = [self._item()]
        while self._match(TokenType.COMMA):
            items.append(self._item())
        if not self.accept("FROM"):
            self.fail("',' or FROM", hint="give a column a name with AS" if self.word() else None)
        source = self._source()
        select = exp.Select(distinct=distinct, expressions=items)
        select.set("from_", mark(exp.From(this=source), source))
        if self.accept("WHERE"):
            select.set("where", exp.Where(this=self.expression_()))
        if self.accept("GROUP"):
            self.expect("BY")
            keys = [self.expression_()]
            while self._match(TokenType.COMMA):
                keys.append(self.expression_())
            select.set("group", exp.Group(expressions=keys))
        if self.accept("HAVING"):
            select.set("having", exp.Having(this=self.expression_()))
        self._refuse_rest()
        return mark(select, first, self._prev)

    def _refuse_rest(self) -> None:
        """What may follow a SELECT in the whole language."""
        word = self.word()
        if word in _SET_OPERATIONS:
            self.not_yet(f"the set operation {word}")
        if word == "ORDER":
            self.not_yet("ORDER BY")
        if word == "LIMIT":
            self.not_yet("LIMIT")

    def _item(self) -> Node:
        if self._match(TokenType.STAR):
            return mark(exp.Star(), self._prev)
        value = self.expression_()
        if not self.accept("AS"):
            return value
        alias = self.name("a name for the column")
        return mark(exp.Alias(this=value, alias=alias), value, alias)

    def _source(self) -> Node:
        if self.at(TokenType.L_PAREN):
            self.not_yet("a sub-query in FROM")
        first = self._curr
        name = self.name("the name of a stream")
        if not self.at(TokenType.L_BRACKET):
            alias = self._alias()
            if alias is not None and self.at(TokenType.L_BRACKET):
                self.fail(
                    "the window right after the name of the stream", hint="write stream [RANGE …] AS alias"
                )
            self.not_yet("a stream without a window", token=first, hint=_WINDOW_HINT)
        window = self._window()
        alias = self._alias()
        end = window if alias is None else alias
        if self.at(TokenType.COMMA) or self.word() in _JOINS:
            self.not_yet("a join")
        return mark(nodes.StreamReference(this=name, window=window, alias=alias), name, end)

    def _alias(self) -> exp.Identifier | None:
        if self.accept("AS"):
            return self.name("an alias")
        if self.at(TokenType.IDENTIFIER):
            return self.name("an alias")
        word = self.word()
        return self.name("an alias") if word and word.lower() not in RESERVED else None

    def _window(self) -> Node:
        first = self._curr
        self._advance()
        word = self.word()
        if word in ("ROWS", "NOW", "UNBOUNDED"):
            self.not_yet(f"the window [{word}]" if word != "ROWS" else "a window of ROWS", hint=_WINDOW_HINT)
        if word == "PARTITION":
            self.not_yet("a window with PARTITION BY", hint=_WINDOW_HINT)
        if not (self.accept("RANGE") or self.accept("WINDOW")):
            self.fail("RANGE and a length of time, such as [RANGE 1 MIN SLIDE 10 SEC]")
        length = self.duration("the length of the window")
        self._refuse_window_clause()
        if self.at(TokenType.R_BRACKET):
            self.not_yet("a window without SLIDE", token=self._curr, hint=_WINDOW_HINT)
        self.expect("SLIDE")
        slide = self.duration("how far the window slides")
        self._refuse_window_clause()
        self.expect_token(TokenType.R_BRACKET, "']'")
        return mark(nodes.WindowClause(range=length, slide=slide), first, self._prev)

    def _refuse_window_clause(self) -> None:
        if self.word() in ("OFFSET", "INTERNAL"):
            self.not_yet(f"a window with {self.word()}")
