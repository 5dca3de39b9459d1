"""The queries and synopses that there are: what rules look at, and what they offer."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

from sash.lang.algebra import Node
from sash.lang.bound import Scalar
from sash.lang.bound import Window as PeriodicWindow
from sash.plan.measures import Measure
from sash.plan.panes import MAX_EDGES, Panes
from sash.sharing.request import Request
from sash.sharing.synopsis import SharedSynopsis


@dataclass(frozen=True, slots=True)
class Part:
    """A synopsis that is read: added or taken away, for these measures."""

    synopsis: str
    measures: tuple[Measure, ...]
    sign: int = 1


@dataclass(frozen=True, slots=True)
class Reading:
    """How a query is answered: by which rule, from which parts; `text` says it to people.

    Parts are added up row by row, or, if they are `beside` each other, each gives other measures of the same
    rows.
    """

    query: str
    rule: str
    parts: tuple[Part, ...]
    text: str
    beside: bool = False

    @property
    def synopses(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(part.synopsis for part in self.parts))


@dataclass(frozen=True, slots=True)
class Offer:
    """What a rule proposes: a reading, and the synopses as they have to be changed for it."""

    reading: Reading
    changed: tuple[SharedSynopsis, ...] = ()


@dataclass(slots=True)
class Workload:
    """`now` is the instant up to which the streams have been read; None before a run begins.

    Before a run a synopsis can be given anything. In a run its panes and measures stand, and only what it
    does not forget makes it longer.
    """

    requests: dict[str, Request] = field(default_factory=dict)
    readings: dict[str, Reading] = field(default_factory=dict)
    synopses: dict[str, SharedSynopsis] = field(default_factory=dict)
    now: int | None = None
    _families: dict[object, dict[str, None]] = field(default_factory=dict)
    _readers: dict[str, dict[str, None]] = field(default_factory=dict)

    def put(self, synopsis: SharedSynopsis) -> None:
        self.synopses[synopsis.name] = synopsis
        self._families.setdefault(_family(synopsis.source, synopsis.keys), {})[synopsis.name] = None
        self._readers.setdefault(synopsis.name, {})

    def remove(self, name: str) -> None:
        synopsis = self.synopses.pop(name)
        family = _family(synopsis.source, synopsis.keys)
        del self._families[family][name]
        if not self._families[family]:
            del self._families[family]
        del self._readers[name]

    def read(self, request: Request, reading: Reading) -> None:
        self.requests[request.name] = request
        self.readings[request.name] = reading
        for name in reading.synopses:
            self._readers[name][request.name] = None

    def unread(self, query: str) -> Reading:
        del self.requests[query]
        reading = self.readings.pop(query)
        for name in reading.synopses:
            del self._readers[name][query]
        return reading

    def related(self, request: Request) -> Iterator[SharedSynopsis]:
        """Synopses of the same input and grouping."""
        for name in self._families.get(_family(request.source, request.keys), ()):
            yield self.synopses[name]

    def readers(self, synopsis: str) -> tuple[str, ...]:
        """The queries that read a synopsis, in the order in which they came."""
        return tuple(self._readers.get(synopsis, ()))

    def adapted(
        self, synopsis: SharedSynopsis, request: Request, measures: Iterable[Measure]
    ) -> SharedSynopsis | None:
        """The synopsis as it must be for `request` to read `measures` of it; None if it cannot be so."""
        missing = tuple(measure for measure in measures if measure not in synopsis.measures)
        panes: Panes | None = synopsis.panes
        spread = max(synopsis.spread, request.spread)
        if not fits(synopsis.panes, request):
            panes = None if self.now is not None else self._common_panes(synopsis, request)
        if panes is None or (self.now is not None and (missing or spread > synopsis.spread)):
            return None
        longest = max(synopsis.longest, request.longest)
        held = synopsis.held_from
        if self.now is not None and longest > synopsis.longest:
            forgotten = self.now - synopsis.longest
            held = forgotten if held is None else max(held, forgotten)
        changes = {"panes": panes, "measures": (*synopsis.measures, *missing), "longest": longest}
        return replace(synopsis, spread=spread, held_from=held, **changes)  # type: ignore[arg-type]

    def may_adapt(self, synopsis: SharedSynopsis, request: Request) -> bool:
        """Whether `adapted` could give something for all measures: a quick answer, of which «no» is final."""
        if self.now is None:
            return True
        has_all = set(request.measures) <= set(synopsis.measures)
        return has_all and request.spread <= synopsis.spread and fits(synopsis.panes, request)

    def _common_panes(self, synopsis: SharedSynopsis, request: Request) -> Panes | None:
        """Panes that the readers so far and the new one can use."""
        sharers = [self.requests[name] for name in self.readers(synopsis.name)] + [request]
        if request.is_join:
            width = math.gcd(*(each.panes.period for each in sharers))
            return Panes(width, (width,))
        return Panes.covering(PeriodicWindow(each.windows[0], each.slide) for each in sharers)

    def ready_at(self, request: Request, reading: Reading) -> int | None:
        """The first boundary whose windows are wholly known; None: every one."""
        held = [self.synopses[name].held_from for name in reading.synopses]
        since = [instant for instant in held if instant is not None]
        if not since:
            return None
        return -(-(max(since) + request.longest) // request.slide) * request.slide


def fits(panes: Panes, request: Request) -> bool:
    """Whether the windows of the request begin and end on edges of the panes."""
    if request.is_join:
        return all(length % panes.period == 0 for length in (*request.windows, request.slide))
    step = math.gcd(panes.period, request.slide)
    if panes.period // step > MAX_EDGES:
        return False
    edges = set(panes.offsets)

    def is_edge(instant: int) -> bool:
        return (instant - 1) % panes.period + 1 in edges

    (length,) = request.windows
    return all(is_edge(end) and is_edge(end - length) for end in range(0, panes.period, step))


def _family(source: str | Node, keys: tuple[Scalar, ...]) -> object:
    return source, keys
