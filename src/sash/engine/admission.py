"""Whether queries may come: a bound on their number, and one on the state that they are estimated to need.

State is estimated only where a bound is stated and the rates of all streams are declared or have been
measured: nobody is refused on a guess. What is really held is looked at after every batch (`limits.py`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from sash.engine.observe.report import DRIVER, Held
from sash.errors import UserError
from sash.lang import Program
from sash.plan.cost import Statistics, StreamStatistics
from sash.plan.explain.measured import size_text
from sash.plan.optimize import optimize
from sash.plan.periodic import SynopsisSpec
from sash.plan.placement import AT_DRIVER, state_of
from sash.plan.refresh import refresh_of
from sash.plan.run_plan import ContinuousQuery, RunPlan
from sash.state.layout import Layout

# Bytes of a row of state beside its values: its pane, its group, its links.
_ROW = 40


def admit_number(queries: int, most: int | None) -> None:
    """Raise UserError if there would be too many queries."""
    if most is not None and queries > most:
        raise UserError(
            f"there would be {queries:,} queries, and --max-queries allows {most:,}",
            expected=f"at most {most:,}",
            got=f"{queries:,}",
            hint="drop queries first, or allow more with --max-queries",
            id="max-queries",
        )


def admit_state(
    plan: RunPlan,
    program: Program,
    rates: Mapping[str, float],
    state: Mapping[int, Held],
    partitions: int | None,
    limit: int | None,
) -> None:
    """Raise UserError if what the queries of a plan will need does not fit in beside the state that is there.

    Synopses are with the driver, operators are divided among partitions, and so are groupings that fill the
    driver by half; the limit is for each of those. Without partitions everything is here.
    """
    if not limit:
        return
    measured = {name: StreamStatistics(rate) for name, rate in rates.items()}
    statistics = Statistics.from_definitions((*program.streams, *program.relations), measured)
    if any(statistics.of(stream.name).rate is None for stream in plan.streams):
        return
    held = {partition: each.bytes for partition, each in state.items()}
    whole, grouped = _synopses(plan, statistics)
    divided = _operators(plan, statistics)
    at_driver = held.pop(DRIVER, 0)
    if partitions is not None and at_driver + sum((*whole.values(), *grouped.values())) > limit // 2:
        divided.update(grouped)
    else:
        whole.update(grouped)
    _admit(whole, at_driver, limit)
    shares = {name: size // (partitions or 1) for name, size in divided.items()}
    _admit(shares, max(held.values(), default=0), limit)


def _admit(needs: Mapping[str, int], held: int, limit: int) -> None:
    total = sum(needs.values())
    if not needs or held + total <= limit:
        return
    most = max(needs, key=needs.__getitem__)
    raise UserError(
        f"the state of these queries is estimated at {size_text(total)}, beside {size_text(held)} that are "
        "held, more than --max-state allows",
        expected=f"at most {size_text(limit)}",
        got=f"{most} needs most of it: {size_text(needs[most])}",
        hint="use smaller windows or fewer groups, or a larger --max-state",
        id="state-estimate",
    )


def _synopses(plan: RunPlan, statistics: Statistics) -> tuple[dict[str, int], dict[str, int]]:
    """The bytes that each synopsis is estimated to hold: those that stay with the driver, and the others."""
    staying: dict[str, int] = {}
    movable: dict[str, int] = {}
    for spec in plan.synopses:
        if spec.cover is None:
            queries = plan.readers_of(spec.of or spec.name)
            stays = any(len(q.select.keys) == 0 or state_of(q.definition) == AT_DRIVER for q in queries)
            needs = staying if stays or any(refresh_of(q.definition).is_elastic for q in queries) else movable
            readers = ", ".join(query.name for query in queries)
            needs[f"the synopsis {spec.name} of {readers}"] = _synopsis_bytes(spec, plan, statistics)
    return staying, movable


def _operators(plan: RunPlan, statistics: Statistics) -> dict[str, int]:
    """The same of each continuous query; those that read join synopses of others need hardly any."""
    queries = (query for query in plan.continuous if query.name not in plan.readers)
    return {f"query {query.name}": _continuous_bytes(query, statistics) for query in queries}


def _synopsis_bytes(spec: SynopsisSpec, plan: RunPlan, statistics: Statistics) -> int:
    stream = plan.stream(spec.stream)
    groups = 1.0
    for key in spec.keys:
        groups *= statistics.distinct(stream.name, key.column or "", key.type, ())
    layout = Layout.of(spec.measures)
    width = _ROW + 8 * (len(layout.operations) + layout.float_columns)
    come = statistics.rate(stream.name) * spec.longest / 1e6
    known = statistics.of(stream.name).rows
    rows = min(spec.panes.count_in(spec.longest) * groups, come, math.inf if known is None else known)
    return int(rows * width)


def _continuous_bytes(query: ContinuousQuery, statistics: Statistics) -> int:
    estimate = optimize(query.plan, statistics, query.choices.strategy).estimate
    return int(estimate.total_state * (_ROW + 16 * len(query.plan.fields)))
