"""What EXPLAIN says of a run beside the plans: passes of a batch, and when periodic queries are refreshed.

Of a periodic query: what it reads and by which rule; its group, whose queries may be executed together, and
the rules that make it one (002, section 8.3); how it is refreshed (8.4), where its groups are, and how it
fares in a run.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

from sash.engine.observe.passes import passes
from sash.engine.observe.report import QueryRefreshStats, RefreshStats
from sash.lang import Program
from sash.lang.algebra import Stream
from sash.lang.bound import QueryDefinition, StreamDefinition
from sash.plan.explain import explain_program
from sash.plan.explain.measured import Run
from sash.plan.explain.text import asked_queries, duration
from sash.plan.periodic import is_periodic, select_of
from sash.plan.placement import AT_DRIVER, MAX_DRIVER_GROUPS, PARTITIONED, state_of
from sash.plan.progress import tells_progress
from sash.plan.refresh import EXACT, is_elastic_in, refresh_of
from sash.plan.run_plan import standing_in
from sash.plan.scalars import readable, tree_of
from sash.scheduling import DEFAULT
from sash.sharing.of_plan import Shared, shared_in
from sash.sharing.sharing import OWN, listed

PLANNED = RefreshStats(EXACT, DEFAULT.slug)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def explained(
    program: Program,
    form: str | None = None,
    query: str | None = None,
    run: Run | None = None,
    fares: RefreshStats = PLANNED,
) -> str:
    """`explain_program` with all that there is to say; `fares`: of a run, or how one would be."""
    notes = {name: (line,) for name, line in passes(program).items()}
    for name, lines in _refreshed(program, fares).items():
        notes[name] = (*notes.get(name, ()), *lines)
    for asked in (*standing_in(program), *asked_queries(program)):
        if tells_progress(asked):
            notes[asked.name] = (*notes.get(asked.name, ()), "tells its progress: WITH (progress = true)")
    return explain_program(program, form, query, run, notes)


def _refreshed(program: Program, fares: RefreshStats) -> dict[str, tuple[str, ...]]:
    queries = {query.name: query for query in (*standing_in(program), *asked_queries(program))}
    streams = {stream.name: stream for stream in program.streams}
    planned = shared_in(program.streams, queries.values())
    shared = planned | {name: each.shared for name, each in fares.queries.items() if each.shared is not None}
    notes = {}
    for name in planned:
        query = queries[name]
        lines = [_shared(name, shared), *([_asked(query, fares)] if is_periodic(query) else [])]
        if is_periodic(query) and select_of(query).keys:
            lines.append(_kept(query, fares))
        if name in fares.queries:
            lines.append(fared(fares.queries[name], streams[first_stream(query)]))
        notes[name] = tuple(lines)
    return notes


def _shared(name: str, shared: Mapping[str, Shared]) -> str:
    own = shared[name]
    others = [other for other, each in shared.items() if each.group == own.group and other != name]
    rule = "a synopsis of its own" if own.rule == OWN else f"rule {own.rule}"
    together = f"with {listed(others)} by {', '.join(own.group_rules)}" if others else "alone"
    return f"reads {own.synopses}, {rule}; in group {own.group} {together}"


def _asked(query: QueryDefinition, fares: RefreshStats) -> str:
    asked, slide = refresh_of(query), duration(select_of(query).window.slide)
    priority = f", priority {asked.priority}" if asked.priority else ""
    if is_elastic_in(query, fares.refresh):
        return f"refreshed elastically, every {slide} if there is time, policy {fares.policy}{priority}"
    return f"refreshed exactly, every {slide}{priority}"


def _kept(query: QueryDefinition, fares: RefreshStats) -> str:
    """Where the groups of a query are, and why."""
    by = ", ".join(key.text or readable(tree_of(key.sql)) for key in select_of(query).keys)
    run = fares.queries.get(query.name)
    if run is not None and run.partitions:
        return f"groups divided by {by} among {run.partitions} partitions"
    if is_elastic_in(query, fares.refresh):
        return "groups with the driver, because they are refreshed elastically"
    state = state_of(query)
    if state == AT_DRIVER:
        return f"groups with the driver, because of WITH (state = '{state}')"
    if state == PARTITIONED:
        return f"groups divided by {by} among partitions, if there are any: WITH (state = '{state}')"
    most = f"{MAX_DRIVER_GROUPS:,} of them (--max-driver-groups)"
    return f"groups with the driver; beyond {most} divided by {by} among partitions, if there are any"


def first_stream(query: QueryDefinition) -> str:
    """A stream whose time is that of the query's answers."""
    return next(leaf.name for leaf in query.plan.walk() if isinstance(leaf, Stream))


def fared(fares: QueryRefreshStats, stream: StreamDefinition) -> str:
    """How a query was refreshed in a run."""
    if fares.at is None:
        return "in the run: not answered yet"
    at = _written(fares.at, stream)
    granted = "" if fares.granted is None else f", period granted {fares.granted:g} s of {fares.period:g} s"
    late = f", {fares.late:g} s late, at worst {fares.worst:g} s, boundaries skipped: {fares.skipped:,}"
    told = f"in the run: answered at {at}{granted}{late}"
    if fares.whole_from is None:
        return told
    return f"{told}; windows whole from {_written(fares.whole_from, stream)} on"


def _written(instant: int, stream: StreamDefinition) -> str:
    """An instant as the stream has it."""
    if stream.has_integer_time:
        return str(instant // stream.unit)
    return (_EPOCH + timedelta(microseconds=instant)).isoformat()
