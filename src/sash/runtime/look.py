"""One-time queries over the windows of a run as they are: from its synopses, or the rows that streams keep.

The rows that the windows can hold pass through the same operators as those of standing queries, from the
oldest that is needed to the instant that the run has reached; the answer is of that instant. Nothing of the
run is touched, so a question never waits for a batch, and no batch for a question.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from sash.errors import UserError
from sash.lang import Program, algebra
from sash.lang.algebra import Node, WindowKind
from sash.lang.bound import StreamDefinition
from sash.operators.delta import Delta
from sash.plan.panes import last_boundary
from sash.plan.run_plan import RunPlan, feed_of, plan_run
from sash.runtime.continuous import ContinuousPlane, relation_delta
from sash.runtime.lookup import from_synopsis
from sash.runtime.retained import FIRST, Gone, Snapshot, kept_rows
from sash.runtime.scans import scan_rows
from sash.runtime.sources import Position, open_source, read, read_whole
from sash.runtime.stage import lateness

Rows = tuple[str, int, Delta]
# How often a newer snapshot is taken.
_TRIES = 100
# Changes of a relation that are read at once.
_FEED_ROWS = 1_000_000


@dataclass(frozen=True, slots=True)
class OnceAnswer:
    """The answer of a one-time query, and the instant whose windows it is over; None before the first."""

    table: pa.Table
    instant: int | None
    batch: int


def look_again(program: Program, latest: Callable[[], Snapshot | None], base_dir: Path) -> OnceAnswer:
    """Answer the one-time query of a program over the newest snapshot there is."""
    for is_last in (*[False] * _TRIES, True):
        snapshot = latest()
        if snapshot is None:
            raise UserError(
                "the run has not finished a batch yet", hint="ask again in a moment", id="nothing-yet"
            )
        try:
            return look(program, snapshot, base_dir)
        except Gone:
            # The run has moved on before all files were open; the next snapshot has them.
            if is_last:
                raise
    raise AssertionError


def look(program: Program, snapshot: Snapshot, base_dir: Path) -> OnceAnswer:
    """Answer the one-time query of a program; UserError if the streams do not keep what it needs."""
    through = snapshot.through
    if snapshot.panes is not None and through is not None:
        (asked,) = program.one_time
        found = from_synopsis(asked.plan, snapshot.panes, snapshot.streams, through)
        if found is not None:
            return OnceAnswer(*found, snapshot.batch)
    plan = plan_run(program)
    (query,) = plan.one_time
    plane = ContinuousPlane(plan)
    first = {
        name: state.first
        for name, state in snapshot.streams.items()
        if name in query.streams and state.first is not None
    }
    if through is not None:
        plane.begin_with(-1, [(f"relation {name}", 0, d) for name, d in _relations(plan, base_dir).items()])
        rows = [*_stream_rows(plan, query.plan, snapshot), *_feed_rows(plan, base_dir, through)]
        for _ in plane.answer(0, tuple(rows), first, through):
            pass
    (answer,) = plane.once().values()
    return OnceAnswer(answer, through, snapshot.batch)


def _relations(plan: RunPlan, base_dir: Path) -> dict[str, Delta]:
    return {
        relation.name: relation_delta(read_whole(feed_of(relation), base_dir))
        for relation in plan.relations
        if relation.is_static
    }


def _stream_rows(plan: RunPlan, query: Node, snapshot: Snapshot) -> Iterator[Rows]:
    """What the scans make of the rows that windows can hold."""
    assert snapshot.through is not None
    for stream in plan.streams:
        scans = [] if stream.name in plan.feeds else plan.scans_of(stream.name)
        if not scans:
            continue
        since = _since(query, stream, snapshot)
        for rank, ts, table in kept_rows(snapshot, stream, since, snapshot.through):
            for scan in scans:
                yield scan.name, rank, scan_rows(scan, stream, ts, table).delta


def _feed_rows(plan: RunPlan, base_dir: Path, through: int) -> Iterator[Rows]:
    """The changes of relations up to now, from the first on: what a run has taken in of them."""
    for name in plan.feeds:
        feed = plan.stream(name)
        source = open_source(feed, base_dir)
        position: Position = {}
        newest: int | None = None
        while True:
            step = source.plan(position, _FEED_ROWS)
            position = step.position
            for chunk in step.chunks:
                rows = read(feed, chunk)
                behind = lateness(rows.ts, newest, feed.slack)
                wanted = rows.ts <= through
                if behind is not None:
                    wanted &= behind <= 0
                if len(rows.ts):
                    newest = max(int(rows.ts.max()), newest if newest is not None else int(rows.ts[0]))
                for scan in plan.scans_of(name):
                    table = rows.table.filter(pa.array(wanted))
                    yield scan.name, chunk.sequence, scan_rows(scan, feed, rows.ts[wanted], table).delta
            if step.ended or not step.chunks:
                break


# ---------------------------------------------------------------- what is needed


def _since(query: Node, stream: StreamDefinition, snapshot: Snapshot) -> int:
    """Rows of a stream that are not later than this cannot be in a window of the query."""
    assert snapshot.through is not None
    since = _oldest(query, stream, snapshot.through)
    if snapshot.is_whole(stream.name):
        return FIRST if since is None else since
    if stream.retain is None:
        raise _refused(
            stream,
            "keeps no rows for questions, and no synopsis covers this one",
            f"declare it with RETAIN, at least as long as the window: CREATE STREAM {stream.name} (…) … "
            "RETAIN 10 MIN FROM …",
        )
    if since is None:
        raise _refused(
            stream,
            f"keeps rows for {_seconds(stream.retain)}, and the question may need all of them",
            "windows of ROWS, UNBOUNDED ones and those over sub-queries need every row: "
            "use windows of RANGE over the stream itself",
        )
    if since < snapshot.through - stream.retain:
        needed = _seconds(snapshot.through - since)
        raise _refused(
            stream,
            f"keeps rows for {_seconds(stream.retain)}, and the question needs those of {needed}",
            "ask about a shorter window, or declare a longer RETAIN",
        )
    return since


def _oldest(query: Node, stream: StreamDefinition, through: int) -> int | None:
    """The instant after which a query looks at a stream; None: perhaps from its first row on."""
    instants = []
    for node in query.walk():
        if isinstance(node, algebra.Window) and _reads(node, stream.name):
            spec = node.spec
            if spec.kind in (WindowKind.ROWS, WindowKind.UNBOUNDED) or _is_nested(node):
                return None
            seen = through if spec.slide is None else last_boundary(through, spec.slide)
            instants.append(seen - (spec.range or stream.unit))
    return min(instants, default=None)


def _reads(node: Node, stream: str) -> bool:
    return any(isinstance(leaf, algebra.Stream) and leaf.name == stream for leaf in node.walk())


def _is_nested(window: algebra.Window) -> bool:
    """Whether a window is over the results of a query, which has windows itself, or over lifetimes."""
    below = list(window.input.walk())
    return any(isinstance(node, algebra.Window) for node in below) or any(
        isinstance(node, algebra.Stream) and node.has_lifetime for node in below
    )


def _refused(stream: StreamDefinition, why: str, hint: str) -> UserError:
    return UserError(f"stream {stream.name} {why}", hint=hint, id="not-kept")


def _seconds(span: int) -> str:
    return f"{span / 1_000_000:g} s"
