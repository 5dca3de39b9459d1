"""When a query that comes into a run begins to answer: at the first instant at which its windows are whole.

Of a stream it knows the rows that came after some instant (`complete_since`): those that the stream keeps,
those in the synopsis that it reads, else those that came after it. RANGE T is whole T after that instant,
ROWS n after n rows; NOW, and what selections over UNBOUNDED append, at once. Other answers over UNBOUNDED,
and PARTITION BY … ROWS, would never be whole: they are refused unless WITH (start = 'now') lets the stream
begin there. With `warm_up = 'partial'` a query answers before, too.

What is known is kept with the first instants of the streams of a part, under names that no stream has; so
tasks, partitions and restarts are told of it in the same way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from sash.engine.ingest.first_stage import Awaited, ChunkExtent, ChunkResult
from sash.engine.ingest.retained_files import FIRST
from sash.engine.ingest.watermarks import Streams
from sash.errors import UserError
from sash.lang import algebra
from sash.lang.algebra import Node, OutputKind, WindowKind
from sash.lang.bound import QueryDefinition, StreamDefinition
from sash.operators.operator import before_of, begin_of, news_of
from sash.plan.panes import first_boundary
from sash.plan.patterns import Pattern, output_pattern
from sash.plan.run_plan import ContinuousQuery, RunPlan, is_internal, slide_of, whole_stream, windows_of
from sash.plan.warm_up import WarmUp, warm_up_of


@dataclass(frozen=True, slots=True)
class RowsKnown:
    """How many rows of a stream are known since all are: those `before` a query comes, and all of them.

    `unknown` rows came before those that the query is given. `first`: so many came before the first one that
    is counted here; None: others may still come.
    """

    before: int
    all: int
    unknown: int
    first: int | None

    def needed(self, rows: int, slide: int) -> int:
        """How many rows must be known for a window to have nothing but known ones after its last move."""
        if self.first is None:
            return rows + slide - 1
        return -(-(self.first + rows) // slide) * slide - self.first


NEVER = 1 << 62
"""Later than every instant: it is not known yet when the query begins."""


def whole_of(query: str) -> str:
    """The name under which the instant is known from which the windows of a query are whole."""
    return f"\0whole {query}"


def _least_of(query: str) -> str:
    """Of a query that waits for rows: the instant before which it does not begin in any case."""
    return f"\0least {query}"


def _step_of(query: str) -> str:
    """Of a query that waits for rows: of what its instants are multiples."""
    return f"\0step {query}"


_ROWS = "\0rows "


@dataclass(frozen=True, slots=True)
class Missing:
    """A query waits until a stream has given so many rows that are later than `since`."""

    query: str
    stream: str
    rows: int
    since: int

    @property
    def name(self) -> str:
        """The name under which it is known how many of them have come."""
        return f"{_ROWS}{self.query}\0{self.stream}\0{self.rows}\0{self.since}"

    @staticmethod
    def among(names: Iterable[str]) -> list[tuple[str, Missing]]:
        found = []
        for name in names:
            if name.startswith(_ROWS):
                query, stream, rows, since = name.removeprefix(_ROWS).split("\0")
                found.append((name, Missing(query, stream, int(rows), int(since))))
        return found


@dataclass(slots=True)
class _Needs:
    """What a query needs to be whole: how far time must have come, and how many rows of which streams."""

    query: QueryDefinition
    streams: Mapping[str, StreamDefinition]
    since: Mapping[str, int]
    rows_known: Callable[[str], RowsKnown]
    rows: list[tuple[Missing, int]] = field(default_factory=list)
    unknown: dict[str, int] = field(default_factory=dict)

    def of(self, node: Node, *, is_append_only: bool = False) -> int | None:
        """The first instant at which a relation is whole; None: it is at any.

        `is_append_only`: only rows that enter matter.
        """
        match node:
            case algebra.Window():
                return self._window(node, is_append_only=is_append_only)
            case algebra.Select() | algebra.Project() | algebra.Union():
                return _latest(self.of(below, is_append_only=is_append_only) for below in node.children)
            case algebra.RelationJoin() if not any(
                isinstance(leaf, algebra.Relation) and leaf.is_revised for leaf in node.walk()
            ):
                return _latest(self.of(below, is_append_only=is_append_only) for below in node.children)
        return _latest(self.of(below) for below in node.children)

    def output(self, output: algebra.Output) -> int | None:
        whole = self.of(output.input, is_append_only=_is_append_only(output))
        specs = [window.spec for window in windows_of(output)]
        if whole is not None and any(spec.is_internal for spec in specs):
            if is_internal(output) and output.kind is OutputKind.RSTREAM:
                raise self._refused(output, "INTERNAL, whose results stay")
            if not is_internal(output):
                # A result stays when a row of an INTERNAL window leaves that window.
                whole = max(self.since.values()) + sum(
                    (spec.range or 0) + (spec.slide or 0) for spec in specs
                )
        if output.kind is OutputKind.WSTREAM and output.window is not None and whole is not None:
            return self._reach(output.window, output, whole, is_append_only=False)
        return whole

    def _window(self, window: algebra.Window, *, is_append_only: bool) -> int | None:
        known = self._input(window.input)
        if known is None:
            return None
        return self._reach(window.spec, window.input, known, is_append_only=is_append_only)

    def _input(self, node: Node) -> int | None:
        """All rows below a window are known that came after this instant; None: all."""
        below = node
        while isinstance(below, algebra.Select | algebra.Project):
            below = below.input
        if isinstance(below, algebra.Stream):
            return self.since.get(below.name)
        if isinstance(below, algebra.Output):
            return self.output(below)
        if isinstance(below, algebra.Union) and not any(isinstance(n, algebra.Window) for n in below.walk()):
            return _latest(self._input(each) for each in below.children)
        return self.of(below, is_append_only=True)

    def _reach(
        self, spec: algebra.WindowSpec, input_: Node, known: int, *, is_append_only: bool
    ) -> int | None:
        lives = [
            self.streams[leaf.name].max_lifetime
            for leaf in input_.walk()
            if isinstance(leaf, algebra.Stream) and leaf.has_lifetime
        ]
        life = max((each for each in lives if each is not None), default=None)
        match spec.kind:
            case WindowKind.RANGE:
                assert spec.range is not None
                return first_boundary(known + spec.range, spec.slide or 1)
            case WindowKind.NOW:
                return known + 1
            case WindowKind.UNBOUNDED if is_append_only:
                return known
            case WindowKind.UNBOUNDED if life is not None:
                return known + life
            case WindowKind.ROWS if not spec.partition and (leaf := whole_stream(input_)) is not None:
                assert spec.rows is not None
                rows = self.rows_known(leaf.name)
                self.unknown[before_of(leaf.name)] = rows.unknown
                needed = rows.needed(spec.rows, spec.slide or 1)
                if rows.before >= needed:
                    return None
                self.rows.append((Missing(self.query.name, leaf.name, needed, known), rows.all))
                return known
            case WindowKind.ROWS:
                raise self._refused(input_, "ROWS over a part of them")
        raise self._refused(input_, "UNBOUNDED")

    def _refused(self, node: Node, what: str) -> UserError:
        names = sorted({leaf.name for leaf in node.walk() if isinstance(leaf, algebra.Stream)})
        return UserError(
            f"query {self.query.name} comes when rows of stream {', '.join(names)} are gone that it needs",
            place=self.query.place,
            got=f"a window of {what}",
            hint="WITH (start = 'now') lets the stream begin with the rows that are known; with RETAIN a "
            "stream keeps its rows for queries that come later",
            id="rows-are-gone",
        )


def starts_of(
    plan: RunPlan,
    came: int | None,
    since: Mapping[str, int],
    synopsis_since: Callable[[str], int | None],
    rows_known: Callable[[str], RowsKnown],
) -> dict[str, int]:
    """When the queries of a plan begin that come into a run which has answered up to `came`.

    `since`: after which instant they know all rows of a stream, where they do not know all that ever came;
    `synopsis_since` says it of synopses that were there; `rows_known` counts the rows since then. UserError
    if a query would never be whole.
    """
    if came is None and not since:
        return {}
    earliest = 1 + (min(since.values()) if came is None else came)
    found: dict[str, int] = {}
    specs = {spec.name: spec for spec in plan.synopses}
    for query in plan.queries:
        bases = specs[query.synopsis].bases if query.synopsis in specs else (query.synopsis,)
        known = _latest(
            since.get(query.select.stream) if base in specs else synopsis_since(base) for base in bases
        )
        whole = None if known is None else known + query.window.range
        found.update(_Start.of(query.definition, earliest, whole, query.window.slide).named)
    streams = {stream.name: stream for stream in plan.streams}
    for continuous in plan.continuous:
        definition = continuous.definition
        if definition.archive is None:
            asked = warm_up_of(definition)
            needs = _Needs(definition, streams, {} if asked.starts_now else since, rows_known)
            guest = plan.readers.get(continuous.name)
            if guest is None:
                whole = needs.output(definition.plan)
            else:
                reader, panes = guest.reader, guest.spec.panes
                whole = None
                if reader.after is not None and not asked.starts_now:
                    whole = panes.right_edge(reader.after + max(reader.lengths))
            step = slide_of(definition.plan)
            start = _Start.of(
                definition, earliest, whole, step or continuous.unit, is_sliding=step is not None
            )
            found.update(start.waiting_for(needs.rows, asked).named)
            found.update(needs.unknown)
    for question in plan.one_time:
        if any(name in since for name in question.streams):
            needs = _Needs(question.definition, streams, since, rows_known)
            found.update(_start_of_question(question, needs).named)
    return found


def _start_of_question(question: ContinuousQuery, needs: _Needs) -> _Start:
    """A one-time query is answered in any case; it tells whether its windows are whole then."""
    try:
        whole = needs.output(question.definition.plan)
    except UserError:
        whole, needs.rows = NEVER, []
    whole = FIRST if whole is None else whole
    rows = tuple(needs.rows)
    return _Start(question.name, FIRST, whole, False, question.unit, rows, is_partial=True)


@dataclass(frozen=True, slots=True)
class _Start:
    """A query answers from `begin` on, and is whole from `whole` on.

    `tells_news`: what it tells are differences, after `begin`. `rows` have to come of streams before.
    """

    query: str
    begin: int
    whole: int
    tells_news: bool
    step: int
    rows: tuple[tuple[Missing, int], ...] = ()
    is_partial: bool = False

    @staticmethod
    def of(
        query: QueryDefinition, earliest: int, whole: int | None, step: int, *, is_sliding: bool = True
    ) -> _Start:
        asked = warm_up_of(query)
        tells_news = query.plan.kind in (OutputKind.ISTREAM, OutputKind.DSTREAM) or (
            # Of a view that only grows, what was there before is gone.
            whole is not None and _is_append_only(query.plan)
        )
        first = first_boundary(earliest, step)
        if asked.starts_now:
            whole = None
        if tells_news and not is_sliding:
            # What was there before it came is known, if it is whole then.
            first = (earliest - 1) // step * step
        whole_from = first if whole is None else max(first, first_boundary(whole, step))
        begin = first if asked.is_partial else whole_from
        return _Start(query.name, begin, whole_from, tells_news, step)

    def waiting_for(self, rows: Sequence[tuple[Missing, int]], asked: WarmUp) -> _Start:
        return replace(self, rows=tuple(rows), is_partial=asked.is_partial)

    @property
    def named(self) -> dict[str, int]:
        """What is known of it, by names that no stream has."""
        found = {begin_of(self.query): self.begin, whole_of(self.query): self.whole}
        if self.tells_news:
            found[news_of(self.query)] = 1
        if self.rows:
            found[_least_of(self.query)] = self.whole
            found[_step_of(self.query)] = self.step
            found[whole_of(self.query)] = NEVER
            if not self.is_partial:
                found[begin_of(self.query)] = NEVER
            found.update({missing.name: known for missing, known in self.rows})
        return found


def awaited(firsts: Iterable[Mapping[str, int]]) -> dict[str, tuple[Awaited, ...]]:
    """By stream, the rows that queries wait for: tasks tell their instants (`gone_on`)."""
    found: dict[str, dict[int, int]] = {}
    for first in firsts:
        for name, missing in Missing.among(first):
            most = found.setdefault(missing.stream, {})
            most[missing.since] = max(missing.rows - first[name], most.get(missing.since, 0))
    return {stream: tuple(Awaited(*each) for each in sorted(most.items())) for stream, most in found.items()}


def gone_on(
    first: Mapping[str, int], chunks: Iterable[ChunkResult | ChunkExtent], before: Streams
) -> Mapping[str, int]:
    """What is known of the starts of a part's queries after a batch: enough rows may have come for some.

    The windows of ROWS n are whole from the n-th row on of those of which all are known. `before`: how far
    the streams were; where rows come out of order, others may have been counted that are later than the n-th.
    """
    waiting = Missing.among(first)
    if not waiting:
        return first
    after, chunks = dict(first), list(chunks)
    for name, missing in waiting:
        own = [chunk.arrivals for chunk in chunks if chunk.stream == missing.stream]
        told = [a.instants for arrivals in own for a in arrivals if a.after == missing.since]
        instants = np.sort(np.concatenate(told)) if told else np.zeros(0, np.int64)
        lacking = missing.rows - after[name]
        if len(instants) < lacking:
            after[name] += len(instants)
            continue
        newest = before[missing.stream].newest
        reached = [] if newest is None else [newest]
        reached += [int(instants[lacking - 1])] if lacking > 0 else []
        del after[name]
        query = missing.query
        least = max(after[_least_of(query)], first_boundary(max(reached), after[_step_of(query)]))
        after[_least_of(query)] = least
        if not any(other.query == query for _, other in Missing.among(after)):
            after[whole_of(query)] = least
            after[begin_of(query)] = min(after[begin_of(query)], least)
            del after[_least_of(query)], after[_step_of(query)]
    return after


def wholes_in(first: Mapping[str, int]) -> dict[str, int]:
    """By query of a part that came into a run: the instant from which its windows are whole, if known."""
    prefix = whole_of("")
    return {
        name.removeprefix(prefix): instant
        for name, instant in first.items()
        if name.startswith(prefix) and instant < NEVER
    }


def begins_in(first: Mapping[str, int]) -> dict[str, int]:
    """What is known of the starts of queries, without the first instants of streams."""
    return {name: instant for name, instant in first.items() if name.startswith("\0")}


def _is_append_only(output: algebra.Output) -> bool:
    """Whether only what enters is told."""
    if output.kind is OutputKind.VIEW:
        return output_pattern(output) is Pattern.MON or is_internal(output)
    return output.kind is OutputKind.ISTREAM


def _latest(instants: Iterable[int | None]) -> int | None:
    return max((instant for instant in instants if instant is not None), default=None)
