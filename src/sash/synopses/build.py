"""From the choice of a method to an empty synopsis for a workload."""

from __future__ import annotations

from sash.errors import InternalError
from sash.plan.measures import subtractable
from sash.plan.synopsis_choice import Method, Workload
from sash.synopses.b_int import BInt
from sash.synopses.l_int import LInt
from sash.synopses.pane_store import PaneStore
from sash.synopses.r_int import RInt


def build_store(method: Method, workload: Workload) -> PaneStore | None:
    """What `BasicIntervalSynopsis.answer_from` takes; None for basic intervals, which slide by themselves."""
    match method:
        case Method.BASIC:
            return None
        case Method.R_INT:
            return RInt(subtractable(workload.measures), workload.span)
        case Method.B_INT:
            return BInt(workload.measures, workload.span)
        case Method.L_INT:
            return LInt(
                workload.measures,
                workload.span,
                [window.width for window in workload.windows],
                has_suffixes_only=all(window.offset == 0 for window in workload.windows),
            )
        case _:
            raise InternalError(f"{method.value} does not keep measures")
