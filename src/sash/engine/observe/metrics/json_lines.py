"""One JSON object a batch, appended to a file: `docs/running.md` has the schema."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from sash.engine.observe.metrics.output import Output, Warn
from sash.engine.observe.report import (
    DRIVER,
    AnswerRecord,
    BatchReport,
    Held,
    OperatorTally,
    QueryRefreshStats,
    Silent,
)


class JsonLinesMetrics(Silent):
    """A Monitor. A line is complete when it appears, and lines of earlier runs stay."""

    def __init__(self, path: Path, warn: Warn, now: Callable[[], float] = time.time) -> None:
        self._output = Output(path, warn)
        self._now = now
        self._output.open(lambda: self._append(""))

    def batch(self, report: BatchReport) -> None:
        line = json.dumps(record(report, self._now()), ensure_ascii=False) + "\n"
        self._output.attempt(lambda: self._append(line))

    def _append(self, text: str) -> None:
        # Opened anew each time: whoever rotates files may move it away.
        with open(self._output.path, "ab", buffering=0) as file:
            size = os.fstat(file.fileno()).st_size
            rest = text.encode()
            try:
                while rest:
                    rest = rest[file.write(rest) :]
            except OSError:
                # No half line for the next one to go on with.
                with suppress(OSError):
                    file.truncate(size)
                raise


def record(report: BatchReport, now: float) -> dict[str, Any]:
    """The object of a batch."""
    measures = report.measure()
    return {
        "batch": report.number,
        "time": datetime.fromtimestamp(now, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        "rows": report.rows,
        "seconds": _rounded(report.seconds),
        "parts": {part: _rounded(seconds) for part, seconds in asdict(report.parts).items()},
        "clock": report.clock,
        "lag": report.lag,
        "progress": report.progress,
        "memory": report.memory,
        "streams": {
            name: {
                "accepted": counts.accepted,
                "late": counts.late,
                "rejected": counts.rejected,
                "slack": report.slacks.get(name),
                "newest": report.newest.get(name),
                "behind": _rounded(report.behind[name]) if name in report.behind else None,
            }
            for name, counts in report.streams.items()
        },
        "queries": {
            name: {
                "rows": report.given.get(name, 0),
                "answered": answered,
                **_state(measures.queries.get(name, Held())),
                **_refreshed(measures.refreshes.get(name)),
                "whole_from": measures.whole_from.get(name),
                "record": _record_of(measures.records.get(name)),
            }
            for name, answered in report.answered.items()
        },
        "archives": {
            name: {key: value for key, value in asdict(update).items() if key != "batch"}
            for name, update in report.archives.items()
        },
        "decisions": measures.decisions,
        "deciding": _rounded(measures.deciding),
        "operators": [_operator(tally) for tally in measures.operators],
        "state": {
            **_state(report.held),
            "partitions": {place_of(p): _state(h) for p, h in report.state.items()},
        },
    }


def _refreshed(refreshed: QueryRefreshStats | None) -> dict[str, Any]:
    """How a periodic query is refreshed; nothing of others."""
    if refreshed is None:
        return {}
    told = {name: value for name, value in asdict(refreshed).items() if name not in ("shared", "held")}
    return {**told, "state_groups": refreshed.held.groups}


def _record_of(record: AnswerRecord | None) -> dict[str, Any] | None:
    """What answers say of themselves, of a query that has come to an instant."""
    return None if record is None else record.to_dict()


def place_of(partition: int) -> str:
    """What a partition is called where metrics are read."""
    return "driver" if partition == DRIVER else str(partition)


def _operator(tally: OperatorTally) -> dict[str, Any]:
    return {
        "query": tally.query,
        "number": tally.number,
        "operator": tally.operator,
        "rows_in": tally.rows_in,
        "rows_out": tally.rows_out,
        "negative": tally.negative,
        **_state(tally.held),
    }


def _state(held: Held) -> dict[str, int]:
    return {"state_rows": held.rows, "state_bytes": held.bytes}


def _rounded(seconds: float) -> float:
    return round(seconds, 6)
