"""Query groups: a synopsis and the queries that read it, whichever part of the run they came with.

How windows are looked up (`plan/synopsis_choice.py`) and how groups that pass HAVING are found
(`plan/index_choice.py`) is chosen by what is asked, and again when queries come or go and as the groups of
the stream become known; answers do not depend on it.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping

import pyarrow as pa

from sash.lang.bound import StreamDefinition, Window
from sash.plan.index_choice import IndexChoice, Selected, choose_index
from sash.plan.panes import last_boundary
from sash.plan.periodic import PeriodicQuery, SynopsisSpec
from sash.plan.synopsis_choice import Method, SynopsisChoice, rechoose_synopsis, workload_of
from sash.synopses.basic_interval import BasicIntervalSynopsis
from sash.synopses.build import build_store
from sash.synopses.collective.filters import Filters
from sash.synopses.refresh import Refresher
from sash.synopses.selection import Selection

# So often are answers given between two choices, at the most.
_ANSWERS_PER_CHOICE = 64
_BY_INDEX = SynopsisChoice(Method.BASIC, "only groups that indexes find are looked up", 0.0)


class QueryGroup:
    """`first` is the first instant of the synopsis's stream since it is there; before it nobody answers."""

    def __init__(self, spec: SynopsisSpec, stream: StreamDefinition) -> None:
        self.spec = spec
        self.synopsis = BasicIntervalSynopsis(spec)
        self.first: int | None = None
        self._stream = stream
        self._queries: set[str] = set()
        self._refreshers: list[Refresher] = []
        self.choice = SynopsisChoice(Method.BASIC, "nothing is known of the stream yet", 0.0)
        self._chosen_for: set[Window] = set()
        self.index = IndexChoice(False, "nothing is known of the stream yet")
        self._indexed_for: set[tuple[int, Selection]] = set()
        # How many more times answers are given before the choice is made again.
        self._until_choice = 1
        self._interval = 1

    def add(self, queries: Collection[PeriodicQuery], since: int | None) -> None:
        """Answer these queries, too: from the instants after `since`, or from the first on."""
        sharers: dict[Window, list[PeriodicQuery]] = defaultdict(list)
        for query in queries:
            if query.name not in self._queries:
                sharers[query.window].append(query)
                self._queries.add(query.name)
        self._refreshers += [
            Refresher(self.synopsis, window, members, self._stream, since)
            for window, members in sharers.items()
        ]
        self._until_choice = 1

    def keep(self, queries: Collection[str]) -> None:
        """Answer no others."""
        gone = self._queries - set(queries)
        if gone:
            self._queries -= gone
            self._refreshers = [refresher for refresher in self._refreshers if not refresher.drop(gone)]
            self._until_choice = 1

    def answer(self, through: int) -> Iterator[tuple[str, pa.Table]]:
        """The answers of all boundaries up to `through`."""
        first = self.first
        if first is None or not self._refreshers:
            return
        self.synopsis.seal(through)
        # What is sealed does not change meanwhile, so a refresher's next boundary changes only by its steps.
        dues = [(due, i) for i, r in enumerate(self._refreshers) if (due := r.due(first)) is not None]
        heapq.heapify(dues)
        while dues and dues[0][0] <= through:
            boundary, index = dues[0]
            refresher = self._refreshers[index]
            self.synopsis.move_to(boundary)
            refresher.step(boundary, through)
            if refresher.is_full:
                yield from refresher.flush().items()
            due = refresher.due(first)
            if due is None:
                heapq.heappop(dues)
            else:
                heapq.heapreplace(dues, (due, index))
        for refresher in self._refreshers:
            yield from refresher.flush().items()
        self._join()
        self.synopsis.trim(min(refresher.left for refresher in self._refreshers))
        self._until_choice -= 1
        if self._until_choice == 0:
            self._choose()

    def _join(self) -> None:
        """Let queries that came at different times go on together where they have come equally far."""
        known: dict[Window, Refresher] = {}
        for refresher in self._refreshers:
            other = known.setdefault(refresher.window, refresher)
            if other is not refresher:
                other.join(refresher)
        self._refreshers = [refresher for refresher in self._refreshers if not refresher.is_idle]

    def _choose(self) -> None:
        """Look windows up in the way that is cheapest for what is asked and what has come so far."""
        # At first little is known of the stream, and soon more.
        self._interval = min(_ANSWERS_PER_CHOICE, 2 * self._interval)
        self._until_choice = self._interval
        log, spec = self.synopsis.log, self.spec
        rows = log.end - log.base
        if not rows:
            return
        groups = self.synopsis.groups.size if spec.keys else 1
        panes = log.pane_at(log.end - 1) - log.pane_at(log.base) + 1
        self._choose_index(rows / panes, groups)
        found = self._selecting() if self.synopsis.filters is not None else {}
        windows = {refresher.window for refresher in self._refreshers if refresher not in found}
        density = min(1.0, rows / (panes * max(1, groups)))
        workload = workload_of(spec.panes, spec.measures, windows, groups=groups, density=density)
        choice = rechoose_synopsis(self.choice, workload) if windows else _BY_INDEX
        is_other = choice.method is not self.choice.method or windows != self._chosen_for
        self.choice = choice
        self._chosen_for = windows
        if is_other:
            self.synopsis.answer_from(build_store(choice.method, workload))

    def _choose_index(self, rows: float, groups: int) -> None:
        """Find groups that pass HAVING by indexes if that is cheaper; `rows` are those of a pane."""
        self.index = self._choice_of_index(rows, groups)
        selecting = self._selecting() if self.index.is_used else {}
        wanted = {(refresher.width, selection) for refresher, selection in selecting.items()}
        if wanted != self._indexed_for:
            self._indexed_for = wanted
            reach = max((refresher.width for refresher in selecting), default=1)
            filters = Filters(self.synopsis.layout, reach, selecting.values()) if wanted else None
            self.synopsis.find_by(filters)

    def _selecting(self) -> dict[Refresher, Selection]:
        """The windows all of whose queries have thresholds that indexes know."""
        return {r: r.selection for r in self._refreshers if r.selection and r.selection.is_indexed}

    def _choice_of_index(self, rows: float, groups: int) -> IndexChoice:
        length = self.spec.panes.period / len(self.spec.panes.offsets)
        windows = [
            Selected(
                selection.probes,
                refresher.width,
                min(1.0, length / refresher.window.slide),
                refresher.passing,
                refresher.is_whole,
                refresher.is_changing,
            )
            for refresher, selection in self._selecting().items()
        ]
        return choose_index(windows, rows, groups, self.index.is_used)

    @property
    def notes(self) -> tuple[str, ...]:
        """What was chosen, and why."""
        answered = f"{self.spec.name} was answered from {self.choice}"
        if not any(refresher.selection for refresher in self._refreshers):
            return (answered,)
        found = self.synopsis.refusal if self.index.is_used and self.synopsis.refusal else str(self.index)
        return answered, f"{self.spec.name}: {found}"

    def horizon(self, through: int) -> int | None:
        """Panes that end by this instant are in no window any more."""
        windows = [refresher.window for refresher in self._refreshers]
        horizons = [last_boundary(through, window.slide) - window.range for window in windows]
        return min(horizons, default=None)

    def catch_up(self, through: int) -> None:
        """After a restart: everything up to `through` has been answered already."""
        if self.first is None:
            return
        self.synopsis.seal(through)
        for boundary, refresher in sorted(
            ((last_boundary(through, r.window.slide), r) for r in self._refreshers), key=lambda item: item[0]
        ):
            if boundary >= self.first and refresher.has_answered_at(boundary):
                self.synopsis.move_to(boundary)
                refresher.catch_up(boundary)


Groups = Mapping[str, QueryGroup]
