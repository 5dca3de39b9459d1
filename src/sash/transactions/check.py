"""Which isolation a history has, and whether each query got what it was promised.

    conflict-serializable            the serialization graph has no cycle
    window-serializable (WS)         every committed query read the windows as they were after one movement
                                     before its commit (002, Definition 7.1)
    latest-window-serializable (LWS) that movement was the newest one at its commit (Definition 7.2)
    commit-order preserving (CPS)    transactions in conflict are in the order of their commits (section 7.6)
    complete                         every query found its whole window in the synopsis or the rows it read

Every read holds for the movements from the version that it saw to the one before the next version. A query
read a true state if these stretches have a movement in common after which its sub-windows were the youngest
of their rings. Theorems 7.1 and 7.2 say the same of the graph, for queries that read whole rings.
Costs: n log n for n events.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from sash.transactions.events import Committed, Covered, Isolation, Moved, Query, SubWindow
from sash.transactions.graph import Edge, Reads, cycle, edges, reads_of
from sash.transactions.history import History
from sash.transactions.timeline import Timeline, shown


@dataclass(frozen=True, slots=True)
class Verdict:
    """A committed query: it read the windows as they were from movement `since` through `state`, if ever.

    `latest` was the newest movement when it committed, `named` the one that its answer claims to reflect.
    `lacking` is a source that it read whose past does not reach as far back as the window.
    `why` tells what keeps it from a true or from the latest state.
    """

    transaction: int
    query: Query
    position: int
    latest: int
    since: int | None
    state: int | None
    named: int
    is_instant_right: bool
    why: str = ""
    lacking: Covered | None = None

    @property
    def is_window(self) -> bool:
        return self.state is not None

    @property
    def is_latest(self) -> bool:
        return self.state == self.latest

    @property
    def is_complete(self) -> bool:
        return self.lacking is None

    @property
    def broken(self) -> str:
        """Why the promise to the query was not kept; nothing if it was."""
        if (
            self.since is None
            or self.state is None
            or (self.query.isolation is Isolation.LWS and not self.is_latest)
        ):
            return self.why
        if not self.since <= self.named <= self.state:
            return f"its answer names movement {self.named}, but it reflects movement {self.state}"
        if not self.is_instant_right:
            return f"its answer does not name the instant of movement {self.named}"
        if self.lacking is not None:
            return (
                f"its window begins after {self.lacking.after}, and {self.lacking.source} is complete only "
                f"since {self.lacking.since}"
            )
        return ""


@dataclass(frozen=True, slots=True)
class Classification:
    """`circle` is a cycle of the serialization graph; `disorder` an edge against the order of commits."""

    verdicts: tuple[Verdict, ...]
    circle: tuple[str, ...]
    disorder: Edge | None

    @property
    def is_conflict_serializable(self) -> bool:
        return not self.circle

    @property
    def is_window_serializable(self) -> bool:
        return all(verdict.is_window for verdict in self.verdicts)

    @property
    def is_latest_window_serializable(self) -> bool:
        return all(verdict.is_latest for verdict in self.verdicts)

    @property
    def is_complete(self) -> bool:
        """Whether every query found all of its windows in what it read."""
        return all(verdict.is_complete for verdict in self.verdicts)

    @property
    def is_commit_order_preserving(self) -> bool:
        return self.disorder is None

    @property
    def violation(self) -> Verdict | None:
        """The first query, by commit, that did not get what it was promised."""
        return next((verdict for verdict in self.verdicts if verdict.broken), None)


def classify(history: History) -> Classification:
    timeline = Timeline(history)
    queries, reads = history.queries(), reads_of(history, timeline)
    commits: dict[str, int] = {f"T{number}": place for number, place in timeline.settled.items()}
    verdicts = []
    lacking: dict[int, Covered] = {}
    for position, event in enumerate(history.events):
        if isinstance(event, Covered) and not event.is_whole:
            lacking[event.transaction] = event
        if isinstance(event, Committed):
            commits[f"Q{event.transaction}"] = position
            query = queries[event.transaction]
            read = reads.get(event.transaction, Reads())
            verdict = _judge(event, query, read, position, timeline)
            verdicts.append(replace(verdict, lacking=lacking.get(event.transaction)))
    # Queries that read a true state follow the movement that left it; there is a cycle only if one did not.
    is_window = all(verdict.is_window for verdict in verdicts)
    circle = () if is_window else cycle(edges(history, timeline, reads))
    # Where movements commit at once, who reads the latest state commits before all that changes it.
    late = any(isinstance(event, Moved) and not event.is_settled for event in history.events)
    doubtful = None if late else {verdict.transaction for verdict in verdicts if not verdict.is_latest}
    never = len(history.events)
    disorder = next(
        (
            edge
            for edge in edges(history, timeline, reads, doubtful)
            if commits.get(edge.earlier, never) > commits.get(edge.later, never)
        ),
        None,
    )
    return Classification(tuple(verdicts), circle, disorder)


def _judge(commit: Committed, query: Query, reads: Reads, position: int, timeline: Timeline) -> Verdict:
    latest = timeline.latest_at(position)
    since, state, why = None, None, reads.fault
    if not reads.fault:
        since, state, why = _states(query, reads.versions, latest, timeline)
    if state is not None and state != latest:
        why = f"it reflects movement {state}, but movement {latest} came before its commit; {why}"
    right = commit.instant == timeline.instant_of(commit.state)
    return Verdict(commit.transaction, query, position, latest, since, state, commit.state, right, why)


def _states(
    query: Query, reads: Mapping[SubWindow, int], latest: int, timeline: Timeline
) -> tuple[int | None, int | None, str]:
    """The movements up to `latest` after which the reads are the query's windows, and what bounds them."""
    low, high = timeline.start, latest
    oldest_reason = newest_reason = ""
    for sub_window, version in reads.items():
        if version > low:
            low = version
            oldest_reason = f"it read {shown(sub_window)} as movement {version} left it"
        changed = timeline.next_version(sub_window, version)
        if changed is not None and changed <= high:
            high = timeline.before(changed)
            newest_reason = f"it read {shown(sub_window)} before movement {changed} changed it"
    by_ring: dict[str, list[int]] = {ring: [] for ring in query.windows}
    for ring, pane in reads:
        if ring not in by_ring:
            return None, None, f"it read ring '{ring}', which it has no window over"
        by_ring[ring].append(pane)
    for ring, panes in by_ring.items():
        line = timeline.line(ring)
        if not panes:
            filled = line.since[0] if line.since else None
            if filled is not None and filled <= high:
                high = timeline.before(filled)
                newest_reason = f"it read nothing of ring '{ring}', which movement {filled} filled"
            continue
        newest, oldest = max(panes), min(panes)
        wanted = max(line.tail_under(newest), newest - query.windows[ring] + 1)
        if oldest != wanted or len(panes) != newest - oldest + 1:
            missing = sorted(set(range(wanted, newest + 1)) - set(panes))
            extra = sorted(pane for pane in panes if pane < wanted)
            what = f"did not read {_listed(missing)}" if missing else f"also read {_listed(extra)}"
            return (
                None,
                None,
                (
                    f"its window over ring '{ring}' that ends with sub-window {newest} begins with {wanted}, "
                    f"and it {what}"
                ),
            )
        slid = line.passed(newest)
        if slid is not None and slid <= high:
            high = timeline.before(slid)
            newest_reason = (
                f"its newest sub-window of ring '{ring}' is {newest}, and movement {slid} slid the ring on"
            )
    if low > high:
        return None, None, f"{oldest_reason}, and {newest_reason}: the windows never were like that"
    return low, high, newest_reason


def _listed(panes: list[int]) -> str:
    few = ", ".join(map(str, panes[:5]))
    return f"sub-windows {few}{' …' if len(panes) > 5 else ''}" if len(panes) > 1 else f"sub-window {few}"
