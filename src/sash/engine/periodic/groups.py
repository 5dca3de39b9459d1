"""Query groups: a synopsis and the queries that read it, whichever part of the run they came with.

A synopsis that is put together from others (002, section 8.3.3) is a group, too, that keeps nothing. Groups
that have rows in common are moved on together, boundary by boundary (`answer_together`).

How windows are looked up (`plan/synopsis_choice.py`) and how groups that pass HAVING are found
(`plan/filter_choice.py`) is chosen by what is asked, and again when queries come or go and as the groups of
the stream become known; answers do not depend on it.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from sash.lang.bound import BoundSelect, StreamDefinition, Window
from sash.plan.filter_choice import FilterChoice, Selected, choose_filters
from sash.plan.measures import frequent_of
from sash.plan.panes import last_boundary
from sash.plan.periodic import PeriodicQuery, SynopsisSpec
from sash.plan.synopsis_choice import Method, SynopsisChoice, rechoose_synopsis, workload_of
from sash.synopses.basic_interval import BasicIntervalSynopsis, WindowKey
from sash.synopses.build import build_store
from sash.synopses.collective.filters import Filters
from sash.synopses.combined import Combined
from sash.synopses.multi_boundary_scan import pays
from sash.synopses.refresh import Refresher, flush_together, stride_together
from sash.synopses.selection import Selection

# So often are answers given between two choices, at the most.
_ANSWERS_PER_CHOICE = 64
_BY_INDEX = SynopsisChoice(Method.BASIC, "only groups that indexes find are looked up", 0.0)
_UNKNOWN = SynopsisChoice(Method.BASIC, "nothing is known of the stream yet", 0.0)


class QueryGroup:
    """`first` is the first instant of the synopsis's stream since it is there; before it nobody answers.

    `parts` are the groups from whose synopses this one is put together, with 1 or −1. All is known of what
    came after `held_from`; None: of everything. `is_part`: it has the groups of one partition.
    """

    def __init__(
        self,
        spec: SynopsisSpec,
        stream: StreamDefinition,
        parts: Sequence[tuple[QueryGroup, int]] = (),
        is_elastic: Callable[[PeriodicQuery], bool] = lambda query: False,
        *,
        is_part: bool = False,
    ) -> None:
        self.spec = spec
        self._is_elastic = is_elastic
        self._is_part = is_part
        self.parts = tuple(group for group, _ in parts)
        self.synopsis: BasicIntervalSynopsis | Combined
        if parts:
            self.synopsis = Combined(spec, [(group.kept, sign) for group, sign in parts])
        else:
            self.synopsis = BasicIntervalSynopsis(spec)
        # Groups that are put together from this one among others.
        self._above: list[QueryGroup] = []
        for group in self.parts:
            group._above.append(self)
        self._first: int | None = None
        self.held_from: int | None = None
        self._stream = stream
        self._queries: set[str] = set()
        self.refreshers: list[Refresher] = []
        self.choice = _UNKNOWN
        self._chosen_for: set[Window] = set()
        self.finding = FilterChoice(False, "nothing is known of the stream yet")
        self._found_for: set[tuple[int, Selection]] = set()
        # How many more times answers are given before the choice is made again.
        self._until_choice = 1
        self._interval = 1

    @property
    def kept(self) -> BasicIntervalSynopsis:
        """Its synopsis, if that keeps rows itself."""
        assert isinstance(self.synopsis, BasicIntervalSynopsis)
        return self.synopsis

    @property
    def complete_since(self) -> int | None:
        """All is known of what came after this instant; None: of everything."""
        return latest(self.held_from, *(group.held_from for group in self.parts))

    def can_be_asked(self, select: BoundSelect) -> bool:
        """Whether it can be read as it is in memory, between two batches.

        The lists of FREQUENT are those of the newest boundary, which elastic refresh may not have reached.
        """
        return not frequent_of(select.aggregates) or not any(
            refresher.is_elastic or refresher.is_alone for refresher in self.refreshers
        )

    @property
    def first(self) -> int | None:
        if not self.parts:
            return self._first
        return min((group.first for group in self.parts if group.first is not None), default=None)

    def begin(self, first: int | None) -> None:
        """The first instant is known."""
        self._first = first

    def leave(self) -> None:
        """Nobody reads it any more."""
        if isinstance(self.synopsis, Combined):
            self.synopsis.leave()
        for group in self.parts:
            group._above.remove(self)

    @property
    def _readers(self) -> list[Refresher]:
        """Who reads what it keeps."""
        return [*self.refreshers, *(refresher for group in self._above for refresher in group.refreshers)]

    def add(self, queries: Collection[PeriodicQuery], begins: Mapping[str, int]) -> None:
        """Answer these queries, too: from the boundary in `begins`, or from the first on."""
        sharers: dict[tuple[Window, bool, int | None], list[PeriodicQuery]] = defaultdict(list)
        for query in queries:
            if query.name not in self._queries:
                begin = begins.get(query.name)
                since = None if begin is None else begin - 1
                sharers[query.window, self._is_elastic(query), since].append(query)
                self._queries.add(query.name)
        self.refreshers += [
            Refresher(
                self.synopsis,
                window,
                members,
                self._stream,
                since,
                is_elastic=is_elastic,
                is_part=self._is_part,
            )
            for (window, is_elastic, since), members in sharers.items()
        ]
        for group in (self, *self.parts):
            group._reconsider(window for window, is_elastic, _ in sharers if not is_elastic)

    def _reconsider(self, windows: Iterable[Window]) -> None:
        """Look windows up in the log until it is clear what is best for those that have come."""
        self._until_choice = 1
        is_basic = self.choice.method is Method.BASIC
        if isinstance(self.synopsis, BasicIntervalSynopsis) and not is_basic:
            if not self._chosen_for.issuperset(windows):
                self.synopsis.answer_from(None)
                self.choice, self._chosen_for = _UNKNOWN, set()

    def go_on(self, reached: Reached) -> None:
        """After a restart: queries that had not come equally far are answered apart until they have."""
        refreshers: list[Refresher] = []
        for refresher in self.refreshers:
            window, since, is_elastic = refresher.window, refresher.since, refresher.is_elastic
            apart: dict[tuple[int | None, int], list[PeriodicQuery]] = defaultdict(list)
            for query in refresher.queries:
                apart[reached.last(query), 0 if is_elastic else reached.behind(query)].append(query)
            if len(apart) == 1 and not any(behind for _, behind in apart):
                refreshers.append(refresher)
                continue
            refresher.drop({query.name for query in refresher.queries})
            for (last, behind), members in apart.items():
                begun = (
                    since
                    if last is not None or not behind
                    else latest(since, reached.through(members[0]) - behind)
                )
                refreshers.append(
                    Refresher(
                        self.synopsis,
                        window,
                        members,
                        self._stream,
                        begun,
                        is_elastic=is_elastic,
                        behind=behind,
                        is_part=self._is_part,
                    )
                )
        self.refreshers = refreshers

    def keep(self, queries: Collection[str]) -> None:
        """Answer no others."""
        gone = self._queries - set(queries)
        if gone:
            self._queries -= gone
            self.refreshers = [refresher for refresher in self.refreshers if not refresher.drop(gone)]
            self._reconsider(refresher.window for refresher in self.refreshers)

    def settle(self, through: int) -> None:
        """After the answers of all boundaries up to `through`."""
        for refresher in self.refreshers:
            refresher.keep_step()
        self._join()
        readers = self._readers
        self.synopsis.forget_windows({refresher.key for refresher in readers})
        if isinstance(self.synopsis, Combined):
            self.synopsis.trim()
            return
        if not readers:
            return
        synopsis = self.synopsis
        synopsis.trim(min(refresher.left_in(synopsis) for refresher in readers))
        self.held_from = latest(self.held_from, self.horizon(through))
        self._until_choice -= 1
        if self._until_choice == 0:
            self._choose(synopsis)

    def _join(self) -> None:
        """Let queries that came at different times go on together where they have come equally far."""
        known: dict[tuple[Window, bool], Refresher] = {}
        for refresher in self.refreshers:
            other = known.setdefault((refresher.window, refresher.is_elastic), refresher)
            if other is not refresher:
                other.join(refresher)
        left = [refresher for refresher in self.refreshers if not refresher.is_idle]
        if len(left) < len(self.refreshers):
            self.refreshers = left
            self._until_choice = 1

    def _choose(self, synopsis: BasicIntervalSynopsis) -> None:
        """Look windows up in the way that is cheapest for what is asked and what has come so far."""
        # At first little is known of the stream, and soon more.
        self._interval = min(_ANSWERS_PER_CHOICE, 2 * self._interval)
        self._until_choice = self._interval
        log, spec = synopsis.log, self.spec
        rows = log.end - log.base
        if not rows or not self._readers:
            return
        groups = synopsis.groups.size if spec.keys else 1
        panes = log.pane_at(log.end - 1) - log.pane_at(log.base) + 1
        self._choose_filters(synopsis, rows / panes, groups)
        found = self._selecting() if synopsis.filters is not None else {}
        looking = [each for each in self._readers if each not in found and not each.is_elastic]
        windows = {refresher.window for refresher in looking}
        density = min(1.0, rows / (panes * max(1, groups)))
        workload = workload_of(spec.panes, spec.measures, windows, groups=groups, density=density)
        choice = rechoose_synopsis(self.choice, workload) if windows else _BY_INDEX
        is_other = choice.method is not self.choice.method or windows != self._chosen_for
        self.choice = choice
        self._chosen_for = windows
        if is_other:
            synopsis.answer_from(build_store(choice.method, workload))

    def _choose_filters(self, synopsis: BasicIntervalSynopsis, rows: float, groups: int) -> None:
        """Find groups that pass HAVING by indexes if that is cheaper; `rows` are those of a pane."""
        self.finding = self._choice_of_filters(rows, groups)
        selecting = self._selecting() if self.finding.is_used else {}
        wanted = {(refresher.width, selection) for refresher, selection in selecting.items()}
        if wanted != self._found_for:
            self._found_for = wanted
            reach = max((refresher.width for refresher in selecting), default=1)
            filters = Filters(synopsis.layout, reach, selecting.values()) if wanted else None
            synopsis.find_by(filters)

    def _selecting(self) -> dict[Refresher, Selection]:
        """The windows all of whose queries have thresholds that indexes know."""
        if any(refresher.is_elastic for refresher in self._readers):
            # They may let the log move on before others have looked.
            return {}
        return {r: r.selection for r in self.refreshers if r.selection and r.selection.is_indexed}

    def _choice_of_filters(self, rows: float, groups: int) -> FilterChoice:
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
        return choose_filters(windows, rows, groups, self.finding.is_used)

    @property
    def notes(self) -> tuple[str, ...]:
        """What was chosen, and why."""
        answered = f"{self.spec.name} was answered from {self.choice}"
        if isinstance(self.synopsis, Combined):
            return ()
        if not any(refresher.selection for refresher in self.refreshers):
            return (answered,)
        found = (
            self.synopsis.refusal if self.finding.is_used and self.synopsis.refusal else self.finding.reason
        )
        return answered, f"{self.spec.name}: {found}"

    def horizon(self, through: int) -> int | None:
        """Panes that end by this instant are in no window any more."""
        return min((_answered(r, through) - r.window.range for r in self._readers), default=None)


@dataclass(frozen=True, slots=True)
class Reached:
    """How far queries had come when a run stopped in which all was known up to `throughs`, by stream.

    `lasts` has the boundaries that were last answered (None: none), of queries for which that is not the last
    one up to then; `elastic` are the queries that a scheduler could pass over.
    """

    throughs: Mapping[str, int]
    lasts: Mapping[str, int | None]
    elastic: Collection[str]

    def through(self, query: PeriodicQuery) -> int:
        return self.throughs[query.select.stream]

    def last(self, query: PeriodicQuery) -> int | None:
        """The boundary that a query answered last; None: none."""
        return self.lasts.get(query.name, self._newest(query))

    def behind(self, query: PeriodicQuery) -> int:
        """How far before `through` the next answer begins if none is passed over; 0: after it.

        Who has not answered at all begins with the newest boundary, whose window is known.
        """
        last, newest = self.last(query), self._newest(query)
        if last is None:
            return self.through(query) - newest + 1 if query.name in self.elastic else 0
        return self.through(query) - last if last < newest else 0

    def _newest(self, query: PeriodicQuery) -> int:
        return last_boundary(self.through(query), query.window.slide)


def _answered(refresher: Refresher, through: int) -> int:
    """The boundary whose answer is known, or one that will not be asked for any more."""
    boundary = last_boundary(through, refresher.window.slide)
    return min(boundary, refresher.last) if refresher.is_alone and refresher.last is not None else boundary


def latest(*instants: int | None) -> int | None:
    """The last of the instants that are known."""
    return max((instant for instant in instants if instant is not None), default=None)


def clusters(groups: Iterable[QueryGroup]) -> list[list[QueryGroup]]:
    """Groups that have rows in common, directly or by others."""
    cluster_of: dict[int, list[QueryGroup]] = {}
    for group in groups:
        cluster = [group]
        for part in group.parts:
            for member in cluster_of.get(id(part), [part]):
                if all(member is not known for known in cluster):
                    cluster.append(member)
        cluster_of.update({id(member): cluster for member in cluster})
    return list({id(cluster): cluster for cluster in cluster_of.values()}.values())


def answer_together(groups: Sequence[QueryGroup], through: int) -> Iterator[tuple[str, pa.Table]]:
    """The answers of all boundaries up to `through`, of queries that answer each of them."""
    for group in groups:
        group.synopsis.seal(through)
    if len(groups) == 1:
        yield from _stride(groups[0], through)
    steps = [step for step in _steps(groups) if not step[2].is_elastic]
    # What is sealed does not change meanwhile, so a refresher's next boundary changes only by its steps.
    dues = [
        (due, i) for i, (_, first, refresher) in enumerate(steps) if (due := refresher.due(first)) is not None
    ]
    heapq.heapify(dues)
    while dues and dues[0][0] <= through:
        boundary, index = dues[0]
        group, first, refresher = steps[index]
        group.synopsis.move_to(boundary)
        refresher.step(boundary, through)
        if refresher.is_full:
            yield from flush_together([refresher])
        due = refresher.due(first)
        if due is None:
            heapq.heappop(dues)
        else:
            heapq.heapreplace(dues, (due, index))
    for group in groups:
        yield from flush_together([each for owner, _, each in steps if owner is group and each.waiting])


def _stride(group: QueryGroup, through: int) -> Iterator[tuple[str, pa.Table]]:
    """Take windows all of whose readers can be taken to many boundaries at once to `through`, if it pays."""
    synopsis = group.synopsis
    if not isinstance(synopsis, BasicIntervalSynopsis) or not synopsis.is_ahead:
        return
    by_window: dict[WindowKey, list[Refresher]] = defaultdict(list)
    for refresher in group.refreshers:
        by_window[refresher.key].append(refresher)
    worth_it = [those for those in by_window.values() if pays(those, through)]
    if worth_it:
        edges = group.spec.panes.right_edges(synopsis.log.different_panes())
        for those in worth_it:
            if all(refresher.strides for refresher in those):
                yield from stride_together(those, edges, through)


def catch_up_together(groups: Sequence[QueryGroup], reached: Reached) -> None:
    """After a restart, and when the groups know where to go on: let them be as far as they had come."""
    steps = _steps(groups)
    for group, _, _ in steps:
        group.synopsis.seal(reached.throughs[group.spec.stream])
    known = [(reached.last(refresher.queries[0]), i) for i, (_, _, refresher) in enumerate(steps)]
    for boundary, index in sorted((boundary, i) for boundary, i in known if boundary is not None):
        group, first, refresher = steps[index]
        if boundary >= first and refresher.has_answered_at(boundary):
            group.synopsis.move_to(boundary)
            refresher.catch_up(boundary)


def _steps(groups: Iterable[QueryGroup]) -> list[tuple[QueryGroup, int, Refresher]]:
    return [
        (group, first, refresher)
        for group in groups
        if (first := group.first) is not None
        for refresher in group.refreshers
    ]
