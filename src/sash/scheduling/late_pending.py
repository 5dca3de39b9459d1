"""Late-pending sharing (002, Algorithm 11): with a late task, all tasks of its group that are late or due."""

from __future__ import annotations

from dataclasses import replace

from sash.scheduling.policy import Policy


def late_or_pending(until: int) -> int | None:
    return 0 if until < 0 else until


def with_late_pending_sharing(policy: Policy) -> Policy:
    return replace(policy, name=f"{policy.name}, late-pending sharing", along=late_or_pending)
