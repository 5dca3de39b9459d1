"""Compiled kernels: numba with its on-disk cache where one can be written.

Compiling costs about half a second per kernel; the cache makes it once per machine. Numba refuses to
decorate a function when it finds no writable place, and a slow start beats no start. Where several processes
begin at once (tasks and holders of a cold start, the processes of a test run), one compiles the kernels of a
file and the others wait for it instead of doing the same work beside it.
"""

from __future__ import annotations

import fcntl
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, BinaryIO, ParamSpec, TypeVar

import numba
from numba.core.compiler_lock import global_compiler_lock
from numba.core.types import unliteral

P = ParamSpec("P")
R = TypeVar("R")

# Nobody calls a kernel from C, and the wrapper for it would be a tenth of the time of compiling.
_OPTIONS: dict[str, Any] = {"nogil": True, "no_cfunc_wrapper": True}
# Files whose kernels this process is compiling; only looked at under numba's own lock.
_claimed: set[str] = set()


def kernel(function: Callable[P, R]) -> Callable[P, R]:
    try:
        cached: Callable[P, R] = numba.njit(cache=True, **_OPTIONS)(function)
    except RuntimeError:
        compiled: Callable[P, R] = numba.njit(**_OPTIONS)(function)
        return compiled
    _compile_once(cached, function.__code__.co_filename)
    return cached


def _compile_once(dispatcher: Any, file: str) -> None:
    compile_or_load = dispatcher.compile

    def compile_alone(signature: tuple[Any, ...]) -> Any:
        # A kernel that is called with constants by others is not compiled anew for each of them.
        plain = tuple(unliteral(type_) for type_ in signature)  # type: ignore[no-untyped-call]
        with global_compiler_lock, _claim(file):
            return compile_or_load(plain)

    dispatcher.compile = compile_alone


@contextmanager
def _claim(path: str) -> Iterator[None]:
    """Be the only process that compiles kernels of a file, where the file system has locks.

    Kernels call kernels of their own file and of those that it imports: no two processes wait for each other.
    """
    file = None if path in _claimed else _locked(path)
    if file is None:
        yield
        return
    _claimed.add(path)
    try:
        yield
    finally:
        _claimed.discard(path)
        # A process that was forked meanwhile has the open file, too, and would keep the lock.
        fcntl.flock(file, fcntl.LOCK_UN)
        file.close()


def _locked(path: str) -> BinaryIO | None:
    try:
        file = open(path, "rb")  # noqa: SIM115 – closed by who has the lock
    except OSError:
        return None
    try:
        fcntl.flock(file, fcntl.LOCK_EX)
    except OSError:
        file.close()
        return None
    return file
