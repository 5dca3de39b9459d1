"""Results with lifetimes on disk: doubly partitioned indexes and wave indexes on Parquet (000; 002, chapter
4).
"""

from sash.archive.choice import Choice, choose, reconsider
from sash.archive.estimates import ArrivalRate, guess_deaths
from sash.archive.layout import Layout
from sash.archive.report import Description, UpdateReport
from sash.archive.rewrite import (
    Rewrites,
    SlotResult,
    SlotTask,
    SlotWork,
    rewrite_here,
    rewrite_in_threads,
    rewrite_slot,
)
from sash.archive.snapshot import Snapshot, open_snapshot
from sash.archive.spec import BORN, DIES, ArchiveSpec
from sash.archive.techniques import TECHNIQUES
from sash.archive.update import Update, lasting, net
from sash.archive.writer import ArchiveWriter, Prepared
from sash.plan.key_conditions import Among, Between

__all__ = [
    "BORN",
    "DIES",
    "TECHNIQUES",
    "Among",
    "ArchiveSpec",
    "ArchiveWriter",
    "ArrivalRate",
    "Between",
    "Choice",
    "Description",
    "Layout",
    "Prepared",
    "Rewrites",
    "SlotResult",
    "SlotTask",
    "SlotWork",
    "Snapshot",
    "Update",
    "UpdateReport",
    "choose",
    "guess_deaths",
    "lasting",
    "net",
    "open_snapshot",
    "reconsider",
    "rewrite_here",
    "rewrite_in_threads",
    "rewrite_slot",
]
