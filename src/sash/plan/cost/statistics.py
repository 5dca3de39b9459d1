"""What is known of streams and relations: rates, distinct values, selectivities.

Units: seconds and tuples. A rate is tuples per second; `distinct` counts the values that a column takes
over the life of its stream (its domain), not those in one window.

Where nothing is known the defaults below are used. They favour no stream over another, so they leave a
plan in the order in which it was written unless window lengths say otherwise.

| what                            | declared as              | default                                       |
|---------------------------------|--------------------------|-----------------------------------------------|
| rate of a stream                | `rate = 50`              | `DEFAULT_RATE`                                |
| rate of updates of a relation   | `rate = 0.1`             | 0: it is read once                            |
| rows of a relation, an archive  | `rows = 4000`            | `DEFAULT_ROWS`                                |
| values of a column              | `distinct_src = 2000`    | 2 for BOOLEAN, the rows for a relation's only |
|                                 |                          | key column, else `DEFAULT_DISTINCT`           |
| mean lifetime, if a source says | `lifetime = 30`          | the horizon                                   |
| how long its tuples live        |                          |                                               |
| share of tuples that pass a     | `selectivity_proto = .1` | estimated (`selectivity.py`)                  |
| predicate on a column           |                          |                                               |

Measured values override declared ones, value by value.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Protocol

from sash.errors import BindError, UnknownName
from sash.lang.types import Schema, Type

DEFAULT_RATE = 1000.0
DEFAULT_DISTINCT = 100.0
DEFAULT_ROWS = 1000.0
# What never expires is costed as it stands after this many seconds.
DEFAULT_HORIZON = 3600.0

Option = str | int | float | bool


class Definition(Protocol):
    """A stream's or a relation's definition, as far as statistics are concerned."""

    @property
    def name(self) -> str: ...
    @property
    def schema(self) -> Schema: ...
    @property
    def options(self) -> tuple[tuple[str, Option], ...]: ...


def _frozen(values: Mapping[str, float]) -> Mapping[str, float]:
    return MappingProxyType(dict(values))


@dataclass(frozen=True, slots=True)
class StreamStatistics:
    """What is known of one stream, relation or archive; None and missing columns are unknown.

    `rate`: tuples per second. `rows`: the size of a relation. `distinct`: values by column.
    `selectivity`: the share of tuples that pass one comparison of that column with constants, by column.
    `lifetime`: mean seconds, where the source gives lifetimes.
    """

    rate: float | None = None
    distinct: Mapping[str, float] = field(default_factory=dict)
    selectivity: Mapping[str, float] = field(default_factory=dict)
    rows: float | None = None
    lifetime: float | None = None

    def __post_init__(self) -> None:
        for name, value in (("rate", self.rate), ("rows", self.rows), ("lifetime", self.lifetime)):
            if value is not None and value < 0:
                raise ValueError(f"{name} is not negative, got {value}")
        if any(value <= 0 for value in self.distinct.values()):
            raise ValueError(f"a column has some values, got {dict(self.distinct)}")
        if any(not 0 <= value <= 1 for value in self.selectivity.values()):
            raise ValueError(f"a selectivity is between 0 and 1, got {dict(self.selectivity)}")
        object.__setattr__(self, "distinct", _frozen(self.distinct))
        object.__setattr__(self, "selectivity", _frozen(self.selectivity))

    def overridden_by(self, other: StreamStatistics) -> StreamStatistics:
        """These values, and the other's where it knows better."""
        return StreamStatistics(
            self.rate if other.rate is None else other.rate,
            {**self.distinct, **other.distinct},
            {**self.selectivity, **other.selectivity},
            self.rows if other.rows is None else other.rows,
            self.lifetime if other.lifetime is None else other.lifetime,
        )


_UNKNOWN = StreamStatistics()


@dataclass(frozen=True, slots=True)
class Statistics:
    """What is known of all of them, by name, and of whole predicates.

    `predicates` gives the selectivity of a predicate by its SQL over canonical names
    (`"packets.proto" = 'ftp'`); it wins over everything else.
    """

    sources: Mapping[str, StreamStatistics] = field(default_factory=dict)
    predicates: Mapping[str, float] = field(default_factory=dict)
    horizon: float = DEFAULT_HORIZON

    def __post_init__(self) -> None:
        if self.horizon <= 0:
            raise ValueError(f"the horizon is positive, got {self.horizon}")
        if any(not 0 <= value <= 1 for value in self.predicates.values()):
            raise ValueError(f"a selectivity is between 0 and 1, got {dict(self.predicates)}")
        object.__setattr__(self, "sources", MappingProxyType(dict(self.sources)))
        object.__setattr__(self, "predicates", _frozen(self.predicates))

    @staticmethod
    def from_definitions(
        definitions: Iterable[Definition], measured: Mapping[str, StreamStatistics] | None = None
    ) -> Statistics:
        """What the definitions declare in WITH (…), overridden by what was measured."""
        declared = {definition.name: _declared(definition) for definition in definitions}
        return Statistics(declared).with_measured(measured or {})

    def with_measured(self, measured: Mapping[str, StreamStatistics]) -> Statistics:
        sources = dict(self.sources)
        for name, values in measured.items():
            sources[name] = self.of(name).overridden_by(values)
        return replace(self, sources=sources)

    def of(self, source: str) -> StreamStatistics:
        return self.sources.get(source, _UNKNOWN)

    def rate(self, stream: str) -> float:
        rate = self.of(stream).rate
        return DEFAULT_RATE if rate is None else rate

    def update_rate(self, relation: str) -> float:
        return self.of(relation).rate or 0.0

    def rows(self, relation: str) -> float:
        rows = self.of(relation).rows
        return DEFAULT_ROWS if rows is None else rows

    def lifetime(self, stream: str) -> float:
        """Seconds that a tuple lives on average where its source says so (LIFETIME BY)."""
        lifetime = self.of(stream).lifetime
        return self.horizon if lifetime is None else lifetime

    def distinct(self, source: str, column: str, type: Type, key: tuple[str, ...] = ()) -> float:
        """The values of a column; `key` is the key of a relation."""
        known = self.of(source).distinct.get(column)
        if known is not None:
            return known
        if type is Type.BOOLEAN:
            return 2.0
        return max(1.0, self.rows(source)) if key == (column,) else DEFAULT_DISTINCT

    def selectivity(self, canonical: str) -> float | None:
        """The declared share for comparisons with a column called `source.column` or `source#2.column`."""
        qualifier, dot, column = canonical.partition(".")
        return self.of(qualifier.partition("#")[0]).selectivity.get(column) if dot else None


_NUMBERS = ("rate", "rows", "lifetime")
_BY_COLUMN = ("distinct", "selectivity")


def is_statistic(option: str) -> bool:
    """Whether an option of WITH (…) says something of the data, whatever its source."""
    kind, _, column = option.partition("_")
    return option in _NUMBERS or (kind in _BY_COLUMN and bool(column))


def _declared(definition: Definition) -> StreamStatistics:
    distinct: dict[str, float] = {}
    selectivity: dict[str, float] = {}
    numbers: dict[str, float] = {}
    for option, value in definition.options:
        kind, _, column = option.partition("_")
        if not is_statistic(option):
            continue
        if option in _NUMBERS:
            numbers[option] = _number(definition, option, value, "a number that is not negative", 0.0)
        else:
            if definition.schema.get(column) is None:
                raise UnknownName(
                    f"column in option {option} of {definition.name}", column, definition.schema.names
                )
            if kind == "distinct":
                distinct[column] = _number(definition, option, value, "a number of at least 1", 1.0)
            else:
                selectivity[column] = _number(definition, option, value, "a number between 0 and 1", 0.0, 1.0)
    rate, rows, lifetime = (numbers.get(name) for name in _NUMBERS)
    return StreamStatistics(rate, distinct, selectivity, rows, lifetime)


def _number(
    definition: Definition,
    option: str,
    value: Option,
    expected: str,
    least: float,
    greatest: float = float("inf"),
) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value <= greatest:
        message = f"option {option} of {definition.name} does not fit"
        raise BindError(message, expected=expected, got=repr(value))
    return float(value)
