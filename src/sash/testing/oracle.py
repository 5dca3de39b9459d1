"""The oracle: what a query must answer, recomputed from the definition by an engine that is not ours.

A level of a query is what is evaluated together: everything above its topmost windows. The oracle answers
each level at every instant at which anything could have changed (a tuple or a change of a relation comes, a
tuple goes, the window slides), with `relational`, and compares consecutive answers as bags. The answers of a
sub-query under a window become a stream of their own, ordered by instant and, within one, by their values
(see `rows`). It shares nothing with the operators but the bound query.

    first    the least accepted timestamp of the streams of the level, of which a sub-query under a window is
             one; before it there is no answer
    end      the greatest accepted timestamp of all streams that the program's queries read
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
from sash.testing.relational import answers_at, is_stream_of_tuples, stream_table
from sash.testing.rows import Answers, Bag, sorted_rows

# The relation of a level: its bags at ascending instants, between which it does not change.
Timeline = list[tuple[int, Bag]]

_RESTORE = (OutputKind.ISTREAM_RESTORE, OutputKind.RSTREAM_RESTORE)


class Oracle:
    """The answers of a program.

    `streams` and `relations` are the rows of each as they arrived, late ones included. `end` is the last
    instant; left out, it is where the input ends.
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
        newest: list[int] = []
        used = {name for query in program.queries for name in source_names(query.plan)}
        for stream in program.streams:
            if stream.name in used and stream.name in streams:
                accepted = streams[stream.name].in_time(stream.slack)
                self._tables[stream.name] = tuples_of(stream, accepted)
                newest += accepted.ts
        for relation in program.relations:
            if relation.name in used and relation.name in (relations or {}):
                self._tables[relation.name] = versions_of(relation, (relations or {})[relation.name])
        self._end = max(newest, default=None) if end is None else end

    def changes(self, query: QueryDefinition) -> Answers:
        """What the sink of a query must receive, per (instant, op)."""
        if self._end is None:
            return {}
        plan = query.plan
        tables = {name: self._tables[name] for name in source_names(plan)}
        evaluation = _Evaluation(tables, unit_of(self._program, plan) or 1, self._end)
        return evaluation.output(plan.input, plan.kind, plan.window)


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
                return _stream(timeline if _time_slide(node) else _changed(timeline))
        raise InternalError(f"{kind.value} has no meaning")

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
                return _stream(timeline if _time_slide(node) else _changed(timeline))
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
        windows = [below for below in level_nodes(node) if isinstance(below, Window)]
        mixed = not as_external and len({window.spec.is_internal for window in windows}) > 1
        for window in windows:
            if not is_stream_of_tuples(window.input) and window.input not in self._derived:
                self._derive(window.input)
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

    def _first(self, windows: Sequence[Window]) -> int | None:
        starts = [ts for window in windows for ts in self._ts(self._source(window))]
        return _up(min(starts), self._unit) if starts else None

    def _source(self, window: Window) -> str:
        """The table of the tuples under a window."""
        return self._derived.get(window.input) or next(iter(stream_names(window.input)))

    def _candidates(self, node: Node, windows: Sequence[Window]) -> Iterator[int]:
        """Every instant at which a window or a relation of the level can change."""
        for window in windows:
            spec = window.spec
            name = self._source(window)
            lengths = [spec.offset]
            if spec.kind is WindowKind.RANGE:
                assert spec.range is not None
                lengths.append(spec.range)
            elif spec.kind is WindowKind.NOW:
                lengths.append(self._unit)
            for ts, until in zip(self._ts(name), self._times(name, "·until"), strict=True):
                yield from (_up(ts + length, self._unit) for length in lengths)
                yield _up(until, self._unit)
        for relation in {below.name for below in level_nodes(node) if isinstance(below, algebra.Relation)}:
            for column in ("·from", "·until"):
                yield from (_up(at, self._unit) for at in self._times(relation, column))

    def _ts(self, name: str) -> list[int]:
        return self._times(name, "·ts")

    def _times(self, name: str, column: str) -> list[int]:
        times: list[int] = self._tables[name].column(column).to_pylist()
        return times

    def _derive(self, node: Node) -> None:
        """Note the results of a sub-query as a stream: by instant and, within one, by value."""
        results = [(at, row) for at, rows in self._elements(node) for row in sorted_rows(rows)]
        columns = [
            pa.array([row[position] for _, row in results], ARROW_TYPES[field.type])
            for position, field in enumerate(node.fields)
        ]
        name = f"·derived {len(self._derived)}"
        self._tables[name] = stream_table(
            pa.table(columns, names=list(node.names)), [at for at, _ in results]
        )
        self._derived[node] = name


# ---------------------------------------------------------------------- levels


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


def _changed(timeline: Timeline) -> Timeline:
    return [(at, now) for at, now, entered, left in _differences(timeline) if entered or left]


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
