"""When queries are refreshed, where boundaries may be passed over: elastic refresh (002, section 8.4).

After each batch the scheduler says which queries are executed next, and with whom. An execution answers the
newest boundary of each of its queries. It goes on until nothing is due or the time that the input leaves is
used up; the others wait, so that their periods become longer. Nothing is dropped: who waits is late, and who
is latest comes first.

Queries that read one synopsis with one window are one task in any case: their answers come from the same
totals. Each stream has a time of its own and so a scheduler of its own; they take turns.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

import pyarrow as pa

from sash.engine.observe.report import QueryRefreshStats
from sash.engine.periodic.groups import QueryGroup
from sash.plan.join_synopses import JoinReader, SharedJoin
from sash.plan.panes import first_boundary, last_boundary
from sash.plan.periodic import PeriodicPlan, PeriodicQuery
from sash.plan.refresh import EXACT, is_elastic_in, refresh_of
from sash.scheduling import DEFAULT, Execution, Policy, Report, Scheduler, Semantics, Standing, standings_of
from sash.sharing.of_plan import sharing_of
from sash.synopses.refresh import Refresher, flush_together

# Streams may begin before 1970.
_LONG_AGO = -(1 << 62)

Saved = Mapping[str, list[int]]
"""How the tasks of queries fared, by query."""


@dataclass(frozen=True, slots=True)
class Answered:
    """How far a query has been answered whose boundaries may wait, or be passed over.

    `first` is the first instant of its stream, `since` how far time was when it came, `last` the boundary
    that was answered last.
    """

    first: int | None
    since: int | None
    last: int | None
    slide: int

    @property
    def _begin(self) -> int | None:
        """Its first boundary."""
        if self.first is None:
            return None
        earliest = self.first if self.since is None else max(self.first, self.since + 1)
        return first_boundary(earliest, self.slide)

    def through(self, watermark: int | None) -> int | None:
        """Up to which instant it is answered; None: it waits for its first answer."""
        if watermark is None:
            return None
        newest = last_boundary(watermark, self.slide)
        if self.last is None:
            return watermark if self._begin is None or self._begin > newest else None
        return watermark if self.last >= newest else self.last

    def skipped_after(self, before: Answered) -> int | None:
        """The boundary after which it has passed some over since `before`; None: it has not."""
        last = before.last
        if last is None and self._begin is not None:
            # Nothing is answered before the first one.
            last = self._begin - self.slide
        return last if last is not None and self.last is not None and self.last > last + self.slide else None


@dataclass(slots=True)
class Task:
    """Refreshers of one synopsis and window; several if queries have come since the last execution."""

    group: QueryGroup
    refreshers: list[Refresher]

    def answer(self, boundary: int, through: int) -> Iterator[tuple[str, pa.Table]]:
        first = self.group.first
        if first is None or boundary < first:
            return
        for refresher in self.refreshers:
            is_new = refresher.last is None or refresher.last < boundary
            if is_new and refresher.has_answered_at(boundary) and not refresher.is_idle:
                self.group.synopsis.move_to(boundary)
                refresher.step(boundary, through)
                yield from flush_together([refresher])


class Refreshing:
    """`usual`: how queries are refreshed that do not say. `clock` measures what answers take, in seconds."""

    def __init__(
        self,
        policy: Policy = DEFAULT,
        *,
        usual: str = EXACT,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._usual = usual
        self._clock = clock
        self._policy = policy
        self._schedulers: dict[str, Scheduler] = {}
        # The streams, those whose turn it is first.
        self._turns: list[str] = []
        self._standings: dict[str, Standing] = {}
        # The tasks that schedulers know, with their streams, in the order in which they came.
        self._put: dict[str, str] = {}
        self._tasks: dict[str, Task] = {}
        self._task_of: dict[str, str] = {}
        self.decisions = 0
        self.deciding = 0.0

    def is_elastic(self, query: PeriodicQuery) -> bool:
        return is_elastic_in(query.definition, self._usual)

    def change(self, groups: Iterable[QueryGroup], plan: PeriodicPlan) -> None:
        """Go on with the refreshers of these groups, which read what the plan says."""
        self._tasks = _tasks(groups)
        self._task_of = {
            query.name: name
            for name, task in self._tasks.items()
            for refresher in task.refreshers
            for query in refresher.queries
        }
        for name in [name for name in self._put if name not in self._tasks]:
            self._scheduler(self._put.pop(name)).drop(name)
        self._standings = dict(self._stand(plan)) if self._tasks else {}
        for stream, scheduler in self._schedulers.items():
            scheduler.regroup(self._standings[name] for name, of in self._put.items() if of == stream)

    def _scheduler(self, stream: str) -> Scheduler:
        if stream not in self._schedulers:
            self._schedulers[stream] = Scheduler(self._policy, Semantics.BOUNDARIES, now=_LONG_AGO)
            self._turns.append(stream)
        return self._schedulers[stream]

    def _stand(self, plan: PeriodicPlan) -> Iterator[tuple[str, Standing]]:
        definitions = {query.name: query.definition for query in plan.queries}
        members: dict[str, list[str]] = {}
        for query, name in self._task_of.items():
            members.setdefault(name, []).append(query)
        found = {standing.name: standing for standing in standings_of(sharing_of(plan))}
        for name, queries in members.items():
            priority = max(refresh_of(definitions[query]).priority for query in queries)
            standing = found[queries[0]]
            work = replace(standing.work, post=standing.work.post + len(queries))
            yield name, replace(standing, name=name, priority=priority, work=work)

    def _begin(self, stream: str, before: int | None, through: int) -> None:
        """Take up tasks of a stream that has begun by `through`; `before` is how far answers had come."""
        firsts = {
            name: first
            for name, task in self._tasks.items()
            if name not in self._put
            and task.group.spec.stream == stream
            and (first := task.group.first) is not None
            and first <= through
        }
        if not firsts:
            return
        if before is None:
            before = min(firsts.values()) - 1
        scheduler = self._scheduler(stream)
        scheduler.updated(max(before, scheduler.now))
        for name in firsts:
            scheduler.put(self._standings[name])
            self._put[name] = stream

    def answer(
        self, throughs: Mapping[str, int], before: Mapping[str, int], seconds: float | None
    ) -> Iterator[tuple[str, pa.Table]]:
        """The answers that are due and that there is time for (None: all).

        Synopses of the streams that have moved on are sealed up to `throughs`.
        """
        if not self._tasks:
            return
        for stream, through in throughs.items():
            self._begin(stream, before.get(stream), through)
            if stream in self._schedulers:
                self._schedulers[stream].updated(through)
        begun = self._clock()
        waiting = [stream for stream in self._turns if stream in throughs]
        while waiting:
            stream = waiting.pop(0)
            execution = self._decide(stream)
            if execution is None:
                continue
            waiting.append(stream)
            self._turns.remove(stream)
            self._turns.append(stream)
            for name, boundary in zip(execution.queries, execution.boundaries.tolist(), strict=True):
                yield from self._tasks[name].answer(boundary, throughs[stream])
            if seconds is not None and self._clock() - begun >= seconds:
                return

    def _decide(self, stream: str) -> Execution | None:
        begun = self._clock()
        execution = self._schedulers[stream].next()
        self.deciding += self._clock() - begun
        self.decisions += 1
        return execution

    # ------------------------------------------------------------------ stops and starts

    def snapshot(self) -> dict[str, list[int]]:
        rows = {name: row for each in self._schedulers.values() for name, row in each.snapshot().items()}
        return {query: rows[name] for query, name in self._task_of.items() if name in rows}

    def resume(self, saved: Saved, throughs: Mapping[str, int]) -> None:
        """Go on from a snapshot."""
        rows = {name: saved[query] for query, name in self._task_of.items() if query in saved}
        for stream, through in throughs.items():
            self._begin(stream, through, through)
            if stream in self._schedulers:
                own = {name: row for name, row in rows.items() if self._put.get(name) == stream}
                self._schedulers[stream].restore(own, through)

    def standing(self) -> dict[str, Answered]:
        """How far each query that is refreshed so has been answered."""
        return {
            query.name: Answered(task.group.first, refresher.since, refresher.last, refresher.window.slide)
            for task in self._tasks.values()
            for refresher in task.refreshers
            for query in refresher.queries
        }

    def reported(self) -> dict[str, QueryRefreshStats]:
        """How each query that is refreshed so fares."""
        reports = {name: self._schedulers[stream].report(name) for name, stream in self._put.items()}
        refreshers = (refresher for task in self._tasks.values() for refresher in task.refreshers)
        lasts = {query.name: refresher.last for refresher in refreshers for query in refresher.queries}
        policy = self._policy.slug
        return {
            query: elastic_fares(reports[name], lasts[query], policy)
            for query, name in self._task_of.items()
            if name in reports
        }


def elastic_fares(report: Report, last: int | None, policy: str) -> QueryRefreshStats:
    """How a query fares that answered `last`."""
    return QueryRefreshStats(
        last,
        report.period / 1e6,
        None if report.granted is None else report.granted / 1e6,
        report.lateness / 1e6,
        report.worst_lateness / 1e6,
        report.skipped,
        policy=policy,
    )


def exact_fares(slide: int, through: int | None) -> QueryRefreshStats:
    """The same of one that has answered every boundary up to `through`."""
    if through is None:
        return QueryRefreshStats(None, slide / 1e6, None)
    return QueryRefreshStats(last_boundary(through, slide), slide / 1e6, slide / 1e6)


def _tasks(groups: Iterable[QueryGroup]) -> dict[str, Task]:
    tasks: dict[str, Task] = {}
    for group in groups:
        for refresher in group.refreshers:
            if refresher.is_elastic:
                window = refresher.window
                name = f"{group.spec.name} {window.range}/{window.slide}"
                tasks.setdefault(name, Task(group, [])).refreshers.append(refresher)
    return tasks


def join_fares(join: SharedJoin, reader: JoinReader, through: int | None) -> QueryRefreshStats:
    """How a query fares that reads a join synopsis, which is answered at every boundary since it came."""
    fares = exact_fares(reader.slide, through)
    if reader.since is not None and fares.at is not None and fares.at <= reader.since:
        return QueryRefreshStats(None, fares.period, None)
    whole_from = None
    if reader.after is not None:
        whole_from = join.spec.panes.right_edge(reader.after + max(reader.lengths))
    return replace(fares, whole_from=whole_from)
