"""L-INT: aggregates of intervals that begin or end at landmarks (004 section 3.1.2).

Windows are put into γ classes of nearly equal width, the widest of a class at most `WIDTH_RATIO` times as
wide as its narrowest, w. A class has landmarks at the multiples of w; every window of the class holds one.
Kept are, per pane, the aggregate from the last landmark up to it (a right arm), and for each landmark those
of the 1, 2, … panes before it (left arms). A window is then one left arm and one right arm: those of the
last landmark in it, so right arms shorter than w are enough. Windows of no class are merged pane by pane.

Needs: measures that can be merged, and the widths of the windows. Time: up to 1 + `WIDTH_RATIO` merges a
pane, group and class, amortised; a look-up one or two. Space in cells per group: one a pane for the
elements, and for each class one a pane and up to `WIDTH_RATIO` a pane for its arms; if all windows are
suffixes, only the arms of the newest landmark are kept, so γ does not count.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from sash.plan.measures import Measure
from sash.plan.synopsis_choice import width_classes
from sash.state.jit import kernel
from sash.synopses import naive
from sash.synopses.cell_store import CellStore
from sash.synopses.cells import Floats, Ints, copy_row, merge_row
from sash.synopses.pane_store import power_of_two
from sash.synopses.rows import PaneRows


@dataclass(frozen=True, slots=True)
class _Class:
    """Windows from `least` to `most` panes wide, and where the rows of their arms begin.

    Right arms are in a ring of `rights` rows, left arms in one of `landmarks` times `reach`.
    """

    least: int
    most: int
    right: int
    rights: int
    left: int
    landmarks: int

    @property
    def reach(self) -> int:
        return max(1, self.most - 1)

    @property
    def end(self) -> int:
        return self.left + self.landmarks * self.reach


@kernel
def extend(
    ints: Ints,
    floats: Floats,
    ops: Ints,
    capacity: int,
    slots: int,
    least: int,
    right: int,
    rights: int,
    left: int,
    landmarks: int,
    reach: int,
    oldest: int,
    first: int,
    through: int,
) -> None:
    """Bring the arms of a class from pane `first` to `through`; elements after `oldest` are there."""
    for pane in range(first, through + 1):
        row = right + pane % rights
        element = pane & (capacity - 1)
        if pane % least == 0 or pane - 1 <= oldest:
            copy_row(ints, floats, row, element, slots)
        else:
            if rights > 1:
                copy_row(ints, floats, row, right + (pane - 1) % rights, slots)
            merge_row(ints, floats, ops, row, element, slots)
        if pane % least == 0:
            arms = left + (pane // least) % landmarks * reach
            for distance in range(1, min(reach, pane - oldest - 1) + 1):
                copy_row(ints, floats, arms + distance - 1, (pane - distance) & (capacity - 1), slots)
                if distance > 1:
                    merge_row(ints, floats, ops, arms + distance - 1, arms + distance - 2, slots)


class LInt(CellStore):
    """`widths` are those of the windows; with `has_suffixes_only` other windows are merged pane by pane."""

    _write = staticmethod(naive.append)

    def __init__(
        self,
        measures: tuple[Measure, ...],
        span: int,
        widths: Iterable[int],
        *,
        has_suffixes_only: bool = False,
    ) -> None:
        self.capacity = power_of_two(span)
        self.classes: list[_Class] = []
        self._has_suffixes_only = has_suffixes_only
        rows = self.capacity
        for least, most in width_classes(width for width in widths if 0 < width <= span):
            rights = 1 if has_suffixes_only else self.capacity
            landmarks = 1 if has_suffixes_only else span // least + 1
            self.classes.append(_Class(least, most, rows, rights, rows + rights, landmarks))
            rows = self.classes[-1].end
        super().__init__(measures, span, rows)

    def _append(self, rows: PaneRows, first: int, through: int) -> None:
        assert self.begin is not None
        super()._append(rows, first, through)
        for each in self.classes:
            extend(
                self.cells.ints,
                self.cells.floats,
                self.ops,
                self.capacity,
                self.slots,
                each.least,
                each.right,
                each.rights,
                each.left,
                each.landmarks,
                each.reach,
                max(self.begin, through - self.span),
                first,
                through,
            )

    def _rows(self, left: int, right: int) -> Ints:
        width = right - left
        if right == self.newest or not self._has_suffixes_only:
            for each in self.classes:
                if each.least <= width <= each.most:
                    landmark = right - right % each.least
                    arms = each.left + (landmark // each.least) % each.landmarks * each.reach
                    end = each.right + right % each.rights
                    distance = landmark - left - 1
                    return np.array([arms + distance - 1, end] if distance else [end], dtype=np.int64)
        rows = np.empty(width, dtype=np.int64)
        naive.rows_between(left, right, self.capacity, rows)
        return rows
