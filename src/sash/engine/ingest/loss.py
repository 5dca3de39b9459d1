"""Rows of a stream that take part in no answer: why, and the SLACK that would have kept those that were late.

A chunk's loss is made in the task that reads it, and again by the driver where rows are later than the task
knew; the driver adds them up. Invariant: `slack` is the greatest distance of a late row to the newest row
before it, and `steps` counts late rows by the least step of SLACK that keeps them, whatever the chunks. A
loss is of constant size.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Set
from dataclasses import dataclass
from itertools import islice
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sash.engine.observe.report import StreamCounts
from sash.errors import RunError, UserError
from sash.lang import intervals

Int64Array = npt.NDArray[np.int64]

USUAL_SHARE = 0.5
"""A stream that loses more than this share of its rows is worth a warning."""
FEWEST_LIVE = 10
"""So many rows must be lost before a run that goes on speaks of them."""
_MOST_EXAMPLES = 3
# Rejects of a chunk that are looked at for examples of different reasons.
_LOOKED_AT = 64
_SHARE = re.compile(r"\s*([0-9]*\.?[0-9]+)\s*(%?)\s*")
_UNITS = (
    (intervals.MILLISECOND, (1, 2, 5, 10, 20, 50, 100, 200, 500)),
    (intervals.SECOND, (1, 2, 3, 5, 10, 20, 30)),
    (intervals.MINUTE, (1, 2, 3, 5, 10, 15, 20, 30)),
    (intervals.HOUR, (1, 2, 3, 6, 12)),
    (intervals.DAY, (1, 2, 3, 7, 14, 30, 60, 90, 180, 365)),
)
STEPS: Int64Array = np.array([unit * n for unit, numbers in _UNITS for n in numbers], np.int64)


@dataclass(frozen=True, slots=True)
class Example:
    """A row that was lost: `row` counts from 1 in `source`."""

    source: str
    row: int
    reason: str

    def __str__(self) -> str:
        return f"{self.source}, row {self.row}: {self.reason}"

    @property
    def kind(self) -> str:
        """What is alike in reasons that differ in a value."""
        return re.split(r"['0-9]", self.reason, maxsplit=1)[0]


@dataclass(frozen=True, slots=True)
class Loss:
    """`steps` has one number more than STEPS, or none at all."""

    slack: int = 0
    steps: tuple[int, ...] = ()
    examples: tuple[Example, ...] = ()

    def __add__(self, other: Loss) -> Loss:
        if other == NO_LOSS:
            return self
        steps = self.steps or other.steps
        if self.steps and other.steps:
            steps = tuple(a + b for a, b in zip(self.steps, other.steps, strict=True))
        slack = max(self.slack, other.slack)
        return Loss(slack, steps, _different((*self.examples, *other.examples)))

    def to_json(self) -> list[Any]:
        examples = [[each.source, each.row, each.reason] for each in self.examples]
        return [self.slack, list(self.steps), examples]

    @staticmethod
    def from_json(data: list[Any] | None) -> Loss:
        if data is None:
            return Loss()
        # An older version wrote one thing more.
        slack, *_, steps, examples = data
        return Loss(slack, tuple(steps), tuple(Example(*each) for each in examples))


NO_LOSS = Loss()


def _different(examples: Iterable[Example]) -> tuple[Example, ...]:
    """The first example of each of the first kinds."""
    first: dict[str, Example] = {}
    for example in examples:
        first.setdefault(example.kind, example)
    return tuple(islice(first.values(), _MOST_EXAMPLES))


def loss_of(late: pa.Table, needed: Int64Array, rejected: pa.Table) -> Loss:
    """Of a chunk: its late rows, the SLACK that each would have needed, and its rejects."""
    if not late.num_rows and not rejected.num_rows:
        return NO_LOSS
    examples = [
        Example(row["source"], row["row"], row["reason"])
        for table, count in ((rejected, _LOOKED_AT), (late, 1))
        for row in table.slice(0, count).select(["source", "row", "reason"]).to_pylist()
    ]
    examples.sort(key=lambda example: example.row)
    if not late.num_rows:
        return Loss(examples=_different(examples))
    counts = np.bincount(np.searchsorted(STEPS, needed), minlength=len(STEPS) + 1)
    return Loss(int(needed.max()), tuple(counts.tolist()), _different(examples))


def share_of(text: str | float | None, option: str) -> float | None:
    """A share of rows as somebody wrote it: 0.1, '0.1' or '10 %'."""
    if text is None:
        return None
    written = _SHARE.fullmatch(str(text))
    share = -1.0 if written is None else float(written[1]) / (100 if written[2] else 1)
    if not 0 <= share <= 1:
        raise UserError(
            f"{option} is not a share of rows",
            expected="a number from 0 to 1, or per cent, such as 0.1 or 10%",
            got=f"'{text}'",
            id="option",
        )
    return share


def is_more_than(counts: StreamCounts, share: float) -> bool:
    """Whether more than a share of the rows was lost, or all of them."""
    lost = counts.late + counts.rejected
    return lost > 0 and (lost > share * counts.read or lost == counts.read)


def told_loss(stream: str, counts: StreamCounts, loss: Loss) -> str:
    """What a person should know of a stream that lost many rows."""
    lines = [_head(stream, counts), *(f"  {example}" for example in loss.examples)]
    hint = suggested_slack(counts, loss)
    return "\n".join([*lines, f"  hint: {hint}"] if hint else lines)


def _head(stream: str, counts: StreamCounts) -> str:
    lost = counts.late + counts.rejected
    kinds = [f"{n:,} {kind}" for n, kind in ((counts.rejected, "rejected"), (counts.late, "late")) if n]
    rows = f"all {lost:,} rows" if lost == counts.read else f"{lost:,} of {counts.read:,} rows"
    return f"stream {stream}: {rows} take part in no answer ({', '.join(kinds)})"


def suggested_slack(counts: StreamCounts, loss: Loss) -> str | None:
    """The SLACK that would have kept all rows that were not rejected, and a shorter one for nearly all."""
    if not counts.late or not loss.steps:
        return None
    whole = _rounded(loss.slack)
    text = f"SLACK {intervals.write(whole)} would have kept every late row"
    most_lost = (counts.accepted + counts.late) // 100
    beyond = counts.late - np.cumsum(loss.steps)
    enough = np.flatnonzero(beyond[:-1] <= most_lost)
    if len(enough) and STEPS[enough[0]] * 2 <= whole:
        text += f", SLACK {intervals.write(int(STEPS[enough[0]]))} about 99 % of the rows"
    return text


def _rounded(micros: int) -> int:
    """A little more, so that it is short to write."""
    units = (intervals.DAY, intervals.HOUR, intervals.MINUTE, intervals.SECOND, intervals.MILLISECOND)
    unit = next((unit for unit in units if micros >= 5 * unit), 1)
    return -(-micros // unit) * unit


class Counted(Protocol):
    """A stream as far as it has come."""

    @property
    def counts(self) -> StreamCounts: ...
    @property
    def loss(self) -> Loss: ...


def late_slacks(streams: Mapping[str, Counted]) -> dict[str, int]:
    """Of streams with late rows, the SLACK that would have kept them all."""
    return {name: state.loss.slack for name, state in streams.items() if state.counts.late}


class LossWatch:
    """Warns of streams that lose most of their rows: at the end of a run, and once while a live one goes on.

    `most` is the share that may be lost without an error; None: any.
    """

    def __init__(self, warn: Callable[[str], None], most: float | None) -> None:
        self._warn = warn
        self._most = most
        self._told: set[str] = set()

    def tell(self, streams: Mapping[str, Counted], live: Set[str]) -> None:
        """After a batch."""
        for name in sorted(live & streams.keys() - self._told):
            counts = streams[name].counts
            if counts.late + counts.rejected >= FEWEST_LIVE and is_more_than(counts, USUAL_SHARE):
                self._told.add(name)
                self._warn(told_loss(name, counts, streams[name].loss))

    def tell_at_end(self, streams: Mapping[str, Counted]) -> RunError | None:
        """The error with which the run should end; else there are warnings."""
        for name, state in streams.items():
            if self._most is not None and is_more_than(state.counts, self._most):
                return RunError(
                    _head(name, state.counts),
                    expected=f"at most {100 * self._most:.4g} % of the rows late or rejected",
                    got="\n       ".join(map(str, state.loss.examples)) or None,
                    hint=suggested_slack(state.counts, state.loss),
                    id="rejects",
                )
        for name, state in streams.items():
            if is_more_than(state.counts, USUAL_SHARE):
                self._warn(told_loss(name, state.counts, state.loss))
        return None
