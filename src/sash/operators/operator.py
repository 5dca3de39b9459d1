"""What every continuous operator is: state, and a function from deltas to a delta.

Operators do no I/O, know no clock but the one they are told, and can be pickled. Their state can be taken
out as named Arrow tables and put back into a new operator of the same kind, which then goes on as the old
one would have. What they give does not depend on how their input was cut into batches.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from sash.lang.algebra import Field
from sash.operators.delta import ARROW_TYPES, Delta
from sash.plan.join_synopses import JoinSetting

State = dict[str, pa.Table]


@dataclass(frozen=True, slots=True)
class Moment:
    """How far time has come: all changes up to and including `through` are known.

    `first` has, for each stream, the timestamp of its first row, if it has come.
    """

    through: int
    first: Mapping[str, int] = field(default_factory=dict)

    def first_of(self, streams: Sequence[str]) -> int | None:
        """The first instant of a query over some streams."""
        return min((self.first[name] for name in streams if name in self.first), default=None)


class Operator(ABC):
    """A continuous operator. `fields` are the columns of what it gives."""

    fields: tuple[Field, ...]

    @abstractmethod
    def process(self, inputs: Sequence[Delta], moment: Moment) -> Delta:
        """Take the changes since the last call, up to `moment`, and give those that follow from them."""

    def placed(self, partition: int, of: int) -> None:  # noqa: B027
        """It works in one of several partitions; only before it has processed anything."""

    def adapt(self, joins: Sequence[JoinSetting]) -> None:  # noqa: B027
        """Those who read join synopses are others from now on."""

    def snapshot(self) -> State:
        """The state between two calls; an operator without state has none."""
        return {}

    def restore(self, state: State) -> None:  # noqa: B027
        """Take up a state; only for an operator that has processed nothing."""

    @property
    def state_rows(self) -> int:
        """Rows that it holds."""
        return 0

    @property
    def state_bytes(self) -> int:
        """Memory that its arrays take."""
        return 0

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(field.name for field in self.fields)

    @property
    def types(self) -> tuple[pa.DataType, ...]:
        return arrow_types(self.fields)


def arrow_types(fields: Sequence[Field]) -> tuple[pa.DataType, ...]:
    return tuple(ARROW_TYPES[field.type] for field in fields)


def prefixed(prefix: str, state: State) -> State:
    """The state of a part, under names of its own."""
    return {f"{prefix}.{name}": table for name, table in state.items()}


def part(prefix: str, state: State) -> State:
    """What `prefixed` put away."""
    start = f"{prefix}."
    return {name[len(start) :]: table for name, table in state.items() if name.startswith(start)}
