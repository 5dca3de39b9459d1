"""The kinds of sketches: how one is made from values, merged with others and read, with its error.

| aggregate             | sketch              | size            | error of an answer                         |
|-----------------------|---------------------|-----------------|--------------------------------------------|
| APPROX_COUNT_DISTINCT | HLL, 2¹² registers  | up to 4 KB      | 3.3 % at two standard deviations           |
| APPROX_QUANTILE       | KLL, k = 200        | about 5 KB      | 1.33 % of the ranks, with 99 % confidence  |
| APPROX_TOP            | frequent items, 2¹⁰ | up to 768 items | counts within 0.34 % of all values, always |

Small sketches are exact: HLL up to some hundreds of values, KLL up to 200, frequent items up to 768
different ones. Bytes are those of the DataSketches libraries in all languages. Spark's hll_sketch_agg
writes the (updatable) HLL, kll_sketch_agg_double the (compact) KLL of doubles, approx_top_k_accumulate
frequent items inside a struct; made with the same parameters they can be merged here.
"""

from __future__ import annotations

import enum
import struct
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import datasketches as ds
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sash.errors import InternalError
from sash.lang.bound import AggregateCall, AggregateFunction
from sash.lang.types import Type

LG_REGISTERS = 12
KLL_K = 200
LG_ITEMS = 10
_DEVIATIONS = 2
_EMPTY = "\0"

Ints = npt.NDArray[np.int64]
Value = int | float | str
Item = tuple[Value, int, int, int]


class Error(enum.Enum):
    """What a bound bounds."""

    VALUE = "value"
    RANK = "rank"
    COUNT = "count"


@dataclass(frozen=True, slots=True)
class Bound:
    """An answer's error: `size` is relative to the value, to the number of values, or to their number."""

    of: Error
    size: float
    confidence: float

    def __str__(self) -> str:
        what = {
            Error.VALUE: "of the value",
            Error.RANK: "of the ranks",
            Error.COUNT: "of the number of values",
        }
        return f"±{self.size:.2%} {what[self.of]}, {self.confidence:.4g} confidence"


class _Texts(ds.PyObjectSerDe):  # type: ignore[misc]
    """Texts as the Java library writes them: their length in bytes, and UTF-8. Python's own fails on é."""

    def get_size(self, item: str) -> int:
        return 4 + len(item.encode())

    def to_bytes(self, item: str) -> bytes:
        text = item.encode()
        return struct.pack("<i", len(text)) + text

    def from_bytes(self, data: bytes, offset: int) -> tuple[str, int]:
        (length,) = struct.unpack_from("<i", data, offset)
        return bytes(data[offset + 4 : offset + 4 + length]).decode(), 4 + length


class Sketch(ABC):
    """One kind. Sketches themselves are bytes."""

    bound: Bound

    @abstractmethod
    def of(self, values: Sequence[Any] | npt.NDArray[Any], counts: Sequence[int]) -> bytes:
        """A sketch of different values, each as often as its count says."""

    @abstractmethod
    def merged(self, parts: Sequence[bytes]) -> bytes:
        """A sketch of all that some sketches have seen."""


class DistinctCount(Sketch):
    """APPROX_COUNT_DISTINCT."""

    bound = Bound(Error.VALUE, ds.hll_sketch.get_rel_err(False, True, LG_REGISTERS, _DEVIATIONS), 0.95)

    def of(self, values: Sequence[Any] | npt.NDArray[Any], counts: Sequence[int]) -> bytes:
        sketch = ds.hll_sketch(LG_REGISTERS, ds.tgt_hll_type.HLL_8)
        update = sketch.update
        for value in values:
            # The libraries do not count a text without characters.
            update(_EMPTY if value == "" else value)
        return bytes(sketch.serialize_compact())

    def merged(self, parts: Sequence[bytes]) -> bytes:
        union = ds.hll_union(LG_REGISTERS)
        for part in parts:
            union.update(ds.hll_sketch.deserialize(part))
        return bytes(union.get_result(ds.tgt_hll_type.HLL_8).serialize_compact())

    def estimate(self, sketch: bytes) -> tuple[int, float, float]:
        """The number of different values, and between which it is with 95 % confidence."""
        read = ds.hll_sketch.deserialize(sketch)
        return (
            round(read.get_estimate()),
            read.get_lower_bound(_DEVIATIONS),
            read.get_upper_bound(_DEVIATIONS),
        )


class Quantile(Sketch):
    """APPROX_QUANTILE: doubles, or strings. Integers are rounded to doubles."""

    bound = Bound(Error.RANK, ds.kll_doubles_sketch.get_normalized_rank_error(KLL_K, False), 0.99)

    def __init__(self, type_: Type) -> None:
        self._is_text = type_ is Type.STRING

    def of(self, values: Sequence[Any] | npt.NDArray[Any], counts: Sequence[int]) -> bytes:
        if self._is_text:
            sketch = ds.kll_items_sketch(KLL_K)
            for value, count in zip(values, counts, strict=True):
                for _ in range(count):
                    sketch.update(value)
            return bytes(sketch.serialize(_Texts()))
        sketch = ds.kll_doubles_sketch(KLL_K)
        sketch.update(np.repeat(np.asarray(values, dtype=np.float64), counts))
        return bytes(sketch.serialize())

    def _read(self, sketch: bytes) -> Any:
        if self._is_text:
            return ds.kll_items_sketch.deserialize(sketch, _Texts())
        return ds.kll_doubles_sketch.deserialize(sketch)

    def merged(self, parts: Sequence[bytes]) -> bytes:
        union = self._read(parts[0])
        for part in parts[1:]:
            union.merge(self._read(part))
        return bytes(union.serialize(_Texts()) if self._is_text else union.serialize())

    def estimate(self, sketch: bytes, fraction: float) -> tuple[Value, Value, Value] | None:
        """A value near the ⌈p·n⌉-th, and between which values that one is with 99 % confidence."""
        read = self._read(sketch)
        if read.is_empty():
            return None
        slack = read.normalized_rank_error(False) if read.is_estimation_mode() else 0.0
        low, middle, high = (
            read.get_quantile(min(1.0, max(0.0, rank)), True)
            for rank in (fraction - slack, fraction, fraction + slack)
        )
        return middle, low, high


class Frequent(Sketch):
    """APPROX_TOP: integers, doubles or strings."""

    bound = Bound(Error.COUNT, ds.frequent_items_sketch.get_epsilon_for_lg_size(LG_ITEMS), 1.0)

    def __init__(self, type_: Type) -> None:
        match type_:
            case Type.STRING:
                self._serde = _Texts()
            case Type.DOUBLE:
                self._serde = ds.PyDoublesSerDe()
            case _:
                self._serde = ds.PyLongsSerDe()

    def of(self, values: Sequence[Any] | npt.NDArray[Any], counts: Sequence[int]) -> bytes:
        sketch = ds.frequent_items_sketch(LG_ITEMS)
        update = sketch.update
        for value, count in zip(values, counts, strict=True):
            update(value, count)
        return bytes(sketch.serialize(self._serde))

    def merged(self, parts: Sequence[bytes]) -> bytes:
        union = ds.frequent_items_sketch.deserialize(parts[0], self._serde)
        for part in parts[1:]:
            union.merge(ds.frequent_items_sketch.deserialize(part, self._serde))
        return bytes(union.serialize(self._serde))

    def estimate(self, sketch: bytes, k: int) -> list[Item]:
        """Up to k values, most frequent first, equal ones by value: value, count, and between which it is.

        Values that may be among the k most frequent but surely need not be are in the list, too, as far as it
        goes; those that are seen less often than the error may be missing.
        """
        read = ds.frequent_items_sketch.deserialize(sketch, self._serde)
        items = read.get_frequent_items(ds.frequent_items_error_type.NO_FALSE_NEGATIVES)
        return sorted(items, key=lambda item: (-item[1], item[0]))[:k]


def sketch_of(call: AggregateCall) -> Sketch:
    """The kind of sketch that an approximate aggregate is read from."""
    assert call.argument is not None
    match call.function:
        case AggregateFunction.APPROX_COUNT_DISTINCT:
            return DistinctCount()
        case AggregateFunction.APPROX_QUANTILE:
            return Quantile(call.argument.type)
        case AggregateFunction.APPROX_TOP:
            return Frequent(call.argument.type)
        case _:
            raise InternalError(f"{call.function.value} is not read from a sketch")


def plain_values(values: pa.Array) -> list[Value]:
    """Values as the libraries of all languages hash them: times are microseconds, booleans 0 and 1."""
    if pa.types.is_timestamp(values.type):
        values = values.cast(pa.int64())
    if pa.types.is_boolean(values.type):
        values = values.cast(pa.int64())
    listed: list[Value] = values.to_pylist()
    return listed
