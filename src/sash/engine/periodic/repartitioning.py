"""Which groupings are divided among partitions: those that are too large for the driver.

Groups that have rows in common move together. A grouping that has moved stays where it is. One whose queries
are refreshed elastically stays with the driver, which decides after each batch whom there is time for.
"""

from __future__ import annotations

from collections.abc import Sequence

from sash.engine.periodic.groups import QueryGroup
from sash.engine.periodic.synopsis_set import SynopsisSet
from sash.plan.explain.measured import size_text
from sash.plan.placement import AT_DRIVER, PARTITIONED, state_of


def groups_to_repartition(executor: SynopsisSet, most: int, room: int | None) -> dict[str, str]:
    """The groups that must move, with the reason.

    The driver has groupings of up to `most` groups (0: none); where all that it holds takes more than half of
    its `room`, in bytes, the largest moves.
    """
    found: dict[str, str] = {}
    movable = []
    held = executor.held
    for cluster in executor.clusters:
        here = (held[group.spec.name].groups for group in cluster if group.spec.name in held)
        why = _reason(executor, cluster, most, max(here, default=0))
        if why is not None:
            found.update({group.spec.name: why for group in cluster})
        elif _is_movable(cluster):
            movable.append(cluster)
    staying = {name: each.bytes for name, each in held.items() if name not in found}
    total = sum(staying.values())
    if room is not None and movable and total > room // 2:
        largest = max(movable, key=lambda cluster: sum(staying[g.spec.name] for g in cluster))
        why = f"the driver held {size_text(total)}, more than half of --max-state, and most of it here"
        found.update({group.spec.name: why for group in largest})
    return {name: why for name, why in found.items() if name not in executor.divided}


def _reason(executor: SynopsisSet, cluster: Sequence[QueryGroup], most: int, groups: int) -> str | None:
    """Why groups that have rows in common must be in partitions; None: they need not."""
    moved = next((group.spec.name for group in cluster if group.spec.name in executor.divided), None)
    if moved is not None:
        return executor.divided[moved]
    if not _is_movable(cluster):
        return None
    asking = next((query for query, state in _states(cluster) if state == PARTITIONED), None)
    if asking is not None:
        return f"{asking} has WITH (state = '{PARTITIONED}')"
    if most == 0:
        return "--max-driver-groups is 0"
    return f"{groups:,} groups, and --max-driver-groups is {most:,}" if groups > most else None


def _is_movable(cluster: Sequence[QueryGroup]) -> bool:
    """Whether groups that have rows in common may be divided at all."""
    states = {state for _, state in _states(cluster)}
    # Whose window moves by itself may be behind, which partitions do not know.
    is_alone = any(refresher.is_alone for group in cluster for refresher in group.refreshers)
    is_grouped = all(group.spec.keys for group in cluster)
    return is_grouped and not is_alone and (PARTITIONED in states or AT_DRIVER not in states)


def _states(cluster: Sequence[QueryGroup]) -> list[tuple[str, str | None]]:
    """Where each query asks to have its synopsis."""
    queries = (q for group in cluster for refresher in group.refreshers for q in refresher.queries)
    return [(query.name, state_of(query.definition)) for query in queries]
