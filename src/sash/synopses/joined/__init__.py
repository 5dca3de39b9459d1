"""Synopses of aggregates over joins (002, section 8.3.2)."""

from sash.synopses.joined.bij import BasicIntervalJoinSynopsis
from sash.synopses.joined.ij import IntervalJoinSynopsis
from sash.synopses.joined.results import preaggregate_results
from sash.synopses.joined.rj import RunningJoinSynopsis
from sash.synopses.joined.rows import JoinRows
from sash.synopses.joined.synopsis import JoinSynopsis

__all__ = [
    "BasicIntervalJoinSynopsis",
    "IntervalJoinSynopsis",
    "JoinRows",
    "JoinSynopsis",
    "RunningJoinSynopsis",
    "preaggregate_results",
]
