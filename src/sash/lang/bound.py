"""What binding makes of a statement: names resolved, types known, every expression ready to run.

One definition per kind of statement. Their texts and places take no part in equality. Values
(`Scalar`, `AggregateCall`, …) and what the periodic runtime takes (`BoundSelect`) can be imported from
here, too.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from sash.errors import Place
from sash.lang import algebra, intervals
from sash.lang.indexing import IndexSpec
from sash.lang.periodic import BoundSelect, OutputOperator, Window, periodic_select
from sash.lang.types import Schema, Type
from sash.lang.values import AggregateCall, AggregateFunction, Named, Scalar

__all__ = [
    "AggregateCall",
    "AggregateFunction",
    "ArchiveDefinition",
    "BoundSelect",
    "Definition",
    "DropDefinition",
    "ExplainDefinition",
    "IndexDefinition",
    "Named",
    "OneTimeQuery",
    "OptionValue",
    "Options",
    "OutputOperator",
    "QueryDefinition",
    "RelationDefinition",
    "Scalar",
    "ShowDefinition",
    "StreamDefinition",
    "Window",
]

OptionValue = str | int | float | bool
Options = tuple[tuple[str, OptionValue], ...]


@dataclass(frozen=True, slots=True)
class StreamDefinition:
    """CREATE STREAM. `unit` is how many microseconds an integer timestamp counts; 1 for TIMESTAMP.

    `max_ahead` says how far ahead a row may be: of the newest row before it, or, where input is live, of the
    clock on the wall; it may be another one after a restart. `retain` keeps rows for that long. `lifetime`
    names the column with the lifetime of each row, which counts `lifetime_unit`s and is cut at
    `max_lifetime`.
    """

    name: str
    schema: Schema
    timestamp: str
    unit: int
    slack: int
    source: str
    options: Options
    text: str = field(default="", compare=False)
    retain: int | None = None
    lifetime: str | None = None
    max_lifetime: int | None = None
    max_ahead: int | None = field(default=None, compare=False)

    def option(self, name: str, default: OptionValue) -> OptionValue:
        return dict(self.options).get(name, default)

    @property
    def has_integer_time(self) -> bool:
        column = self.schema.get(self.timestamp)
        return column is not None and column.type is Type.BIGINT

    @property
    def ahead_of_wall(self) -> int:
        """How far ahead of the clock on the wall a row of live input may be."""
        return intervals.HOUR if self.max_ahead is None else self.max_ahead

    @property
    def lifetime_unit(self) -> int:
        """Microseconds per unit of a lifetime: those of integer time, or seconds."""
        return self.unit if self.has_integer_time else intervals.SECOND


@dataclass(frozen=True, slots=True)
class RelationDefinition:
    """CREATE RELATION. With `timestamp` it is a feed of changes, else it is read once.

    `operation` names the column that says insert, update or delete; queries do not see it.
    """

    name: str
    schema: Schema
    key: tuple[str, ...]
    is_retroactive: bool
    timestamp: str | None
    unit: int
    operation: str | None
    source: str
    options: Options
    text: str = field(default="", compare=False)

    @property
    def is_static(self) -> bool:
        return self.timestamp is None

    @property
    def visible(self) -> Schema:
        """The columns that queries see."""
        return Schema(tuple(column for column in self.schema if column.name != self.operation))


@dataclass(frozen=True, slots=True)
class QueryDefinition:
    """CREATE QUERY name INTO sink AS plan; the sink is empty if there is none.

    `archive` is there if it is the query of one. `select` is the plan as the periodic runtime takes it, None
    if that does not execute it (then `sash.lang.periodic.not_yet` says why).
    """

    name: str
    sink: str
    plan: algebra.Output
    options: Options = ()
    allow_unbounded: bool = False
    text: str = field(default="", compare=False)
    place: Place | None = field(default=None, compare=False, repr=False)
    archive: ArchiveDefinition | None = None
    select: BoundSelect | None = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "select", periodic_select(self.plan))


@dataclass(frozen=True, slots=True)
class ArchiveDefinition:
    """CREATE ARCHIVE. `grid` is the number of partitions of generation and of expiration times."""

    name: str
    key: tuple[str, ...]
    technique: str
    grid: tuple[int, int] | None
    every: int
    sink: str
    plan: algebra.Output
    options: Options = ()
    text: str = field(default="", compare=False)

    @property
    def query(self) -> QueryDefinition:
        """Its query, which runs like any other."""
        return QueryDefinition(
            self.name, f"archive:{self.sink}", self.plan, self.options, text=self.text, archive=self
        )


@dataclass(frozen=True, slots=True)
class IndexDefinition:
    """CREATE INDEX name ON stream (column) USING spec; None is AUTO."""

    name: str
    stream: str
    column: str
    spec: IndexSpec | None
    text: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class OneTimeQuery:
    """A SELECT that is answered once, over the windows and relations as they are.

    `isolation` is what it asks for: lws or ws; None where it does not say.
    """

    plan: algebra.Output
    text: str = field(default="", compare=False)
    place: Place | None = field(default=None, compare=False, repr=False)
    isolation: str | None = None


@dataclass(frozen=True, slots=True)
class ExplainDefinition:
    """EXPLAIN of a query; `query` is its name where it has one."""

    plan: algebra.Output
    query: str | None = None
    analyze: bool = False
    format: str = "text"
    options: Options = ()
    allow_unbounded: bool = False
    text: str = field(default="", compare=False)
    select: BoundSelect | None = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "select", periodic_select(self.plan))


@dataclass(frozen=True, slots=True)
class DropDefinition:
    """DROP kind name; the kind is stream, relation, query, archive or index."""

    kind: str
    name: str
    text: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class ShowDefinition:
    """SHOW of all that there are of a kind, as in `DropDefinition`."""

    kind: str
    text: str = field(default="", compare=False)


Definition = (
    StreamDefinition
    | RelationDefinition
    | QueryDefinition
    | ArchiveDefinition
    | IndexDefinition
    | OneTimeQuery
    | ExplainDefinition
    | DropDefinition
    | ShowDefinition
)
