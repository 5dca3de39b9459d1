"""Samples of aggregates: many values, compared as they are and shown as Arrow when they are needed."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sash.operators.delta import Bools, Ints


class Values(ABC):
    """The value of an aggregate at each sample."""

    @abstractmethod
    def differs(self, samples: Ints, others: Ints) -> Bools:
        """Where the value of samples[i] is not that of others[i]."""

    @abstractmethod
    def take(self, samples: Ints) -> pa.Array:
        """The values of some samples."""


class Coded(Values):
    """Values with 64 bits each, equal where the values are; where not `valid` they are NULL.

    `decode` makes the values from the bits, if they are not the values themselves.
    """

    def __init__(
        self,
        bits: Ints,
        valid: Bools | None,
        type_: pa.DataType,
        decode: Callable[[Ints], pa.Array] | None = None,
    ) -> None:
        self._bits = bits
        self._valid = valid
        self._type = type_
        self._decode = decode

    def differs(self, samples: Ints, others: Ints) -> Bools:
        differs: Bools = self._bits[samples] != self._bits[others]
        if self._valid is not None:
            valid, other_valid = self._valid[samples], self._valid[others]
            differs = (valid != other_valid) | (differs & valid)
        return differs

    def take(self, samples: Ints) -> pa.Array:
        bits = self._bits[samples]
        valid = None if self._valid is None else self._valid[samples]
        if self._decode is not None:
            return self._decoded(bits, valid)
        return column_array(bits, None if valid is None else ~valid, self._type)

    def _decoded(self, bits: Ints, valid: Bools | None) -> pa.Array:
        assert self._decode is not None
        if valid is None or valid.all():
            return self._decode(bits)
        places = np.cumsum(valid, dtype=np.int64) - 1
        return self._decode(bits[valid]).take(pa.array(places, mask=~valid))


def doubles(values: npt.NDArray[np.float64], valid: Bools) -> Coded:
    """Doubles with one zero and one NaN."""
    plain = np.where(np.isnan(values), np.nan, values + 0.0)
    return Coded(plain.view(np.int64), valid, pa.float64())


def column_array(bits: npt.NDArray[Any], mask: Bools | None, type_: pa.DataType) -> pa.Array:
    """A column that is not of strings, from its 64 bits a value; NULL where `mask` is set."""
    if mask is not None and not mask.any():
        mask = None
    if pa.types.is_boolean(type_):
        return pa.array(bits != 0, mask=mask)
    if pa.types.is_floating(type_):
        return pa.array(bits.view(np.float64), mask=mask)
    array = pa.array(bits, pa.int64(), mask=mask)
    return array.view(type_) if pa.types.is_timestamp(type_) else array
