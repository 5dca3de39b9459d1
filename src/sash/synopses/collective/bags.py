"""Bags of groups sorted by a key, many of them in one counted tree: reading a stretch of one."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from sash.state.countedtree import ENTRY, THIRD, Tree, length_of, select
from sash.state.jit import kernel

Ints = npt.NDArray[np.int64]


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
