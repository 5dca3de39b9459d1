"""Conservative scheduling (002, Algorithm 10): sub-groups of one period, together where they coincide."""

from __future__ import annotations

from collections.abc import Sequence

from sash.scheduling.policy import Block, Policy, Semantics, Standing, by_period, same_deadline


def divide(queries: Sequence[Standing], semantics: Semantics) -> list[Block]:
    return by_period(queries)


CONSERVATIVE = Policy("conservative", divide, same_deadline)
