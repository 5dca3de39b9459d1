"""The experiments by name. Those of the papers say in their titles which figures they repeat."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from sash.errors import UnknownName, UserError
from sash_experiments import (
    approximate_aggregates,
    archive_counts,
    archive_grid,
    archive_parallel,
    archive_rates,
    archive_strict,
    archive_techniques,
    archive_variance,
    asw_rates,
    ci_count,
    driver_groups,
    frequent_items,
    having_queries,
    having_thresholds,
    index_maintenance,
    index_queries,
    index_speed,
    join_algorithms,
    join_order,
    join_synopses,
    many_queries,
    operator_rates,
    overload,
    periodic_values,
    planning,
    query_scheduling,
    reading_while_sliding,
    retained_probe,
    ring_maintenance,
    running_sums,
    scan_limit,
    scheduling_decisions,
    shared_aggregates,
    sorted_windows,
    spark_operators,
    transaction_aborts,
    transaction_one_time,
    transaction_periodic,
    upa_query_1,
    upa_query_2,
    upa_query_3,
    upa_query_4,
)
from sash_experiments.result import Note, Result, silent

SCALES = ("small", "paper")


@dataclass(frozen=True, slots=True)
class Experiment:
    """`measure(scale, note)` does the work and notes how far it is; `draw(result, path)` the picture.

    Those with several published sizes have a medium scale, too.
    """

    name: str
    title: str
    measure: Callable[[str, Note], Result]
    draw: Callable[[Result, Path], None]
    scales: tuple[str, ...] = SCALES


_EXPERIMENTS = tuple(
    Experiment(module.NAME, module.TITLE, module.measure, module.draw)
    for module in (
        planning,
        scan_limit,
        spark_operators,
        operator_rates,
        upa_query_1,
        upa_query_2,
        upa_query_3,
        upa_query_4,
        join_order,
        join_algorithms,
        join_synopses,
        transaction_aborts,
        transaction_periodic,
        transaction_one_time,
        reading_while_sliding,
        shared_aggregates,
        asw_rates,
        ci_count,
        having_thresholds,
        having_queries,
        running_sums,
        query_scheduling,
        scheduling_decisions,
        many_queries,
        driver_groups,
        overload,
        index_speed,
        periodic_values,
        retained_probe,
        sorted_windows,
        index_maintenance,
        index_queries,
        ring_maintenance,
        frequent_items,
        approximate_aggregates,
    )
) + tuple(
    Experiment(module.NAME, module.TITLE, module.measure, module.draw, tuple(module.SCALES))
    for module in (
        archive_grid,
        archive_techniques,
        archive_rates,
        archive_counts,
        archive_strict,
        archive_parallel,
        archive_variance,
    )
)


def all_experiments() -> dict[str, Experiment]:
    return {experiment.name: experiment for experiment in _EXPERIMENTS}


def run_experiment(
    name: str, scale: str = "small", out: Path = Path("results"), note: Note = silent
) -> Result:
    """Run one; writes NAME.json and NAME.png into `out`."""
    experiments = all_experiments()
    if name not in experiments:
        raise UnknownName("experiment", name, sorted(experiments))
    experiment = experiments[name]
    if scale not in experiment.scales:
        raise UserError(
            f"the experiment {name} has no scale '{scale}'",
            expected=f"one of: {', '.join(experiment.scales)}",
        )
    result = experiment.measure(scale, note)
    result.write(out)
    experiment.draw(result, out / f"{name}.png")
    return result
