"""Readers of a synopsis, gathered as the rules for shared computation need them."""

from __future__ import annotations

from collections.abc import Iterator

from sash.sharing.rules.rule import Together
from sash.sharing.synopsis import SharedSynopsis
from sash.sharing.workload import Workload


def direct_readers(synopsis: SharedSynopsis, workload: Workload) -> list[str]:
    """The queries that are answered from this synopsis alone."""
    return [name for name in workload.readers(synopsis.name) if len(workload.readings[name].parts) == 1]


def by_windows(names: list[str], workload: Workload) -> Iterator[list[str]]:
    """The queries gathered by the lengths of their windows."""
    gathered: dict[tuple[int, ...], list[str]] = {}
    for name in names:
        gathered.setdefault(workload.requests[name].windows, []).append(name)
    yield from gathered.values()


def several(rule: str, queries: list[str]) -> Iterator[Together]:
    """Two queries or more; one needs nobody's leave."""
    if len(queries) > 1:
        yield Together(rule, tuple(queries))


def predecessors(name: str, workload: Workload, *, is_basic: bool) -> list[str]:
    """Queries whose answers are parts of the answer of `name`: those that read its synopses alone."""
    found: dict[str, None] = {}
    for part in workload.readings[name].parts:
        synopsis = workload.synopses[part.synopsis]
        if synopsis.kind.is_basic is is_basic:
            found.update(dict.fromkeys(direct_readers(synopsis, workload)))
    return list(found)
