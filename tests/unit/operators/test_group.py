"""Grouping against its definition at every instant, for every aggregate and type.

    rows of a group     ├───10───┤
                            ├──20──┤          at 1: + (1, 10)       at 3: - (1, 10), + (2, 30)
    instants        0   1   3    5  7         at 5: - (2, 30), + (1, 20)       at 7: - (1, 20)
"""

from __future__ import annotations

import math
import pickle
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sash.errors import DataError, InternalError, NotYet
from sash.lang.types import Type
from sash.operators.delta import ALWAYS, NEVER, Delta
from sash.operators.group import Grouping
from sash.operators.operator import Moment
from tests.unit.operators.aggregates.kit import (
    Case,
    F,
    assert_follows,
    call,
    calls_of,
    changes_of,
    delta_of,
    grouping,
    histories,
    rows_of,
    run,
)

COUNT_ROWS = call(F.COUNT, None)
KEYS: dict[str, list[Type]] = {
    "no key": [],
    "string": [Type.STRING],
    "double": [Type.DOUBLE],
    "two": [Type.BIGINT, Type.BOOLEAN],
}


def fits(history: list[Case], type_: Type) -> bool:
    """Whether no sum of integers can be out of range."""
    if type_ is not Type.BIGINT:
        return True
    return sum(abs(case.values[-1] or 0) for case in history) < 2**63


def split(draw: st.DataObject, history: list[Case], types: list[Type], *, shuffle: bool = True) -> list[Delta]:
    """Deltas that end between instants, in no order within."""
    changes = changes_of(history)
    instants = sorted({ts for ts, _, _ in changes})
    ends = sorted(draw.draw(st.sets(st.sampled_from(instants), max_size=4))) if instants else []
    batches, start = [], -1
    for end in [*ends, 10**6]:
        part = [change for change in changes if start < change[0] <= end]
        batches.append(delta_of(draw.draw(st.permutations(part)) if shuffle else part, types))
        start = end
    return batches


@pytest.mark.parametrize("type_", list(Type), ids=str)
@pytest.mark.parametrize("keys", KEYS.values(), ids=KEYS.keys())
@given(data=st.data())
def test_every_aggregate_is_its_definition_at_every_instant(
    keys: list[Type], type_: Type, data: st.DataObject
) -> None:
    types = [*keys, type_]
    history = data.draw(histories(types).filter(lambda history: fits(history, type_)))
    calls = [COUNT_ROWS, *calls_of(type_)]
    restarts = data.draw(st.sets(st.integers(0, 5)))

    def between(operator: Grouping, number: int) -> Grouping:
        if number not in restarts:
            return operator
        if number % 2:
            copy: Grouping = pickle.loads(pickle.dumps(operator))
            return copy
        fresh = grouping(keys, type_, calls)
        fresh.restore(operator.snapshot())
        return fresh

    log = run(grouping(keys, type_, calls), split(data, history, types), between)
    if not keys:
        assert log[0][:2] == (ALWAYS, 1)
    assert_follows(log, history, len(keys), calls)


@pytest.mark.parametrize("type_", list(Type), ids=str)
@given(data=st.data())
def test_monotone_queues_give_what_ordered_values_give(type_: Type, data: st.DataObject) -> None:
    types = [Type.STRING, type_]
    history = data.draw(histories(types, fifo=True))
    calls = [call(F.MIN, type_), call(F.MAX, type_)]

    def between(operator: Grouping, number: int) -> Grouping:
        fresh = grouping(types[:1], type_, calls, fifo=True)
        fresh.restore(operator.snapshot())
        return fresh

    batches = split(data, history, types, shuffle=False)
    log = run(grouping(types[:1], type_, calls, fifo=True), batches, between)
    assert_follows(log, history, 1, calls)
