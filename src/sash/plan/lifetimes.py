"""How long a row of a result lives at most, where its end is foreseen when it enters."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

from sash.lang import algebra
from sash.lang.algebra import Node, WindowKind, WindowSpec
from sash.lang.bound import StreamDefinition
from sash.lang.values import Named
from sash.plan.scalars import column_scalar

Streams = Mapping[str, StreamDefinition]


def longest_life(node: Node, streams: Streams, unit: int, step: int) -> int | None:
    """In microseconds, of a query that is looked at every `step`; None if there is no bound."""
    match node:
        case algebra.Window():
            bounds = (_length(node.spec, unit), _lifetime(node.input, streams))
            found = min((bound for bound in bounds if bound is not None), default=None)
            return None if found is None else -(-found // step) * step
        case algebra.Select() | algebra.Project() | algebra.Distinct() | algebra.RelationJoin():
            return longest_life(node.children[0], streams, unit, step)
        case algebra.SemiJoin() if node.is_anti:
            return longest_life(node.left, streams, unit, step)
        case algebra.Limit() if node.count is None:
            return longest_life(node.input, streams, unit, step)
    lives = [longest_life(child, streams, unit, step) for child in node.children]
    match node:
        case algebra.Join() | algebra.SemiJoin():
            # A combination lives as long as all of its parts do.
            return min((life for life in lives if life is not None), default=None)
        case algebra.Union():
            known = [life for life in lives if life is not None]
            return max(known) if known and len(known) == len(lives) else None
    return None


def sub_window_grain(node: Node, streams: Streams, step: int) -> int | None:
    """By multiples of what the windows of a query may be shortened by looking at ends alone; None: not.

    That takes one length of all windows, and rows whose ends are those of their windows: where one row stands
    for several, only the end of one of them is known (000, section 3.4).
    """
    lengths = set()
    for each in node.walk():
        match each:
            case algebra.Window():
                spec = each.spec
                if spec.kind is not WindowKind.RANGE or spec.offset or _lifetime(each.input, streams):
                    return None
                if not isinstance(_bare(each.input), algebra.Stream):
                    return None
                lengths.add(spec.range)
            case algebra.Select() | algebra.Project() | algebra.Join() | algebra.Union():
                pass
            case algebra.Stream() | algebra.Output():
                pass
            case algebra.RelationJoin() if not each.relation.is_revised:
                pass
            case algebra.Relation() if not each.is_revised:
                pass
            case _:
                return None
    length = lengths.pop() if len(lengths) == 1 else None
    return step if length is not None and length % step == 0 else None


ARRIVAL = "sash arrival "
"""What the names of columns begin with that tell when the parts of a result arrived."""


class Counted(NamedTuple):
    """A window of the last `rows` tuples of a stream, which a query calls by its `qualifier`."""

    stream: str
    rows: int
    qualifier: str


def counted_windows(node: Node) -> tuple[Counted, ...]:
    """The windows of rows by which results leave, so that rates of arrival tell when; none where other
    things decide, too.
    """
    found = []
    for each in node.walk():
        match each:
            case algebra.Window() if each.spec.rows is not None:
                stream = _bare(each.input)
                # Where a sub-query filters rows, less come than the stream has.
                filters = any(isinstance(below, algebra.Select) for below in each.input.walk())
                if each.spec.partition or filters or not isinstance(stream, algebra.Stream):
                    return ()
                found.append(Counted(stream.name, each.spec.rows, stream.qualifier))
            case algebra.Window() | algebra.Select() | algebra.Project() | algebra.Join():
                pass
            case algebra.RelationJoin() | algebra.Relation() | algebra.Stream() | algebra.Output():
                pass
            case _:
                return ()
    return tuple(found)


def with_arrivals(plan: algebra.Output, streams: Streams) -> algebra.Output:
    """The plan with columns that tell when the parts of results arrived, if it joins windows of rows only.

    A result leaves with the first of its parts, and how much of its window a part has before it follows from
    when it came (000, section 4.2).
    """
    windows = [node for node in plan.walk() if isinstance(node, algebra.Window)]
    if len(windows) < 2 or len(counted_windows(plan)) < len(windows):
        return plan
    found, _ = _with_arrivals(plan, streams)
    assert isinstance(found, algebra.Output)
    return found


def _with_arrivals(node: Node, streams: Streams) -> tuple[Node, dict[str, algebra.Field]]:
    """The node, and by qualifier of a stream the column with the times of its tuples."""
    if isinstance(node, algebra.Stream):
        name = f"{node.qualifier}.{streams[node.name].timestamp}"
        return node, {node.qualifier: next(field for field in node.fields if field.name == name)}
    below = [_with_arrivals(child, streams) for child in node.children]
    known = {name: field for _, fields in below for name, field in fields.items()}
    node = node.with_children(tuple(child for child, _ in below))
    if isinstance(node, algebra.Project):
        added = tuple(Named(ARRIVAL + name, column_scalar(field)) for name, field in known.items())
        node = replace(node, outputs=(*node.outputs, *added))
        known = {name: algebra.Field(ARRIVAL + name, field.type) for name, field in known.items()}
    return node, known


def _length(spec: WindowSpec, unit: int) -> int | None:
    if spec.kind is WindowKind.NOW:
        return unit
    return None if spec.range is None else spec.range - spec.offset


def _lifetime(node: Node, streams: Streams) -> int | None:
    """The MAX LIFETIME of the stream below a window, or the longest of several, if all have one."""
    node = _bare(node)
    if isinstance(node, algebra.Union):
        known = [_lifetime(child, streams) for child in node.children]
        found = [length for length in known if length is not None]
        return max(found) if len(found) == len(known) else None
    if not isinstance(node, algebra.Stream) or not node.has_lifetime:
        return None
    return streams[node.name].max_lifetime


def _bare(node: Node) -> Node:
    while isinstance(node, algebra.Select | algebra.Project):
        node = node.input
    return node
