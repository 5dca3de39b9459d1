"""The parser of queries: SELECT, FROM with windows and joins, set operations, output operators.

INTERSECT binds tighter than UNION and EXCEPT. Parentheses around a query are nodes of the tree. An
output operator around a select list becomes one around the query, so that there is one form of it.
"""

from __future__ import annotations

from sqlglot import exp
from sqlglot.tokenizer_core import TokenType

from sash.lang import nodes
from sash.lang.expressions import MAX_NESTING, OUTPUT_OPERATORS, ExpressionParser
from sash.lang.intervals import UNITS
from sash.lang.nodes import Node, mark
from sash.lang.tokens import RESERVED

_SET_OPERATIONS: dict[str, type[exp.Expression]] = {
    "UNION": exp.Union,
    "EXCEPT": exp.Except,
    "INTERSECT": exp.Intersect,
}
MAX_SET_OPERATIONS = 50
# Words that may follow a source and are no alias without AS.
_NO_ALIAS = frozenset({"WITH", "ALLOW"})
_WINDOWS = "RANGE, ROWS, PARTITION BY, NOW or UNBOUNDED, as in [RANGE 1 MIN SLIDE 10 SEC]"


class QueryParser(ExpressionParser):
    _set_operations = 0

    # ---------------------------------------------------------------- queries

    def starts_query(self) -> bool:
        """A SELECT, perhaps in an output operator or in parentheses."""
        index = self._index
        while index < self._tokens_size and self._tokens[index].token_type is TokenType.L_PAREN:
            index += 1
        if index >= self._tokens_size:
            return False
        word = self.word(self._tokens[index])
        return word == "SELECT" or (word in OUTPUT_OPERATORS and self._opens_output(index))

    def subquery(self) -> Node:
        self._nesting += 1
        if self._nesting > MAX_NESTING:
            self.fail("a query that is nested less", message="a query that is nested too deeply")
        query = self._set_expression(("UNION", "EXCEPT"))
        if self.word() in ("ORDER", "LIMIT"):
            query = self._ordered(query)
        self._nesting -= 1
        return query

    def _set_expression(self, operators: tuple[str, ...]) -> Node:
        tighter = operators != ("INTERSECT",)
        left = self._set_expression(("INTERSECT",)) if tighter else self._operand()
        while self.word() in operators:
            node = _SET_OPERATIONS[self.word()]
            self._set_operations += 1
            if self._set_operations > MAX_SET_OPERATIONS:
                self.fail(f"at most {MAX_SET_OPERATIONS} set operations in a statement")
            self._advance()
            distinct = not self.accept("ALL")
            if distinct:
                self.accept("DISTINCT")
            right = self._set_expression(("INTERSECT",)) if tighter else self._operand()
            left = mark(node(this=left, expression=right, distinct=distinct), left, right)
        return left

    def _operand(self) -> Node:
        first = self._curr
        if self._match(TokenType.L_PAREN):
            query = self.subquery()
            self.expect_token(TokenType.R_PAREN, "')'")
            return mark(exp.Subquery(this=query), first, self._prev)
        if self.word() in OUTPUT_OPERATORS:
            kind = self._output_kind()
            self.expect_token(TokenType.L_PAREN, "'('")
            query = self.subquery()
            self.expect_token(TokenType.R_PAREN, "')'")
            window = self._output_window(kind)
            clause = nodes.OutputClause(this=query, kind=kind, window=window)
            return mark(clause, first, self._prev)
        return self._select()

    def _ordered(self, query: Node) -> Node:
        """`query` with the ORDER BY and LIMIT that come next."""
        target = query
        if isinstance(query, nodes.OutputClause):
            if not query.meta.get("around_list"):
                self.fail("';'", hint=f"write {self.word()} inside the parentheses of the output operator")
            target = query.this
        if self.accept("ORDER"):
            self.expect("BY")
            keys = [self._sort_key()]
            while self._match(TokenType.COMMA):
                keys.append(self._sort_key())
            target.set("order", exp.Order(expressions=keys))
        if self.accept("LIMIT"):
            limit = self.count("how many rows")
            target.set("limit", mark(exp.Limit(expression=limit), limit))
        mark(target, target, self._prev)
        return mark(query, query, self._prev)

    def _sort_key(self) -> Node:
        value = self.expression_()
        descending = self.accept("DESC")
        if not descending:
            self.accept("ASC")
        nulls = None
        if self.accept("NULLS"):
            if self.word() not in ("FIRST", "LAST"):
                self.fail("FIRST or LAST")
            nulls = self.word().lower()
            self._advance()
        return mark(nodes.SortKey(this=value, descending=descending, nulls=nulls), value, self._prev)

    # ------------------------------------------------------- output operators

    def _opens_output(self, index: int) -> bool:
        """Whether an output operator's name at `index` is followed by '(' or '-restore('."""
        kinds = [token.token_type for token in self._tokens[index + 1 : index + 4]]
        if kinds[:1] == [TokenType.L_PAREN]:
            return True
        restore = index + 2 < self._tokens_size and self.word(self._tokens[index + 2]) == "RESTORE"
        return restore and kinds == [TokenType.DASH, TokenType.VAR, TokenType.L_PAREN]

    def _output_kind(self) -> str:
        """The name of an output operator, which is taken."""
        kind = self.word().lower()
        first = self._curr
        self._advance()
        if self.at(TokenType.DASH) and self.word(self._next) == "RESTORE":
            self._advance(2)
            if kind not in ("istream", "rstream"):
                self.fail(
                    "Istream-restore or Rstream-restore",
                    message=f"there is no {kind.capitalize()}-restore",
                    token=first,
                    hint="a window on the output does not go with periodic evaluation"
                    if kind == "wstream"
                    else None,
                )
            kind += "-restore"
        return kind

    def _output_window(self, kind: str) -> Node | None:
        if kind != "wstream":
            return None
        if not self.at(TokenType.L_BRACKET):
            self.fail("the window of the output, [ROWS n] or [RANGE t]")
        return self.window()

    def output_call(self) -> Node | None:
        first = self._curr
        if not self._opens_output(self._index):
            return None
        kind = self._output_kind()
        self.expect_token(TokenType.L_PAREN, "'('")
        distinct = self.accept("DISTINCT")
        items = self._items()
        self.expect_token(TokenType.R_PAREN, "',' or ')'")
        call = nodes.OutputCall(expressions=items, kind=kind, distinct=distinct)
        call.set("window", self._output_window(kind))
        return mark(call, first, self._prev)

    def _lift_output(self, select: Node) -> Node:
        """An output operator around the whole select list, as one around the select."""
        calls = [_output_of(item) for item in select.expressions]
        first = calls[0]
        if first is None or not all(isinstance(call, nodes.OutputCall) for call in calls):
            return select
        found = [call for call in calls if call is not None]
        if any(call.args["kind"] != first.args["kind"] for call in found):
            return select
        if len(found) > 1 and any(call.args.get("window") or call.args.get("distinct") for call in found):
            return select
        items: list[Node] = []
        for item, call in zip(select.expressions, found, strict=True):
            inner = call.expressions
            if isinstance(item, exp.Alias):
                if len(inner) != 1 or isinstance(inner[0], exp.Alias | exp.Star):
                    return select
                inner = [mark(exp.Alias(this=inner[0], alias=item.args["alias"]), item)]
            items += inner
        if first.args.get("distinct") and select.args.get("distinct") is None:
            select.set("distinct", mark(exp.Distinct(), first))
        select.set("expressions", items)
        clause = nodes.OutputClause(this=select, kind=first.args["kind"], window=first.args.get("window"))
        clause.meta["around_list"] = True
        return mark(clause, select)

    # ----------------------------------------------------------------- SELECT

    def _select(self) -> Node:
        first = self._curr
        if not self.accept("SELECT"):
            self.fail("SELECT")
        distinct = mark(exp.Distinct(), self._prev) if self.accept("DISTINCT") else None
        select = exp.Select(distinct=distinct, expressions=self._items())
        if not self.accept("FROM"):
            self.fail("',' or FROM", hint="give a column a name with AS" if self.word() else None)
        source = self._source()
        select.set("from_", mark(exp.From(this=source), source))
        joins = self._joins()
        if joins:
            select.set("joins", joins)
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
        return self._lift_output(mark(select, first, self._prev))

    def _items(self) -> list[Node]:
        items = [self._item()]
        while self._match(TokenType.COMMA):
            items.append(self._item())
        return items

    def _item(self) -> Node:
        first = self._curr
        if self._match(TokenType.STAR):
            return mark(exp.Star(), first)
        if self.next_is(TokenType.DOT) and self._starred(self._index + 2):
            table = self.name("a name from FROM")
            self._advance(2)
            star = mark(exp.Star(), self._prev)
            return mark(exp.Column(this=star, table=table), first, self._prev)
        value = self.expression_()
        if not self.accept("AS"):
            return value
        alias = self.name("a name for the column")
        return mark(exp.Alias(this=value, alias=alias), value, alias)

    def _starred(self, index: int) -> bool:
        return index < self._tokens_size and self._tokens[index].token_type is TokenType.STAR

    # ------------------------------------------------------------------- FROM

    def _joins(self) -> list[Node]:
        joins: list[Node] = []
        while True:
            first = self._curr
            if self._match(TokenType.COMMA):
                source = self._source()
                joins.append(mark(exp.Join(this=source), first, source))
            elif self.accept("CROSS"):
                self.expect("JOIN")
                source = self._source()
                joins.append(mark(exp.Join(this=source, kind="CROSS"), first, source))
            elif self.word() in ("INNER", "LEFT", "JOIN"):
                side = "LEFT" if self.accept("LEFT") else None
                self.accept("OUTER" if side else "INNER")
                self.expect("JOIN")
                source = self._source()
                if not self.accept("ON"):
                    self.fail("ON and a condition", hint="a join of all pairs is a CROSS JOIN")
                condition = self.expression_()
                kind = None if side else "INNER"
                join = exp.Join(this=source, side=side, kind=kind, on=condition)
                joins.append(mark(join, first, condition))
            elif self.word() in ("RIGHT", "FULL", "NATURAL"):
                self.fail("JOIN, CROSS JOIN or LEFT JOIN", hint="a LEFT JOIN keeps the rows of the stream")
            else:
                return joins

    def _source(self) -> Node:
        first = self._curr
        if self._match(TokenType.L_PAREN):
            query = self.subquery()
            self.expect_token(TokenType.R_PAREN, "')'")
            reference: Node = nodes.QueryReference(this=query)
        else:
            reference = nodes.SourceReference(this=self.name("the name of a stream or a relation"))
        if self.at(TokenType.L_BRACKET):
            reference.set("window", self.window())
        alias = self._alias()
        if alias is not None:
            reference.set("alias", alias)
            if self.at(TokenType.L_BRACKET):
                self.fail(
                    "the window right after the name of the stream", hint="write stream [RANGE …] AS alias"
                )
        return mark(reference, first, self._prev)

    def _alias(self) -> exp.Identifier | None:
        if self.accept("AS") or self.at(TokenType.IDENTIFIER):
            return self.name("an alias")
        word = self.word()
        free = word and word.lower() not in RESERVED and word not in _NO_ALIAS
        return self.name("an alias") if free else None

    # ---------------------------------------------------------------- windows

    def window(self) -> Node:
        first = self.expect_token(TokenType.L_BRACKET, "'['")
        args: dict[str, object] = {}
        if self.accept("RANGE") or self.accept("WINDOW"):
            if self.accept("UNBOUNDED"):
                args["kind"] = "unbounded"
            else:
                args.update(kind="range", range=self.duration("the length of the window"))
        elif self.accept("NOW"):
            args["kind"] = "now"
        elif self.accept("UNBOUNDED"):
            args["kind"] = "unbounded"
        elif self.word() in ("ROWS", "PARTITION"):
            self._rows(args)
        else:
            self.fail(_WINDOWS)
        while not self.at(TokenType.R_BRACKET):
            self._window_clause(args)
        self._advance()
        return mark(nodes.WindowClause(**args), first, self._prev)

    def _rows(self, args: dict[str, object]) -> None:
        args["kind"] = "rows"
        if self.accept("PARTITION"):
            self.expect("BY")
            columns = [self.name("a column")]
            while self._match(TokenType.COMMA):
                columns.append(self.name("a column"))
            args["partition"] = columns
        self.expect("ROWS")
        if "partition" not in args and self.accept("UNBOUNDED"):
            args["kind"] = "unbounded"
        else:
            args["rows"] = self.count("the number of rows in the window")

    def _window_clause(self, args: dict[str, object]) -> None:
        keyword = self._curr
        word = self.word()
        if word not in ("SLIDE", "OFFSET", "INTERNAL"):
            self.fail("SLIDE, OFFSET, INTERNAL or ']'")
        if word.lower() in args:
            self.fail("each clause once", message=f"a second {word}", token=keyword)
        self._advance()
        if word == "INTERNAL":
            args["internal"] = True
        elif word == "OFFSET":
            args["offset"] = self.duration("how old the newest rows are")
        elif args["kind"] == "rows":
            args["slide"] = self.count("after how many rows the window slides")
            if self.word().lower() in UNITS:
                hint = "a window of ROWS slides after a number of rows: SLIDE 5 ROWS"
                self.fail("ROWS or ']'", hint=hint)
            self.accept("ROWS")
        else:
            args["slide"] = self.duration("how far the window slides")


def _output_of(item: Node) -> nodes.OutputCall | None:
    inner = item.this if isinstance(item, exp.Alias) else item
    return inner if isinstance(inner, nodes.OutputCall) else None
