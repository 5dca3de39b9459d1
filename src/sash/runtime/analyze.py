"""EXPLAIN ANALYZE: run queries for their plans' sake, throwing away what they give."""

from __future__ import annotations

import tempfile
import threading
from dataclasses import replace
from pathlib import Path

from sash.engine.observe.explaining import fared, first_stream
from sash.engine.observe.report import Monitor
from sash.errors import UserError
from sash.lang import Program
from sash.lang.bound import QueryDefinition
from sash.plan.explain.measured import Run
from sash.plan.explain.text import asked_queries
from sash.plan.run_plan import standing_in
from sash.runtime.run import run_program


def analyze(
    program: Program,
    *,
    base_dir: Path,
    runtime: str = "inline",
    master: str = "local[*]",
    everything: bool = False,
    monitor: Monitor | None = None,
    stop: threading.Event | None = None,
) -> Run:
    """Run what EXPLAIN ANALYZE asks about, or every query, until the input ends or `stop` is set."""
    asked = [
        query
        for query, definition in zip(asked_queries(program), program.explains, strict=True)
        if definition.analyze or everything
    ]
    queries = {query.name: query for query in (*(standing_in(program) if everything else ()), *asked)}
    if not queries:
        raise UserError(
            "there is no query to analyze", hint="add a CREATE QUERY or EXPLAIN ANALYZE", id="no-query"
        )
    watched = replace(
        program,
        queries=tuple(_unwritten(query) for query in queries.values()),
        statements=(),
        archives=(),
        indexes=(),
    )
    with tempfile.TemporaryDirectory(prefix="sash-") as dead_letters:
        summary = run_program(
            watched,
            base_dir=base_dir,
            runtime=runtime,
            master=master,
            dead_letters=Path(dead_letters),
            monitor=monitor,
            stop=stop,
        )
    chosen = dict(summary.chosen)
    streams = {stream.name: stream for stream in program.streams}
    for name, fares in summary.refreshes.items():
        stream = streams[first_stream(queries[name])]
        chosen[name] = (*chosen.get(name, ()), fared(fares, stream))
    return Run(summary.seconds, summary.measured, summary.rates, chosen)


def _unwritten(query: QueryDefinition) -> QueryDefinition:
    """The query without its output; that of an archive runs as operators all the same."""
    options = query.options
    if query.archive is not None and "strategy" not in dict(options):
        options = (*options, ("strategy", "upa"))
    return replace(query, sink="noop:", archive=None, options=options)
