"""Range conditions on an aggregate of a window, and bags of groups sorted by a key in one counted tree."""

from __future__ import annotations

import enum
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sash.state.countedtree import ENTRY, THIRD, Tree, length_of, select
from sash.state.jit import kernel

Ints = npt.NDArray[np.int64]


class Comparison(enum.Enum):
    MORE = ">"
    AT_LEAST = ">="
    LESS = "<"
    AT_MOST = "<="

    @property
    def is_upwards(self) -> bool:
        return self in (Comparison.MORE, Comparison.AT_LEAST)

    def holds(self, values: npt.NDArray[np.float64] | Ints, threshold: float) -> npt.NDArray[np.bool_]:
        match self:
            case Comparison.MORE:
                return np.asarray(values > threshold)
            case Comparison.AT_LEAST:
                return np.asarray(values >= threshold)
            case Comparison.LESS:
                return np.asarray(values < threshold)
            case Comparison.AT_MOST:
                return np.asarray(values <= threshold)


@dataclass(frozen=True, slots=True)
class Threshold:
    """`aggregate comparison value`, such as > 1000."""

    comparison: Comparison
    value: float


@kernel
def third_parts(tree: Tree, begin: int, out: Ints) -> None:
    """Write the third parts of the entries from rank `begin` on, as many as fit; each entry is there once."""
    done = 0
    while done < len(out):
        node, at = select(tree, begin + done)
        stop = min(length_of(tree, node), at + len(out) - done)
        for i in range(at, stop):
            out[done] = tree[node, THIRD + ENTRY * i]
            done += 1
