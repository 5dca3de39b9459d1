"""Many instants are answered by one statement as if each were asked alone, and rows of two never meet."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from tests.unit.plan.kit import (
    SECOND,
    Distinct,
    Except,
    Intersect,
    RelationJoin,
    Union,
    anti,
    column,
    count_by,
    equi_join,
    project,
    relation,
    rows_window,
    stream,
    tables,
    time_window,
)

from sash.lang.algebra import Limit, SortKey
from sash.testing.relational import answer_at, answers_at, relation_table

A, B = time_window(stream("a"), 4), rows_window(stream("b"), 2)
KEYS = project(A, k=column("a.k")), project(B, k=column("b.k"))
PLANS = {
    "join": equi_join(A, B),
    "groups": count_by(A, "a.k"),
    "one group": count_by(B),
    "negation": anti(A, B, "a.k", "b.k"),
    "distinct": Distinct(KEYS[0]),
    "union": Union(*KEYS),
    "except": Except(*KEYS),
    "intersect": Intersect(*KEYS),
    "relation": RelationJoin(
        A, relation(is_retroactive=True), (column("a.k"),), (column("r.k"),), is_outer=True
    ),
    "limit": Limit(A, (SortKey(column("a.v"), is_descending=True),), 2),
}
INSTANTS = [seconds * SECOND for seconds in (0, 3, 4, 7, 11, 20, 25)]


@pytest.mark.parametrize("name", PLANS)
@given(data=tables())
@settings(max_examples=15)
def test_instants_do_not_touch_one_another(name, data):
    alone = [answer_at(PLANS[name], instant, data) for instant in INSTANTS]
    together = answers_at(PLANS[name], INSTANTS, {**data, "r": relation_table(data["r"])})
    assert together == alone
