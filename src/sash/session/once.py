"""What a session does in one go, beside its standing queries: one-time questions, and plans.

Both run in this process over the whole input, and leave nothing behind.
"""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa

from sash.connectors.sources import open_source
from sash.engine.ingest.relations import Given
from sash.engine.observe.explaining import explained as explain_all
from sash.engine.observe.report import RECORD, RefreshStats, Silent
from sash.engine.reads.one_time_query import OnceAnswer
from sash.errors import UserError
from sash.lang import Known, Program
from sash.lang.bound import ExplainDefinition, QueryDefinition
from sash.plan.run_plan import plan_run
from sash.runtime.analyze import analyze
from sash.runtime.run import run_program
from sash.session.catalog import program_of
from sash.transactions.events import Isolation

_LOG = logging.getLogger("sash")


class Explanation(str):
    """A plan that shows itself: as lines in a console, as a picture in a notebook if it is one."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)

    def _repr_svg_(self) -> str | None:
        return str(self) if self.startswith("<svg") else None


INSTANT = b"sash.instant"
"""The key in the metadata of an answer's schema: the instant whose windows it is over, in microseconds."""


ISOLATION = b"sash.isolation"
"""The key of the isolation that the answer has: lws or ws."""


def dated(answer: OnceAnswer) -> pa.Table:
    """The answer, with its instant, record and isolation in the metadata of the schema."""
    told = {ISOLATION: answer.isolation.value.encode()}
    if answer.instant is not None:
        told[INSTANT] = str(answer.instant).encode()
    if answer.record is not None:
        told[RECORD] = answer.record.to_json().encode()
    return answer.table.replace_schema_metadata(told)


def isolation_of(text: str | None) -> Isolation | None:
    """The isolation that a user names."""
    if text is None:
        return None
    try:
        return Isolation(text.lower())
    except ValueError as failure:
        raise UserError(
            f"there is no isolation '{text}'", expected="one of: lws, ws", id="option"
        ) from failure


class _Logged(Silent):
    def warning(self, text: str) -> None:
        _LOG.warning("%s", text)


def answer_once(
    program: Program,
    base_dir: Path,
    options: Mapping[str, Any],
    given: Given,
    isolation: Isolation | None = None,
) -> pa.Table:
    """The answer of a program's one-time query over the windows at the end of the input.

    `options` are some of those of a run. The metadata of the schema says what it says of an answer of a run;
    the isolation is what the query says, unless it is given: no other state can be meant.
    """
    _refuse_endless(program, base_dir, "a one-time query is answered at the end of its input")
    with tempfile.TemporaryDirectory(prefix="sash-") as dead_letters:
        summary = run_program(
            program,
            base_dir=base_dir,
            runtime="inline",
            **options,
            dead_letters=Path(dead_letters),
            given=given,
            monitor=_Logged(),
        )
    (asked,), (answer,) = program.one_time, summary.once.values()
    chosen = isolation or Isolation(asked.isolation or Isolation.LWS)
    told = {**(answer.schema.metadata or {}), ISOLATION: chosen.value.encode()}
    if summary.clock is not None:
        told[INSTANT] = str(summary.clock).encode()
    return answer.replace_schema_metadata(told)


def explained(
    definition: ExplainDefinition, known: Known, form: str, base_dir: Path, fares: RefreshStats
) -> Explanation:
    """The plan in one of the forms of EXPLAIN, with what a run measured if it says ANALYZE."""
    program = program_of(known, statements=(definition,))
    # The only EXPLAIN of a program is the first.
    name = definition.query or "explain 1"
    run = None
    if definition.analyze:
        alone = program_of(known, queries=(QueryDefinition(name, "", definition.plan, definition.options),))
        _refuse_endless(alone, base_dir, "ANALYZE runs the query to the end of its input")
        run = analyze(program, base_dir=base_dir)
    return Explanation(explain_all(program, form, name, run, fares))


def _refuse_endless(program: Program, base_dir: Path, why: str) -> None:
    for stream in plan_run(program).streams:
        if not open_source(stream, base_dir).bounded:
            raise UserError(
                f"{why}, and stream {stream.name} has none",
                hint="make it a standing query and read its latest()",
                id="endless-input",
            )
