"""What SHOW lists, as a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pyarrow as pa

from sash.errors import InternalError
from sash.lang.bound import QueryDefinition
from sash.lang.context import Known
from sash.plan.cost.indexes import index_of_kept_rows
from sash.runtime.archived import described
from sash.runtime.report import Refreshed
from sash.sharing.of_plan import Shared, shared_in

_QUERIES = pa.schema(
    [
        ("name", pa.string()),
        ("sink", pa.string()),
        ("group", pa.string()),
        ("rule", pa.string()),
        ("synopses", pa.string()),
        ("shared_with", pa.list_(pa.string())),
        ("period", pa.float64()),
        ("granted", pa.float64()),
        ("at", pa.int64()),
        ("late", pa.float64()),
        ("behind", pa.float64()),
        ("skipped", pa.int64()),
        ("state_groups", pa.int64()),
        ("state_bytes", pa.int64()),
        ("kept", pa.string()),
    ]
)


def shown(kind: str, known: Known, base_dir: Path, refreshes: Mapping[str, Refreshed]) -> pa.Table:
    """All that there are of a kind: a row each, its name first. `refreshes`: how queries fare in a run."""
    match kind:
        case "stream":
            return _table(("name", "source"), [(s.name, s.source) for s in known.streams.values()])
        case "relation":
            return _table(("name", "source"), [(r.name, r.source) for r in known.relations.values()])
        case "query":
            return _queries(known, refreshes)
        case "archive":
            return described([*known.archives.values()], base_dir)
        case "index":
            indexes = ((i, known.streams[i.stream]) for i in known.indexes.values())
            rows = [(i.name, s.name, i.column, str(index_of_kept_rows(i, s).spec)) for i, s in indexes]
            return _table(("name", "stream", "column", "using"), rows)
    raise InternalError(f"nothing shows {kind}")


def _queries(known: Known, refreshes: Mapping[str, Refreshed]) -> pa.Table:
    """What queries share as they would be planned now, or as they run; how they are refreshed if they run."""
    planned = shared_in(known.streams.values(), known.queries.values())
    rows = [_query(q, planned.get(q.name), refreshes.get(q.name)) for q in known.queries.values()]
    return pa.Table.from_pylist(rows, _QUERIES)


def _query(query: QueryDefinition, planned: Shared | None, fares: Refreshed | None) -> dict[str, object]:
    row: dict[str, object] = {"name": query.name, "sink": query.sink or None}
    shared = planned if fares is None else fares.shared
    if shared is not None:
        row.update(group=shared.group, rule=shared.rule, synopses=shared.synopses)
        row["shared_with"] = list(shared.shared_with)
    if fares is not None:
        row.update(period=fares.period, granted=fares.granted, at=fares.at, late=fares.late)
        row.update(behind=fares.behind, skipped=fares.skipped)
        row.update(state_groups=fares.held.groups, state_bytes=fares.held.bytes)
        row["kept"] = f"{fares.partitions} partitions" if fares.partitions else "driver"
    return row


def _table(names: tuple[str, ...], rows: Sequence[tuple[str | None, ...]]) -> pa.Table:
    schema = pa.schema([(name, pa.string()) for name in names])
    return pa.Table.from_pylist([dict(zip(names, row, strict=True)) for row in rows], schema)
