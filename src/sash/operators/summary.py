"""The rows of a chunk as a finer grouping has summed them up: coarser groupings are made of these.

Many groupings of one stream are contained in others: by protocol in by protocol and port, by source in by
source and destination, and how often a source meets each destination is how many rows a pair has. Who is
contained in a grouping that has far fewer rows than the chunk is computed from it. It stands where the rows
themselves would: keys have the same codes.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sash.lang.bound import Scalar
from sash.plan.coarser import WORTH_ADDING, is_contained
from sash.plan.panes import Panes
from sash.plan.periodic import SynopsisSpec
from sash.state import kernels
from sash.state.layout import Layout

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Ranking:
    """The values of a key in order: code c has the rank place[c], rank r is code order[r]. None: the same."""

    order: Ints | None
    place: Ints | None
    values: pa.Array


class Whole(Protocol):
    """The rows of a chunk, whose keys have codes."""

    @property
    def size(self) -> int: ...

    def key(self, scalar: Scalar) -> tuple[Ints, pa.Array]: ...

    def ranking(self, scalar: Scalar, *, is_hashed: bool) -> Ranking: ...


@dataclass(frozen=True, slots=True)
class Summary:
    """Cell i is of pane `pane_numbers[cells[i] // groups]` and group `cells[i] % groups`.

    `decoded` has for each key the code that a group stands for. Where values are counted, `ranks` has those
    of the rows and `offsets` says which rows a cell has.
    """

    whole: Whole
    spec: SynopsisSpec
    pane_numbers: Ints
    cells: Ints
    groups: int
    decoded: tuple[Ints, ...]
    ints: Ints
    floats: Floats
    ranks: Ints | None = None
    offsets: Ints | None = None

    def __len__(self) -> int:
        return len(self.ints)

    def contains(self, spec: SynopsisSpec) -> bool:
        """Whether a synopsis can be computed from it."""
        return is_contained(spec, self.spec)

    def _of_rows(self, of_cells: Ints) -> Ints:
        return of_cells if self.offsets is None else np.repeat(of_cells, np.diff(self.offsets))

    def key(self, scalar: Scalar) -> tuple[Ints, pa.Array]:
        """Codes per row and the distinct values they stand for."""
        values = self.whole.key(scalar)[1]
        if self.ranks is not None and scalar == self.spec.keys[-1]:
            order = self.whole.ranking(scalar, is_hashed=False).order
            return self.ranks if order is None else order[self.ranks], values
        codes = self.decoded[self.spec.keys.index(scalar)]
        return self._of_rows(codes[self.cells % self.groups]), values

    def ranking(self, scalar: Scalar, *, is_hashed: bool) -> Ranking:
        return self.whole.ranking(scalar, is_hashed=is_hashed)

    def panes(self, panes: Panes) -> tuple[Ints, Ints]:
        """Dense pane numbers per row, and the true number of each."""
        own = self._of_rows(self.cells // self.groups)
        if panes == self.spec.panes:
            return own, self.pane_numbers
        numbers, which = np.unique(
            panes.number_of(self.spec.panes.right_edges(self.pane_numbers)), return_inverse=True
        )
        return which[own], numbers

    @property
    def often(self) -> Ints:
        """How many rows of the chunk each row stands for."""
        return np.ascontiguousarray(self.ints[:, 0])

    def count(self, entries: Ints, totals: npt.NDArray[Any]) -> None:
        """Add up how many rows of the chunk each entry has."""
        kernels.sum_ints(entries, self.often, totals)

    def measured(self, layout: Layout, entries: Ints, size: int, kept: Ints) -> tuple[Ints, Floats]:
        """The measures of the entries `kept`, merged."""
        own = Layout.of(self.spec.measures)
        ints, floats = own.columns(layout.measures)
        place = np.zeros(size, dtype=np.int64)
        place[kept] = np.arange(len(kept))
        total_ints, total_floats = layout.empty(len(kept))
        kernels.enter(
            place[entries],
            np.zeros(len(entries), dtype=np.int64),
            self.ints[:, ints],
            self.floats[:, floats],
            0,
            len(entries),
            layout.ops,
            total_ints,
            total_floats,
            np.zeros_like(total_ints),
        )
        return total_ints, total_floats


def smallest(summaries: Iterable[Summary], spec: SynopsisSpec, rows: int) -> Summary | None:
    """The summary from which a synopsis is computed best; None: from the `rows` rows of the chunk."""
    found = [summary for summary in summaries if summary.contains(spec)]
    best = min(found, key=len, default=None)
    return best if best is not None and WORTH_ADDING * len(best) <= rows else None
