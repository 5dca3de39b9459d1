"""Run a program: the one entry for the command line, the session and the tests."""

from __future__ import annotations

import threading
from pathlib import Path

from sash.errors import UserError
from sash.lang import Program
from sash.runtime.desk import Desk
from sash.runtime.engine import DEFAULT_BATCH_ROWS, Options
from sash.runtime.relations import Given
from sash.runtime.report import Monitor, Silent, Summary

RUNTIMES = ("spark", "inline")


def run_program(
    program: Program,
    *,
    base_dir: Path,
    runtime: str = "spark",
    master: str = "local[*]",
    checkpoint: Path | None = None,
    batch_rows: int | None = None,
    partitions: int | None = None,
    max_state: int | None = None,
    max_memory: int | None = None,
    aside: Path | None = None,
    record_history: Path | None = None,
    debug: bool = False,
    monitor: Monitor | None = None,
    stop: threading.Event | None = None,
    desk: Desk | None = None,
    given: Given | None = None,
) -> Summary:
    """Run the standing queries of a program until all input has ended or `stop` is set.

    `desk` is where others ask for something meanwhile. `max_state` bounds the bytes of state of a partition
    (None: as this machine can bear, 0: no bound), `max_memory` those of this process.
    `record_history` is a file for the movements of windows and the questions that are asked meanwhile.
    Relations that are `given` are not read.
    """
    if not (program.queries or program.archives or program.one_time):
        raise UserError(
            "there is no query to run",
            hint="add a CREATE QUERY … INTO … AS SELECT …; or a SELECT",
            id="no-query",
        )
    if runtime not in RUNTIMES:
        raise UserError(
            f"unknown runtime '{runtime}'", expected=f"one of: {', '.join(RUNTIMES)}", id="unknown-runtime"
        )
    refuse_what_cannot_run(program)
    options = Options(
        base_dir=base_dir,
        checkpoint=checkpoint,
        aside=aside,
        batch_rows=batch_rows or DEFAULT_BATCH_ROWS,
        master=master,
        partitions=partitions,
        max_state=max_state,
        max_memory=max_memory,
        record_history=record_history,
        given=given or {},
        debug=debug,
        monitor=monitor or Silent(),
    )
    stop = stop or threading.Event()
    desk = desk or Desk()
    # Each runtime is imported when it is asked for: the inline one works without Spark and Java.
    if runtime == "inline":
        from sash.runtime.inline import run_inline

        return run_inline(program, options, stop, desk)
    from sash.runtime.spark.pipeline import run_spark

    return run_spark(program, options, stop, desk)


def refuse_what_cannot_run(program: Program) -> None:
    """Statements that are understood and that a run would otherwise pass over in silence."""
    for query in program.queries:
        if not query.sink:
            raise UserError(
                f"query {query.name} has no output",
                place=query.place,
                hint="write CREATE QUERY name INTO 'jsonl:out.jsonl' AS …",
                id="no-sink",
            )
