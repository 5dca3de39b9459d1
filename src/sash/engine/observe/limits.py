"""Bounds on what a run may hold: a warning at four fifths of a bound, and the end of the run above it.

They are looked at after each batch, when it has been committed. So a run that is refused has lost nothing:
with a checkpoint it goes on where it was, with a larger bound or on a larger machine.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from sash.engine.observe.memory import machine_bytes
from sash.engine.observe.meters import Largest, Meters
from sash.engine.observe.report import DRIVER, BatchReport
from sash.errors import LimitError
from sash.plan.explain.measured import size_text

_WARN_AT = 0.8


@dataclass(frozen=True, slots=True)
class Limits:
    """Bytes of state of a partition, and of memory of the driver's process; None: no bound."""

    state: int | None = None
    memory: int | None = None


def default_state(master: str | None, partitions: int) -> int | None:
    """Half of this machine's memory for all partitions, if they are here; `master` None: they are."""
    if master is not None and not master.startswith("local"):
        return None
    return machine_bytes() // 2 // max(1, partitions)


class Guard:
    """Compares a run with its limits; each warning is given once."""

    def __init__(
        self, limits: Limits, meters: Meters, warn: Callable[[str], None], *, has_checkpoint: bool
    ) -> None:
        self._limits = limits
        self._meters = meters
        self._warn = warn
        self._has_checkpoint = has_checkpoint
        self._warned: set[int | str] = set()

    def check(self, report: BatchReport) -> None:
        """Raise LimitError if the run must not go on after this batch."""
        if self._limits.state is not None:
            # The fullest first: that is the one to name.
            fullest = sorted(report.state.items(), key=lambda item: -item[1].bytes)
            for partition, held in fullest:
                self._check_state(partition, held.bytes, self._limits.state)
        if self._limits.memory is not None and report.memory is not None:
            self._check_memory(report.memory, self._limits.memory)

    def _check_state(self, partition: int, used: int, limit: int) -> None:
        where, more = f"partition {partition}", " or more --partitions"
        if partition == DRIVER:
            where, more = "the driver", ""
        if used > limit:
            raise LimitError(
                f"the state of {where} is {size_text(used)}, more than --max-state allows",
                expected=f"at most {size_text(limit)}",
                got=_most(self._meters.largest(partition)),
                hint=f"use smaller windows{more}, or a larger --max-state; {self._then}",
                id="state-limit",
            )
        if used > _WARN_AT * limit and partition not in self._warned:
            self._warned.add(partition)
            most = _most(self._meters.largest(partition))
            self._warn(
                f"the state of {where} is {size_text(used)}, and --max-state {size_text(limit)}: {most}"
            )

    def _check_memory(self, used: int, limit: int) -> None:
        if used > limit:
            raise LimitError(
                f"the process takes {size_text(used)} of memory, more than --max-memory allows",
                expected=f"at most {size_text(limit)}",
                got=_most(self._meters.largest(DRIVER)),
                hint=f"use smaller --batch-rows or windows, or a larger --max-memory; {self._then}",
                id="memory-limit",
            )
        if used > _WARN_AT * limit and "memory" not in self._warned:
            self._warned.add("memory")
            self._warn(
                f"the process takes {size_text(used)} of memory, and --max-memory is {size_text(limit)}"
            )

    @property
    def _then(self) -> str:
        if self._has_checkpoint:
            return "all batches so far are committed, and the same command goes on after them"
        return "with --checkpoint it could go on from here"


def _most(largest: Largest | None) -> str:
    if largest is None:
        return "most of it are rows that wait for the clock: SLACK is long, or a stream behind the others"
    return (
        f"query {largest.query} holds {size_text(largest.held.bytes)}, "
        f"{size_text(largest.operator_held.bytes)} of it in {largest.operator}"
    )
