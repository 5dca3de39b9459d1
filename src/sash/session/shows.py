"""What SHOW lists, as a table."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa

from sash.errors import InternalError
from sash.lang.context import Known
from sash.plan.cost.indexes import index_of_kept_rows
from sash.runtime.archived import described


def shown(kind: str, known: Known, base_dir: Path) -> pa.Table:
    """All that there are of a kind: a row each, with its name first."""
    match kind:
        case "stream":
            return _table(("name", "source"), [(s.name, s.source) for s in known.streams.values()])
        case "relation":
            return _table(("name", "source"), [(r.name, r.source) for r in known.relations.values()])
        case "query":
            return _table(("name", "sink"), [(q.name, q.sink or None) for q in known.queries.values()])
        case "archive":
            return described([*known.archives.values()], base_dir)
        case "index":
            indexes = ((i, known.streams[i.stream]) for i in known.indexes.values())
            rows = [(i.name, s.name, i.column, str(index_of_kept_rows(i, s).spec)) for i, s in indexes]
            return _table(("name", "stream", "column", "using"), rows)
    raise InternalError(f"nothing shows {kind}")


def _table(names: tuple[str, ...], rows: Sequence[tuple[str | None, ...]]) -> pa.Table:
    schema = pa.schema([(name, pa.string()) for name in names])
    return pa.Table.from_pylist([dict(zip(names, row, strict=True)) for row in rows], schema)
