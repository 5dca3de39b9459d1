"""The session: CQL from Python, standing queries whose answers are iterated, one-time questions.

    not started ──start()──► running ──the input ends, stop(), a failure──► ended ──start()──► running …

The catalog and the handles belong to the caller's threads, under `_lock`. A run has a thread of its own,
which knows nothing of the session: it puts answers into inboxes (`inbox.py`). Nobody takes `_lock` while
holding the lock of the room, so the two cannot wait for each other. A text takes effect as a whole or not at
all.
"""

from __future__ import annotations

import threading
import warnings
import weakref
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pyarrow as pa

from sash.connectors.sinks import open_sink
from sash.connectors.sources import open_source
from sash.engine.ingest.loss import share_of
from sash.engine.ingest.relations import Given
from sash.engine.observe.report import RefreshStats, Summary
from sash.engine.reads.archive_read import once_archived, without_archives
from sash.engine.sizes import parse_seconds
from sash.errors import UnknownName, UserError
from sash.files import local_place
from sash.lang import Known, Program, bind_statement
from sash.lang.bound import (
    Definition,
    ExplainDefinition,
    OneTimeQuery,
    QueryDefinition,
    ShowDefinition,
)
from sash.lang.parse import iterate
from sash.plan.refresh import EXACT, MODES
from sash.plan.run_plan import feed_of, plan_run, reads_archives
from sash.runtime.background_run import Live
from sash.runtime.run import RUNTIMES, one_of
from sash.scheduling import DEFAULT, POLICIES
from sash.session.catalog import copied, define, plain_name, program_of
from sash.session.delivery import Delivery
from sash.session.handle import DEFAULT_PENDING, Query, shape_of
from sash.session.inbox import Room
from sash.session.kept import Kept
from sash.session.once import Explanation, answer_once, dated, explained, isolation_of
from sash.session.shows import shown
from sash.session.texts import ended, only_statement, places_without
from sash.transactions.events import Isolation

FORMS = ("text", "json", "svg")


def connect(
    base_dir: str | Path = ".",
    runtime: str = "spark",
    master: str = "local[*]",
    checkpoint: str | Path | None = None,
    batch_rows: int | None = None,
    dead_letters: str | Path | None = None,
    record_history: str | Path | None = None,
    refresh: str = EXACT,
    policy: str = DEFAULT.slug,
    max_queries: int | None = None,
    partitions: int | None = None,
    max_driver_groups: int | None = None,
    max_driver_update: int | None = None,
    fail_on_rejects: float | str | None = None,
    trigger: str | float | None = None,
    max_batch_time: str | float | None = None,
    aside: str | Path | None = None,
) -> Session:
    """A session. Relative paths in CQL count from `base_dir`; the rest is as in `sash run`.

    `aside` is the old name of `dead_letters`.
    """
    if aside is not None:
        warnings.warn("aside is called dead_letters now", FutureWarning, stacklevel=2)
        dead_letters = aside if dead_letters is None else dead_letters
    return Session(
        base_dir,
        runtime,
        master,
        checkpoint,
        batch_rows,
        dead_letters,
        record_history,
        refresh,
        policy,
        max_queries,
        partitions,
        max_driver_groups,
        max_driver_update,
        fail_on_rejects,
        trigger,
        max_batch_time,
    )


def _place(place: str | Path, name: str) -> Path:
    return Path(local_place(place, name)).expanduser().absolute()


class Session:
    """Streams, relations and queries, and the pipeline that runs them. Leave it with `with` or `close()`."""

    def __init__(
        self,
        base_dir: str | Path = ".",
        runtime: str = "spark",
        master: str = "local[*]",
        checkpoint: str | Path | None = None,
        batch_rows: int | None = None,
        dead_letters: str | Path | None = None,
        record_history: str | Path | None = None,
        refresh: str = EXACT,
        policy: str = DEFAULT.slug,
        max_queries: int | None = None,
        partitions: int | None = None,
        max_driver_groups: int | None = None,
        max_driver_update: int | None = None,
        fail_on_rejects: float | str | None = None,
        trigger: str | float | None = None,
        max_batch_time: str | float | None = None,
    ) -> None:
        if runtime not in RUNTIMES:
            raise UserError(
                f"unknown runtime '{runtime}'",
                expected=f"one of: {', '.join(RUNTIMES)}",
                id="unknown-runtime",
            )
        if batch_rows is not None and batch_rows < 1:
            raise UserError("batch_rows must be at least 1", got=str(batch_rows), id="option")
        if partitions is not None and partitions < 1:
            raise UserError("partitions must be at least 1", got=str(partitions), id="option")
        if max_driver_groups is not None and max_driver_groups < 0:
            raise UserError("max_driver_groups must not be negative", got=str(max_driver_groups), id="option")
        if max_driver_update is not None and max_driver_update < 0:
            raise UserError("max_driver_update must not be negative", got=str(max_driver_update), id="option")
        # A notebook may change its working directory; the session stays where it was opened.
        self.base_dir = _place(base_dir, "base_dir")
        if not self.base_dir.is_dir():
            raise UserError(f"there is no directory '{self.base_dir}'", id="option")
        self.runtime = runtime
        self.checkpoint = None if checkpoint is None else _place(checkpoint, "checkpoint")
        self._options: dict[str, Any] = {
            "runtime": runtime,
            "master": master,
            "checkpoint": self.checkpoint,
            "batch_rows": batch_rows,
            "dead_letters": None if dead_letters is None else _place(dead_letters, "dead_letters"),
            "record_history": None if record_history is None else _place(record_history, "record_history"),
            "refresh": one_of("refresh", refresh, MODES),
            "policy": one_of("policy", policy, POLICIES),
            "max_queries": max_queries,
            "partitions": partitions,
            "max_driver_groups": max_driver_groups,
            "max_driver_update": max_driver_update,
            "fail_on_rejects": share_of(fail_on_rejects, "fail_on_rejects"),
            "trigger": None if trigger is None else parse_seconds(trigger, "trigger"),
            "max_batch_time": None
            if max_batch_time is None
            else parse_seconds(max_batch_time, "max_batch_time"),
        }
        self._known = Known()
        self._handles: dict[str, Query] = {}
        self._room = Room()
        self._lock = threading.RLock()
        self._live: Live | None = None
        self._delivery: Delivery | None = None
        self._told: BaseException | None = None
        self._is_closed = False

    # ------------------------------------------------------------------ statements

    def sql(self, text: str) -> Any:
        """Carry out CQL statements; gives what the last SHOW, SELECT or EXPLAIN among them does.

        That is an Arrow table, or the text of an EXPLAIN; None where there is no such statement.
        """
        with self._lock:
            self._check_open()
            known = copied(self._known)
            giving: tuple[Definition, Known] | None = None
            for statement in iterate(ended(text)):
                definition = bind_statement(statement, known)
                if isinstance(definition, ShowDefinition | OneTimeQuery | ExplainDefinition):
                    giving = definition, copied(known)
            self._check(known)
            given = None if giving is None else self._give(*giving)
            self._adopt(known)
            return given

    def query(
        self,
        text: str,
        *,
        name: str | None = None,
        into: str | None = None,
        max_pending: int = DEFAULT_PENDING,
    ) -> Query:
        """A standing query: a SELECT, which gets a name and a sink if you wish, or a whole CREATE QUERY.

        `max_pending` is how many answers may wait: for a reader that is slower the pipeline waits.
        """
        with self._lock:
            self._check_open()
            known = copied(self._known)
            definition = define(text, name, into, known)
            self._check(known)
            handle = self._handle(definition, known, max_pending)
            self._adopt(known, handle)
            self._handles[handle.name] = handle
            return handle

    def handle(self, name: str) -> Query:
        """The handle of a query that sql() created. It is fed from the next start on."""
        with self._lock:
            self._check_open()
            name = plain_name(name)
            if name not in self._known.queries:
                raise UnknownName("query", name, self._known.queries)
            if name not in self._handles:
                if self._is_running:
                    raise UserError(
                        f"nobody watched the query {name} when the pipeline started",
                        hint="ask for its handle before start()",
                        id="not-watched",
                    )
                definition = self._known.queries[name]
                self._handles[name] = self._handle(definition, self._known, DEFAULT_PENDING)
            return self._handles[name]

    def ask(self, text: str, *, isolation: str | None = None) -> pa.Table:
        """The answer of a one-time query, over the windows as they are: now, or at the end of the input.

        With the isolation 'lws', the default, it is that of the newest committed state when it is ready; with
        'ws' that of the state when it was asked.
        """
        chosen = isolation_of(isolation)
        self._check_open()
        # Questions do not wait for whoever changes the run: the catalog is replaced as a whole.
        known = copied(self._known)
        definition = bind_statement(only_statement("", text, "ask"), known)
        if not isinstance(definition, OneTimeQuery):
            raise UserError(
                "ask() takes a SELECT", hint="sql() takes every other statement", id="not-a-question"
            )
        return self._answer(definition, known, chosen)

    def explain(self, text: str, *, format: str = "text", analyze: bool = False) -> Explanation:
        """How a SELECT, or the query of that name, is computed; with `analyze`, how it was in a run."""
        if format not in FORMS:
            raise UserError(f"unknown format '{format}'", expected=f"one of: {', '.join(FORMS)}", id="option")
        prefix = "EXPLAIN ANALYZE " if analyze else "EXPLAIN "
        with self._lock:
            self._check_open()
            known = copied(self._known)
            with places_without(prefix):
                definition = bind_statement(only_statement(prefix, text, "explain"), known)
        assert isinstance(definition, ExplainDefinition)
        return explained(definition, known, format, self.base_dir, self._fares)

    # ------------------------------------------------------------------ the run

    def start(self) -> None:
        """Start the pipeline in the background, with the queries that there are; nothing if it runs."""
        with self._lock:
            self._check_open()
            if self._is_running:
                return
            if not (self._known.queries or self._known.archives):
                raise UserError(
                    "there is no query to run", hint="make one with session.query(…)", id="no-query"
                )
            inboxes = {name: handle._enter_run() for name, handle in self._handles.items()}
            stop = threading.Event()
            kept = None if self.checkpoint is None else Kept(self.checkpoint)
            delivery = Delivery(self._room, inboxes, stop, kept)
            self._delivery = delivery
            self._told = None
            self._live = _started(
                program_of(self._known), self.base_dir, self._options, delivery, stop, self._room
            )
            # Whoever forgets to close: the run ends with the session, and with the process.
            weakref.finalize(self, self._live.close)

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until the input has ended; False if it has not in so many seconds. Starts the pipeline."""
        with self._lock:
            if self._live is None:
                self.start()
            live = self._live
        assert live is not None
        try:
            with self._room.waiting():
                has_ended = live.wait(timeout)
        except KeyboardInterrupt:
            self._interrupt()
            raise
        if has_ended and live.failure is not None:
            self._tell(live.failure)
            raise live.failure
        return has_ended

    def stop(self) -> None:
        """Finish the batch under way, or abandon it if it takes long, and end the run.

        A failure that nobody was told of is raised.
        """
        live = self._live
        if live is None:
            return
        live.stop()
        with self._room.waiting():
            live.wait()
        if live.failure is not None and live.failure is not self._told:
            self._tell(live.failure)
            raise live.failure

    def close(self) -> None:
        """Stop; the session takes no more statements. What its handles have can still be read."""
        self._is_closed = True
        self.stop()

    @property
    def summary(self) -> Summary | None:
        """What the last run did; None before its end."""
        return None if self._live is None else self._live.summary

    @property
    def state(self) -> str:
        """`not started`, `running`, `ended`, `stopped`, `failed` or `closed`."""
        if self._is_closed:
            return "closed"
        if self._live is None:
            return "not started"
        if self._live.is_running:
            return "running"
        if self._live.failure is not None:
            return "failed"
        summary = self._live.summary
        return "stopped" if summary is not None and summary.interrupted else "ended"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            self.close()
        except Exception:
            # What went wrong in the body is what the user wants to know.
            if error is None:
                raise

    def __repr__(self) -> str:
        known = self._known
        parts = [
            _counted(len(known.streams), "stream", "streams"),
            *([_counted(len(known.relations), "relation", "relations")] if known.relations else []),
            _counted(len(known.queries), "query", "queries"),
        ]
        return f"<sash session on {self.runtime}: {', '.join(parts)}; {self.state}>"

    # ------------------------------------------------------------------ for handles

    def _begin(self, query: Query) -> None:
        """Start the pipeline unless it has run with this query already."""
        if not query._has_run:
            self.start()

    def _interrupt(self) -> None:
        """The user pressed Ctrl-C: stop the run and wait for it."""
        if self._live is not None:
            self._live.close()

    def _whole_from(self, query: str) -> int | None:
        """From when on the windows of a query are whole, if that is known."""
        return None if self._delivery is None else self._delivery.whole_from.get(query)

    def _tell(self, failure: BaseException) -> None:
        """The user is told of this failure."""
        self._told = failure

    # ------------------------------------------------------------------ inside

    @property
    def _is_running(self) -> bool:
        return self._live is not None and self._live.is_running

    def _check_open(self) -> None:
        if self._is_closed:
            raise UserError("the session is closed", hint="open another with sash.connect()", id="closed")

    def _handle(self, definition: QueryDefinition, known: Known, limit: int) -> Query:
        plan = plan_run(program_of(known, queries=(definition,)))
        return Query(self, definition, shape_of(plan), self._room, limit)

    def _check(self, known: Known) -> None:
        """Refuse sources and sinks that do not exist by their names; files are not looked at."""
        for stream in known.streams.values():
            if stream.name not in self._known.streams:
                open_source(stream, self.base_dir).check_definition()
        for relation in known.relations.values():
            if relation.name not in self._known.relations:
                open_source(feed_of(relation), self.base_dir).check_definition()
        for query in known.queries.values():
            if query.name not in self._known.queries and query.sink:
                open_sink(query.sink, pa.schema([]), self.base_dir)

    def _adopt(self, known: Known, added: Query | None = None) -> None:
        """From now on the catalog is this one; `added` is the handle of a query that is new in it."""
        if self._is_running and _concerns_run(self._known, known):
            self._change_run(known, added)
        for name, handle in list(self._handles.items()):
            if known.queries.get(name) != handle.definition:
                handle._drop()
                del self._handles[name]
        self._known = known

    def _change_run(self, known: Known, added: Query | None) -> None:
        """Let the pipeline go on with other queries; all that are new are watched from their first batch."""
        live, delivery = self._live, self._delivery
        assert live is not None
        assert delivery is not None
        gone = [name for name, query in self._known.queries.items() if known.queries.get(name) != query]
        handles = {} if added is None else {added.name: added}
        for name, definition in known.queries.items():
            if self._known.queries.get(name) != definition and name not in handles:
                handles[name] = self._handle(definition, known, DEFAULT_PENDING)

        def watch() -> None:
            for name in gone:
                delivery.forget(name)
            for name, handle in handles.items():
                delivery.watch(name, handle._enter_run())

        has_changed = live.change(program_of(known), watch, self._room.waiting())
        for name in gone:
            if name in self._handles:
                self._handles.pop(name)._drop()
        if has_changed:
            self._handles.update(handles)

    def _give(self, definition: Definition, known: Known) -> pa.Table | str:
        match definition:
            case ShowDefinition():
                return shown(definition.kind, known, self.base_dir, self._fares)
            case OneTimeQuery():
                return self._answer(definition, known)
            case ExplainDefinition():
                return explained(definition, known, definition.format, self.base_dir, self._fares)
        raise AssertionError(definition)

    @property
    def _fares(self) -> RefreshStats:
        """How queries are refreshed, and how they fare if they run."""
        refreshes = {} if self._delivery is None else self._delivery.refreshes
        whole_from = {} if self._delivery is None else self._delivery.whole_from
        return RefreshStats(self._options["refresh"], self._options["policy"], refreshes, whole_from)

    def _answer(self, definition: OneTimeQuery, known: Known, isolation: Isolation | None = None) -> pa.Table:
        program = program_of(known, statements=(definition,), queries=())
        given: Given = {}
        if reads_archives(definition.plan):
            asked = without_archives(definition, program_of(known), self.base_dir)
            if not asked.reads_changes:
                return dated(once_archived(asked, self.base_dir))
            program, given = asked.program, asked.given
        live = self._live
        if live is not None and live.is_running:
            try:
                return dated(live.ask(program, isolation, given))
            except UserError as refused:
                if refused.id != "run-ended":
                    raise
                with self._room.waiting():
                    live.wait()
        options = {name: self._options[name] for name in ("batch_rows", "fail_on_rejects")}
        return answer_once(program, self.base_dir, options, given, isolation)


def _started(
    program: Program,
    base_dir: Path,
    options: dict[str, Any],
    delivery: Delivery,
    stop: threading.Event,
    room: Room,
) -> Live:
    """A run on its way. Its thread must not know the session, which else would never be let go."""

    def wake() -> None:
        if not live.is_running:
            delivery.end(live.failure)
        room.wake()

    live = Live(program, base_dir=base_dir, options=options, monitor=delivery, stop=stop, wake=wake)
    live.start()
    return live


def _concerns_run(before: Known, after: Known) -> bool:
    """Whether the pipeline has to know: other queries or indexes, streams and relations that are gone."""
    return (
        before.queries != after.queries
        or before.archives != after.archives
        or before.indexes != after.indexes
        or any(after.streams.get(name) != stream for name, stream in before.streams.items())
        or any(after.relations.get(name) != relation for name, relation in before.relations.items())
    )


def _counted(count: int, one: str, many: str) -> str:
    return f"{count} {one if count == 1 else many}"
