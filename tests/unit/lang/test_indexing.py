"""What stands after USING: every index that goes together, and why the others do not."""

from __future__ import annotations

import pytest

from sash.errors import BindError, UnknownName
from sash.lang.indexing import IndexSpec, RingKind, Storage, ValueIndexKind, read_index

K = ValueIndexKind


@pytest.mark.parametrize(
    ("text", "spec"),
    [
        ("T", IndexSpec()),
        ("h over hash", IndexSpec(K.H, Storage.HASH)),
        ("UH OVER AGGR", IndexSpec(K.UH, Storage.AGGR)),
        ("l", IndexSpec(K.L)),
        ("G(50)", IndexSpec(K.G, Storage.GROUP, 50)),
        (" g ( 7 )  over list", IndexSpec(K.G, Storage.LIST, 7)),
        ("RING", IndexSpec(rings=RingKind.RING)),
        ("ring on h", IndexSpec(K.H, rings=RingKind.RING)),
        ("RING DB", IndexSpec(rings=RingKind.DB)),
        ("RING AUX ON G(3)", IndexSpec(K.G, Storage.LIST, 3, RingKind.AUX)),
    ],
)
def test_words_name_an_index_and_are_written_back(text, spec):
    assert read_index(text) == spec
    assert read_index(str(spec)) == spec


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("B-TREE", "no kind of index"),
        ("", "no kind of index"),
        ("T OVER GROUP", "only a G-INDEX reads"),
        ("G", "number of ranges"),
        ("G(0)", "from 1 to"),
        ("T(5)", "has no size"),
        ("G(5) OVER AGGR", "does not work over AGGR"),
        ("X", "unknown kind of value index"),
        ("T OVER HEAP", "unknown kind of storage"),
        ("RING FW", "unknown kind of ring"),
    ],
)
def test_what_does_not_go_together_is_refused(text, reason):
    with pytest.raises(BindError, match=reason):
        read_index(text)


def test_rings_are_for_tuples():
    with pytest.raises(BindError, match="only LIST stores"):
        IndexSpec(storage=Storage.HASH, rings=RingKind.DB)


def test_an_unknown_kind_names_those_there_are():
    with pytest.raises(UnknownName) as error:
        read_index("RING XY")
    assert error.value.expected == "one of: RING, AUX, BW, DB"
