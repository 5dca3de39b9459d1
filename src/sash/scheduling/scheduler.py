"""The scheduler: events in, instructions out (002, section 8.4).

Events: queries come (`put`) and go (`drop`), and synopses have been updated (`updated`, with the instant
that they show now). `next` gives the queries that are to be executed now, or None until another event. It
has no clock, no threads and no I/O.

A task has the deadline «last execution + period». Every decision takes the task with the earliest one, those
of equal deadlines by priority, and of its group the tasks that the policy lets go along. Under overload
deadlines pass: the task that is latest is next, its period counts from when it is executed, and so all
periods get longer and no query is left out. A query's lateness is how much more time than its period has
passed between two executions.

Invariant: every query is in one task; every task is in the heap of all tasks and in that of its group, under
its deadline; entries with other deadlines are stale and skipped. Cost: a decision is O(log n) for each task
that it takes, and one array operation over their queries.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from sash.errors import DuplicateName, InternalError, UnknownName
from sash.scheduling.hybrid import HYBRID
from sash.scheduling.late_pending import with_late_pending_sharing
from sash.scheduling.policy import Block, Policy, Semantics, Standing

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

DEFAULT = with_late_pending_sharing(HYBRID)


@dataclass(eq=False, slots=True)
class Task:
    """Queries that are executed together; `deadline` is the instant at which they are due."""

    number: int
    group: str
    period: int
    priority: int
    slots: Ints
    deadline: int = 0
    is_alive: bool = True

    @property
    def entry(self) -> Entry:
        return self.deadline, -self.priority, self.number, self


Entry = tuple[int, int, int, Task]


@dataclass(frozen=True, slots=True)
class Execution:
    """What is to be executed: queries of one group, with the boundary that each answers and how late it is.

    `skipped` is how many boundaries each missed before. A query of the tasks that has no new boundary to
    answer is not among them.
    """

    instant: int
    group: str
    queries: tuple[str, ...]
    boundaries: Ints
    lateness: Ints
    skipped: Ints
    tasks: int


@dataclass(frozen=True, slots=True)
class Report:
    """How a query fares: its period as asked for, as planned and as last granted; lateness; when due."""

    period: int
    planned: int
    granted: int | None
    executions: int
    lateness: int
    mean_lateness: float
    worst_lateness: int
    skipped: int
    due: int


@dataclass(slots=True)
class _Group:
    slots: dict[int, None] = field(default_factory=dict)
    tasks: list[Task] = field(default_factory=list)
    heap: list[Entry] = field(default_factory=list)


class Scheduler:
    """`is_eager`: with nothing due, execute what is due next, as Algorithm 9 does; else wait.

    A task that was executed since the last update is never executed again before the next one.
    """

    def __init__(
        self,
        policy: Policy = DEFAULT,
        semantics: Semantics = Semantics.BOUNDARIES,
        now: int = 0,
        *,
        is_eager: bool = False,
    ) -> None:
        self.policy = policy
        self.semantics = semantics
        self.now = now
        self._is_eager = is_eager and semantics is Semantics.ELASTIC
        self._slots: dict[str, int] = {}
        self._queries: list[Standing | None] = []
        self._names: npt.NDArray[np.object_] = np.zeros(0, dtype=object)
        self._free: list[int] = []
        # One row a slot: period, last boundary answered, then counts.
        self._state: Ints = np.zeros((0, len(_COLUMNS)), dtype=np.int64)
        self._groups: dict[str, _Group] = {}
        self._task_of: dict[int, Task] = {}
        self._heap: list[Entry] = []
        self._made = 0
        self._stale: set[str] = set()

    # ------------------------------------------------------------------ events

    def put(self, query: Standing) -> None:
        """A query comes; its first answer is due after one period."""
        if query.name in self._slots:
            raise DuplicateName(f"there is a query '{query.name}' already")
        if query.period < 1:
            raise InternalError(f"{query.name} has a period of {query.period}")
        slot = self._free.pop() if self._free else self._grow()
        self._slots[query.name] = slot
        self._queries[slot] = query
        self._names[slot] = query.name
        last = self.now if self.semantics is Semantics.ELASTIC else self.now // query.period * query.period
        self._state[slot] = 0
        self._state[slot, _PERIOD], self._state[slot, _LAST] = query.period, last
        self._groups.setdefault(query.group, _Group()).slots[slot] = None
        self._stale.add(query.group)

    def drop(self, name: str) -> None:
        slot = self._slots.pop(name, None)
        if slot is None:
            raise UnknownName("query", name, sorted(self._slots))
        query = self._queries[slot]
        assert query is not None
        del self._groups[query.group].slots[slot]
        self._queries[slot] = None
        self._free.append(slot)
        self._task_of.pop(slot, None)
        self._stale.add(query.group)

    def regroup(self, queries: Iterable[Standing]) -> None:
        """Queries that are known get other groups, priorities or costs; how they fared so far stays."""
        for query in queries:
            slot = self._slots.get(query.name)
            if slot is None:
                raise UnknownName("query", query.name, sorted(self._slots))
            before = self._queries[slot]
            assert before is not None
            if before == query and before.work == query.work:
                continue
            if before.period != query.period:
                raise InternalError(f"the period of {query.name} changes with its group")
            del self._groups[before.group].slots[slot]
            self._queries[slot] = query
            self._groups.setdefault(query.group, _Group()).slots[slot] = None
            self._stale |= {before.group, query.group}

    def updated(self, now: int) -> None:
        """The synopses show the windows of `now`."""
        if now < self.now:
            raise InternalError(f"time goes back from {self.now} to {now}")
        self.now = now

    def arrange(self) -> None:
        """Divide groups whose queries have changed into tasks anew; `next` does it, too.

        It takes longer than a decision, so who wants those to be quick calls it after a change.
        """
        for name in sorted(self._stale):
            group = self._groups[name]
            for task in group.tasks:
                task.is_alive = False
            group.tasks, group.heap = [], []
            if not group.slots:
                del self._groups[name]
                continue
            queries = [query for slot in group.slots if (query := self._queries[slot]) is not None]
            for block in self.policy.divide(queries, self.semantics):
                self._add_task(name, group, block)
        if self._stale:
            self._heap = [
                entry for entry in self._heap if entry[3].is_alive and entry[3].deadline == entry[0]
            ]
            heapq.heapify(self._heap)
            self._stale.clear()

    def next(self) -> Execution | None:
        """What is to be executed now; None: nothing before the next event."""
        self.arrange()
        while (first := self._earliest()) is not None:
            until = first.deadline - self.now
            if until > 0:
                return self._eager() if self._is_eager else None
            tasks = [first]
            bound = self.policy.along(until)
            if bound is not None:
                tasks += self._along(first, self.now + bound)
            execution = self._execute(tasks)
            # A task may have nothing new to answer if its period is shorter than that of each of its queries.
            if execution.queries:
                return execution
        return None

    # ------------------------------------------------------------------ decisions

    def _earliest(self) -> Task | None:
        heap = self._heap
        while heap:
            deadline, _, _, task = heap[0]
            if task.is_alive and task.deadline == deadline:
                return task
            heapq.heappop(heap)
        return None

    def _along(self, first: Task, latest: int) -> list[Task]:
        """Other tasks of the group whose deadline is not after `latest`; they are taken out of its heap."""
        heap, found = self._groups[first.group].heap, []
        while heap and heap[0][0] <= latest:
            deadline, _, _, task = heapq.heappop(heap)
            if task.is_alive and task.deadline == deadline and task is not first:
                found.append(task)
        return found

    def _eager(self) -> Execution | None:
        """Nothing is due: the task that is due next, of those that an update has changed since they ran."""
        changed = [
            task
            for group in self._groups.values()
            for task in group.tasks
            if task.deadline < self.now + task.period
        ]
        if not changed:
            return None
        first = min(changed, key=lambda task: task.entry[:3])
        bound = self.policy.along(first.deadline - self.now)
        along = [
            task
            for task in changed
            if bound is not None
            and task is not first
            and task.group == first.group
            and task.deadline <= self.now + bound
        ]
        return self._execute([first, *along])

    def _execute(self, tasks: list[Task]) -> Execution:
        slots = tasks[0].slots if len(tasks) == 1 else np.concatenate([task.slots for task in tasks])
        state = self._state
        periods, last = state[slots, _PERIOD], state[slots, _LAST]
        if self.semantics is Semantics.ELASTIC:
            boundaries = np.full(len(slots), self.now)
            skipped = np.zeros(len(slots), dtype=np.int64)
        else:
            boundaries = self.now // periods * periods
            is_new = boundaries > last
            slots, periods, last = slots[is_new], periods[is_new], last[is_new]
            boundaries = boundaries[is_new]
            skipped = (boundaries - last) // periods - 1
        lateness = np.maximum(self.now - last - periods, 0)
        state[slots, _GRANTED] = boundaries - last
        state[slots, _LAST] = boundaries
        state[slots, _EXECUTIONS] += 1
        state[slots, _LATENESS] = lateness
        state[slots, _TOTAL_LATENESS] += lateness
        state[slots, _WORST_LATENESS] = np.maximum(state[slots, _WORST_LATENESS], lateness)
        state[slots, _SKIPPED] += skipped
        for task in tasks:
            self._push(task, self._next_deadline(self.now, task.period))
        names = tuple(self._names[slots].tolist())
        return Execution(self.now, tasks[0].group, names, boundaries, lateness, skipped, len(tasks))

    def _next_deadline(self, last: int, period: int) -> int:
        return last + period if self.semantics is Semantics.ELASTIC else (last // period + 1) * period

    def _push(self, task: Task, deadline: int) -> None:
        task.deadline = deadline
        heapq.heappush(self._heap, task.entry)
        heapq.heappush(self._groups[task.group].heap, task.entry)

    # ------------------------------------------------------------------ tasks

    def _add_task(self, name: str, group: _Group, block: Block) -> None:
        slots = np.array([self._slots[query.name] for query in block.queries], dtype=np.int64)
        priority = max(query.priority for query in block.queries)
        task = Task(self._made, name, block.period, priority, slots)
        self._made += 1
        group.tasks.append(task)
        self._task_of.update(dict.fromkeys(slots.tolist(), task))
        self._push(task, int((self._state[slots, _LAST] + self._state[slots, _PERIOD]).min()))

    def _grow(self) -> int:
        slot = len(self._queries)
        self._queries.append(None)
        if slot >= len(self._state):
            more = max(16, len(self._state))
            self._state = np.concatenate([self._state, np.zeros((more, len(_COLUMNS)), dtype=np.int64)])
            self._names = np.concatenate([self._names, np.zeros(more, dtype=object)])
        return slot

    # ------------------------------------------------------------------ looking at it

    def __len__(self) -> int:
        return len(self._slots)

    @property
    def next_due(self) -> int | None:
        """The earliest deadline."""
        self.arrange()
        task = self._earliest()
        return None if task is None else task.deadline

    def tasks(self) -> dict[str, list[tuple[int, tuple[str, ...]]]]:
        """The tasks of each group: period and queries."""
        self.arrange()
        return {
            name: [(task.period, tuple(self._names[task.slots].tolist())) for task in group.tasks]
            for name, group in self._groups.items()
        }

    def report(self, name: str) -> Report:
        self.arrange()
        slot = self._slots.get(name)
        if slot is None:
            raise UnknownName("query", name, sorted(self._slots))
        return report_of(self._state[slot].tolist(), self._task_of[slot].period)

    def snapshot(self) -> dict[str, list[int]]:
        """How each query fared so far, for `restore`."""
        return {name: self._state[slot].tolist() for name, slot in self._slots.items()}

    def restore(self, saved: Mapping[str, list[int]], now: int) -> None:
        """Go on from a snapshot, for queries that have been put already."""
        self.now = now
        for name, row in saved.items():
            slot = self._slots.get(name)
            if slot is not None and row[_PERIOD] == self._state[slot, _PERIOD]:
                self._state[slot] = row
        self._stale = set(self._groups)

    def validate(self) -> None:
        """Raise if the invariant does not hold."""
        self.arrange()
        live = {id(entry[3]) for entry in self._heap if entry[3].deadline == entry[0]}
        seen: list[int] = []
        for name, group in self._groups.items():
            grouped = {id(entry[3]) for entry in group.heap if entry[3].deadline == entry[0]}
            for task in group.tasks:
                if id(task) not in live or id(task) not in grouped:
                    raise InternalError(f"a task of {name} is in no heap")
                if task.period > self._state[task.slots, _PERIOD].min():
                    raise InternalError(f"a task of {name} has a longer period than a query in it")
                seen.extend(task.slots.tolist())
        if sorted(seen) != sorted(self._slots.values()):
            raise InternalError("a query is in no task, or in two")


_COLUMNS = (
    "period",
    "last",
    "granted",
    "executions",
    "lateness",
    "total lateness",
    "worst lateness",
    "skipped",
)
(
    _PERIOD,
    _LAST,
    _GRANTED,
    _EXECUTIONS,
    _LATENESS,
    _TOTAL_LATENESS,
    _WORST_LATENESS,
    _SKIPPED,
) = range(len(_COLUMNS))


def report_of(row: list[int], planned: int | None = None) -> Report:
    """What a row of a snapshot says; its task has the period that was planned, if that is known."""
    executions = row[_EXECUTIONS]
    return Report(
        row[_PERIOD],
        row[_PERIOD] if planned is None else planned,
        row[_GRANTED] if executions else None,
        executions,
        row[_LATENESS],
        row[_TOTAL_LATENESS] / executions if executions else 0.0,
        row[_WORST_LATENESS],
        row[_SKIPPED],
        row[_LAST] + row[_PERIOD],
    )
