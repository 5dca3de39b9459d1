"""What the tests of experiments have in common."""

from __future__ import annotations

import collections

from sash_experiments.drive import SECOND


def number(row, column):
    """A cell of a table that has a number."""
    value = row[column]
    assert isinstance(value, int | float)
    return value


def given(variant, step):
    """What leaves a dataflow in a step, slice by slice."""
    return [delta for slice_ in variant.flow.advance(step.sources, step.moment) for delta in slice_.values()]


def changes(variant, through, step):
    """The changes that leave a dataflow, as a sorted list of (time unit, sign, values)."""
    found: list[tuple[int, int, tuple[object, ...]]] = []
    for each in variant.feed.steps(0, through, step):
        for delta in given(variant, each):
            values = zip(*(column.to_pylist() for column in delta.columns), strict=True)
            found.extend(zip((delta.ts // SECOND).tolist(), delta.signs().tolist(), values, strict=True))
    return sorted(found)


def standing(log):
    """What stands after some changes: values with how often they are there."""
    bag: collections.Counter[tuple[object, ...]] = collections.Counter()
    for _, sign, values in log:
        bag[values] += sign
    return +bag


def stored(variant, through, step):
    """What a stored view holds after a run."""
    for each in variant.feed.steps(0, through, step):
        given(variant, each)
    table = variant.flow.vertices[-1].operator.snapshot()["rows"]
    columns = [table.column(name).to_pylist() for name in table.column_names[2:]]
    return collections.Counter(zip(*columns, strict=True))
