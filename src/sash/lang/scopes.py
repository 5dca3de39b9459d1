"""What names mean at a place of a SELECT.

`RowScope` is the stream's row: WHERE, GROUP BY, arguments of aggregates, and everything in a select
that groups nothing. `GroupScope` is the grouped row with its columns k0, k1, … and a0, a1, …: the select
list and HAVING of a grouped select. Invariant: equal aggregate calls share one column.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sqlglot import exp

from sash.errors import BindError, Place, UnknownName
from sash.lang import nodes, operands
from sash.lang.bound import AggregateCall, AggregateFunction, Scalar
from sash.lang.operands import Operand
from sash.lang.scalars import bind, name_place
from sash.lang.types import Schema, Type


class RowScope:
    """The columns of one stream, which may be qualified by its name or by its alias if it has one."""

    def __init__(self, text: str, stream: str, alias: str | None, schema: Schema, clause: str) -> None:
        self.text = text
        self.stream = stream
        self.alias = alias
        self.schema = schema
        self.clause = clause
        self._types = {column.name: column.type for column in schema}

    def within(self, clause: str) -> RowScope:
        return RowScope(self.text, self.stream, self.alias, self.schema, clause)

    def has(self, name: str) -> bool:
        return name in self._types

    def whole(self, node: exp.Expression) -> Operand | None:
        return None

    def column(self, node: exp.Column) -> Operand:
        qualifier = node.args.get("table")
        if qualifier is not None and qualifier.name not in (self.stream, self.alias):
            known = [self.stream] if self.alias is None else [self.alias, self.stream]
            raise UnknownName("stream", qualifier.name, known, place=nodes.place_of(qualifier, self.text))
        type_ = self._types.get(node.name)
        place = nodes.place_of(node.this, self.text)
        if type_ is None:
            raise UnknownName("column", node.name, self.schema.names, place=place)
        return operands.column(node.name, type_, place)

    def aggregate(self, node: exp.Anonymous) -> Operand:
        hints = {
            "WHERE": "WHERE is applied to rows before they are grouped; use HAVING",
            "GROUP BY": "group by the columns that the aggregate is taken over",
        }
        inside = "inside another aggregate" if self.clause == "aggregate" else f"in {self.clause}"
        raise BindError(
            f"the aggregate {node.this} cannot stand {inside}",
            place=name_place(node, self.text),
            hint=hints.get(self.clause, "aggregate once, and combine aggregates outside of each other"),
        )


class GroupScope:
    """The grouped row. Aggregates are collected in `aggregates` as they are met."""

    def __init__(self, row: RowScope, keys: Sequence[tuple[exp.Expression, Scalar]]) -> None:
        self.text = row.text
        self.row = row
        self.aggregates: list[AggregateCall] = []
        self.aliases: Mapping[str, Operand] = {}
        self._keys = {tree: (f"k{index}", scalar.type) for index, (tree, scalar) in enumerate(keys)}
        self._all_columns = all(scalar.column is not None for _, scalar in keys)
        self._has_aggregate: dict[int, bool] = {}

    def whole(self, node: exp.Expression) -> Operand | None:
        """The key that the node is. Only a column can be one where all keys are columns."""
        if not self._keys or self._all_columns or isinstance(node, exp.Column | exp.Paren):
            return None
        if isinstance(node, exp.Literal | exp.Null | exp.Boolean | exp.Star) or self._aggregates_in(node):
            return None
        if not self._known(node):
            return None
        return self._key(bind(node, self.row), node)

    def column(self, node: exp.Column) -> Operand:
        alias = None if node.args.get("table") is not None else self.aliases.get(node.name)
        if alias is not None and not self.row.has(node.name):
            return _copy(alias)
        operand = self.row.column(node)
        key = self._key(operand, node)
        if key is not None:
            return key
        if alias is not None:
            return _copy(alias)
        raise BindError(
            f"the column '{node.name}' is neither grouped nor aggregated",
            place=nodes.place_of(node, self.text),
            hint=f"add it to GROUP BY, or take an aggregate of it such as MAX({node.name})",
        )

    def aggregate(self, node: exp.Anonymous) -> Operand:
        call = bind_aggregate(node, self.row.within("aggregate"))
        if call not in self.aggregates:
            self.aggregates.append(call)
        place = nodes.place_of(node, self.text)
        return operands.column(f"a{self.aggregates.index(call)}", call.type, place)

    def _key(self, operand: Operand, node: exp.Expression) -> Operand | None:
        found = self._keys.get(operand.tree)
        return None if found is None else operands.column(*found, nodes.place_of(node, self.text))

    def _aggregates_in(self, node: exp.Expression) -> bool:
        known = self._has_aggregate.get(id(node))
        if known is None:
            known = any(call.this in AggregateFunction.__members__ for call in node.find_all(exp.Anonymous))
            self._has_aggregate[id(node)] = known
        return known

    def _known(self, node: exp.Expression) -> bool:
        """Whether the node reads the row only: in HAVING it may also read output names."""
        return all(self.row.has(column.name) for column in node.find_all(exp.Column))


def bind_aggregate(node: exp.Anonymous, row: RowScope) -> AggregateCall:
    function = AggregateFunction[str(node.this)]
    name = function.value
    if len(node.expressions) != 1:
        raise BindError(
            f"{name} with {len(node.expressions)} arguments",
            place=name_place(node, row.text),
            expected="1",
            got=str(len(node.expressions)),
        )
    (argument,) = node.expressions
    if isinstance(argument, exp.Star):
        if function is AggregateFunction.COUNT:
            return AggregateCall(function, None, Type.BIGINT)
        raise BindError(
            f"{name}(*) has no meaning",
            place=nodes.place_of(argument, row.text),
            expected="a column or an expression",
            hint="only COUNT takes '*'",
        )
    operand = operands.typed(bind(argument, row), name)
    assert operand.type is not None
    type_ = operand.type
    if function in (AggregateFunction.SUM, AggregateFunction.AVG):
        operands.need_numeric(operand, name)
    if function is AggregateFunction.COUNT:
        type_ = Type.BIGINT
    elif function is AggregateFunction.AVG:
        type_ = Type.DOUBLE
    return AggregateCall(function, operands.to_scalar(operand, nodes.source_of(argument, row.text)), type_)


def _copy(operand: Operand) -> Operand:
    """An operand that stands in a second tree as well: a node of sqlglot has one parent."""
    place: Place | None = operand.place
    return Operand(operand.tree.copy(), operand.type, place, operand.literal, operand.copies)
