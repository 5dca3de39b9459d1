"""Random deltas with a model beside them, and the relation that an operator's changes add up to."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random

import numpy as np
import pyarrow as pa

from sash.lang.algebra import Field
from sash.lang.types import Type
from sash.lang.values import Scalar
from sash.operators.delta import NEVER, Delta
from sash.operators.operator import Moment, Operator

FIELDS = (Field("a", Type.STRING), Field("b", Type.BIGINT))
Row = tuple[object, ...]


def column(name: str, type_: Type = Type.BIGINT) -> Scalar:
    return Scalar(f'"{name}"', type_, (name,), name)


@dataclass(slots=True)
class Lived:
    """A row with its life: `exp` was foreseen, `end` is when it really left."""

    start: int
    exp: int
    end: int
    row: Row


@dataclass(slots=True)
class Input:
    """An input that is made batch by batch. `kind`: wks, wk (foreseen), or str (with negative tuples)."""

    kind: str
    length: int = 10
    rows: list[Lived] = field(default_factory=list)

    def batch(self, random: Random, before: int, through: int) -> Delta:
        new: list[Lived] = []
        for _ in range(random.randint(0, 7)):
            start = random.randint(before + 1, through)
            exp = start + (self.length if self.kind == "wks" else random.randint(1, 30))
            if self.kind == "str" and random.random() < 0.4:
                exp = NEVER
            row = (random.choice(["x", "y", "zz", None]), random.choice([1, 2, 3, None]))
            new.append(Lived(start, exp, exp, row))
        if self.kind == "wks":
            new.sort(key=lambda lived: lived.start)
        killed = []
        if self.kind == "str":
            for lived in (*self.rows, *new):
                low, high = max(lived.start + 1, before + 1), min(lived.exp - 1, through)
                if lived.end == lived.exp and low <= high and random.random() < 0.3:
                    lived.end = random.randint(low, high)
                    killed.append(lived)
        self.rows += new
        changes = [(r.start, r.exp, 1, r.row) for r in new] + [(r.end, r.exp, -1, r.row) for r in killed]
        if self.kind != "wks":
            random.shuffle(changes)
        return delta(changes)

    def at(self, instant: int) -> Counter[Row]:
        return Counter(lived.row for lived in self.rows if lived.start <= instant < lived.end)


def delta(changes: Sequence[tuple[int, int, int, Row]]) -> Delta:
    """Changes as (ts, exp, sign, row)."""
    ts, exp, sign = (np.array([change[i] for change in changes], dtype=np.int64) for i in range(3))
    columns = (
        pa.array([change[3][0] for change in changes], pa.string()),
        pa.array([change[3][1] for change in changes], pa.int64()),
    )
    return Delta(ts, exp, columns, sign.astype(np.int8) if (sign < 0).any() else None)


class Output:
    """Changes that an operator gave, added up."""

    def __init__(self) -> None:
        self._changes: dict[int, Counter[Row]] = defaultdict(Counter)

    def take(self, given: Delta, before: int, through: int) -> None:
        columns = [column.to_pylist() for column in given.columns]
        rows = list(zip(*columns, strict=True)) if columns else [()] * len(given)
        for ts, exp, sign, row in zip(
            given.ts.tolist(), given.exp.tolist(), given.signs().tolist(), rows, strict=True
        ):
            assert before < ts <= through, "a change belongs to the batch that gives it"
            assert ts < exp, "nothing enters and leaves at one instant"
            self._changes[ts][row] += sign
            if exp != NEVER:
                self._changes[exp][row] -= sign

    def relations(self, last: int) -> list[Counter[Row]]:
        """What is there at each instant from 0 to `last`."""
        found = []
        now: Counter[Row] = Counter()
        for instant in range(last + 1):
            for row, change in self._changes.get(instant, {}).items():
                now[row] += change
            assert min(now.values(), default=0) >= 0, "more copies left than were there"
            found.append(+now)
        return found


def drive(
    random: Random,
    make: Callable[[], Operator],
    inputs: Sequence[Input],
    prepare: Callable[[list[Delta], Moment], Sequence[Delta]] = lambda deltas, _: deltas,
    batches: int = 8,
) -> tuple[Output, int]:
    """Feed random batches to an operator, which is now and then replaced by one with its state."""
    operator, output, through = make(), Output(), 0
    for _ in range(batches):
        before, through = through, through + random.randint(1, 12)
        deltas = [each.batch(random, before, through) for each in inputs]
        moment = Moment(through)
        output.take(operator.process(prepare(deltas, moment), moment), before, through)
        if random.random() < 0.3:
            state = operator.snapshot()
            operator = make()
            operator.restore(state)
    return output, through
