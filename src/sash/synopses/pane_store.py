"""What synopses of panes by groups have in common: batches of sealed panes in, answers for windows out.

An element is a pane: a vector of measures, one for each group. Panes are numbered without gaps, by time (a
pane of time-based windows) or by tuples (one tuple, or so many); a window is (left, right] in such numbers,
and it is a suffix if right is the newest pane. Panes without rows are elements like others.

Invariant: every window inside the last `span` panes can be looked up. What is older than the first pane ever
seen is empty.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sash.operators.operator import State
from sash.plan.measures import Measure
from sash.state.layout import Layout
from sash.synopses.rows import PaneRows
from sash.synopses.spanned import Spanned

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Totals:
    """Measures over a window, one row for each slot that was asked for."""

    ints: Ints
    floats: Floats


class PaneStore(Spanned, ABC):
    def __init__(self, measures: tuple[Measure, ...], span: int) -> None:
        super().__init__(span)
        self.layout = Layout.of(measures)
        self.ops = self.layout.ops
        self.identity = self.layout.identity()
        self.slots = 0
        # The last pane in which each slot has a row.
        self._seen: Ints = np.zeros(0, dtype=np.int64)

    def update(self, rows: PaneRows, through: int) -> None:
        """Take sealed rows, in order of pane and none before the newest pane; now all is known `through`."""
        self.begins_before(int(rows.panes[0]) if len(rows.panes) else through + 1)
        if through <= self.newest:
            return
        # What is so old that no window reaches it need not come in at all.
        first = max(self.newest + 1, through - self.span + 1)
        if len(rows.panes) and rows.panes[0] < first:
            rows = rows.split(int(np.searchsorted(rows.panes, first)))[1]
        self.reserve(int(rows.slots.max(initial=-1)) + 1)
        self._append(rows, first, through)
        self._seen[rows.slots] = rows.panes
        self.newest = through

    def has_rows(self) -> npt.NDArray[np.bool_]:
        """Which slots have rows in the panes that are held."""
        return self._seen > self.oldest

    def lookup(self, left: int, right: int, slots: Ints | None = None) -> Totals:
        """The measures of the panes in (left, right] for all groups, or for those in `slots`."""
        left = self.held_after(left, right)
        asked = np.arange(self.slots) if slots is None else slots
        totals = Totals(*self.layout.empty(len(asked)))
        if left < right:
            self._look(left, right, asked, totals)
        return totals

    def elements(self) -> PaneRows:
        """Everything that is held, pane by pane: another synopsis that is fed with it answers alike."""
        parts = [PaneRows.none(self.layout)]
        for pane in range(self.oldest + 1, self.newest + 1):
            totals = self._element(pane)
            slots = np.flatnonzero(totals.ints[:, 0])
            panes = np.full(len(slots), pane, dtype=np.int64)
            parts.append(PaneRows(slots, panes, totals.ints[slots], totals.floats[slots]))
        return PaneRows.concatenated(parts)

    def _element(self, pane: int) -> Totals:
        return self.lookup(pane - 1, pane)

    def snapshot(self) -> State:
        rows = self.elements()
        columns: dict[str, Ints | Floats] = {"slot": rows.slots, "pane": rows.panes}
        columns.update({f"i{c}": rows.ints[:, c].copy() for c in range(rows.ints.shape[1])})
        columns.update({f"f{c}": rows.floats[:, c].copy() for c in range(rows.floats.shape[1])})
        about = {"oldest": [self.oldest], "newest": [self.newest], "slots": [self.slots]}
        return {"rows": pa.table(columns), "about": pa.table({**about, "begun": [self.begin is not None]})}

    def restore(self, state: State) -> None:
        """Take up a state; only for a synopsis that has been given nothing."""
        about = {name: values[0] for name, values in state["about"].to_pydict().items()}
        if not about["begun"]:
            return
        table = state["rows"]
        ints, floats = self.layout.empty(table.num_rows)
        for c in range(ints.shape[1]):
            ints[:, c] = table.column(f"i{c}").to_numpy()
        for c in range(floats.shape[1]):
            floats[:, c] = table.column(f"f{c}").to_numpy()
        self.begin = self.newest = about["oldest"]
        self.reserve(about["slots"])
        slots, panes = (table.column(name).to_numpy() for name in ("slot", "pane"))
        self.update(PaneRows(slots, panes, ints, floats), about["newest"])

    def reserve(self, slots: int) -> None:
        """Make room for groups."""
        if slots > self.slots:
            self._reserve(slots)
            never = np.full(slots - self.slots, np.iinfo(np.int64).min, dtype=np.int64)
            self._seen = np.concatenate([self._seen, never])
            self.slots = slots

    def renumber(self, slots: Ints) -> None:
        """Slot slots[i] is now slot i; the others are gone."""
        self.reserve(int(slots.max(initial=-1)) + 1)
        self._renumber(slots)
        self._seen = self._seen[slots]
        self.slots = len(slots)

    @abstractmethod
    def _append(self, rows: PaneRows, first: int, through: int) -> None:
        """Add the panes first … through; `rows` are theirs."""

    @abstractmethod
    def _look(self, left: int, right: int, slots: Ints, totals: Totals) -> None:
        """Merge the measures of the panes in (left, right], which are held, into `totals`."""

    @abstractmethod
    def _reserve(self, slots: int) -> None: ...

    @abstractmethod
    def _renumber(self, slots: Ints) -> None: ...

    @abstractmethod
    def matrices(self) -> Iterator[Ints]:
        """Every matrix of integer measures that is held, so that codes of words can be changed."""

    @property
    @abstractmethod
    def nbytes(self) -> int:
        """Memory that its arrays take."""


def power_of_two(least: int) -> int:
    """The first power of two that is not less."""
    return 1 << max(0, least - 1).bit_length()
