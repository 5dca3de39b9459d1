"""Values at addresses of memory, so that one kernel reads many arrays, wherever each of them lies.

Numba has no cheap list of arrays. Whoever takes an address holds the array until the kernel is done.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import numpy as np
import numpy.typing as npt
from llvmlite import ir
from numba import types
from numba.extending import intrinsic


def address_of(values: npt.NDArray[Any]) -> int:
    return int(values.__array_interface__["data"][0])


def _reader(dtype: type[np.signedinteger[Any] | np.unsignedinteger[Any]]) -> Callable[[int, int], int]:
    """Kernels call it with the address of an array of that type, and a place of it."""
    bits = 8 * np.dtype(dtype).itemsize
    is_signed = np.issubdtype(dtype, np.signedinteger)

    @intrinsic
    def value_at(typing: Any, address: Any, place: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            pointer = builder.inttoptr(arguments[0], ir.IntType(bits).as_pointer())
            value = builder.load(builder.gep(pointer, [arguments[1]]))
            if bits == 64:
                return value
            return (builder.sext if is_signed else builder.zext)(value, ir.IntType(64))

        return types.int64(types.int64, types.int64), generate

    return cast("Callable[[int, int], int]", value_at)


int64_at = _reader(np.int64)
int32_at = _reader(np.int32)
byte_at = _reader(np.uint8)
