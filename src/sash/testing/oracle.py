"""The oracle: what a query must answer, recomputed from the definition by an engine that is not ours.

A level of a query is what is evaluated together: everything above its topmost windows. The oracle answers
each level at every instant at which anything could have changed (a tuple or a change of a relation comes, a
tuple goes, the window slides), with `relational`, and compares consecutive answers as bags. The answers of a
sub-query under a window become a stream of their own, ordered by instant and, within one, as rows of files
are (`listed`). It shares nothing with the operators but the bound query.

    first    the least accepted timestamp of the streams of the level, of which a sub-query under a window is
             one; where windows move after some tuples, the first move. Before it there is no answer
    end      the greatest accepted timestamp of the streams and timed relations that the query reads
    unit     that of integer time, if all streams of the query have the same; else a microsecond. The clock
             stands at multiples of it, so what happens between two of them is seen at the next
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

import pyarrow as pa

from sash.errors import InternalError
from sash.lang import Program, algebra
from sash.lang.algebra import Node, OutputKind, Window, WindowKind
from sash.lang.bound import QueryDefinition
from sash.lang.growth import level_nodes
from sash.testing.arrivals import ARROW_TYPES, Arrived, tuples_of, versions_of
from sash.testing.relational import answers_at, arriving_at, lives_in, places_in_order, stream_table
from sash.testing.rows import Answers, Bag, Listed, Row, sorted_rows

# The relation of a level: its bags at ascending instants, between which it does not change.
Timeline = list[tuple[int, Bag]]

_RESTORE = (OutputKind.ISTREAM_RESTORE, OutputKind.RSTREAM_RESTORE)


class Oracle:
    """The answers of a program.

    `streams` and `relations` are the rows of each as they arrived, late ones included. `end` is the last
    instant; left out, it is where the input of the query ends.
    """

    def __init__(
        self,
        program: Program,
        streams: Mapping[str, Arrived],
        relations: Mapping[str, Arrived] | None = None,
        end: int | None = None,
    ) -> None:
        self._program = program
        self._tables: dict[str, pa.Table] = {}
        self._newest: dict[str, int] = {}
        self._end = end
        used = {name for query in program.queries for name in source_names(query.plan)}
        for stream in program.streams:
            if stream.name in used and stream.name in streams:
                accepted = streams[stream.name].in_time(stream.slack, stream.max_ahead)
                self._tables[stream.name] = tuples_of(stream, accepted)
                self._newest.update({stream.name: max(accepted.ts)} if accepted.ts else {})
        for relation in program.relations:
            if relation.name in used and relation.name in (relations or {}):
                arrived = (relations or {})[relation.name]
                self._tables[relation.name] = versions_of(relation, arrived)
                if not relation.is_static and arrived.ts:
                    self._newest[relation.name] = max(arrived.ts)

    def end(self, plan: Node) -> int | None:
        """The last instant of a query; None if nothing of what it reads has come."""
        if self._end is not None:
            return self._end
        return max((self._newest[name] for name in source_names(plan) if name in self._newest), default=None)

    def changes(self, query: QueryDefinition) -> Answers:
        """What the sink of a query must receive, per (instant, op)."""
        plan, evaluation = query.plan, self._evaluation(query.plan)
        return {} if evaluation is None else evaluation.output(plan.input, plan.kind, plan.window)

    def listed(self, query: QueryDefinition) -> Listed:
        """The same, with the rows of an instant in the order in which they must come."""
        evaluation = self._evaluation(query.plan)
        return {} if evaluation is None else evaluation.listed(query.plan)

    def _evaluation(self, plan: Node) -> _Evaluation | None:
        """None if nothing of what a query reads has come."""
        end = self.end(plan)
        if end is None:
            return None
        tables = {name: self._tables[name] for name in sorted(source_names(plan))}
        return _Evaluation(tables, unit_of(self._program, plan) or 1, end)


def expected_changes(
    program: Program,
    query: QueryDefinition,
    streams: Mapping[str, Arrived],
    relations: Mapping[str, Arrived] | None = None,
    end: int | None = None,
) -> Answers:
    """The answers of one query of a program (see `Oracle`)."""
    return Oracle(program, streams, relations, end).changes(query)


def stream_names(node: Node) -> set[str]:
    return {below.name for below in node.walk() if isinstance(below, algebra.Stream)}


def source_names(node: Node) -> set[str]:
    """The streams and relations that a plan reads."""
    return {b.name for b in node.walk() if isinstance(b, algebra.Stream | algebra.Relation)}


def unit_of(program: Program, plan: Node) -> int | None:
    """The unit of integer time that all streams of a plan share; None if some have another time."""
    names = stream_names(plan)
    units = {s.unit if s.has_integer_time else None for s in program.streams if s.name in names}
    return units.pop() if len(units) == 1 else None


class _Evaluation:
    """The answers of one query. `tables` are the leaves of its plan, and `derived` sub-queries as streams."""

    def __init__(self, tables: dict[str, pa.Table], unit: int, end: int) -> None:
        self._tables = tables
        self._unit = unit
        self._end = end
        self._derived: dict[Node, str] = {}

    # ------------------------------------------------------------- outputs

    def output(self, node: Node, kind: OutputKind, window: algebra.WindowSpec | None = None) -> Answers:
        """What an output operator says, per (instant, op)."""
        if kind is OutputKind.WSTREAM:
            assert window is not None
            return _log(self._timeline(Window(node, window)))
        if kind in _RESTORE:
            return self._restored(node, kind)
        if _is_internal(node):
            return self._internal(node, kind)
        timeline = self._timeline(node)
        match kind:
            case OutputKind.VIEW:
                return _log(timeline)
            case OutputKind.ISTREAM:
                return _stream((at, entered) for at, _, entered, _ in _differences(timeline))
            case OutputKind.DSTREAM:
                return _stream((at, left) for at, _, _, left in _differences(timeline))
            case OutputKind.RSTREAM:
                return _stream(self._evaluated(node, timeline))
        raise InternalError(f"{kind.value} has no meaning")

    def listed(self, plan: algebra.Output) -> Listed:
        """The same with rows in order: by arrival, else by ORDER BY and by their values."""
        answers = self.output(plan.input, plan.kind, plan.window)
        if _is_stream_of_selected(plan):
            return self._as_they_came(plan.input, answers)
        if isinstance(plan.input, algebra.Limit):
            return {key: _ordered(plan.input, rows) for key, rows in answers.items()}
        return _by_value(answers)

    def _as_they_came(self, node: Node, answers: Answers) -> Listed:
        """Rows that enter, in the order of arrival; where an equal one leaves, the last ones remain."""
        instants = sorted({at for at, _ in answers})
        self._prepare_windows(node)
        arriving = arriving_at(node, instants, self._tables, unit=self._unit, derived=self._derived)
        came = dict(zip(instants, arriving, strict=True))
        found: Listed = {}
        for (at, op), rows in answers.items():
            left, last = Counter(rows), []
            for row in reversed(came[at]):
                if left[row]:
                    left[row] -= 1
                    last.append(row)
            found[at, op] = last[::-1]
        return found

    def _internal(self, node: Node, kind: OutputKind) -> Answers:
        """Results over INTERNAL windows are there for ever."""
        elements = self._elements(node)
        match kind:
            case OutputKind.VIEW:
                return {(at, "+"): rows for at, rows in elements if rows}
            case OutputKind.ISTREAM:
                return _stream(elements)
            case OutputKind.DSTREAM:
                return {}
            case OutputKind.RSTREAM:
                sums = itertools.accumulate((rows for _, rows in elements), lambda sum_, more: sum_ + more)
                timeline = [(at, so_far) for (at, _), so_far in zip(elements, sums, strict=True)]
                return _stream(self._evaluated(node, timeline))
        raise InternalError(f"{kind.value} has no meaning over INTERNAL windows")

    def _elements(self, node: Node) -> Timeline:
        """The stream of results that a sub-query under a window is, or a query over INTERNAL windows.

        A periodic aggregate over INTERNAL windows gives its whole answer each time; anything else gives what
        was not there before.
        """
        if isinstance(node, algebra.Output):
            answers = self.output(node.input, node.kind)
            return [(at, rows) for (at, _), rows in sorted(answers.items())]
        timeline = self._timeline(node, as_external=True)
        aggregates = any(isinstance(below, algebra.Aggregate) for below in level_nodes(node))
        if _is_internal(node) and _time_slide(node) and aggregates:
            return timeline
        return [(at, entered) for at, _, entered, _ in _differences(timeline)]

    def _restored(self, node: Node, kind: OutputKind) -> Answers:
        """Also what came and went since the last boundary: what left more often than it had been there."""
        slide = _time_slide(node)
        if slide is None:
            raise InternalError(f"{kind.value} without a SLIDE in time has no meaning")
        found: Timeline = []
        last: Bag = Counter()
        gone: Bag = Counter()
        for at, now, _, left in _differences(self._timeline(node, sampled=False)):
            gone += left
            if at % slide == 0:
                missed = gone - last
                found.append((at, (now - last if kind is OutputKind.ISTREAM_RESTORE else now) + missed))
                last, gone = now, Counter()
        return _stream(found)

    # -------------------------------------------------------------- levels

    def _timeline(self, node: Node, *, sampled: bool = True, as_external: bool = False) -> Timeline:
        """The relation of a level.

        Not `sampled`, as if its windows had no SLIDE, but with its boundaries; `as_external`, as if none were
        INTERNAL.
        """
        windows = _windows(node)
        mixed = not as_external and len({window.spec.is_internal for window in windows}) > 1
        self._prepare_windows(node)
        first = self._first(windows)
        if first is None:
            return []
        slide = _time_slide(node)
        instants: Iterable[int] = () if slide is None else _multiples(first, self._end, slide)
        if slide is None or not sampled:
            instants = {first, *instants, *self._candidates(node, windows)}
        asked = sorted(at for at in instants if first <= at <= self._end)
        bags = answers_at(
            node if sampled else _unsampled(node),
            asked,
            self._tables,
            unit=self._unit,
            derived=self._derived,
            mixed=mixed,
        )
        return list(zip(asked, bags, strict=True))

    def _evaluated(self, node: Node, timeline: Timeline) -> Timeline:
        """At every boundary; without SLIDE in time when a row enters or leaves a window or a relation."""
        if _time_slide(node) or not timeline:
            return timeline
        instants = {timeline[0][0]}
        for window in _windows(node):
            instants.update(at for life in self._lives(window) for at in life)
        for relation in sorted({b.name for b in level_nodes(node) if isinstance(b, algebra.Relation)}):
            for column in ("·from", "·until"):
                instants.update(_up(at, self._unit) for at in self._times(relation, column))
        return [(at, rows) for at, rows in timeline if at in instants]

    def _lives(self, window: Window) -> list[tuple[int, int]]:
        return lives_in(window, self._tables, unit=self._unit, derived=self._derived)

    def _first(self, windows: Sequence[Window]) -> int | None:
        """When the first tuple comes; where windows move after some tuples, when one moves first."""
        if any(w.spec.kind is WindowKind.ROWS and (w.spec.slide or 1) > 1 for w in windows):
            return min((at for w in windows for at, _ in self._lives(w) if at <= self._end), default=None)
        names = [name for window in windows for name in self._sources(window.input)]
        starts = [ts for name in names for ts in self._ts(name)]
        return _up(min(starts), self._unit) if starts else None

    def _sources(self, node: Node) -> Iterator[str]:
        """The tables of the tuples from which the rows under a window come."""
        if isinstance(node, algebra.Stream):
            yield node.name
        elif _is_of_streams(node) and not isinstance(node, algebra.Output):
            for child in node.children:
                yield from self._sources(child)
        else:
            yield self._derived[node]

    def _candidates(self, node: Node, windows: Sequence[Window]) -> Iterator[int]:
        """Every instant at which a window or a relation of the level can change."""
        for window in windows:
            spec = window.spec
            lengths = [spec.offset]
            if spec.kind is WindowKind.RANGE:
                assert spec.range is not None
                lengths.append(spec.range)
            elif spec.kind is WindowKind.NOW:
                lengths.append(self._unit)
            for name in self._sources(window.input):
                for ts, until in zip(self._ts(name), self._times(name, "·until"), strict=True):
                    yield from (_up(ts + length, self._unit) for length in lengths)
                    yield _up(until, self._unit)
        for relation in sorted({b.name for b in level_nodes(node) if isinstance(b, algebra.Relation)}):
            for column in ("·from", "·until"):
                yield from (_up(at, self._unit) for at in self._times(relation, column))

    def _ts(self, name: str) -> list[int]:
        return self._times(name, "·ts")

    def _times(self, name: str, column: str) -> list[int]:
        times: list[int] = self._tables[name].column(column).to_pylist()
        return times

    def _prepare_windows(self, node: Node) -> None:
        for window in level_nodes(node):
            if isinstance(window, Window):
                self._prepare(window.input)

    def _prepare(self, node: Node) -> None:
        """Note the results of the sub-queries under a window as streams."""
        if node in self._derived or isinstance(node, algebra.Stream):
            return
        if _is_of_streams(node) and not isinstance(node, algebra.Output):
            for child in node.children:
                self._prepare(child)
        else:
            self._derive(node)

    def _derive(self, node: Node) -> None:
        """Note the results of a sub-query as a stream, in their order."""
        if isinstance(node, algebra.Output):
            listed = self.listed(node)
        else:
            answers: Answers = {(at, ""): rows for at, rows in self._elements(node) if rows}
            listed = self._as_they_came(node, answers) if _selects(node) else _by_value(answers)
        results = [(at, row) for (at, _), rows in sorted(listed.items()) for row in rows]
        name = f"·derived {len(self._derived)}"
        table = _table(node, [row for _, row in results])
        self._tables[name] = stream_table(table, [at for at, _ in results])
        self._derived[node] = name


# ---------------------------------------------------------------------- levels


def _is_of_streams(node: Node) -> bool:
    """Whether what stands under a window selects, projects and unites rows of streams, one by one."""
    while isinstance(node, algebra.Select | algebra.Project):
        node = node.input
    if isinstance(node, algebra.Union):
        return all(_is_of_streams(child) for child in node.children)
    return isinstance(node, algebra.Stream | algebra.Output)


def _is_stream_of_selected(plan: algebra.Output) -> bool:
    """Whether an answer is the rows of streams, selected and projected, each when it comes."""
    windows = [below for below in level_nodes(plan.input) if isinstance(below, Window)]
    if plan.kind is OutputKind.VIEW and not all(_stays(window) for window in windows):
        return False
    if plan.kind is OutputKind.RSTREAM:
        return _holds_arrivals(plan.input)
    return plan.kind in (OutputKind.VIEW, OutputKind.ISTREAM) and _selects(plan.input)


def _holds_arrivals(node: Node) -> bool:
    """Whether rows are there at the instant at which they arrive, and at no other."""
    specs = [below.spec for below in level_nodes(node) if isinstance(below, Window)]
    is_now = all(spec.kind is WindowKind.NOW and not spec.is_internal for spec in specs)
    return is_now and _selects(node)


def _selects(node: Node) -> bool:
    if isinstance(node, algebra.Select | algebra.Project | algebra.Union):
        return all(_selects(child) for child in node.children)
    return isinstance(node, Window) and node.spec.slide is None


def _stays(window: Window) -> bool:
    """Whether what is in a window stays there."""
    streams = (below for below in window.input.walk() if isinstance(below, algebra.Stream))
    has_lifetime = any(stream.has_lifetime for stream in streams)
    is_endless = window.spec.kind is WindowKind.UNBOUNDED and not has_lifetime
    return window.spec.is_internal or is_endless


def _ordered(limit: algebra.Limit, bag: Bag) -> list[Row]:
    rows = sorted_rows(bag)
    return [rows[place] for place in places_in_order(_table(limit, rows), limit.order)]


def _table(node: Node, rows: Sequence[Row]) -> pa.Table:
    columns = [
        pa.array([row[position] for row in rows], ARROW_TYPES[field.type])
        for position, field in enumerate(node.fields)
    ]
    return pa.table(columns, names=list(node.names))


def _by_value(answers: Answers) -> Listed:
    return {key: sorted_rows(rows) for key, rows in answers.items()}


def _windows(node: Node) -> list[Window]:
    return [below for below in level_nodes(node) if isinstance(below, Window)]


def _time_slide(node: Node) -> int | None:
    """The SLIDE of a level in microseconds; a window of ROWS slides by rows, not in time."""
    slides = {
        w.spec.slide
        for w in level_nodes(node)
        if isinstance(w, Window) and w.spec.kind is not WindowKind.ROWS
    }
    return slides.pop() if len(slides) == 1 else None


def _is_internal(node: Node) -> bool:
    windows = [below for below in level_nodes(node) if isinstance(below, Window)]
    return bool(windows) and all(window.spec.is_internal for window in windows)


def _unsampled(node: Node) -> Node:
    """The level without SLIDE."""
    if isinstance(node, Window):
        return Window(node.input, replace(node.spec, slide=None))
    return node.with_children(tuple(_unsampled(child) for child in node.children))


def _up(instant: int, step: int) -> int:
    """The first multiple of `step` that is not before the instant."""
    return -(-instant // step) * step


def _multiples(first: int, end: int, step: int) -> range:
    return range(_up(first, step), end + 1, step)


# --------------------------------------------------------------------- changes


def _differences(timeline: Timeline) -> Iterator[tuple[int, Bag, Bag, Bag]]:
    """At each instant the relation, what entered it, and what left."""
    before: Bag = Counter()
    for at, now in timeline:
        yield at, now, now - before, before - now
        before = now


def _stream(timeline: Iterable[tuple[int, Bag]]) -> Answers:
    return {(at, ""): rows for at, rows in timeline if rows}


def _log(timeline: Timeline) -> Answers:
    answers: Answers = {}
    for at, _, entered, left in _differences(timeline):
        if left:
            answers[at, "-"] = left
        if entered:
            answers[at, "+"] = entered
    return answers
