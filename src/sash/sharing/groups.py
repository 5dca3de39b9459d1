"""Query groups: the queries that a scheduler may execute together, by the rules for shared computation."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from sash.sharing.rules import Together
from sash.sharing.workload import Workload


@dataclass(frozen=True, slots=True)
class Group:
    """Queries in the order in which they are computed, the rules that bring them together, what they read."""

    name: str
    queries: tuple[str, ...]
    rules: tuple[str, ...]
    synopses: tuple[str, ...]


def groups_of(workload: Workload, together: Iterable[Together]) -> tuple[Group, ...]:
    """Queries that any rules connect are in one group; those that answer alone are groups of one."""
    leader = {name: name for name in workload.requests}

    def find(name: str) -> str:
        while leader[name] != name:
            leader[name] = leader[leader[name]]
            name = leader[name]
        return name

    found = list(together)
    for each in found:
        first = find(each.queries[0])
        for name in each.queries[1:]:
            leader[find(name)] = first
    members: dict[str, list[str]] = {}
    for name in workload.requests:
        members.setdefault(find(name), []).append(name)
    rules: dict[str, dict[str, None]] = {root: {} for root in members}
    for each in found:
        rules[find(each.queries[0])][each.rule] = None
    return tuple(
        Group(
            f"g{number}",
            _in_order(names, workload),
            tuple(sorted(rules[root])),
            tuple(dict.fromkeys(s for name in names for s in workload.readings[name].synopses)),
        )
        for number, (root, names) in enumerate(members.items())
    )


def _in_order(names: list[str], workload: Workload) -> tuple[str, ...]:
    """Those that others are put together from first, then shorter windows before longer ones."""
    place = {name: i for i, name in enumerate(names)}
    return tuple(
        sorted(
            names,
            key=lambda name: (
                len(workload.readings[name].parts),
                workload.requests[name].longest,
                place[name],
            ),
        )
    )
