"""Windows with the index that a specification names."""

from __future__ import annotations

import pyarrow as pa

from sash.errors import InternalError
from sash.indexes.aggr_storage import AggrStorage
from sash.indexes.aux_ring import AuxRing
from sash.indexes.backward_ring import BackwardRing
from sash.indexes.dirty_ring import DirtyRing
from sash.indexes.g_index import GIndex
from sash.indexes.group_storage import GroupStorage
from sash.indexes.h_index import HIndex
from sash.indexes.hash_storage import HashStorage
from sash.indexes.l_index import LIndex
from sash.indexes.list_storage import ListStorage
from sash.indexes.purging import BY_SHARE, Purging
from sash.indexes.ring import Ring
from sash.indexes.rings import Rings
from sash.indexes.storage import BasicWindowStorage
from sash.indexes.t_index import TIndex
from sash.indexes.tuple_window import TupleWindow
from sash.indexes.uh_index import UHIndex
from sash.indexes.value_index import ValueIndex
from sash.indexes.value_window import Upkeep, ValueWindow
from sash.lang.indexing import IndexSpec, RingKind, Storage, ValueIndexKind


def value_index(spec: IndexSpec, type_: pa.DataType, *, sides: int = 1) -> ValueIndex:
    match spec.values:
        case ValueIndexKind.L:
            return LIndex(type_, sides=sides)
        case ValueIndexKind.T:
            return TIndex(type_, sides=sides)
        case ValueIndexKind.H:
            return HIndex(type_, buckets=spec.buckets, sides=sides)
        case ValueIndexKind.UH:
            return UHIndex(type_, buckets=spec.buckets, sides=sides)
        case ValueIndexKind.G:
            return GIndex(type_, groups=spec.groups or 1, sides=sides)


def basic_window_storage(kind: Storage) -> BasicWindowStorage:
    match kind:
        case Storage.LIST:
            return ListStorage()
        case Storage.AGGR:
            return AggrStorage()
        case Storage.HASH:
            return HashStorage()
        case Storage.GROUP:
            return GroupStorage()


def rings_of(kind: RingKind) -> Rings:
    match kind:
        case RingKind.RING:
            return Ring()
        case RingKind.AUX:
            return AuxRing()
        case RingKind.BW:
            return BackwardRing()
        case RingKind.DB:
            return DirtyRing()


def value_window(
    spec: IndexSpec, type_: pa.DataType, basic_windows: int, *, purging: Purging = BY_SHARE
) -> ValueWindow:
    """A window whose values are indexed."""
    index = value_index(spec, type_)
    storage = basic_window_storage(spec.storage)
    return ValueWindow(index, storage, basic_windows, upkeep=Upkeep(index, purging))


def value_windows(
    spec: IndexSpec, type_: pa.DataType, basic_windows: tuple[int, int], *, purging: Purging = BY_SHARE
) -> tuple[ValueWindow, ValueWindow]:
    """Two windows whose values are in one index, so that their intersection is a look at counts."""
    index = value_index(spec, type_, sides=2)
    upkeep = Upkeep(index, purging)
    left, right = (
        ValueWindow(index, basic_window_storage(spec.storage), count, side=side, upkeep=upkeep)
        for side, count in enumerate(basic_windows)
    )
    return left, right


def tuple_window(
    spec: IndexSpec, type_: pa.DataType, basic_windows: int, *, purging: Purging = BY_SHARE
) -> TupleWindow:
    """A window whose tuples are found by value."""
    if spec.rings is None:
        raise InternalError(f"{spec} indexes values, not tuples")
    index = value_index(spec, type_)
    return TupleWindow(index, rings_of(spec.rings), basic_windows, upkeep=Upkeep(index, purging))
