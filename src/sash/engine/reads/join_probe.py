"""Kept rows by the keys of the other side of a join: what a question has read leads to what it must read.

The sides of a join are read one after the other, that with fewer rows first. Its keys, if they are few, are
looked up in the index of the other side's column, as a condition of the WHERE would be.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sash.engine.ingest.retained_files import place_of
from sash.engine.reads.index_probe import Placed
from sash.lang import algebra
from sash.lang.algebra import Node
from sash.operators.delta import Delta, as_table
from sash.operators.evaluate import evaluate_mask
from sash.plan.canonical import canonical
from sash.plan.key_conditions import Among
from sash.plan.key_links import MOST_KEYS, ROWS_A_KEY, KeyLink, links_of
from sash.plan.run_plan import RunPlan, Scan
from sash.state.groups import plain

Read = Mapping[str, Sequence[Delta]]
"""Rows by the name of the scan, or 'relation' and the name of the relation."""


@dataclass(frozen=True, slots=True)
class Link:
    """A link to what is read under the name `source`."""

    place: int
    source: str
    link: KeyLink

    def condition(self, read: Read, rows: int, through: int) -> Placed | None:
        """What must hold of the column, if the source has been read and gives few keys for so many rows.

        Rows of the source that come after `through` are in no window yet.
        """
        if self.source not in read:
            return None
        most = min(MOST_KEYS, rows // ROWS_A_KEY)
        keys = pa.chunked_array(
            [
                _keys(self.link.other, self.link.key, delta.take(np.flatnonzero(delta.ts <= through)))
                for delta in read[self.source]
            ]
            or [[]]
        )
        keys = pc.unique(keys.drop_null()) if len(keys) else keys
        if len(keys) > most:
            return None
        return self.place, Among(self.link.column, tuple(keys.to_pylist()))


def links_by_scan(plan: RunPlan) -> dict[str, list[Link]]:
    """The links of the one-time query of a plan, by the name of the scan that they concern."""
    (query,) = plan.one_time
    scans: dict[Node, Scan] = {canonical(scan.node): scan for scan in plan.scans}
    found: dict[str, list[Link]] = {}
    for link in links_of(query.plan):
        scan = scans[canonical(link.scan)]
        place = place_of(plan.stream(scan.stream), link.column)
        found.setdefault(scan.name, []).append(Link(place, _source(link.other, scans), link))
    return found


def _source(other: Node, scans: Mapping[Node, Scan]) -> str:
    relations = [node.name for node in other.walk() if isinstance(node, algebra.Relation)]
    return f"relation {relations[0]}" if relations else scans[canonical(other)].name


def _keys(other: Node, key: str, delta: Delta) -> pa.Array:
    """The keys that rows have, of a relation those that a selection leaves."""
    names = [field.name for field in other.fields]
    table = as_table(delta.columns, names, len(delta))
    # A scan of a stream has done its own.
    if isinstance(other, algebra.Select) and isinstance(other.input, algebra.Relation):
        table = table.filter(evaluate_mask(table, other.predicate))
    return plain(table.column(key))
