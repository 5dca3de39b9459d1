"""What a reader asks of the search key, and which buckets can hold rows that fulfil it.

Values are in the order of CQL: NaN is equal to itself and greater than all other doubles, −0.0 is 0.0, and
NULL fulfils nothing. Rows lie sorted like that, with NULL last.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sash.errors import TypeMismatch, UnknownName
from sash.lang.types import Schema, Type
from sash.operators.delta import ARROW_TYPES
from sash.plan.key_conditions import Among, Between
from sash.state.groups import canonical, plain

Bools = npt.NDArray[np.bool_]
Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition that is checked and ready: `values` are sorted and unique, else there are bounds."""

    column: str
    type: Type
    values: pa.Array | None = None
    low: pa.Scalar | None = None
    high: pa.Scalar | None = None
    is_low_open: bool = False
    is_high_open: bool = False
    members: npt.NDArray[Any] | None = field(init=False)
    least: npt.NDArray[Any] | None = field(init=False)
    most: npt.NDArray[Any] | None = field(init=False)

    def __post_init__(self) -> None:
        """Values and bounds as NumPy has them, to be found in directories."""
        members = None if self.values is None else _sortable(self.values)
        object.__setattr__(self, "members", members)
        for name, bound in (("least", self.low), ("most", self.high)):
            array = None if bound is None else _sortable(pa.array([bound.as_py()], bound.type))
            object.__setattr__(self, name, array)

    def holds(self, column: pa.Array) -> Bools:
        """Which values of a column fulfil it."""
        column = canonical(column)
        if self.values is not None:
            return _mask(pc.is_in(column, value_set=self.values, skip_nulls=True))
        kept = _mask(pc.is_valid(column))
        if self.low is not None:
            kept &= _above(column, self.low, is_open=self.is_low_open)
        if self.high is not None:
            kept &= ~_above(column, self.high, is_open=not self.is_high_open)
        return kept


@dataclass(frozen=True, slots=True)
class EdgeColumn:
    """A column of the first and the last keys of buckets; `is_one`: they are equal, so it has one value."""

    firsts: npt.NDArray[Any]
    has_first: Bools
    lasts: npt.NDArray[Any]
    has_last: Bools
    is_one: Bools

    @staticmethod
    def of(firsts: pa.Array, lasts: pa.Array) -> EdgeColumn:
        same = _mask(pc.equal(firsts, lasts).fill_null(False))
        has_first, has_last = (_mask(pc.is_valid(each)) for each in (firsts, lasts))
        return EdgeColumn(_sortable(_filled(firsts)), has_first, _sortable(_filled(lasts)), has_last, same)


Edges = tuple[EdgeColumn, ...]
"""The directory of a file, by column of the key."""


def ready(asked: Sequence[Among | Between], columns: Schema, key: Sequence[str]) -> tuple[Condition, ...]:
    """Conditions with values of the types of their columns, which must belong to the key."""
    found = []
    for each in asked:
        column = columns.get(each.column)
        if column is None or each.column not in key:
            raise UnknownName("column of the key", each.column, key)
        if isinstance(each, Among):
            values = _values(each.values, each.column, column.type)
            found.append(Condition(each.column, column.type, values))
            continue
        low, high = (
            None if bound is None else _values((bound,), each.column, column.type)[0]
            for bound in (each.low, each.high)
        )
        found.append(
            Condition(each.column, column.type, None, low, high, each.is_low_open, each.is_high_open)
        )
    return tuple(found)


def among_rows(table: pa.Table, columns: Schema, key: Sequence[str]) -> tuple[Condition, ...]:
    """The first column of the key has one of the values that it has in some rows."""
    column = columns.get(key[0])
    assert column is not None
    values = plain(table.column(key[0]))
    if values.null_count:
        return ()
    return (Condition(column.name, column.type, _in_order(values)),)


_TAKEN: dict[Type, tuple[type, ...]] = {
    Type.BIGINT: (int, np.integer),
    Type.DOUBLE: (int, float, np.integer, np.floating),
    Type.STRING: (str,),
    Type.BOOLEAN: (bool, np.bool_),
    Type.TIMESTAMP: (datetime, int),
}


def _values(values: Sequence[Any], name: str, type: Type) -> pa.Array:
    fitting = []
    for value in values:
        if isinstance(value, pa.Scalar):
            value = value.as_py()
        is_flag = isinstance(value, bool | np.bool_)
        if not isinstance(value, _TAKEN[type]) or is_flag != (type is Type.BOOLEAN):
            raise TypeMismatch(
                f"the key column '{name}' of the archive is not compared with {value!r}",
                expected=str(type),
                got=_word(value),
                id="archive-key",
            )
        if isinstance(value, datetime) and value.tzinfo is not None:
            value = value.astimezone(UTC).replace(tzinfo=None)
        fitting.append(float(value) if type is Type.DOUBLE else value)
    try:
        return _in_order(pa.array(fitting, ARROW_TYPES[type]))
    except (OverflowError, pa.ArrowInvalid) as failure:
        raise TypeMismatch(
            f"a value for the key column '{name}' of the archive is out of range",
            expected=str(type),
            got=", ".join(map(str, fitting)),
            id="archive-key",
        ) from failure


def _word(value: object) -> str:
    for known, kinds in _TAKEN.items():
        is_flag = isinstance(value, bool | np.bool_)
        if isinstance(value, kinds) and is_flag == (known is Type.BOOLEAN):
            return str(known)
    return "NULL" if value is None else type(value).__name__


def _in_order(values: pa.Array) -> pa.Array:
    distinct = pc.unique(canonical(values))
    return distinct.take(pc.sort_indices(distinct))


# ------------------------------------------------------------------------------------ the directory


def groups_of(edges: Edges, key: Sequence[str], where: Sequence[Condition]) -> Ints:
    """The buckets that can hold rows which fulfil all conditions."""
    possible: Bools | None = None
    # A later column is in order only where the columns before it have one value.
    is_one: Bools | None = None
    for name, column in zip(key, edges, strict=True):
        for condition in where:
            if condition.column == name:
                found = _touches(condition, column)
                found = found if is_one is None else ~is_one | found
                possible = found if possible is None else possible & found
        is_one = column.is_one if is_one is None else is_one & column.is_one
    return np.arange(len(edges[0].firsts)) if possible is None else np.flatnonzero(possible)


def _touches(condition: Condition, column: EdgeColumn) -> Bools:
    """Whether values that fulfil the condition can lie between the edges; NULL is after all values."""
    found = column.has_first
    if condition.members is not None:
        low = np.searchsorted(condition.members, column.firsts, side="left")
        high = np.searchsorted(condition.members, column.lasts, side="right")
        return found & (low < np.where(column.has_last, high, len(condition.members)))
    # Searching puts NaN where it belongs, which comparing does not.
    if condition.least is not None:
        is_after = np.searchsorted(condition.least, column.lasts, side="right") > 0
        found = found & (is_after | ~column.has_last)
    if condition.most is not None:
        found = found & (np.searchsorted(condition.most, column.firsts, side="left") == 0)
    return found


def _filled(values: pa.Array) -> pa.Array:
    """Something comparable in place of NULL."""
    if not values.null_count:
        return values
    return pc.fill_null(values, "" if pa.types.is_string(values.type) else pa.scalar(0).cast(values.type))


def _sortable(values: pa.Array) -> npt.NDArray[Any]:
    """Values that NumPy compares as Arrow does."""
    if pa.types.is_timestamp(values.type):
        values = values.cast(pa.int64())
    found: npt.NDArray[Any] = canonical(values).to_numpy(zero_copy_only=False)
    return found


def _above(values: pa.Array, bound: pa.Scalar, *, is_open: bool) -> Bools:
    """Whether values are greater than a bound, or, if it is not open, equal to it; False for NULL."""
    compare = pc.greater if is_open else pc.greater_equal
    if not pa.types.is_floating(values.type):
        return _mask(compare(values, bound).fill_null(False))
    nan = _mask(pc.is_nan(values).fill_null(False))
    if np.isnan(bound.as_py()):
        return np.zeros(len(values), dtype=np.bool_) if is_open else nan
    return nan | _mask(compare(values, bound).fill_null(False))


def _mask(values: pa.Array) -> Bools:
    mask = np.asarray(values.to_numpy(zero_copy_only=False), dtype=np.bool_)
    return mask if mask.flags.writeable else mask.copy()
