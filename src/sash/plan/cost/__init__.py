"""What plans cost: statistics, join orders, and work per second of every operator."""

from sash.plan.cost.buffers import Buffer, BufferKind, Strategy, calendar_partitions
from sash.plan.cost.estimates import Cost, Estimate
from sash.plan.cost.join_order import JoinOrder, order_windows
from sash.plan.cost.joins import WindowStatistics, join_cost, result_size
from sash.plan.cost.matching import join_windows
from sash.plan.cost.operators import StrictStorage, estimate, order_join, strategy_below, strict_storage
from sash.plan.cost.selectivity import distinct_values, selectivity
from sash.plan.cost.statistics import Statistics, StreamStatistics

__all__ = [
    "Buffer",
    "BufferKind",
    "Cost",
    "Estimate",
    "JoinOrder",
    "Statistics",
    "Strategy",
    "StreamStatistics",
    "StrictStorage",
    "WindowStatistics",
    "calendar_partitions",
    "distinct_values",
    "estimate",
    "join_cost",
    "join_windows",
    "order_join",
    "order_windows",
    "result_size",
    "selectivity",
    "strategy_below",
    "strict_storage",
]
