"""Compiled kernels: numba with its on-disk cache where one can be written.

Compiling costs about a second per kernel and process; the cache makes it once per machine. Numba
refuses to decorate a function when it finds no writable place, and a slow start beats no start.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ParamSpec, TypeVar

import numba

P = ParamSpec("P")
R = TypeVar("R")


def kernel(function: Callable[P, R]) -> Callable[P, R]:
    try:
        compiled: Callable[P, R] = numba.njit(cache=True, nogil=True)(function)
    except RuntimeError:
        compiled = numba.njit(nogil=True)(function)
    return compiled
