"""What binding a query knows: the text, what is defined so far, and what kind of query it is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from sqlglot import exp

from sash.errors import BindError, Place
from sash.lang import algebra, nodes
from sash.lang.bound import (
    ArchiveDefinition,
    IndexDefinition,
    QueryDefinition,
    RelationDefinition,
    StreamDefinition,
)

if TYPE_CHECKING:
    from sash.lang.scopes import FromScope

# From the names that outputs have to the names that their fields get.
Naming = Callable[[Sequence[str]], Sequence[str]]


@dataclass(slots=True)
class Known:
    """What the statements so far have defined, by name."""

    streams: dict[str, StreamDefinition] = field(default_factory=dict)
    relations: dict[str, RelationDefinition] = field(default_factory=dict)
    queries: dict[str, QueryDefinition] = field(default_factory=dict)
    archives: dict[str, ArchiveDefinition] = field(default_factory=dict)
    indexes: dict[str, IndexDefinition] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class BoundQuery:
    """A query without its output operator: `names` are the user's, one per field of `node`."""

    node: algebra.Node
    names: tuple[str, ...]
    kind: algebra.OutputKind = algebra.OutputKind.VIEW
    window: algebra.WindowSpec | None = None

    def output(self) -> algebra.Output:
        return algebra.Output(self.node, self.kind, self.window)


@dataclass(frozen=True, slots=True)
class Context:
    """`reserved` are the names that outputs of the outermost query may not have, and why."""

    text: str
    known: Known
    bind_query: Callable[[exp.Expression, Context, Naming], BoundQuery]
    is_one_time: bool = False
    allow_unbounded: bool = False
    reserved: tuple[tuple[str, str], ...] = ()
    enclosing: FromScope | None = None
    qualifiers: set[str] = field(default_factory=set)
    # Where each window stands, by its identity; the window is kept so that its identity is not given again.
    windows: dict[int, tuple[algebra.Window, exp.Expression]] = field(default_factory=dict)

    def inner(self, enclosing: FromScope | None = None) -> Context:
        """The context of a sub-query."""
        return replace(self, reserved=(), enclosing=enclosing)

    def place(self, node: exp.Expression | None) -> Place | None:
        return nodes.place_of(node, self.text)

    def window_place(self, window: algebra.Window) -> Place | None:
        found = self.windows.get(id(window))
        return None if found is None else self.place(found[1])

    def qualifier(self, name: str) -> str:
        """`name`, or name#2, … if it was used before in this query."""
        made, count = name, 1
        while made in self.qualifiers:
            count += 1
            made = f"{name}#{count}"
        self.qualifiers.add(made)
        return made

    def subquery_qualifier(self) -> str:
        count = 1
        while f"({count})" in self.qualifiers:
            count += 1
        return self.qualifier(f"({count})")

    def refuse_growth(self, what: str, place: Place | None, hint: str | None = None) -> None:
        if self.allow_unbounded or self.is_one_time:
            return
        allow = "if memory is no concern, write ALLOW UNBOUNDED STATE at the end of the query"
        raise BindError(
            f"{what} would need state that grows without bound",
            place=place,
            expected="a bounded window, such as [RANGE 1 HOUR] or [ROWS 1000]",
            hint=allow if hint is None else f"{hint}; {allow}",
            id="unbounded-state",
        )
