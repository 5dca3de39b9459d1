"""No sharing (002, section 8.5.1): Algorithm 9 over sub-groups of one period, never two of them together.

It is the baseline of the published experiments.
"""

from __future__ import annotations

from collections.abc import Sequence

from sash.scheduling.policy import Block, Policy, Semantics, Standing, alone, by_period


def divide(queries: Sequence[Standing], semantics: Semantics) -> list[Block]:
    return by_period(queries)


NO_SHARING = Policy("no-sharing", divide, alone)
