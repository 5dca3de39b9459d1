"""Which queries share what: queries come and go, and it says which synopses they need and how they read them.

It decides and does nothing: `add` and `drop` give the changes that whoever holds the synopses has to make.

Invariant: every synopsis is read by a query, reaches as far back as its longest reader needs and no farther,
and has every pane edge and measure that a reader needs (`validate`).
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from sash.errors import DuplicateName, InternalError, UnknownName
from sash.lang.bound import QueryDefinition
from sash.plan.kinds import Kind, choose_kind, executed_together
from sash.sharing.groups import Group, groups_of
from sash.sharing.request import Request, request_of
from sash.sharing.rules import COMPUTATION_RULES, STATE_RULES, ComputationRule, StateRule, Together
from sash.sharing.synopsis import SharedSynopsis, panes_in
from sash.sharing.workload import Offer, Part, Reading, Workload, fits

OWN = "own"
"""The rule of a query that no synopsis answers: it gets one of its own."""


class ChangeKind(enum.Enum):
    CREATED = "created"
    LONGER = "reaches farther back"
    SHORTER = "reaches less far back"
    RESHAPED = "has other panes, measures or another kind"
    DROPPED = "dropped"


@dataclass(frozen=True, slots=True)
class Change:
    """`synopsis` is as it is from now on, or was at last."""

    kind: ChangeKind
    synopsis: SharedSynopsis

    def __str__(self) -> str:
        return f"{self.synopsis.name} {self.kind.value}"


@dataclass(frozen=True, slots=True)
class Added:
    """How a new query is answered, and what changes for it.

    `ready_at` is the first boundary at which its windows are wholly known; None: every boundary is.
    """

    reading: Reading
    changes: tuple[Change, ...]
    ready_at: int | None


class Sharing:
    def __init__(
        self,
        state_rules: Sequence[StateRule] = STATE_RULES,
        computation_rules: Sequence[ComputationRule] = COMPUTATION_RULES,
    ) -> None:
        self.workload = Workload()
        self._state_rules = tuple(state_rules)
        self._computation_rules = tuple(computation_rules)
        self._made = 0
        self._together: tuple[Together, ...] | None = None

    # ------------------------------------------------------------------ queries come and go

    def advance(self, now: int) -> None:
        """A run begins at, or has come to, `now`. Called before a query is added or dropped."""
        self.workload.now = now

    def add(self, query: QueryDefinition | Request) -> Added:
        request = query if isinstance(query, Request) else request_of(query)
        if request is None:
            raise InternalError("a query that no synopsis can answer is to be answered by one")
        if request.name in self.workload.requests:
            raise DuplicateName(f"there is a query '{request.name}' already")
        offer = self._offer(request)
        changes = []
        for synopsis in offer.changed:
            changes.append(self._put(synopsis))
        self.workload.read(request, offer.reading)
        self._together = None
        return Added(offer.reading, tuple(changes), self.workload.ready_at(request, offer.reading))

    def _offer(self, request: Request) -> Offer:
        for rule in self._state_rules:
            offer = rule.find(request, self.workload)
            if offer is not None:
                return offer
        synopsis = self._own(request)
        text = f"has its own synopsis {synopsis}"
        reading = Reading(request.name, OWN, (Part(synopsis.name, request.measures),), text)
        return Offer(reading, (synopsis,))

    def _own(self, request: Request) -> SharedSynopsis:
        name = f"s{self._made}"
        self._made += 1
        panes = request.panes
        kind = choose_kind(
            request.measures, panes_in(panes, request.longest), together=1, is_join=request.is_join
        )
        return SharedSynopsis(
            name,
            request.source,
            request.where,
            request.keys,
            request.measures,
            panes,
            request.longest,
            kind,
            request.spread,
            self.workload.now,
        )

    def _put(self, synopsis: SharedSynopsis) -> Change:
        before = self.workload.synopses.get(synopsis.name)
        self.workload.put(synopsis)
        if before is None:
            return Change(ChangeKind.CREATED, synopsis)
        same = replace(before, longest=synopsis.longest, held_from=synopsis.held_from)
        if same != synopsis:
            return Change(ChangeKind.RESHAPED, synopsis)
        is_longer = synopsis.longest > before.longest
        return Change(ChangeKind.LONGER if is_longer else ChangeKind.SHORTER, synopsis)

    def drop(self, name: str) -> tuple[Change, ...]:
        """A synopsis stays while anybody reads it, and reaches no farther back than they need."""
        if name not in self.workload.requests:
            raise UnknownName("query", name, sorted(self.workload.requests))
        reading = self.workload.unread(name)
        self._together = None
        changes: list[Change] = []
        for synopsis_name in reading.synopses:
            synopsis = self.workload.synopses[synopsis_name]
            readers = self.workload.readers(synopsis_name)
            if not readers:
                self.workload.remove(synopsis_name)
                changes.append(Change(ChangeKind.DROPPED, synopsis))
                continue
            longest = max(self.workload.requests[reader].longest for reader in readers)
            if longest < synopsis.longest:
                changes.append(self._put(replace(synopsis, longest=longest)))
        return tuple(changes)

    def plan(self, queries: Iterable[QueryDefinition | Request]) -> None:
        """Queries that are there before a run begins, whatever their order.

        Those with the fewest terms first, so that disjunctions are put together from them; then the kinds of
        the synopses are chosen by who reads them together.
        """
        requests = []
        for query in queries:
            request = query if isinstance(query, Request) else request_of(query)
            if request is None:
                raise InternalError("a query that no synopsis can answer is to be answered by one")
            requests.append(request)
        for request in sorted(requests, key=lambda each: (len(each.predicate.terms), each.slide)):
            self.add(request)
        self.settle()

    def settle(self, periods: Mapping[str, int] | None = None) -> tuple[Change, ...]:
        """Give each synopsis the kind that suits its readers; `periods` are those that a scheduler grants.

        A synopsis of another kind is made anew, so this is for before a run.
        """
        changes = []
        for name, kind in self.suited_kinds(periods).items():
            synopsis = self.workload.synopses[name]
            if synopsis.kind is not kind:
                changes.append(self._put(replace(synopsis, kind=kind)))
        self._together = None
        return tuple(changes)

    def suited_kinds(self, periods: Mapping[str, int] | None = None) -> dict[str, Kind]:
        """The kind of each synopsis by the rule of b / log b, over those that may read it together."""
        kinds = {}
        for name, synopsis in self.workload.synopses.items():
            together = executed_together(
                (periods or {}).get(reader, self.workload.requests[reader].slide)
                for reader in self.workload.readers(name)
            )
            kinds[name] = choose_kind(
                synopsis.measures, synopsis.intervals, together, is_join=synopsis.is_join
            )
        return kinds

    # ------------------------------------------------------------------ what is shared

    @property
    def together(self) -> tuple[Together, ...]:
        """Every set of queries that some rule lets execute together."""
        if self._together is None:
            self._together = tuple(
                found for rule in self._computation_rules for found in rule.find(self.workload)
            )
        return self._together

    def groups(self) -> tuple[Group, ...]:
        return groups_of(self.workload, self.together)

    def explain(self, name: str) -> str:
        """How a query is answered, what it shares and with whom, line by line."""
        if name not in self.workload.requests:
            raise UnknownName("query", name, sorted(self.workload.requests))
        reading = self.workload.readings[name]
        lines = [f"{reading.rule}: {reading.text}"]
        for synopsis_name in reading.synopses:
            synopsis = self.workload.synopses[synopsis_name]
            others = [other for other in self.workload.readers(synopsis_name) if other != name]
            shared = f", shared with {listed(others)}" if others else ""
            lines.append(
                f"  {synopsis_name}: {synopsis.kind.value} synopsis, {synopsis.intervals} panes{shared}"
            )
        group = next(group for group in self.groups() if name in group.queries)
        if len(group.queries) > 1:
            others = [other for other in group.queries if other != name]
            lines.append(f"{', '.join(group.rules)}: group {group.name}, executed with {listed(others)}")
        return "\n".join(lines)

    def validate(self) -> None:
        """Raise if the invariant does not hold."""
        for name, synopsis in self.workload.synopses.items():
            readers = [self.workload.requests[reader] for reader in self.workload.readers(name)]
            if not readers:
                raise InternalError(f"nobody reads {name}")
            if synopsis.longest != max(request.longest for request in readers):
                raise InternalError(f"{name} does not reach as far back as its readers")
            for request in readers:
                part = next(p for p in self.workload.readings[request.name].parts if p.synopsis == name)
                if not set(part.measures) <= set(synopsis.measures):
                    raise InternalError(f"{name} lacks measures of {request.name}")
                if not fits(synopsis.panes, request) or request.spread > synopsis.spread:
                    raise InternalError(f"{name} is cut otherwise than {request.name} needs")


def listed(names: Sequence[str], most: int = 6) -> str:
    """Names as people read them, and how many more there are."""
    shown = ", ".join(names[:most])
    return shown if len(names) <= most else f"{shown} and {len(names) - most} more"
