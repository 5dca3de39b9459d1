"""Hypothesis strategies for queries: the grammar of CQL, with the rules that a query must keep to bind.

The first alternative is the simplest one everywhere, so that examples shrink to short queries. What two
engines may rightly answer differently is not generated: sums that depend on their order, text of zeros.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from hypothesis import strategies as st

from sash.errors import BindError
from sash.lang import bind_program
from sash.lang.types import Type
from sash.plan.choices import check_options
from sash.testing import expressions, windows
from sash.testing.expressions import Col
from sash.testing.relations import MadeRelation
from sash.testing.streams import MadeStream
from sash.testing.windows import Level

T = TypeVar("T")
_NOT_PARTITIONED = ("t", "life", "at")


@dataclass(frozen=True, slots=True)
class Source:
    """What stands in FROM: its text with its window and alias, and its columns.

    Results over a `strict` one can be taken back at any time. `is_plain`: each row is of single rows of
    streams, which arrived at some instant.
    """

    text: str
    columns: tuple[Col, ...]
    is_strict: bool = False
    is_plain: bool = True


@dataclass(frozen=True, slots=True)
class Select:
    """A SELECT or a set operation, without ORDER BY, and its output columns."""

    text: str
    columns: tuple[Col, ...]
    is_strict: bool = False
    is_plain: bool = True


class QueryMaker:
    """Makes one query. Aliases are unique within it."""

    def __init__(
        self, draw: st.DrawFn, streams: Sequence[MadeStream], relations: Sequence[MadeRelation]
    ) -> None:
        self._draw = draw
        self._streams = streams
        self._relations = relations
        self._tick = max(max(stream.clock.tick, stream.clock.size) for stream in streams)
        self._aliases = 0
        self._grows = False

    # ---------------------------------------------------------------- queries

    def query(self) -> str:
        """What stands after AS in CREATE QUERY."""
        body = self._output()
        allow = "\n  ALLOW UNBOUNDED STATE" if self._grows else ""
        return self._with_options(body, allow)

    def _with_options(self, body: str, allow: str) -> str:
        """The query with some of the options that it may have."""
        options = self._pick(_OPTIONS)
        if options:
            streams = "".join(stream.declaration for stream in self._streams)
            relations = "".join(relation.declaration for relation in self._relations)
            (query,) = bind_program(f"{streams}{relations}CREATE QUERY q AS {body}{options}{allow};").queries
            try:
                check_options(query)
            except BindError:
                options = _OPERATORS
        return f"{body}{options}{allow}"

    def query_in_order(self) -> str:
        """A query whose answer depends on the order in which rows arrive."""
        inner = self._tuples(2)
        for _ in range(self._pick((1, 0, 1, 2))):
            # Rows of one instant pass through windows without SLIDE in the order in which they came.
            columns = tuple(column.named(f"c{i}") for i, column in enumerate(inner.columns))
            made = windows.window(self._draw, Level(), self._tick, self._partitioning(columns))
            self._grows = self._grows or made.is_unbounded
            items = [expressions.expression(self._draw, columns) for _ in range(self._pick((2, 1, 3)))]
            operator = self._pick(("Istream", "Rstream")) if made.text == "[NOW]" else "Istream"
            select = f"SELECT {_listed([i.sql for i in items])} FROM (\n  {inner.text}) {made.text}"
            text = f"{operator}({select})"
            inner = Select(text, tuple(item.named(f"c{i}") for i, item in enumerate(items)))
        by = self._pick(("", *self._partitioning(inner.columns)))
        slide = self._pick(("", "", " SLIDE 2"))
        window = f"[{f'PARTITION BY {by} ' if by else ''}ROWS {self._pick((1, 2, 3))}{slide}]"
        operator = self._pick(("", "Istream"))
        body = f"SELECT * FROM (\n  {inner.text}) {window}"
        body = self._pick((f"{operator}({body})" if operator else body, inner.text))
        return self._with_options(body, "\n  ALLOW UNBOUNDED STATE")

    @staticmethod
    def _partitioning(columns: Sequence[Col]) -> list[str]:
        return [f"c{i}" for i, column in enumerate(columns) if not column.is_time]

    def _output(self) -> str:
        form = self._pick(("operator",) * 12 + ("wstream", "wstream", "added up", "mixed"))
        if form == "wstream":
            body = self._body(Level(is_windowed=True), 2)
            return f"Wstream({body.text}){windows.output_window(self._draw, self._tick)}"
        if form == "added up":
            return self._added_up()
        if form == "mixed":
            return self._mixed()
        at = windows.level(self._draw)
        body = self._body(at, 2)
        text = self._ordered(body, at)
        operators = ["", "", "Istream", "Dstream"]
        if not at.is_internal and not at.in_rows:
            operators += ["Rstream", *(("Istream-restore", "Rstream-restore") if at.in_time else ())]
        operator = self._pick(operators)
        return f"{operator}({text})" if operator else text

    def _added_up(self) -> str:
        """An aggregate over the window on the results of a sliding query."""
        at = windows.level(self._draw, may_be_internal=False)
        at = replace(at, is_windowed=True, in_rows=False)
        source = self._stream(at)
        inner = expressions.aggregate(self._draw, source.columns).sql
        outer = self._pick(("COUNT", "MAX", "MIN"))
        last = windows.output_window(self._draw, self._tick)
        return f"SELECT {outer}(Wstream({inner}){last}) AS c0 FROM {source.text}"

    def _mixed(self) -> str:
        """A join of which some windows are INTERNAL."""
        at = windows.level(self._draw, may_be_internal=False)
        levels = [
            replace(at, is_internal=True),
            at,
            *self._pick(((), (at,), (replace(at, is_internal=True),))),
        ]
        sources = [self._stream(level) for level in levels]
        conditions = [self._equal(sources[0].columns, source.columns) for source in sources[1:]]
        text = f"\n  FROM {', '.join(source.text for source in sources)}"
        joining = [f"({condition})" for condition in conditions if condition]
        fitting = [relation for relation in self._relations if not relation.is_retroactive]
        if fitting and not any(source.is_strict for source in sources) and self._flag(2):
            looked_up = self._relation(self._pick(fitting))
            text += f", {looked_up.text}"
            pair = self._equal([column for source in sources for column in source.columns], looked_up.columns)
            joining += [f"({pair})"] if pair else []
            sources.append(looked_up)
        text += f"\n  WHERE {' AND '.join(joining)}" if joining else ""
        columns = [column for source in sources for column in source.columns]
        if self._flag(3):
            select = self._grouped(replace(at, is_windowed=True), columns, text).text
        else:
            items = [expressions.expression(self._draw, columns).sql for _ in range(self._pick((1, 2)))]
            select = f"SELECT {_listed(items)}{text}"
        operator = self._pick(("", "Istream", "Dstream"))
        return f"{operator}({select})" if operator else select

    def _body(self, at: Level, depth: int) -> Select:
        """A SELECT, or a few that are put together."""
        body = self._select(at, depth)
        for _ in range(self._pick((0,) * 6 + (1, 2))):
            operations = ["UNION ALL", "INTERSECT ALL"]
            operations += [] if at.keeps_results else ["EXCEPT", "UNION", "EXCEPT ALL", "INTERSECT"]
            operation = self._pick(operations)
            other = self._arm(at, [column.type for column in body.columns])
            text = f"{body.text}\n  {operation} {other}"
            # Equal doubles of two sides may differ in their zero, and sums of such do not.
            is_plain = body.is_plain and operation == "UNION ALL" and " FROM r" not in other
            body = Select(
                f"({text})" if self._flag(3) else text,
                body.columns,
                is_strict=not is_plain,
                is_plain=is_plain,
            )
        return body

    def _arm(self, at: Level, types: Sequence[Type]) -> str:
        """The other side of a set operation: rows of the given types."""
        relations = self._settled(at)
        if self._flag(4) and relations:
            source = self._relation(self._pick(relations))
        else:
            source = self._stream(at)
        items = [expressions.expression(self._draw, source.columns, type_).sql for type_ in types]
        where = f" WHERE {expressions.condition(self._draw, source.columns)}" if self._flag(3) else ""
        return f"SELECT {_listed(items)} FROM {source.text}{where}"

    def _ordered(self, body: Select, at: Level) -> str:
        """Perhaps with ORDER BY and LIMIT, where there is a period to order."""
        if not at.is_periodic or at.keeps_results or not self._flag(4):
            return body.text
        keys = self._draw(
            st.lists(
                st.sampled_from([f"c{i}" for i in range(len(body.columns))]),
                min_size=1,
                max_size=2,
                unique=True,
            )
        )
        ends = [self._pick(("", " DESC", " NULLS FIRST", " DESC NULLS FIRST")) for _ in keys]
        order = ", ".join(f"{key}{end}" for key, end in zip(keys, ends, strict=True))
        limit = f" LIMIT {self._pick((1, 2, 3))}" if self._flag(2) else ""
        return f"{body.text}\n  ORDER BY {order}{limit}"

    # ---------------------------------------------------------------- SELECT

    def _select(self, at: Level, depth: int) -> Select:
        sources, joined, conditions = self._from(at, depth)
        columns = [column for source in sources for column in source.columns]
        for _ in range(self._pick((0, 0, 0, 1, 2))):
            conditions.append(expressions.condition(self._draw, columns))
        is_strict = any(source.is_strict for source in sources)
        if self._flag(4):
            test, may_be_taken_back = self._test(at, columns)
            conditions.append(test)
            is_strict = is_strict or may_be_taken_back
        where = f"\n  WHERE {' AND '.join(f'({c})' for c in conditions)}" if conditions else ""
        rows = f"\n  FROM {joined}{where}"
        # Rows of a slide of ROWS have no boundary in time at which an aggregate could speak.
        if self._flag(3) and not (at.is_internal and at.in_rows):
            return replace(self._grouped(at, columns, rows), is_strict=True, is_plain=False)
        items = [expressions.expression(self._draw, columns) for _ in range(self._pick((1, 2, 3)))]
        distinct = "DISTINCT " if not at.keeps_results and self._flag(4) else ""
        outputs = tuple(item.named(f"c{i}") for i, item in enumerate(items))
        is_plain = not distinct and all(source.is_plain for source in sources)
        return Select(
            f"SELECT {distinct}{_listed([i.sql for i in items])}{rows}", outputs, is_strict, is_plain
        )

    def _grouped(self, at: Level, columns: Sequence[Col], rows: str) -> Select:
        keys = [expressions.expression(self._draw, columns) for _ in range(self._pick((1, 0, 2)))]
        keys = list({key.sql: key for key in keys}.values())
        calls = [expressions.aggregate(self._draw, columns) for _ in range(self._pick((1, 1, 2)))]
        shown = keys if self._flag(2) else keys[:1]
        items = [*shown, *calls]
        distinct = "DISTINCT " if not at.keeps_results and self._flag(6) else ""
        having = ""
        if self._flag(3):
            text, _ = expressions.filled(self._draw, self._pick(expressions.HAVINGS), columns)
            having = f"\n  HAVING {text}"
        grouping = f"\n  GROUP BY {', '.join(key.sql for key in keys)}" if keys else ""
        outputs = tuple(item.named(f"c{i}") for i, item in enumerate(items))
        return Select(f"SELECT {distinct}{_listed([i.sql for i in items])}{rows}{grouping}{having}", outputs)

    def _test(self, at: Level, outer: Sequence[Col]) -> tuple[str, bool]:
        """[NOT] EXISTS or [NOT] IN, and whether its results can be taken back."""
        negated = not at.keeps_results and self._flag(2)
        word = "NOT " if negated else ""
        relations = self._settled(at)
        is_relation = self._flag(4) and bool(relations)
        source = self._relation(self._pick(relations)) if is_relation else self._stream(at)
        conditions = [expressions.condition(self._draw, source.columns)] if self._flag(4) else []
        if self._flag(2):
            pair = self._equal(outer, source.columns)
            conditions += [pair] if pair else []
        where = f" WHERE {' AND '.join(f'({c})' for c in conditions)}" if conditions else ""
        value = self._pick(outer)
        same = expressions.of_type(source.columns, value.type)
        if not same or self._flag(2):
            return f"{word}EXISTS (SELECT * FROM {source.text}{where})", negated or source.is_strict
        inner = self._pick(same)
        grouping = ""
        # Groups of a relation can change, so their results are not windowed again.
        if not conditions and self._flag(4) and not (is_relation and at.is_windowed):
            grouping = f" GROUP BY {inner.sql} HAVING COUNT(*) {self._pick(('> 1', '= 1'))}"
        is_strict = negated or source.is_strict or bool(grouping)
        return f"{value.sql} {word}IN (SELECT {inner.sql} FROM {source.text}{where}{grouping})", is_strict

    # ------------------------------------------------------------------- FROM

    def _from(self, at: Level, depth: int) -> tuple[list[Source], str, list[str]]:
        """The sources, the text of FROM, and conditions that join them for WHERE."""
        count = self._pick((1, 1, 1, 2, 2, 3)) if depth > 1 else self._pick((1, 1, 2))
        sources = [self._source(at, depth) for _ in range(count)]
        text = sources[0].text
        conditions: list[str] = []
        for position, source in enumerate(sources[1:], start=1):
            left = [column for before in sources[:position] for column in before.columns]
            # Most joins are narrow: a product of three windows is slow to recompute.
            pairs = [self._equal(left, source.columns)] if count > 2 or not self._flag(5) else []
            pairs += [expressions.theta(self._draw, left, source.columns)] if self._flag(4) else []
            joining = [pair for pair in pairs if pair]
            if not joining:
                text += f" CROSS JOIN {source.text}"
            elif self._flag(2):
                text += f" JOIN {source.text} ON {' AND '.join(f'({c})' for c in joining)}"
            else:
                text += f", {source.text}"
                conditions += joining
        if self._flag(3) and self._relations and not any(source.is_strict for source in sources):
            text = self._with_relations(at, text, sources, conditions)
        return sources, text, conditions

    def _with_relations(self, at: Level, text: str, sources: list[Source], conditions: list[str]) -> str:
        """Joined with a relation, or two if the first is not retroactive."""
        plain = all(source.is_plain for source in sources)
        fitting = [
            relation
            for relation in self._relations
            if (relation.is_retroactive or plain or relation.clock is None)
            and (not at.is_windowed or not relation.is_retroactive or relation.clock is None)
        ]
        for _ in range(self._pick((1, 1, 2))):
            if not fitting:
                break
            relation = self._pick(fitting)
            source = self._relation(relation)
            left = [column for before in sources for column in before.columns]
            pairs = [self._equal(left, source.columns)]
            pairs += [expressions.theta(self._draw, left, source.columns)] if self._flag(4) else []
            joining = [f"({pair})" for pair in pairs if pair] or ["TRUE"]
            if self._flag(2):
                text += f" LEFT JOIN {source.text} ON {' AND '.join(joining)}"
            else:
                text += f", {source.text}"
                conditions += joining
            sources.append(replace(source, is_strict=relation.is_retroactive))
            if relation.is_retroactive:
                break
        return text

    def _source(self, at: Level, depth: int) -> Source:
        kinds = ["stream"] * 5
        if depth > 1:
            # A sub-query over INTERNAL windows without a window of its own is a stream of results.
            kinds += ["stream of results"] if at.keeps_results else ["subquery", "stream of results"]
        match self._pick(kinds):
            case "subquery":
                inner = self._body(at, depth - 1)
                text = self._ordered(inner, at)
                return self._aliased(
                    f"(\n  {text})",
                    inner,
                    inner.is_strict or text != inner.text,
                    is_plain=inner.is_plain and text == inner.text,
                )
            case "stream of results":
                return self._results(at, depth)
        return self._stream(at)

    def _results(self, at: Level, depth: int) -> Source:
        """A window over the results of a sub-query, or over what selects, projects and unites streams."""
        if self._flag(3):
            inner = self._tuples(depth)
            text = inner.text
        elif self._flag(2):
            inner_level = windows.level(self._draw, may_be_internal=False)
            inner = self._body(inner_level, depth - 1)
            operators = ["Istream", "Dstream"]
            operators += [] if inner_level.in_rows else ["Rstream"]
            operators += ["Istream-restore"] if inner_level.in_time else []
            text = f"{self._pick(operators)}({self._ordered(inner, inner_level)})"
        else:
            inner_level = windows.level(self._draw, must_be_internal=True)
            inner = self._body(inner_level, depth - 1)
            text = inner.text
        if not at.keeps_results and not at.is_periodic and self._flag(5):
            self._grows = True
            return self._aliased(f"(\n  {text})", inner, False)
        made = windows.window(self._draw, at, self._tick, self._partitioning(inner.columns))
        self._grows = self._grows or made.is_unbounded
        return self._aliased(f"(\n  {text}) {made.text}", inner, made.is_strict)

    def _tuples(self, depth: int) -> Select:
        """A sub-query that is a stream: selections, projections and unions of streams."""
        made = self._rows_of_stream(depth)
        for _ in range(self._pick((0, 1, 0, 2))):
            other = self._rows_of_stream(depth, [column.type for column in made.columns])
            columns = (
                replace(one, exact=one.exact and two.exact, small=one.small and two.small)
                for one, two in zip(made.columns, other.columns, strict=True)
            )
            made = Select(f"{made.text}\n  UNION ALL {other.text}", tuple(columns))
        return made

    def _rows_of_stream(self, depth: int, types: Sequence[Type] | None = None) -> Select:
        """A SELECT over all of a stream, or over one of these, with columns of the given types."""
        if depth > 0 and self._flag(4):
            inner = self._tuples(depth - 1)
            source = self._aliased(f"(\n  {inner.text})", inner, False)
        else:
            stream, alias = self._pick(self._streams), self._alias()
            window = self._pick(("", "", " [UNBOUNDED]"))
            source = Source(f"{stream.name}{window} {alias}", _columns(alias, stream.columns))
        wanted: Sequence[Type | None] = types or [None] * self._pick((1, 2, 3))
        items = [expressions.expression(self._draw, source.columns, type_) for type_ in wanted]
        where = f" WHERE {expressions.condition(self._draw, source.columns)}" if self._flag(2) else ""
        outputs = tuple(item.named(f"c{i}") for i, item in enumerate(items))
        return Select(f"SELECT {_listed([item.sql for item in items])} FROM {source.text}{where}", outputs)

    def _aliased(self, text: str, inner: Select, is_strict: bool, *, is_plain: bool = True) -> Source:
        alias = self._alias()
        columns = tuple(column.named(f"{alias}.c{i}") for i, column in enumerate(inner.columns))
        return Source(f"{text} {alias}", columns, is_strict, is_plain)

    def _stream(self, at: Level) -> Source:
        stream = self._pick(self._streams)
        partitioned = [name for name in stream.columns if name not in _NOT_PARTITIONED]
        made = windows.window(self._draw, at, self._tick, partitioned)
        self._grows = self._grows or made.is_unbounded
        alias = self._alias()
        columns = _columns(alias, stream.columns)
        return Source(f"{stream.name} {made.text} {alias}", columns, made.is_strict)

    def _relation(self, relation: MadeRelation) -> Source:
        alias = self._alias()
        return Source(f"{relation.name} {alias}", _columns(alias, relation.visible))

    def _settled(self, at: Level) -> list[MadeRelation]:
        """The relations that may stand alone, in a sub-query or a set operation."""
        return [
            relation
            for relation in self._relations
            if relation.clock is None or (relation.is_retroactive and not at.is_windowed)
        ]

    def _equal(self, left: Sequence[Col], right: Sequence[Col]) -> str | None:
        """An equality between the two, of columns of one type."""
        left, right = expressions.timeless(left), expressions.timeless(right)
        kinds = [
            type_
            for type_ in (*[Type.BIGINT, Type.STRING] * 2, Type.BOOLEAN, Type.DOUBLE, Type.TIMESTAMP)
            if expressions.of_type(left, type_) and expressions.of_type(right, type_)
        ]
        if not kinds:
            return None
        type_ = self._pick(kinds)
        found = expressions.of_type(left, type_)
        first = self._pick([*(column for column in found if column.small), *found])
        fitting = expressions.of_type(right, type_)
        alike = [column for column in fitting if _bare(column) == _bare(first)]
        return f"{first.sql} = {self._pick([*alike, *fitting[:1], *alike, *fitting]).sql}"

    def _alias(self) -> str:
        self._aliases += 1
        return f"a{self._aliases}"

    def _pick(self, options: Sequence[T]) -> T:
        return expressions.pick(self._draw, options)

    def _flag(self, one_in: int) -> bool:
        """Rarely true; false is simpler."""
        return self._draw(st.integers(0, one_in - 1)) == one_in - 1


def _columns(alias: str, types: Mapping[str, str]) -> tuple[Col, ...]:
    return tuple(
        Col(f"{alias}.{name}", Type(kind), small=name == "g", is_time=name in ("t", "life", "since"))
        for name, kind in types.items()
    )


def _bare(column: Col) -> str:
    return column.sql.rpartition(".")[2]


def _listed(items: Sequence[str]) -> str:
    return ", ".join(f"{item} AS c{i}" for i, item in enumerate(items))


# What every query may have.
_OPERATORS = "\n  WITH (strategy = 'upa')"
_OPTIONS = (
    *[""] * 6,
    "\n  WITH (strategy = 'nt')",
    "\n  WITH (strategy = 'direct')",
    "\n  WITH (strategy = 'upa', join = 'eager')",
    "\n  WITH (join = 'eager-lazy')",
    "\n  WITH (join = 'lazy')",
    "\n  WITH (join = 'lazy-restore')",
)
