"""Results of a continuous join, pre-aggregated for a join synopsis (the buffer of 002, section 8.3.2).

A result of tuples from panes p₁ and p₂ arrives with the younger and expires with the older of the two: its
interval is the older pane. A query over windows of n₁ and n₂ panes has it if both are young enough. For
unequal windows it matters which of the two is older, and by how many panes; that is its class:

    0                   both in one pane
    d,      1 ≤ d < g   the first is older by d panes;    g: by g or more
    g + d,  1 ≤ d < g   the second is older by d panes;  2g: by g or more

The class of a result never changes. With g = 1 these are the three values of the thesis in another form. With
g > 1 its three values do not suffice: of a (6s, 8s)-join, the oldest of eight intervals has the results whose
second tuple lies there and whose first lies in the six youngest panes, and it is not enough to know that the
first does not lie in the same interval, for it may lie in the seventh.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sash.lang.bound import Scalar
from sash.lang.types import Type
from sash.operators.preaggregate import Partial, preaggregate
from sash.plan.periodic import SynopsisSpec

Int64Array = npt.NDArray[np.int64]

_CLASS, _ARRIVAL = "(class)", "(arrival)"


def class_of(first: Int64Array, second: Int64Array, g: int) -> Int64Array:
    """The class of each result, from the panes of its two tuples."""
    if g == 0:
        return np.zeros(len(first), dtype=np.int64)
    apart = second - first
    classes: Int64Array = np.where(apart >= 0, np.minimum(apart, g), g + np.minimum(-apart, g))
    return classes


def class_count(g: int) -> int:
    return 2 * g + 1


def preaggregate_results(
    first: Int64Array,
    second: Int64Array,
    table: pa.Table,
    spec: SynopsisSpec,
    g: int,
    arrivals: Int64Array | None = None,
) -> Iterator[Partial]:
    """What join results add to a synopsis; row i is of tuples with the timestamps first[i] and second[i].

    The partial has two keys more than the synopsis: class and pane of arrival, which is that of the younger
    tuple unless `arrivals` says otherwise.
    """
    panes = spec.panes.number_of(first), spec.panes.number_of(second)
    arrivals = np.maximum(*panes) if arrivals is None else arrivals
    extended = table.append_column(_CLASS, pa.array(class_of(*panes, g)))
    extended = extended.append_column(_ARRIVAL, pa.array(arrivals))
    keys = (*spec.keys, _column(_CLASS), _column(_ARRIVAL))
    yield from preaggregate(np.minimum(first, second), extended, [replace(spec, keys=keys)])


def _column(name: str) -> Scalar:
    return Scalar(f'"{name}"', Type.BIGINT, (name,), name, name)
