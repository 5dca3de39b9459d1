"""The serialization graph of a history, and cycles in it (002, section 7.3.1).

Nodes are movements (T5) and committed queries (Q1); an edge leads to the one that comes later in every serial
order with the same reads and writes. A read of version v gives T_v → Q and Q → the next writer of that
sub-window; writers of a sub-window follow each other. Edges between neighbours are enough: the others follow
from them. So there are no more than two edges a read and one a write, and looking for a cycle is linear.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from graphlib import CycleError, TopologicalSorter
from typing import NamedTuple

from sash.transactions.events import Committed, Handed, Moved, Read, SubWindow, Undone
from sash.transactions.history import History
from sash.transactions.timeline import Timeline, shown


class Edge(NamedTuple):
    """The earlier and the later transaction, and the sub-window about which they are in conflict."""

    earlier: str
    later: str
    sub_window: SubWindow


@dataclass(frozen=True, slots=True)
class Reads:
    """What an answer is made of: a version of each sub-window, unless there is a `fault`."""

    versions: dict[SubWindow, int] = field(default_factory=dict)
    fault: str = ""


def reads_of(history: History, timeline: Timeline) -> dict[int, Reads]:
    """What each transaction has read, and not taken back."""
    versions: dict[int, dict[SubWindow, int]] = {}
    faults: dict[int, str] = {}
    for event in history.events:
        match event:
            case Read(transaction, sub_window, version):
                found = versions.setdefault(transaction, {})
                if sub_window in found:
                    faults.setdefault(transaction, f"it read {shown(sub_window)} twice")
                found[sub_window] = version
            case Handed(transaction, sub_window, version):
                found = versions.setdefault(transaction, {})
                if sub_window not in found or timeline.next_version(sub_window, found[sub_window]) != version:
                    what = f"it was handed what movement {version} inserted into {shown(sub_window)}"
                    faults.setdefault(transaction, f"{what}, but had not read what was there before")
                found[sub_window] = version
            case Undone(transaction, sub_window, version):
                if versions.setdefault(transaction, {}).pop(sub_window, None) != version:
                    faults.setdefault(transaction, f"it took back {shown(sub_window)}, which it did not have")
            case _:
                pass
    return {number: Reads(found, faults.get(number, "")) for number, found in versions.items()}


def edges(
    history: History, timeline: Timeline, reads: Mapping[int, Reads], queries: Container[int] | None = None
) -> Iterator[Edge]:
    """The edges between neighbours: of movements in the history, and of committed queries or some of them."""
    for event in history.events:
        if isinstance(event, Committed):
            if queries is not None and event.transaction not in queries:
                continue
            for sub_window, version in reads.get(event.transaction, Reads()).versions.items():
                if version > timeline.start:
                    yield Edge(f"T{version}", f"Q{event.transaction}", sub_window)
                later = timeline.next_version(sub_window, version)
                if later is not None:
                    yield Edge(f"Q{event.transaction}", f"T{later}", sub_window)
        elif isinstance(event, Moved):
            for change in event.changes:
                for pane in (*range(change.first, change.head + 1), *change.inserted):
                    later = timeline.next_version(SubWindow(change.ring, pane), event.number)
                    if later is not None:
                        yield Edge(f"T{event.number}", f"T{later}", SubWindow(change.ring, pane))


def cycle(found: Iterable[Edge]) -> tuple[str, ...]:
    """Transactions that each come before the next, and the last before the first; none without a cycle."""
    earlier: dict[str, set[str]] = {}
    for edge in found:
        earlier.setdefault(edge.later, set()).add(edge.earlier)
    try:
        TopologicalSorter(earlier).prepare()
    except CycleError as failure:
        around: list[str] = failure.args[1]
        return tuple(around[:-1])
    return ()
