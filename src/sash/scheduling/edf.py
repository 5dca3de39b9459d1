"""Earliest deadline first (002, Algorithm 9): each query is a task of its own."""

from __future__ import annotations

from collections.abc import Sequence

from sash.scheduling.policy import Block, Policy, Semantics, Standing, alone


def divide(queries: Sequence[Standing], semantics: Semantics) -> list[Block]:
    return [Block((query,), query.period) for query in queries]


EDF = Policy("edf", divide, alone)
