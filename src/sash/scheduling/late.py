"""Late sharing (002, section 8.4.5): with a late task, all late tasks of its group are executed."""

from __future__ import annotations

from dataclasses import replace

from sash.scheduling.policy import Policy


def late(until: int) -> int | None:
    return -1 if until < 0 else until


def with_late_sharing(policy: Policy) -> Policy:
    return replace(policy, name=f"{policy.name}, late sharing", along=late)
