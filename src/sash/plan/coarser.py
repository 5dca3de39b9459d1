"""Coarser groupings from finer ones: GROUP BY src is what GROUP BY src, dst has, added up.

The measures of a pane and group are merged over the keys that the coarser grouping does not have. Whether
that is cheaper than another pass over the rows is seen when both numbers are known
(`operators/preaggregate.py`).
"""

from __future__ import annotations

from collections.abc import Iterable

from sash.plan.periodic import SynopsisSpec

WORTH_ADDING = 4
"""So many times fewer rows than the input must a finer grouping have for a coarser one to be made of it."""


def finer_than(spec: SynopsisSpec, others: Iterable[SynopsisSpec]) -> list[SynopsisSpec]:
    """The synopses that another one can be added up from, those with the fewest keys first."""
    if spec.of is not None or spec.cover is not None:
        return []
    same = (spec.stream, spec.where, spec.panes)
    found = [
        other
        for other in others
        if other.of is None
        and other.cover is None
        and (other.stream, other.where, other.panes) == same
        and set(other.keys) > set(spec.keys)
        and set(other.measures) >= set(spec.measures)
    ]
    return sorted(found, key=lambda other: len(other.keys))
