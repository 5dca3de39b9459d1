"""Kernels are compiled once per machine, whoever needs them first."""

from __future__ import annotations

import fcntl
import importlib.util
import os
import sys
from pathlib import Path
from types import ModuleType

import pytest
from numba.core.errors import TypingError

SOURCE = """
from sash.state.jit import kernel


@kernel
def _product(number, factor):
    return number * factor


@kernel
def fourfold(number):
    return _product(_product(number, 2), 2)


@kernel
def square(number):
    return _product(number, number)
"""


@pytest.fixture
def kernels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    path = tmp_path / "some_kernels.py"
    path.write_text(SOURCE)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    # Who loads a kernel from the cache imports its module.
    monkeypatch.setitem(sys.modules, path.stem, module)
    spec.loader.exec_module(module)
    return module


def missed(kernels: ModuleType) -> int:
    """How often this process has not found a kernel in the cache."""
    both = (kernels.fourfold, kernels._product)
    return sum(sum(one.stats.cache_misses.values()) for one in both)


def compiled_in_a_fork(kernels: ModuleType) -> int:
    """A process that calls a kernel, and ends with how many kernels it has compiled for that."""
    before = missed(kernels)
    child = os.fork()
    if child == 0:
        try:
            right = kernels.fourfold(3) == 12
            compiled = missed(kernels) - before
        except BaseException:
            os._exit(99)
        os._exit(compiled if right else 98)
    return child


def test_processes_that_need_a_kernel_at_once_compile_it_once(kernels):
    children = [compiled_in_a_fork(kernels) for _ in range(3)]
    codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
    assert sorted(codes) == [0, 0, 2]


def test_a_kernel_is_compiled_where_its_file_can_not_be_locked(kernels, monkeypatch):
    def refuse(*_: object) -> None:
        raise OSError("no locks here")

    monkeypatch.setattr(fcntl, "flock", refuse)
    assert kernels.fourfold(3) == 12


def test_who_has_failed_to_compile_a_kernel_keeps_nobody_waiting(kernels):
    with pytest.raises(TypingError):
        kernels.fourfold(None)
    _, status = os.waitpid(compiled_in_a_fork(kernels), 0)
    assert os.waitstatus_to_exitcode(status) == 2


def test_constants_at_calls_do_not_have_a_kernel_compiled_again(kernels):
    assert (kernels.fourfold(3), kernels.square(3)) == (12, 9)
    assert len(kernels._product.signatures) == 1
