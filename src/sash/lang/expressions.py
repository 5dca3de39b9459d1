"""The parser of scalar expressions, by precedence climbing, and the tools that all of the parser uses.

It makes sqlglot's nodes from sqlglot's tokens but decides by its own grammar, so that every refusal is
a `CqlSyntaxError` with its place, and every node knows where it stands. Levels, loosest
first: OR, AND, NOT, comparisons (which do not chain), ||, + and -, * / % DIV, unary minus.

Cost: linear in the number of tokens. Nesting is bounded, so Python's stack is never exhausted.
"""

from __future__ import annotations

import re
from typing import NoReturn

from sqlglot import exp, parser
from sqlglot.tokenizer_core import Token, TokenType

from sash.errors import CqlSyntaxError, InternalError, Place
from sash.lang import nodes
from sash.lang.intervals import UNIT_NAMES, BadInterval, to_microseconds
from sash.lang.nodes import Node, mark
from sash.lang.tokens import RESERVED

MAX_NESTING = 64
MAX_CHAIN = 500

# How tightly an operator binds, and its node; None for predicates with a grammar of their own.
Operator = tuple[int, type[exp.Expression] | None]

OR, AND, NOT, COMPARISON, CONCATENATION, SUM, PRODUCT = range(1, 8)

_SYMBOL_OPERATORS: dict[TokenType, Operator] = {
    TokenType.EQ: (COMPARISON, exp.EQ),
    TokenType.NEQ: (COMPARISON, exp.NEQ),
    TokenType.LT: (COMPARISON, exp.LT),
    TokenType.LTE: (COMPARISON, exp.LTE),
    TokenType.GT: (COMPARISON, exp.GT),
    TokenType.GTE: (COMPARISON, exp.GTE),
    TokenType.DPIPE: (CONCATENATION, exp.DPipe),
    TokenType.PLUS: (SUM, exp.Add),
    TokenType.DASH: (SUM, exp.Sub),
    TokenType.STAR: (PRODUCT, exp.Mul),
    TokenType.SLASH: (PRODUCT, exp.Div),
    TokenType.MOD: (PRODUCT, exp.Mod),
}
_WORD_OPERATORS: dict[str, Operator] = {
    "OR": (OR, exp.Or),
    "AND": (AND, exp.And),
    "DIV": (PRODUCT, exp.IntDiv),
    **dict.fromkeys(("IS", "IN", "BETWEEN", "LIKE", "NOT"), (COMPARISON, None)),
}
_TYPES: dict[str, exp.DType] = {
    **dict.fromkeys(("BIGINT", "INT", "INTEGER", "LONG"), exp.DType.BIGINT),
    **dict.fromkeys(("DOUBLE", "FLOAT", "REAL"), exp.DType.DOUBLE),
    **dict.fromkeys(("STRING", "VARCHAR", "TEXT"), exp.DType.TEXT),
    **dict.fromkeys(("BOOLEAN", "BOOL"), exp.DType.BOOLEAN),
    "TIMESTAMP": exp.DType.TIMESTAMP,
}
OUTPUT_OPERATORS = ("ISTREAM", "DSTREAM", "RSTREAM", "WSTREAM")
TYPE_NAMES = "BIGINT, DOUBLE, STRING, BOOLEAN, TIMESTAMP"
_NUMBER = re.compile(r"[0-9]+(\.[0-9]*)?([eE][+-]?[0-9]+)?")


class ExpressionParser(parser.Parser):
    _nesting = 0

    # ------------------------------------------------------------------ tools

    def place_at(self, token: Token) -> Place:
        """The place of a token; of the sentinel, the place just after the last token."""
        if token.token_type is TokenType.SENTINEL:
            end = self._tokens[-1].end + 1 if self._tokens else len(self.sql)
            return Place(self.sql, end, end + 1)
        return Place(self.sql, token.start, token.end + 1)

    def shown(self, token: Token) -> str:
        if token.token_type is TokenType.SENTINEL:
            return "the end of the statement"
        return f"'{self.sql[token.start : token.end + 1]}'"

    def fail(
        self,
        expected: str,
        *,
        message: str | None = None,
        token: Token | None = None,
        hint: str | None = None,
    ) -> NoReturn:
        token = self._curr if token is None else token
        raise CqlSyntaxError(
            message or f"unexpected {self.shown(token)}",
            place=self.place_at(token),
            expected=expected,
            got=self.shown(token),
            hint=hint,
        )

    def raise_error(self, message: str, token: Token | None = None) -> None:
        """What sqlglot's driver calls when a statement is over before its tokens are."""
        self.fail("';'", token=token or self._curr)

    def at(self, kind: TokenType) -> bool:
        return self._curr.token_type is kind

    def next_is(self, kind: TokenType) -> bool:
        return self._next.token_type is kind

    def word(self, token: Token | None = None) -> str:
        """The token as an upper-case word; empty if it is quoted or no word."""
        token = self._curr if token is None else token
        return token.text.upper() if token.token_type is TokenType.VAR else ""

    def accept(self, *words: str) -> bool:
        """Take these words if they come next."""
        for offset, wanted in enumerate(words):
            index = self._index + offset
            if index >= self._tokens_size or self.word(self._tokens[index]) != wanted:
                return False
        self._advance(len(words))
        return True

    def expect(self, *words: str) -> None:
        for wanted in words:
            if not self.accept(wanted):
                self.fail(wanted)

    def expect_token(self, kind: TokenType, shown: str) -> Token:
        if not self.at(kind):
            self.fail(shown)
        self._advance()
        return self._prev

    def name(self, what: str) -> exp.Identifier:
        token = self._curr
        if token.token_type is TokenType.IDENTIFIER:
            if not token.text:
                self.fail(what, message="an empty name")
            self._advance()
            return mark(exp.Identifier(this=token.text, quoted=True), token)
        if token.token_type is not TokenType.VAR or not token.text.isidentifier():
            self.fail(what)
        if token.text.lower() in RESERVED:
            self.fail(what, hint=f'"{token.text.lower()}" in double quotes can be a name')
        self._advance()
        return mark(exp.Identifier(this=token.text.lower(), quoted=False), token)

    def string(self, what: str) -> exp.Literal:
        token = self.expect_token(TokenType.STRING, what)
        return mark(exp.Literal.string(token.text), token)

    def type_name(self) -> exp.DataType:
        kind = _TYPES.get(self.word())
        if kind is None:
            self.fail(f"a type: {TYPE_NAMES}")
        self._advance()
        return mark(exp.DataType(this=kind), self._prev)

    def duration(self, what: str) -> nodes.Duration:
        """`10 SEC`, `1.5min`, `INTERVAL 10 SEC`, `INTERVAL '10' SECOND` or `INTERVAL '10 seconds'`."""
        first = self._curr
        quoted = self.accept("INTERVAL") and self.at(TokenType.STRING)
        number = self._curr
        if quoted:
            amount, _, rest = number.text.strip().partition(" ")
            if rest.strip():
                self._advance()
                return self._made_duration(what, first, number, amount, number, rest.strip())
        elif not self.at(TokenType.NUMBER):
            self.fail(f"{what}, such as 10 SEC")
        self._advance()
        unit = self._curr
        if not self.word():
            self.fail(f"a unit of time: {UNIT_NAMES}")
        self._advance()
        return self._made_duration(what, first, number, number.text.strip(), unit, unit.text)

    def _made_duration(
        self, what: str, first: Token, number: Token, amount: str, unit: Token, name: str
    ) -> nodes.Duration:
        try:
            microseconds = to_microseconds(amount, name)
        except BadInterval as bad:
            token = unit if bad.part == "unit" else number
            self.fail(f"{what}, such as 10 SEC", message=bad.message, token=token, hint=bad.hint)
        return mark(nodes.Duration(this=exp.Literal.number(microseconds)), first, unit)

    def count(self, what: str) -> exp.Literal:
        """A whole number."""
        token = self._curr
        if token.token_type is not TokenType.NUMBER or not token.text.isdigit() or len(token.text) > 15:
            self.fail(f"{what}, such as 10")
        self._advance()
        return mark(exp.Literal(this=str(int(token.text)), is_string=False), token)

    # ------------------------------------------------------------ expressions

    def expression_(self, level: int = OR) -> Node:
        """An expression whose outermost operator binds at `level` or tighter."""
        self._nesting += 1
        if self._nesting > MAX_NESTING:
            self.fail(
                f"at most {MAX_NESTING} levels of nesting", message="an expression that is nested too deeply"
            )
        node = self._climb(level)
        self._nesting -= 1
        return node

    def _climb(self, level: int) -> Node:
        left = self._negation() if level <= NOT and self.word() == "NOT" else self._unary()
        for _ in range(MAX_CHAIN):
            found = self._operator()
            if found is None or found[0] < level:
                return left
            operator_level, binary = found
            if operator_level == COMPARISON:
                left = self._comparison(left, binary)
                again = self._operator()
                if again is not None and again[0] == COMPARISON:
                    self.fail("AND, OR or the end of the condition", hint="comparisons do not chain")
                continue
            assert binary is not None
            self._advance()
            right = self.expression_(operator_level + 1)
            left = mark(binary(this=left, expression=right), left, right)
        self.fail(
            f"at most {MAX_CHAIN} operators in a row",
            message="an expression that is too long",
            hint="IN (…) holds any number of values",
        )

    def _operator(self) -> Operator | None:
        return _SYMBOL_OPERATORS.get(self._curr.token_type) or _WORD_OPERATORS.get(self.word())

    def _negation(self) -> Node:
        first = self._curr
        self._advance()
        # `a NOT IN (…)` is written as NOT a IN (…), which must not be nested more deeply.
        operand = self.expression_(NOT) if self.word() == "NOT" else self._climb(NOT)
        return mark(exp.Not(this=operand), first, operand)

    def _comparison(self, left: Node, binary: type[exp.Expression] | None) -> Node:
        if binary is not None:
            self._advance()
            right = self.expression_(CONCATENATION)
            return mark(binary(this=left, expression=right), left, right)
        if self.accept("IS"):
            return self._is(left)
        negated = self.accept("NOT")
        node: Node
        if self.accept("IN"):
            node = self._in(left)
        elif self.accept("BETWEEN"):
            low = self.expression_(CONCATENATION)
            self.expect("AND")
            high = self.expression_(CONCATENATION)
            node = mark(exp.Between(this=left, low=low, high=high), left, high)
        elif self.accept("LIKE"):
            pattern = self.expression_(CONCATENATION)
            node = mark(exp.Like(this=left, expression=pattern), left, pattern)
        else:
            self.fail("IN, BETWEEN or LIKE")
        return mark(exp.Not(this=node), node) if negated else node

    def _is(self, left: Node) -> Node:
        negated = self.accept("NOT")
        right: Node
        if self.accept("NULL"):
            right = exp.Null()
        elif self.accept("TRUE"):
            right = exp.Boolean(this=True)
        elif self.accept("FALSE"):
            right = exp.Boolean(this=False)
        else:
            self.fail("NULL, TRUE or FALSE")
        node = mark(exp.Is(this=left, expression=mark(right, self._prev)), left, self._prev)
        return mark(exp.Not(this=node), node) if negated else node

    def _in(self, left: Node) -> Node:
        self.expect_token(TokenType.L_PAREN, "'('")
        if self.starts_query():
            query = self.subquery()
            self.expect_token(TokenType.R_PAREN, "')'")
            return mark(exp.In(this=left, query=query), left, self._prev)
        values = self._list()
        return mark(exp.In(this=left, expressions=values), left, self._prev)

    def _list(self) -> list[Node]:
        """Expressions up to the closing parenthesis, which is taken."""
        values = [self.expression_()]
        while self._match(TokenType.COMMA):
            values.append(self.expression_())
        self.expect_token(TokenType.R_PAREN, "',' or ')'")
        return values

    def starts_query(self) -> bool:
        """Whether a query comes next; the parser of queries knows better."""
        return self.word() == "SELECT"

    def subquery(self) -> Node:
        """A whole query."""
        raise InternalError("the parser of expressions does not parse queries")

    def output_call(self) -> Node | None:
        """An output operator inside an expression; None for a name that looks like one."""
        raise InternalError("the parser of expressions does not parse output operators")

    def _unary(self) -> Node:
        first = self._curr
        if self._match(TokenType.DASH):
            self._nesting += 1
            if self._nesting > MAX_NESTING:
                self.fail("an operand", message="an expression that is nested too deeply")
            operand = self._unary()
            self._nesting -= 1
            return mark(exp.Neg(this=operand), first, operand)
        return self._primary()

    def _primary(self) -> Node:
        token = self._curr
        kind = token.token_type
        if kind is TokenType.NUMBER:
            self._advance()
            if not _NUMBER.fullmatch(token.text):
                self.fail("a number", message=f"{self.shown(token)} is not a number", token=token)
            return mark(exp.Literal.number(token.text), token)
        if kind is TokenType.DOT and self.next_is(TokenType.NUMBER) and self._next.text.isdigit():
            self._advance(2)
            return mark(exp.Literal.number(f"0.{self._prev.text}"), token, self._prev)
        if kind is TokenType.STRING:
            return self.string("a string")
        if kind is TokenType.L_PAREN:
            self._advance()
            if self.starts_query() and self.word():
                self.fail("an expression", hint="a sub-query stands in FROM, or after IN or EXISTS")
            inner = self.expression_()
            self.expect_token(TokenType.R_PAREN, "')'")
            return mark(exp.Paren(this=inner), token, self._prev)
        word = self.word()
        special = self._SPECIAL.get(word)
        if special is not None:
            node = special(self)
            if node is not None:
                return node
        if word and self.next_is(TokenType.L_PAREN) and word.lower() not in RESERVED:
            return self._call()
        if word or kind is TokenType.IDENTIFIER:
            return self._column()
        self.fail("an expression")

    def _column(self) -> Node:
        first = self.name("an expression")
        if not self._match(TokenType.DOT):
            return mark(exp.Column(this=first), first)
        column = self.name("a column name")
        return mark(exp.Column(this=column, table=first), first, column)

    def _call(self) -> Node:
        token = self._curr
        self._advance(2)
        arguments: list[Node] = []
        if self.accept("DISTINCT"):
            keyword = self._prev
            arguments = [mark(exp.Distinct(expressions=self._list()), keyword, self._prev)]
        elif self.at(TokenType.STAR) and self.next_is(TokenType.R_PAREN):
            arguments = [mark(exp.Star(), self._curr)]
            self._advance(2)
        elif not self._match(TokenType.R_PAREN):
            arguments = self._list()
        return mark(exp.Anonymous(this=token.text.upper(), expressions=arguments), token, self._prev)

    def _constant(self) -> Node:
        token = self._curr
        self._advance()
        if self.word(token) == "NULL":
            return mark(exp.Null(), token)
        return mark(exp.Boolean(this=self.word(token) == "TRUE"), token)

    def _case(self) -> Node:
        first = self._curr
        self._advance()
        operand = None if self.word() == "WHEN" else self.expression_()
        branches = []
        while self.accept("WHEN"):
            condition = self.expression_()
            self.expect("THEN")
            result = self.expression_()
            branches.append(mark(exp.If(this=condition, true=result), condition, result))
        if not branches:
            self.fail("WHEN")
        default = self.expression_() if self.accept("ELSE") else None
        self.expect("END")
        return mark(exp.Case(this=operand, ifs=branches, default=default), first, self._prev)

    def _cast(self) -> Node:
        first = self._curr
        self._advance()
        self.expect_token(TokenType.L_PAREN, "'('")
        operand = self.expression_()
        self.expect("AS")
        to = self.type_name()
        self.expect_token(TokenType.R_PAREN, "')'")
        return mark(exp.Cast(this=operand, to=to), first, self._prev)

    def _extract(self) -> Node | None:
        first = self._curr
        if not self.next_is(TokenType.L_PAREN):
            return None
        self._advance(2)
        if not self.word():
            self.fail("a part of a timestamp, such as HOUR")
        part = mark(exp.Var(this=self.word()), self._curr)
        self._advance()
        self.expect("FROM")
        operand = self.expression_()
        self.expect_token(TokenType.R_PAREN, "')'")
        return mark(exp.Extract(this=part, expression=operand), first, self._prev)

    def _timestamp(self) -> Node | None:
        first = self._curr
        if not self.next_is(TokenType.STRING):
            return None
        self._advance()
        return mark(nodes.TimestampLiteral(this=self.string("a string")), first, self._prev)

    def _interval(self) -> Node | None:
        if self.next_is(TokenType.STRING) or self.next_is(TokenType.NUMBER):
            return self.duration("a length of time")
        return None

    def _exists(self) -> Node:
        first = self._curr
        self._advance()
        self.expect_token(TokenType.L_PAREN, "'('")
        if not self.starts_query():
            self.fail("SELECT")
        query = self.subquery()
        self.expect_token(TokenType.R_PAREN, "')'")
        return mark(exp.Exists(this=query), first, self._prev)

    def _output(self) -> Node | None:
        return self.output_call()

    _SPECIAL = {  # noqa: RUF012 - a table of methods, as in sqlglot's own parsers
        **dict.fromkeys(("NULL", "TRUE", "FALSE"), _constant),
        "CASE": _case,
        "CAST": _cast,
        "EXTRACT": _extract,
        "TIMESTAMP": _timestamp,
        "INTERVAL": _interval,
        "EXISTS": _exists,
        **dict.fromkeys(OUTPUT_OPERATORS, _output),
    }
