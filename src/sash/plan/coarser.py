"""Coarser groupings from finer ones: GROUP BY src is what GROUP BY src, dst has, added up.

The measures of a pane and group are merged over the keys that the coarser grouping does not have. Whether
that is cheaper than another pass over the rows is seen when both numbers are known (`operators/summary.py`).
"""

from __future__ import annotations

from collections.abc import Iterable

from sash.lang.types import Type
from sash.plan.periodic import SynopsisSpec

WORTH_ADDING = 2
"""So many times fewer rows than the input must a finer grouping have for a coarser one to be made of it."""


def is_contained(spec: SynopsisSpec, finer: SynopsisSpec) -> bool:
    """Whether a synopsis can be computed from what a finer one has of the same rows."""
    if (spec.stream, spec.where) != (finer.stream, finer.where) or not set(spec.keys) <= set(finer.keys):
        return False
    is_measured = spec.of is not None or (finer.of is None and set(spec.measures) <= set(finer.measures))
    return is_measured and finer.panes.refine(spec.panes)


def finer_than(spec: SynopsisSpec, others: Iterable[SynopsisSpec]) -> list[SynopsisSpec]:
    """The synopses that another one may be added up from, those with the fewest keys first."""
    if spec.cover is not None:
        return []
    found = [
        other
        for other in others
        if other.cover is None
        and len(other.keys) > len(spec.keys)
        and not other.is_hashed
        and not _has_words(other)
        and is_contained(spec, other)
    ]
    return sorted(found, key=lambda other: len(other.keys))


def _has_words(spec: SynopsisSpec) -> bool:
    """Whether a synopsis has extrema of strings, which stand for words of one chunk each."""
    return any(m.argument is not None and m.argument.type is Type.STRING for m in spec.measures)
