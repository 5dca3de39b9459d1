"""What EXPLAIN says of CREATE INDEX: which index a question over kept rows is answered by, and why."""

from __future__ import annotations

from collections.abc import Iterator

from sash.lang import Program
from sash.lang.algebra import Node
from sash.lang.bound import IndexDefinition, StreamDefinition
from sash.lang.indexing import ValueIndexKind
from sash.plan.cost.indexes import index_of_kept_rows
from sash.plan.key_conditions import Between, Condition, conditions_of
from sash.plan.key_links import ROWS_A_KEY, KeyLink, links_of
from sash.plan.run_plan import leaf_of, scan_nodes


def probes(plan: Node, program: Program) -> Iterator[str]:
    """A line for each part of a SELECT that reads a stream with indexes: how it finds rows if it is asked."""
    streams = {stream.name: stream for stream in program.streams if stream.retain is not None}
    links = links_of(plan)
    for node in scan_nodes(plan):
        name = leaf_of(node).name
        indexes = {index.column: index for index in program.indexes if index.stream == name}
        if name not in streams or not indexes:
            continue
        lines = [
            _line(indexes[each.column], streams[name], each)
            for each in conditions_of(node)
            if each.column in indexes
        ]
        lines += [
            _linked(indexes[link.column], streams[name], link)
            for link in links
            if link.scan == node and link.column in indexes
        ]
        columns = ", ".join(indexes)
        yield from lines or [f"asked once: all kept rows of {name} are read; nothing is said of {columns}"]


def _linked(index: IndexDefinition, stream: StreamDefinition, link: KeyLink) -> str:
    choice = index_of_kept_rows(index, stream)
    what = f"index {index.name} on {stream.name} ({index.column}) USING {choice.spec}"
    few = f"if they are few (at least {ROWS_A_KEY} kept rows for each)"
    return f"asked once: {what} is probed for the values of {link.key}, {few}, else all kept rows are read"


def _line(index: IndexDefinition, stream: StreamDefinition, condition: Condition) -> str:
    choice = index_of_kept_rows(index, stream)
    what = f"index {index.name} on {stream.name} ({index.column}) USING {choice.spec}"
    is_range = isinstance(condition, Between)
    if is_range and choice.spec.values in (ValueIndexKind.H, ValueIndexKind.UH):
        return f"asked once: {what} has no order, so it does not help with a range of {index.column}"
    kind = "a range" if is_range else "a value"
    return f"asked once: {what} is probed for {kind} of {index.column} ({'; '.join(choice.why)})"
