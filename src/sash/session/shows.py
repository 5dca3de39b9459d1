"""What SHOW lists, as a table."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa

from sash.engine.observe.report import RefreshStats
from sash.engine.reads.archive_read import described
from sash.errors import InternalError
from sash.lang.bound import QueryDefinition
from sash.lang.context import Known
from sash.plan.cost.indexes import index_of_kept_rows
from sash.plan.periodic import is_periodic, select_of
from sash.plan.refresh import ELASTIC, EXACT, is_elastic_in, refresh_of
from sash.sharing.of_plan import Shared, shared_in

_QUERIES = pa.schema(
    [
        ("name", pa.string()),
        ("sink", pa.string()),
        ("group", pa.string()),
        ("rule", pa.string()),
        ("synopses", pa.string()),
        ("shared_with", pa.list_(pa.string())),
        ("together_by", pa.list_(pa.string())),
        ("refresh", pa.string()),
        ("policy", pa.string()),
        ("priority", pa.int64()),
        ("period", pa.float64()),
        ("granted", pa.float64()),
        ("at", pa.int64()),
        ("late", pa.float64()),
        ("worst", pa.float64()),
        ("behind", pa.float64()),
        ("skipped", pa.int64()),
        ("whole_from", pa.int64()),
        ("state_groups", pa.int64()),
        ("state_bytes", pa.int64()),
        ("kept", pa.string()),
    ]
)


def shown(kind: str, known: Known, base_dir: Path, fares: RefreshStats) -> pa.Table:
    """All that there are of a kind: a row each, its name first. `fares`: how queries are refreshed."""
    match kind:
        case "stream":
            return _table(("name", "source"), [(s.name, s.source) for s in known.streams.values()])
        case "relation":
            return _table(("name", "source"), [(r.name, r.source) for r in known.relations.values()])
        case "query":
            return _queries(known, fares)
        case "archive":
            return described([*known.archives.values()], base_dir)
        case "index":
            indexes = ((i, known.streams[i.stream]) for i in known.indexes.values())
            rows = [(i.name, s.name, i.column, str(index_of_kept_rows(i, s).spec)) for i, s in indexes]
            return _table(("name", "stream", "column", "using"), rows)
    raise InternalError(f"nothing shows {kind}")


def _queries(known: Known, fares: RefreshStats) -> pa.Table:
    """What queries share as they would be planned now, or as they run; how they are refreshed if they run."""
    planned = shared_in(known.streams.values(), known.queries.values())
    rows = [_query(q, planned.get(q.name), fares) for q in known.queries.values()]
    return pa.Table.from_pylist(rows, _QUERIES)


def _query(query: QueryDefinition, planned: Shared | None, fares: RefreshStats) -> dict[str, object]:
    row: dict[str, object] = {"name": query.name, "sink": query.sink or None}
    own = fares.queries.get(query.name)
    shared = planned if own is None else own.shared
    if shared is not None:
        row.update(group=shared.group, rule=shared.rule, synopses=shared.synopses)
        row.update(shared_with=list(shared.shared_with), together_by=list(shared.group_rules))
        if is_periodic(query):
            row.update(_refresh(query, fares))
    if own is not None:
        row.update(period=own.period, granted=own.granted, at=own.at, late=own.late, worst=own.worst)
        row.update(behind=own.behind, skipped=own.skipped)
        row.update(state_groups=own.held.groups, state_bytes=own.held.bytes)
        row["kept"] = f"{own.partitions} partitions" if own.partitions else "driver"
    row["whole_from"] = fares.whole_from.get(query.name)
    return row


def _refresh(query: QueryDefinition, fares: RefreshStats) -> dict[str, object]:
    """What a periodic query asks for."""
    asked = refresh_of(query)
    is_elastic = is_elastic_in(query, fares.refresh)
    return {
        "refresh": ELASTIC if is_elastic else EXACT,
        "policy": fares.policy if is_elastic else None,
        "priority": asked.priority,
        "period": select_of(query).window.slide / 1e6,
    }


def _table(names: tuple[str, ...], rows: Sequence[tuple[str | None, ...]]) -> pa.Table:
    schema = pa.schema([(name, pa.string()) for name in names])
    return pa.Table.from_pylist([dict(zip(names, row, strict=True)) for row in rows], schema)
