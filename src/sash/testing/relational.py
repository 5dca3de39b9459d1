"""The meaning of a plan, by definition: every operator becomes SQL, and DuckDB answers it.

Q(τ) is the relational query over the windows as they are after instant τ. Windows are taken from all tuples
that have arrived by then, by timestamp and order of arrival alone. Nothing is incremental and nothing is
shared with the operators of the product, which makes this the oracle for all of them, and for rewrites of
plans.

Many instants are answered by one statement: the table of instants is joined with every leaf, so that each
row of each operator carries the number of its instant, and no operator lets rows of two instants meet.
Hidden columns start with a dot that no name of CQL can have:

    ·i      the number of the instant
    ·at     the instant, in microseconds
    ·ts     the timestamp of a tuple of a stream; ·sequence is its place in the order of arrival
    ·until  when the lifetime ends that the source gave a tuple, or a version of a relation's row
    ·from   when that version begins
    ·branch  which window of UNION ALL a row comes from, where their order is asked for
    ·start  the instant at which a row came to be
    ·born   the instant at which the last of its tuples arrived: what a join with a non-retroactive relation
            goes by
    ·end    the instant at which a row of an INTERNAL window can no longer be joined (see `mixed`)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import duckdb
import pyarrow as pa

from sash.errors import InternalError
from sash.lang import algebra
from sash.lang.algebra import Node, SortKey, WindowKind, WindowSpec
from sash.lang.growth import level_nodes
from sash.testing.definitions import aggregate_sql
from sash.testing.rows import Bag, Row, normal_row

_connection = duckdb.connect(":memory:", config={"threads": 1})
_registered: dict[str, pa.Table] = {}
FOREVER = 2**62


def stream_table(table: pa.Table, ts: Sequence[int], until: Sequence[int] | None = None) -> pa.Table:
    """A stream as this module wants it: its columns, timestamps in microseconds, order of arrival.

    `until` is when the lifetime of each tuple ends, if its source says so.
    """
    hidden = {
        "·ts": pa.array(ts, pa.int64()),
        "·sequence": pa.array(range(len(ts)), pa.int64()),
        "·until": pa.array([FOREVER] * len(ts) if until is None else until, pa.int64()),
    }
    return _appended(table, hidden)


def relation_table(
    table: pa.Table, since: Sequence[int] | None = None, until: Sequence[int] | None = None
) -> pa.Table:
    """The versions of a relation's rows, each there from `since` on and before `until`; at first always."""
    count = table.num_rows
    hidden = {
        "·from": pa.array([-FOREVER] * count if since is None else since, pa.int64()),
        "·until": pa.array([FOREVER] * count if until is None else until, pa.int64()),
    }
    return _appended(table, hidden)


def _appended(table: pa.Table, hidden: Mapping[str, pa.Array]) -> pa.Table:
    for name, values in hidden.items():
        if name not in table.column_names:
            table = table.append_column(name, values)
    return table


def answer_at(plan: Node, instant: int, tables: Mapping[str, pa.Table]) -> Bag:
    """The bag Q(instant). `tables` has every stream (see `stream_table`) and every relation as it is then."""
    relations = {node.name for node in plan.walk() if isinstance(node, algebra.Relation)}
    whole = {name: relation_table(t) if name in relations else t for name, t in tables.items()}
    (answer,) = answers_at(plan, [instant], whole)
    return answer


def answers_at(
    plan: Node,
    instants: Sequence[int],
    tables: Mapping[str, pa.Table],
    *,
    unit: int = 1,
    derived: Mapping[Node, str] | None = None,
    mixed: bool = False,
) -> list[Bag]:
    """The bags Q(τ) for all given instants, which are multiples of `unit`.

    `derived` names the tables of streams that are answers of sub-queries, by their nodes. In a `mixed` plan,
    where only some windows are INTERNAL, rows of those are joined while they are live, and the results stay
    until another window leaves them behind.
    """
    answers: list[Bag] = [Counter() for _ in instants]
    if not instants:
        return answers
    _register(tables, instants)
    writer = _Writer(unit, derived or {}, mixed)
    answer = f'SELECT "·i"{_quoted(plan.names)} FROM ({writer.relation(plan)})'
    for number, *row in _connection.execute(answer).fetchall():
        answers[number][normal_row(tuple(row))] += 1
    return answers


def arriving_at(
    plan: Node,
    instants: Sequence[int],
    tables: Mapping[str, pa.Table],
    *,
    unit: int = 1,
    derived: Mapping[Node, str] | None = None,
) -> list[list[Row]]:
    """The rows of Q(τ) that came to be after the instant before τ, by branch and order of arrival.

    `plan` only selects, projects and unites windows.
    """
    rows: list[list[Row]] = [[] for _ in instants]
    if not instants:
        return rows
    _register(tables, instants)
    windows = [node for node in level_nodes(plan) if isinstance(node, algebra.Window)]
    writer = _Writer(unit, derived or {}, branches=windows)
    answer = f'SELECT "·i", "·start"{_quoted(plan.names)} FROM ({writer.relation(plan, born=True)})'
    answer += ' ORDER BY "·i", "·branch", "·sequence"'
    before = [-FOREVER, *instants]
    for number, start, *row in _connection.execute(answer).fetchall():
        if start > before[number]:
            rows[number].append(normal_row(tuple(row)))
    return rows


def places_in_order(table: pa.Table, order: Sequence[SortKey]) -> list[int]:
    """The places of rows in some order; those that are equally far from the top stay as they stand."""
    _connection.register("·rows", table.append_column("·place", pa.array(range(table.num_rows), pa.int64())))
    keys = [_sort_key(key) for key in order]
    answer = f'SELECT "·place" FROM "·rows" ORDER BY {", ".join([*keys, _name("·place")])}'
    return [place for (place,) in _connection.execute(answer).fetchall()]


def _sort_key(key: SortKey) -> str:
    nulls = "FIRST" if key.nulls_first else "LAST"
    return f"{key.scalar.sql} {'DESC' if key.is_descending else 'ASC'} NULLS {nulls}"


def _register(tables: Mapping[str, pa.Table], instants: Sequence[int]) -> None:
    for name, table in tables.items():
        # Registering costs as much as a small query.
        if _registered.get(name) is not table:
            _connection.register(name, table)
            _registered[name] = table
    numbered = {"·i": pa.array(range(len(instants)), pa.int64()), "·at": pa.array(instants, pa.int64())}
    _connection.register("·instants", pa.table(numbered))


def lives_in(
    window: algebra.Window,
    tables: Mapping[str, pa.Table],
    *,
    unit: int = 1,
    derived: Mapping[Node, str] | None = None,
) -> list[tuple[int, int]]:
    """When each row that ever is in a window enters it, and when it leaves."""
    for name, table in tables.items():
        if _registered.get(name) is not table:
            _connection.register(name, table)
            _registered[name] = table
    lives = _Writer(unit, derived or {}).lives(window)
    found = f'SELECT "·start", "·end" FROM ({lives}) WHERE "·start" < "·end"'
    return _connection.execute(found).fetchall()


def _name(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _each(names: Sequence[str], of: str = "") -> list[str]:
    prefix = f"{of}." if of else ""
    return [f", {prefix}{_name(name)}" for name in names]


def _quoted(names: Sequence[str], of: str = "") -> str:
    """The names with a comma before each."""
    return "".join(_each(names, of))


def _all(parts: Sequence[str]) -> str:
    return " AND ".join(f"({part})" for part in parts)


@dataclass(frozen=True, slots=True)
class _Writer:
    """Writes plans as SQL. `unit` is the grain of the instants; with `branches` rows know how they came."""

    unit: int
    derived: Mapping[Node, str] = field(default_factory=dict)
    mixed: bool = False
    branches: Sequence[Node] = ()

    def _life(self, born: bool, of: str = "") -> str:
        """The hidden columns that say when a row came to be, and until when it can be joined."""
        hidden = ["·start", "·born", *(["·end"] if self.mixed else [])]
        hidden += ["·branch", "·sequence"] if self.branches else []
        return _quoted(hidden if born else [], of)

    def relation(self, node: Node, born: bool = False) -> str:
        """SQL of a node above the windows: ·i, its life if that is asked for, and the fields."""
        hidden = f'"·i"{self._life(born)}'
        fields = _quoted(node.names)
        match node:
            case algebra.Output():
                return self.relation(node.input, born)
            case algebra.Relation():
                live = 'r."·from" <= n."·at" AND n."·at" < r."·until"'
                source = f'"·instants" n JOIN {_name(node.name)} r ON {live}'
                return f'SELECT n."·i"{_renamed(node, "r")} FROM {source}'
            case algebra.Window():
                return self._window(node, born)
            case algebra.Select():
                rows = self._below(node.input, born)
                return f"SELECT {hidden}{fields} FROM {rows} WHERE {node.predicate.sql}"
            case algebra.Project():
                outputs = "".join(f", {o.scalar.sql} AS {_name(o.name)}" for o in node.outputs)
                return f"SELECT {hidden}{outputs} FROM {self._below(node.input, born)}"
            case algebra.Join():
                return self._join(node, born)
            case algebra.RelationJoin():
                return self._relation_join(node, born)
            case algebra.SemiJoin():
                return self._semi_join(node, born)
            case algebra.Union():
                return f"{self._below(node.left, born)} UNION ALL {self._below(node.right, born)}"
        if born:
            raise InternalError(f"a row of a {type(node).__name__} has no instant at which it came to be")
        match node:
            case algebra.Distinct():
                return f'SELECT DISTINCT "·i"{fields} FROM {self._below(node.input)}'
            case algebra.Aggregate():
                return self._aggregate(node)
            case algebra.Except():
                return f"{self._below(node.left)} EXCEPT ALL {self._below(node.right)}"
            case algebra.Intersect():
                return f"{self._below(node.left)} INTERSECT ALL {self._below(node.right)}"
            case algebra.Limit():
                return self._limit(node)
        raise InternalError(f"{type(node).__name__} has no meaning above a window")

    def _below(self, node: Node, born: bool = False) -> str:
        return f"({self.relation(node, born)})"

    # ------------------------------------------------------------- operators

    def _join(self, node: algebra.Join, born: bool) -> str:
        """Each input is joined as soon as it stands there, and the conditions when all do."""
        parts = [f"{e.left.sql} = {e.right.sql}" for e in node.equalities]
        parts += [node.residual.sql] if node.residual is not None else []
        count = len(node.inputs)
        starts, ends = ([f't{i}."{name}"' for i in range(count)] for name in ("·start", "·end"))
        start, end = f"greatest({', '.join(starts)})", f"least({', '.join(ends)})"
        if self.mixed:
            parts.append(f"{start} < {end}")
        joined = f"{self._below(node.inputs[0], born or self.mixed)} AS t0"
        for i, child in enumerate(node.inputs[1:], start=1):
            conditions = [f't0."·i" = t{i}."·i"', *(parts if i == count - 1 else [])]
            joined += f" JOIN {self._below(child, born or self.mixed)} AS t{i} ON {_all(conditions)}"
        last = ", ".join(f't{i}."·born"' for i in range(count))
        life = f', {start} AS "·start", greatest({last}) AS "·born"' if born else ""
        life += f', {end} AS "·end"' if born and self.mixed else ""
        return f'SELECT t0."·i"{life}{_quoted(node.names)} FROM {joined}'

    def _relation_join(self, node: algebra.RelationJoin, born: bool) -> str:
        """A non-retroactive relation is taken as it was when the row came to be."""
        relation = node.relation
        pairs = zip(node.left_keys, node.right_keys, strict=True)
        parts = [f"{left.sql} = {right.sql}" for left, right in pairs]
        parts += [node.residual.sql] if node.residual is not None else []
        settled = not relation.is_retroactive and not relation.is_static
        left = self._below(node.input, born or settled)
        kind = "LEFT JOIN" if node.is_outer else "JOIN"
        if settled:
            right = f'(SELECT "·from", "·until"{_renamed(relation)} FROM {_name(relation.name)})'
            there = ['r."·from" <= l."·born"', 'l."·born" < r."·until"']
        else:
            right = self._below(relation)
            there = ['l."·i" = r."·i"']
        on = _all([*there, *parts])
        fields = f'l."·i"{self._life(born, "l")}{_quoted(node.names)}'
        return f"SELECT {fields} FROM {left} AS l {kind} {right} AS r ON {on}"

    def _semi_join(self, node: algebra.SemiJoin, born: bool) -> str:
        keys = list(zip(node.left_keys, node.right_keys, strict=True))
        values = "".join(f', {key.sql} AS "·r{i}"' for i, (_, key) in enumerate(keys))
        right = f'(SELECT "·i"{values} FROM {self._below(node.right)})'
        matches = [f'{key.sql} = r."·r{i}"' for i, (key, _) in enumerate(keys)]
        if node.nulls_match:
            matches[0] = f"COALESCE({matches[0]}, TRUE)"
        on = _all(['l."·i" = r."·i"', *matches])
        kind = "ANTI JOIN" if node.is_anti else "SEMI JOIN"
        fields = f'l."·i"{self._life(born, "l")}{_quoted(node.names)}'
        return f"SELECT {fields} FROM {self._below(node.left, born)} AS l {kind} {right} AS r ON {on}"

    def _aggregate(self, node: algebra.Aggregate) -> str:
        """One group, even of nothing, at every instant where there are no keys."""
        keys = "".join(f", {key.sql} AS k{i}" for i, key in enumerate(node.keys))
        arguments = "".join(
            f', {call.argument.sql} AS "·a{i}"'
            for i, call in enumerate(node.calls)
            if call.argument is not None
        )
        rows = f'(SELECT "·i"{keys}{arguments}, TRUE AS "·there" FROM {self._below(node.input)})'
        there = None if node.keys else '"·there"'
        arguments_of = [_name(f"·a{i}") for i in range(len(node.calls))]
        calls = "".join(
            f", {aggregate_sql(call, argument, there)} AS a{i}"
            for i, (call, argument) in enumerate(zip(node.calls, arguments_of, strict=True))
        )
        if not node.keys:
            source = f'"·instants" AS n LEFT JOIN {rows} AS r ON n."·i" = r."·i"'
            return f'SELECT n."·i"{calls} FROM {source} GROUP BY n."·i"'
        names = "".join(f", k{i}" for i in range(len(node.keys)))
        return f'SELECT "·i"{names}{calls} FROM {rows} AS r GROUP BY "·i"{names}'

    def _limit(self, node: algebra.Limit) -> str:
        """Of rows that are equally far from the top the smaller is first (see `rows`)."""
        if node.count is None:
            return self.relation(node.input)
        order = [_sort_key(key) for key in node.order] + [
            f"{_name(name)} ASC NULLS LAST" for name in node.names
        ]
        place = f'row_number() OVER (PARTITION BY "·i" ORDER BY {", ".join(order)})'
        ranked = f'SELECT *, {place} AS "·place" FROM {self._below(node.input)}'
        return f'SELECT "·i"{_quoted(node.names)} FROM ({ranked}) WHERE "·place" <= {node.count}'

    # --------------------------------------------------------------- windows

    def _window(self, node: algebra.Window, born: bool) -> str:
        """A tuple is in its window at the instants from ·start on and before ·end."""
        spec, lives = node.spec, self.lives(node)
        stays = self.mixed and spec.is_internal
        live = ['s."·start" <= n."·at"', 's."·start" < s."·end"' if stays else 'n."·at" < s."·end"']
        life = _quoted(["·start"], "s") + ', s."·ts" AS "·born"' if born else ""
        if born and self.mixed:
            life += _quoted(["·end"], "s") if stays else f', {FOREVER} AS "·end"'
        if self.branches:
            life += f', {self.branches.index(node)} AS "·branch", s."·sequence"'
        columns = f'n."·i"{life}{_quoted(node.names, "s")}'
        return f'SELECT {columns} FROM "·instants" n JOIN ({lives}) s ON {_all(live)}'

    def lives(self, node: algebra.Window) -> str:
        """Tuples with the instants at which they enter a window and leave it."""
        tuples = f"({self._tuples(node.input)})"
        is_counted = node.spec.kind is WindowKind.ROWS
        return self._newest(node.spec, tuples) if is_counted else self._in_time(node.spec, tuples)

    def _in_time(self, spec: WindowSpec, tuples: str) -> str:
        """Rows come and go when the clock stands at a multiple of its unit, or of SLIDE."""
        step = spec.slide or self.unit
        ends = ['"·until"']
        if spec.kind is not WindowKind.UNBOUNDED:
            ends.append(f'"·ts" + {self.unit if spec.kind is WindowKind.NOW else spec.range}')
        start, end = _up(f'("·ts" + {spec.offset})', step), _up(f"least({', '.join(ends)})", step)
        return f'SELECT *, {start} AS "·start", {end} AS "·end" FROM {tuples}'

    def _newest(self, spec: WindowSpec, tuples: str) -> str:
        """The window moves whenever `slide` tuples have come; each partition counts for itself.

        Tuple k enters when the window moves for the first time with or after it, and leaves when it does so
        with or after tuple k + rows.
        """
        slide = spec.slide or 1
        names = _quoted(spec.partition).removeprefix(", ")
        order = (f"PARTITION BY {names} " if names else "") + 'ORDER BY "·ts", "·sequence"'

        def move(later: int) -> str:
            until_then = f'("·k" + {later + slide - 1}) // {slide} * {slide} - "·k"'
            return f'lead("·ts", {until_then}, {FOREVER}) OVER ({order})'

        numbered = f'SELECT *, row_number() OVER ({order}) AS "·k" FROM {tuples}'
        assert spec.rows is not None
        lifetime = _up('"·until"', self.unit)
        end = f"least({move(spec.rows)}, {lifetime})"
        return f'SELECT *, {move(0)} AS "·start", {end} AS "·end" FROM ({numbered})'

    def _tuples(self, node: Node) -> str:
        """SQL of a node below a window: its fields, and each tuple's place in the stream."""
        hidden = '"·ts", "·sequence", "·until"'
        if node in self.derived:
            return f"SELECT {hidden}{_quoted(node.names)} FROM {_name(self.derived[node])}"
        match node:
            case algebra.Stream():
                return f"SELECT {hidden}{_renamed(node)} FROM {_name(node.name)}"
            case algebra.Select():
                inner = self._tuples(node.input)
                return f"SELECT {hidden}{_quoted(node.names)} FROM ({inner}) WHERE {node.predicate.sql}"
            case algebra.Project():
                outputs = "".join(f", {o.scalar.sql} AS {_name(o.name)}" for o in node.outputs)
                return f"SELECT {hidden}{outputs} FROM ({self._tuples(node.input)})"
            case algebra.Union():
                sides = [self._tuples(child) for child in node.children]
                both = [f'SELECT *, {i} AS "·branch" FROM ({side})' for i, side in enumerate(sides)]
                place = 'row_number() OVER (ORDER BY "·ts", "·branch", "·sequence") AS "·sequence"'
                fields = f'"·ts", {place}, "·until"{_quoted(node.names)}'
                return f"SELECT {fields} FROM ({' UNION ALL '.join(both)})"
        raise InternalError(f"{type(node).__name__} below a window is not a stream of tuples")


def _up(instant: str, step: int) -> str:
    """The first multiple of `step` that is not before the instant."""
    return instant if step == 1 else f"({instant} + (((0 - {instant}) % {step}) + {step}) % {step})"


def _renamed(leaf: algebra.Stream | algebra.Relation, of: str = "") -> str:
    """The columns of a source under the names of its fields."""
    bare = [field.name.removeprefix(f"{leaf.qualifier}.") for field in leaf.fields]
    return "".join(
        f"{column} AS {_name(name)}" for column, name in zip(_each(bare, of), leaf.names, strict=True)
    )
