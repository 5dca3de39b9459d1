"""What every continuous operator is: state, and a function from deltas to a delta.

Operators do no I/O, know no clock but the one they are told, and are built from a plan wherever they are
needed. Their state can be taken out as named Arrow tables and put back into a new operator of the same kind,
which then goes on as the old one would have. What they give does not depend on how their input was cut into
batches.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from sash.lang.algebra import Field
from sash.operators.delta import ARROW_TYPES, Delta, Floats, Ints
from sash.plan.join_synopses import JoinSetting

State = dict[str, pa.Table]


def begin_of(query: str) -> str:
    """Where `Moment.first` says when a query begins that came into a run; no stream is called so."""
    return f"\0begin {query}"


def news_of(query: str) -> str:
    """What is in `Moment.first` if a query that came into a run tells only what happens after it begins."""
    return f"\0news {query}"


def before_of(stream: str) -> str:
    """What is in `Moment.first` if rows of a stream came before those that a part knows: how many."""
    return f"\0before {stream}"


def _keep_on() -> None:
    """Nobody wants to give up."""


@dataclass(frozen=True, slots=True)
class Moment:
    """How far time has come: all changes up to and including `through` are known.

    `first` has, for each stream, the timestamp of its first row, if it has come, and when queries begin that
    came into a run (`begin_of`). `look` is called before an operator works on a slice, and may raise to give
    a batch up.
    """

    through: int
    first: Mapping[str, int] = field(default_factory=dict)
    look: Callable[[], None] = field(default=_keep_on, compare=False, repr=False)

    def first_of(self, streams: Sequence[str]) -> int | None:
        """The first instant of a query over some streams."""
        return min((self.first[name] for name in streams if name in self.first), default=None)


class Operator(ABC):
    """A continuous operator. `fields` are the columns of what it gives."""

    fields: tuple[Field, ...]
    # Whether changes may come before their time: after `through`, while their instant is not known whole; and
    # whether what it gives then is before its time, too.
    takes_early: bool = False
    gives_early: bool = True

    @abstractmethod
    def process(self, inputs: Sequence[Delta], moment: Moment) -> Delta:
        """Take the changes since the last call, up to `moment`, and give those that follow from them."""

    def slices(self, inputs: Sequence[Delta], moment: Moment, most: int) -> Sequence[int]:
        """Ends of slices of time in which `process` would give about `most` rows each, the last `through`.

        For operators that may give many more rows than they take. An end stands there more often where one
        instant gives more than that. One end, or none: it need not be sliced.
        """
        return ()

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


def slices_of(ts: Ints, expected: Floats, moment: Moment, most: int) -> Sequence[int]:
    """Ends of slices of time with about `most` rows each.

    An instant that alone has more stands there as often as it has so many. `expected` is how many rows each
    change gives, at its instant `ts`.
    """
    if expected.sum() <= most:
        return ()
    order = np.argsort(ts, kind="stable")
    instants, total = ts[order], np.cumsum(expected[order])
    ends: list[int] = []
    start, before = 0, 0.0
    while start < len(instants):
        # What still fits, back to the end of the instant before; one instant at least.
        stop = int(np.searchsorted(total, before + most, side="right"))
        if stop < len(instants):
            stop = int(np.searchsorted(instants, instants[stop], side="left"))
        if stop <= start:
            stop = int(np.searchsorted(instants, instants[start], side="right"))
        count = float(total[stop - 1]) - before
        ends += [int(instants[stop - 1])] * max(1, math.ceil(count / most))
        start, before = stop, float(total[stop - 1])
    return ends if ends[-1] == moment.through else (*ends, moment.through)


def arrow_types(fields: Sequence[Field]) -> tuple[pa.DataType, ...]:
    return tuple(ARROW_TYPES[field.type] for field in fields)


def prefixed(prefix: str, state: State) -> State:
    """The state of a part, under names of its own."""
    return {f"{prefix}.{name}": table for name, table in state.items()}


def part(prefix: str, state: State) -> State:
    """What `prefixed` put away."""
    start = f"{prefix}."
    return {name[len(start) :]: table for name, table in state.items() if name.startswith(start)}
