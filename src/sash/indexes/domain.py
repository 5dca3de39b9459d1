"""Values of a CQL type as integers that compare as the values do, so that every index is about integers.

Numbers, booleans and timestamps are their own ordinals, doubles have the order of their bits (−0.0 is 0.0,
NaN is greater than everything). A string has a label of a lexicon, which knows it as long as somebody holds
it; where labels are dealt anew, indexes are told which have moved.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sash.state.fingerprints import null_mask, numbers_of
from sash.state.lexicon import Lexicon, Moved
from sash.state.ordering import double_to_ordinal, ordinal_to_double

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
Relabel = Callable[[Moved], None]


@dataclass(frozen=True, slots=True)
class Read:
    """Values of a batch: ordinals, what holds them (numbers of a lexicon, else the ordinals), where they are.

    Rows that are NULL are left out; `present` has the places of the others, None where there are no NULLs.
    """

    rows: int
    ordinals: Ints
    holders: Ints
    present: Ints | None = None

    @property
    def nulls(self) -> int:
        return self.rows - len(self.ordinals)


class Domain:
    """The values of one type. `moved` is called when ordinals that are held have become other ones."""

    def __init__(self, type_: pa.DataType, moved: Relabel) -> None:
        self.type = type_
        self._moved = moved
        self._lexicon = Lexicon() if pa.types.is_string(type_) else None

    @property
    def is_text(self) -> bool:
        return self._lexicon is not None

    @property
    def nbytes(self) -> int:
        return 0 if self._lexicon is None else self._lexicon.nbytes

    def read(self, values: pa.Array) -> Read:
        """Take values in. Strings that were not known are to be held, each of them, or forgotten."""
        present = present_of(values)
        if present is not None:
            values_there = values.take(pa.array(present))
        else:
            values_there = values
        if self._lexicon is None:
            ordinals = ordinals_of(values_there)
            return Read(len(values), ordinals, ordinals, present)
        numbers, moved = self._lexicon.enter(values_there)
        if moved is not None:
            self._moved(moved)
        return Read(len(values), self._lexicon.labels(numbers), numbers, present)

    def hold(self, holders: Ints) -> None:
        """Somebody needs these strings, each as often as it stands here."""
        if self._lexicon is not None and len(holders):
            self._lexicon.use(holders, np.ones(len(holders), dtype=np.int64))

    def release(self, holders: Ints) -> None:
        if self._lexicon is not None and len(holders):
            self._lexicon.use(holders, np.full(len(holders), -1, dtype=np.int64))

    def forget(self, holders: Ints) -> None:
        """Let go of strings that were only asked for; those that are held stay."""
        if self._lexicon is not None and len(holders):
            self._lexicon.use(holders, np.zeros(len(holders), dtype=np.int64))

    def ordinals(self, holders: Ints) -> Ints:
        """The ordinals of now."""
        return holders if self._lexicon is None else self._lexicon.labels(holders)

    def values(self, holders: Ints) -> pa.Array:
        """The values that some holders stand for."""
        if self._lexicon is not None:
            return self._lexicon.words(holders)
        if pa.types.is_floating(self.type):
            return pa.array(ordinal_to_double(holders))
        if pa.types.is_boolean(self.type):
            return pa.array(holders != 0)
        return pa.array(holders, pa.int64()).view(self.type)


def ordinals_of(values: pa.Array) -> Ints:
    """The ordinals of values that are not strings; anything where a value is NULL."""
    numbers = numbers_of(values)
    if numbers.dtype == np.float64:
        return double_to_ordinal(numbers)
    # Arrow lends its memory for reading only, and kernels are compiled for memory that can be written.
    return np.array(numbers, dtype=np.int64)


def present_of(values: pa.Array) -> Ints | None:
    """The places of the values that are not NULL; None where all are there."""
    nulls = null_mask(values)
    return None if nulls is None else np.flatnonzero(~nulls)
