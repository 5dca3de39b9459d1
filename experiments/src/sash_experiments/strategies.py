"""The strategies of 002, chapter 3, as variants of one query that can be measured against each other.

| name   | expiration                                 | a stored result is                           |
|--------|--------------------------------------------|----------------------------------------------|
| UPA    | by timestamps where patterns allow it      | a calendar queue whose pages follow its rows |
| UPA(n) | the same                                   | a calendar queue of n pages                  |
| NT     | a negative tuple for every row that leaves | found by value                               |
| DIRECT | by timestamps, whatever the pattern        | a list that is scanned                       |

The result ends in one of two ways, the same for all strategies: `VIEW` stores it, as 002 does, and `LOG`
writes the change log that a run of Sash writes, where every strategy must name each row that leaves.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping

import pyarrow as pa

from sash.lang.algebra import Node
from sash.operators.announce import Announcer
from sash.operators.build import build
from sash.state.expirations import Expirations, Silent
from sash_experiments.drive import Feed, planned
from sash_experiments.measure import Variant
from sash_experiments.reshape import answer_of, with_result_buffer, with_stored_view
from sash_experiments.stored_view import Counting, CountingCalendarQueue, CountingScanList
from sash_experiments.traffic import COLUMNS

VIEW, LOG = "view", "log"
_FIXED = re.compile(r"UPA\((\d+)\)")

Query = Callable[[str], str]
"""A program's text, given the strategy to force."""


def query_text(links: Iterable[str], select: str, strategy: str, statistics: str = "rate = 1") -> str:
    """A program of links and one query; `statistics` is what the planner is told of each link."""
    declared = "".join(
        f"CREATE STREAM {name} ({COLUMNS}) TIMESTAMP BY ts FROM 'csv:{name}.csv' WITH ({statistics});\n"
        for name in links
    )
    return f"{declared}CREATE QUERY q INTO 'jsonl:q.jsonl' AS {select} WITH (strategy = '{strategy}');"


def variant(
    name: str,
    query: Query,
    streams: Mapping[str, pa.Table],
    top: str,
    *,
    is_strict: bool = False,
    shape: Callable[[Node], Node] | None = None,
) -> Variant:
    """A strategy by its name; `is_strict`: the result is taken back by negative tuples, too."""
    fixed = _FIXED.fullmatch(name)
    strategy = "upa" if fixed else name.lower()
    plan = planned(query(strategy), shape)
    flow = build(plan)
    (below,) = flow.vertices[answer_of(flow)].inputs
    is_foreseen = isinstance(flow.vertices[below].operator, Announcer)
    buffer: Expirations
    if not is_foreseen:
        buffer = Silent()
    elif strategy == "direct":
        buffer = CountingScanList()
    else:
        buffer = CountingCalendarQueue(int(fixed[1]) if fixed else None)
    if top == VIEW:
        flow = with_stored_view(flow, buffer, may_be_negative=is_strict or not is_foreseen)
    elif is_foreseen:
        flow = with_result_buffer(flow, buffer, may_be_negative=is_strict)
    return Variant(flow, Feed(plan, streams), [buffer] if isinstance(buffer, Counting) else [])
