"""Scheduling: when queries are executed, and which of them together (002, section 8.4)."""

from sash.scheduling.aggressive import AGGRESSIVE
from sash.scheduling.conservative import CONSERVATIVE
from sash.scheduling.cost_model import cost_rate
from sash.scheduling.edf import EDF
from sash.scheduling.from_sharing import standings_of
from sash.scheduling.hybrid import HYBRID
from sash.scheduling.late import with_late_sharing
from sash.scheduling.late_pending import with_late_pending_sharing
from sash.scheduling.no_sharing import NO_SHARING
from sash.scheduling.policy import Block, Policy, Semantics, Standing
from sash.scheduling.scheduler import DEFAULT, Execution, Report, Scheduler, report_of

POLICIES = {
    policy.slug: policy
    for policy in (
        EDF,
        NO_SHARING,
        AGGRESSIVE,
        CONSERVATIVE,
        with_late_sharing(CONSERVATIVE),
        with_late_pending_sharing(CONSERVATIVE),
        HYBRID,
        with_late_sharing(HYBRID),
        DEFAULT,
    )
}

__all__ = [
    "AGGRESSIVE",
    "CONSERVATIVE",
    "DEFAULT",
    "EDF",
    "HYBRID",
    "NO_SHARING",
    "POLICIES",
    "Block",
    "Execution",
    "Policy",
    "Report",
    "Scheduler",
    "Semantics",
    "Standing",
    "cost_rate",
    "report_of",
    "standings_of",
    "with_late_pending_sharing",
    "with_late_sharing",
]
