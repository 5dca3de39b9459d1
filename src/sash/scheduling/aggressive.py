"""Aggressive scheduling (002, section 8.4.3): a group is one task with the shortest period in it."""

from __future__ import annotations

import math
from collections.abc import Sequence

from sash.scheduling.policy import Block, Policy, Semantics, Standing, alone


def divide(queries: Sequence[Standing], semantics: Semantics) -> list[Block]:
    """Where answers are due at multiples of each period, all of them must be multiples of the task's."""
    periods = [query.period for query in queries]
    period = min(periods) if semantics is Semantics.ELASTIC else math.gcd(*periods)
    return [Block(tuple(queries), period)]


AGGRESSIVE = Policy("aggressive", divide, alone)
