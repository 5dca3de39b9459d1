"""What a rule is. New rules are written like these and put into the tuples of `sash.sharing.rules`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from sash.sharing.request import Request
from sash.sharing.workload import Offer, Workload


@dataclass(frozen=True, slots=True)
class Together:
    """Queries that may be executed together, those whose answers others use first."""

    rule: str
    queries: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class StateRule:
    """Finds synopses that exist and answer a request; None if this rule knows none."""

    name: str
    says: str
    find: Callable[[Request, Workload], Offer | None]


@dataclass(frozen=True, slots=True)
class ComputationRule:
    """Finds queries of a workload that may be executed together."""

    name: str
    says: str
    find: Callable[[Workload], Iterable[Together]]
