"""Run a program: the one entry for the command line, the session and the tests."""

from __future__ import annotations

import threading
from collections.abc import Collection
from pathlib import Path

from sash.engine.control_channel import ControlChannel
from sash.engine.ingest.relations import Given
from sash.engine.observe.report import Monitor, Silent, Summary
from sash.engine.options import DEFAULT_MAX_BATCH_TIME, Options
from sash.engine.program_check import refuse_what_cannot_run, refuse_without_queries
from sash.errors import UserError
from sash.files import local_place
from sash.lang import Program
from sash.plan.placement import MAX_DRIVER_GROUPS
from sash.plan.refresh import EXACT, MODES
from sash.scheduling import DEFAULT, POLICIES

RUNTIMES = ("spark", "inline")


def run_program(
    program: Program,
    *,
    base_dir: Path,
    runtime: str = "spark",
    master: str = "local[*]",
    checkpoint: Path | None = None,
    batch_rows: int | None = None,
    trigger: float | None = None,
    max_batch_time: float | None = None,
    partitions: int | None = None,
    max_state: int | None = None,
    max_memory: int | None = None,
    max_driver_groups: int | None = None,
    max_driver_update: int | None = None,
    dead_letters: Path | None = None,
    record_history: Path | None = None,
    refresh: str | None = None,
    policy: str | None = None,
    max_queries: int | None = None,
    fail_on_rejects: float | None = None,
    debug: bool = False,
    monitor: Monitor | None = None,
    stop: threading.Event | None = None,
    control: ControlChannel | None = None,
    given: Given | None = None,
) -> Summary:
    """Run the standing queries of a program until all input has ended or `stop` is set.

    `trigger` is how many seconds lie between the beginnings of batches of live streams (None: as usual for
    the runtime), `max_batch_time` how many a batch should take (None: as usual, 0: no bound).
    `control` is where others ask for something meanwhile. `max_state` bounds the bytes of state of a
    partition (None: as this machine can bear, 0: no bound), `max_memory` those of this process. A grouping of
    more than `max_driver_groups` groups is kept in partitions, where there are any. An update of an archive
    that reads and writes more than `max_driver_update` bytes is a Spark job (None: as is quicker, 0: never).
    `record_history` is a file for the movements of windows and the questions that are asked meanwhile.
    Relations that are `given` are not read.
    `refresh` is exact or elastic, `policy` the scheduler of the latter, `max_queries` how many queries there
    may be at a time. A run in which more than the share `fail_on_rejects` of a stream's rows, or all of
    them, are late or rejected ends with a RunError.
    """
    refuse_without_queries(program)
    if runtime not in RUNTIMES:
        raise UserError(
            f"unknown runtime '{runtime}'", expected=f"one of: {', '.join(RUNTIMES)}", id="unknown-runtime"
        )
    refuse_what_cannot_run(program)
    options = Options(
        base_dir=base_dir,
        # Executors have working directories of their own.
        checkpoint=None if checkpoint is None else _local(checkpoint, "checkpoint").absolute(),
        dead_letters=None if dead_letters is None else _local(dead_letters, "dead_letters"),
        batch_rows=batch_rows,
        trigger=trigger,
        max_batch_time=DEFAULT_MAX_BATCH_TIME if max_batch_time is None else max_batch_time,
        master=master,
        partitions=partitions,
        max_state=max_state,
        max_memory=max_memory,
        max_driver_groups=MAX_DRIVER_GROUPS if max_driver_groups is None else max_driver_groups,
        max_driver_update=max_driver_update,
        record_history=None if record_history is None else _local(record_history, "record_history"),
        given=given or {},
        refresh=one_of("refresh", refresh or EXACT, MODES),
        policy=one_of("policy", policy or DEFAULT.slug, POLICIES),
        max_queries=max_queries,
        fail_on_rejects=fail_on_rejects,
        debug=debug,
        monitor=monitor or Silent(),
    )
    stop = stop or threading.Event()
    control = control or ControlChannel()
    # Each runtime is imported when it is asked for: the inline one works without Spark and Java.
    if runtime == "inline":
        from sash.runtime.inline import run_inline

        return run_inline(program, options, stop, control)
    from sash.runtime.spark.pipeline import run_spark

    return run_spark(program, options, stop, control)


def _local(place: Path, option: str) -> Path:
    return Path(local_place(place, option))


def one_of(option: str, value: str, allowed: Collection[str]) -> str:
    """The value of an option, if it is one of those that are allowed."""
    if value not in allowed:
        raise UserError(
            f"unknown {option} '{value}'", expected=f"one of: {', '.join(allowed)}", id=f"unknown-{option}"
        )
    return value
