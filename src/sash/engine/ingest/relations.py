"""Relations that are read once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pyarrow as pa

from sash.connectors.sources import read_whole
from sash.engine.continuous.continuous import relation_delta
from sash.operators.delta import Delta
from sash.plan.run_plan import RunPlan, feed_of

Given = Mapping[str, Sequence[pa.Array]]
"""The columns of relations that somebody has read already, by name."""


def read_relations(plans: Sequence[RunPlan], base_dir: Path, given: Given) -> dict[str, Delta]:
    """The rows of the relations of plans that do not change."""
    relations = {relation.name: relation for plan in plans for relation in plan.relations}
    return {
        relation.name: relation_delta(
            given[relation.name] if relation.name in given else read_whole(feed_of(relation), base_dir)
        )
        for relation in relations.values()
        if relation.is_static
    }
