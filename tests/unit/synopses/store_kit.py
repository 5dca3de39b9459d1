"""Helpers: random panes by groups, and what a window of them is when it is computed from scratch."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from sash.lang.bound import Scalar
from sash.lang.types import Type
from sash.plan.measures import ROWS, Measure, MeasureKind, SubtractableMeasures, subtractable
from sash.state import kernels
from sash.state.layout import Layout
from sash.synopses.b_int import BInt
from sash.synopses.l_int import LInt
from sash.synopses.naive import MaterialiseAll, MaterialiseNone
from sash.synopses.pane_store import PaneStore
from sash.synopses.psoup import PSoup
from sash.synopses.r_int import RInt
from sash.synopses.rows import PaneRows

N = Scalar('"n"', Type.BIGINT, ("n",), "n", "n")
X = Scalar('"x"', Type.DOUBLE, ("x",), "x", "x")
SUMS: SubtractableMeasures = subtractable(
    (
        ROWS,
        Measure(MeasureKind.NULLS, N),
        Measure(MeasureKind.SUM, N),
        Measure(MeasureKind.NULLS, X),
        Measure(MeasureKind.SUM, X),
    )
)
INTEGERS: SubtractableMeasures = subtractable(SUMS[:3])
ALL: tuple[Measure, ...] = (*SUMS, Measure(MeasureKind.MIN, N), Measure(MeasureKind.MAX, X))

STORES = {
    "R-INT": lambda span, windows: RInt(SUMS, span),
    "R-INT of integers": lambda span, windows: RInt(INTEGERS, span),
    "B-INT": lambda span, windows: BInt(ALL, span),
    "L-INT": lambda span, windows: LInt(ALL, span, [far - near for far, near in windows]),
    "L-INT of suffixes": lambda span, windows: LInt(
        ALL, span, [far - near for far, near in windows if near == 0], has_suffixes_only=True
    ),
    "PSoup": lambda span, windows: PSoup(ALL, span),
    "none": lambda span, windows: MaterialiseNone(ALL, span),
    "all": lambda span, windows: MaterialiseAll(ALL, span, windows),
    "all integers": lambda span, windows: MaterialiseAll(INTEGERS, span, windows),
}


def random_rows(rng: np.random.Generator, layout: Layout, panes: range, slots: int) -> PaneRows:
    """Some groups in some panes, with integers near the ends of their range and doubles of all sizes."""
    pairs = [(pane, slot) for pane in panes for slot in range(slots) if rng.random() < 0.5]
    ints, floats = layout.empty(len(pairs))
    for row in range(len(pairs)):
        ints[row, 0] = rng.integers(1, 4)
        c = 1
        while c < len(layout.operations):
            match layout.operations[c]:
                case kernels.PAIR:
                    ints[row, c] = rng.integers(-(2**40), 2**40)
                    ints[row, c + 1] = rng.integers(0, 2**32)
                    c += 1
                case kernels.ADD:
                    ints[row, c] = rng.integers(0, 2)
                case _:
                    if rng.random() < 0.8:
                        ints[row, c] = rng.integers(-5, 6) * int(rng.choice([1, 2**60]))
            c += 1
        for c in range(0, layout.float_columns, 2):
            value = float(rng.normal() * 10.0 ** rng.integers(-20, 20))
            if rng.random() < 0.03:
                value = float(rng.choice([np.inf, -np.inf, np.nan]))
            floats[row, c] = value
            floats[row, c + 1] = value * 2.0**-54 * rng.random() if np.isfinite(value) else 0.0
    panes_of = np.array([pane for pane, _ in pairs], dtype=np.int64)
    return PaneRows(np.array([slot for _, slot in pairs], dtype=np.int64), panes_of, ints, floats)


@dataclass
class Recomputed:
    """Everything that was fed, and a window computed from scratch."""

    layout: Layout
    parts: list[PaneRows] = field(default_factory=list)

    def add(self, rows: PaneRows) -> None:
        self.parts.append(rows)

    def renumber(self, slots: np.ndarray) -> None:
        """Slot slots[i] is now slot i; the others are gone."""
        rows = PaneRows.concatenated([PaneRows.none(self.layout), *self.parts])
        place = np.full(max(int(slots.max()), int(rows.slots.max(initial=0))) + 1, -1, dtype=np.int64)
        place[slots] = np.arange(len(slots))
        rows.slots = place[rows.slots]
        self.parts = [rows.where(rows.slots >= 0)]

    def window(self, left: int, right: int, slots: int) -> tuple[np.ndarray, np.ndarray]:
        rows = PaneRows.concatenated([PaneRows.none(self.layout), *self.parts])
        rows = rows.where((rows.panes > left) & (rows.panes <= right))
        rows.panes = np.zeros(len(rows.panes), dtype=np.int64)
        merged = rows.merged(self.layout.ops)
        ints, floats = self.layout.empty(slots)
        ints[merged.slots], floats[merged.slots] = merged.ints, merged.floats
        return ints, floats


def check(
    store: PaneStore, oracle: Recomputed, left: int, right: int, slots: np.ndarray | None = None
) -> None:
    got = store.lookup(left, right, slots)
    ints, floats = oracle.window(left, right, store.slots)
    if slots is not None:
        ints, floats = ints[slots], floats[slots]
    np.testing.assert_array_equal(got.ints, ints)
    np.testing.assert_array_equal(_values(got.floats), _values(floats))


def _values(pairs: np.ndarray) -> np.ndarray:
    values: np.ndarray = pairs[:, 0::2] + pairs[:, 1::2]
    return values
