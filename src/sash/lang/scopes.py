"""What names mean at a place of a SELECT.

`FromScope` is a row of FROM: WHERE, GROUP BY, arguments of aggregates, and everything in a select that
groups nothing. `GroupScope` is the grouped row with its columns k0, k1, … and a0, a1, …: the select list
and HAVING of a grouped select. `OutputScope` is the answer: ORDER BY. Invariant: equal aggregate calls
share one column.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sqlglot import exp

from sash.errors import BindError, Place, UnknownName
from sash.lang import nodes, operands
from sash.lang.aggregates import bind_aggregate, has_aggregate
from sash.lang.algebra import Field, Node
from sash.lang.operands import Operand
from sash.lang.scalars import bind, name_place
from sash.lang.values import AggregateCall, Scalar


@dataclass(frozen=True, slots=True)
class Source:
    """What stands in FROM. `kind` is stream, relation, archive or query.

    `columns` gives, by the name that the user knows, the field of `node`. A source is qualified by its
    alias; without one, or where that leaves no doubt, by its own name.
    """

    kind: str
    name: str | None
    alias: str | None
    columns: Mapping[str, Field]
    node: Node
    place: Place | None

    @property
    def label(self) -> str:
        return self.alias or self.name or "the sub-query"


class FromScope:
    def __init__(
        self, text: str, sources: Sequence[Source], clause: str, enclosing: FromScope | None = None
    ) -> None:
        self.text = text
        self.sources = sources
        self.clause = clause
        self.enclosing = enclosing
        self._owners = {
            field.name: index for index, source in enumerate(sources) for field in source.columns.values()
        }

    def within(self, clause: str) -> FromScope:
        return FromScope(self.text, self.sources, clause, self.enclosing)

    def has(self, name: str) -> bool:
        return any(name in source.columns for source in self.sources)

    def owners(self, inputs: Sequence[str]) -> frozenset[int]:
        """The positions of the sources that fields of these names come from."""
        return frozenset(self._owners[name] for name in inputs)

    def knows(self, node: exp.Column) -> bool:
        """Whether the column is of this FROM."""
        qualifier = node.args.get("table")
        if qualifier is None:
            return self.has(node.name)
        return bool(self.qualified(qualifier.name))

    def qualified(self, name: str) -> list[Source]:
        by_alias = [source for source in self.sources if source.alias == name]
        return by_alias or [source for source in self.sources if source.name == name]

    def whole(self, node: exp.Expression) -> Operand | None:
        return None

    def column(self, node: exp.Column) -> Operand:
        # A column that '*' stands for knows its source, which need not have a name.
        index = node.meta.get("source")
        source = self._source_of(node) if index is None else self.sources[index]
        field = source.columns[node.name]
        return operands.column(field.name, field.type, nodes.place_of(node.this, self.text))

    def _source_of(self, node: exp.Column) -> Source:
        if self.enclosing is not None and not self.knows(node) and self.enclosing.knows(node):
            raise BindError(
                f"the column '{node.name}' of the outer query cannot be used here",
                place=nodes.place_of(node, self.text),
                expected="a condition of its own in WHERE: an inner expression = an outer one",
                hint="a sub-query is correlated by equalities only",
                id="correlation",
            )
        qualifier = node.args.get("table")
        sources = self.sources if qualifier is None else [self.one(qualifier)]
        holders = [source for source in sources if node.name in source.columns]
        place = nodes.place_of(node.this, self.text)
        if not holders:
            known = list(dict.fromkeys(name for source in sources for name in source.columns))
            raise UnknownName("column", node.name, known, place=place)
        if len(holders) > 1:
            raise BindError(
                f"the column '{node.name}' is in more than one source",
                place=place,
                expected="one of: " + ", ".join(f"{source.label}.{node.name}" for source in holders),
                got=node.name,
                hint="write the name or the alias of the source before it",
                id="ambiguous-name",
            )
        return holders[0]

    def one(self, qualifier: exp.Expression) -> Source:
        """The source that a qualifier means."""
        found = self.qualified(qualifier.name)
        place = nodes.place_of(qualifier, self.text)
        if not found:
            known = dict.fromkeys(
                name for source in self.sources for name in (source.alias, source.name) if name
            )
            raise UnknownName("source", qualifier.name, known, place=place)
        if len(found) > 1:
            raise BindError(
                f"'{qualifier.name}' is more than one source of FROM",
                place=place,
                expected="one of: " + ", ".join(source.label for source in found),
                hint="use the aliases",
                id="ambiguous-name",
            )
        return found[0]

    def aggregate(self, node: exp.Anonymous) -> Operand:
        hints = {
            "WHERE": "WHERE is applied to rows before they are grouped; use HAVING",
            "ON": "ON is applied to rows before they are grouped; use HAVING",
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

    def __init__(self, row: FromScope, keys: Sequence[tuple[exp.Expression, Scalar]]) -> None:
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
        if isinstance(node, _NEVER_A_KEY) or self._aggregates_in(node):
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
            known = has_aggregate(node)
            self._has_aggregate[id(node)] = known
        return known

    def _known(self, node: exp.Expression) -> bool:
        """Whether the node reads the row only: in HAVING it may also read output names."""
        return all(self.row.has(column.name) for column in node.find_all(exp.Column))


class OutputScope:
    """The columns of an answer, by their names or as the expressions that were selected."""

    def __init__(
        self, text: str, columns: Mapping[str, Field], selected: Mapping[exp.Expression, Field]
    ) -> None:
        self.text = text
        self._columns = columns
        self._selected = selected

    def whole(self, node: exp.Expression) -> Operand | None:
        if isinstance(node, _NEVER_A_KEY):
            return None
        if isinstance(node, exp.Column) and node.args.get("table") is None and node.name in self._columns:
            return None
        field = self._selected.get(node)
        return None if field is None else self._operand(field, node)

    def column(self, node: exp.Column) -> Operand:
        qualifier = node.args.get("table")
        field = self._columns.get(node.name) if qualifier is None else None
        if field is None:
            error = UnknownName(
                "output column", node.name, self._columns, place=nodes.place_of(node, self.text)
            )
            error.hint = error.hint or "ORDER BY takes what is selected: its name, its position or its text"
            raise error
        return self._operand(field, node)

    def aggregate(self, node: exp.Anonymous) -> Operand:
        raise BindError(
            f"ORDER BY an aggregate that is not selected: {node.this}",
            place=nodes.place_of(node, self.text),
            hint="select it, and order by its name",
        )

    def _operand(self, field: Field, node: exp.Expression) -> Operand:
        return operands.column(field.name, field.type, nodes.place_of(node, self.text))


_NEVER_A_KEY = (
    exp.Literal,
    exp.Null,
    exp.Boolean,
    exp.Star,
    exp.Distinct,
    exp.Exists,
    nodes.Duration,
    nodes.OutputCall,
)


def _copy(operand: Operand) -> Operand:
    """An operand that stands in a second tree as well: a node of sqlglot has one parent."""
    return Operand(operand.tree.copy(), operand.type, operand.place, operand.literal, operand.copies)
