"""How to run a program, whatever it says."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from sash.engine.ingest.relations import Given
from sash.engine.observe.report import Monitor, Silent
from sash.plan.placement import MAX_DRIVER_GROUPS
from sash.plan.refresh import EXACT
from sash.scheduling import DEFAULT

DEFAULT_BATCH_ROWS = 2_000_000
# Seconds.
DEFAULT_TRIGGERS = {"inline": 0.1, "spark": 0.5}
DEFAULT_MAX_BATCH_TIME = 10.0


@dataclass(frozen=True, slots=True)
class Options:
    base_dir: Path = field(default_factory=Path.cwd)
    checkpoint: Path | None = None
    dead_letters: Path | None = None
    # None: what is usual, and fewer to begin with.
    batch_rows: int | None = None
    # Seconds between the beginnings of batches of live streams; None: what is usual.
    trigger: float | None = None
    # Seconds that a batch should take at most; 0: no bound.
    max_batch_time: float = DEFAULT_MAX_BATCH_TIME
    master: str = "local[*]"
    partitions: int | None = None
    # Bytes; None: what is usual, 0: no bound.
    max_state: int | None = None
    max_memory: int | None = None
    max_driver_groups: int = MAX_DRIVER_GROUPS
    # Bytes; None: as many as are written sooner without a job, 0: no bound.
    max_driver_update: int | None = None
    record_history: Path | None = None
    given: Given = field(default_factory=dict)
    refresh: str = EXACT
    policy: str = DEFAULT.slug
    max_queries: int | None = None
    # The share of a stream's rows that may be late or rejected; None: any.
    fail_on_rejects: float | None = None
    debug: bool = False
    monitor: Monitor = field(default_factory=Silent)
