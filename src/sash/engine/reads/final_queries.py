"""Questions of a program that are answered once, at the end of its input."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

import pyarrow as pa

from sash.engine.observe.report import RECORD, AnswerRecord
from sash.engine.reads.archive_read import once_archived, without_archives
from sash.engine.reads.one_time_query import OnceAnswer, look, refuse_unkept
from sash.engine.reads.snapshot_registry import SnapshotRegistry
from sash.lang import Program
from sash.lang.bound import OneTimeQuery, StreamDefinition
from sash.operators.bounds import with_bounds
from sash.plan.run_plan import questions_in, reads_archives


def check_questions(program: Program, streams: Iterable[StreamDefinition]) -> None:
    """Refuse questions about archives and streams that do not keep what they need until the end."""
    read = [stream.name for stream in streams]
    for question in questions_in(program):
        if reads_archives(question.plan):
            refuse_unkept(question, program.streams, read)


def answered_once(
    program: Program,
    known: Mapping[str, pa.Table],
    records: Mapping[str, AnswerRecord],
    registry: SnapshotRegistry | None,
    base_dir: Path,
) -> dict[str, pa.Table]:
    """The answers, in the order of the program; `known` are those that operators have, with their records.

    What an answer says of itself is in the metadata of its schema.
    """
    answers = {}
    for query in questions_in(program):
        if reads_archives(query.plan):
            found = _of_archives(OneTimeQuery(query.plan), program, registry, base_dir)
            answer, record = found.table, found.record
        else:
            answer, record = known[query.name], records.get(query.name)
        answer = answer.cast(with_bounds(answer.schema, query.plan))
        told = {} if record is None else {RECORD: record.to_json().encode()}
        answers[query.name] = answer.replace_schema_metadata(told)
    return answers


def _of_archives(
    question: OneTimeQuery, program: Program, registry: SnapshotRegistry | None, base_dir: Path
) -> OnceAnswer:
    asked = without_archives(question, program, base_dir)
    if not asked.reads_changes:
        return once_archived(asked, base_dir)
    return look(asked.program, registry, base_dir, given=asked.given)
