"""Indexes of sliding windows in memory (003): of values with their counts, and of tuples."""

from sash.indexes.build import tuple_window, value_window, value_windows
from sash.indexes.purging import BY_SHARE, Purging
from sash.indexes.tuple_window import TupleWindow
from sash.indexes.value_window import ValueWindow

__all__ = [
    "BY_SHARE",
    "Purging",
    "TupleWindow",
    "ValueWindow",
    "tuple_window",
    "value_window",
    "value_windows",
]
