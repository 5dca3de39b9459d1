"""Sharing: which queries have state and computation in common (002, section 8.3)."""

from sash.plan.kinds import Kind
from sash.sharing.groups import Group
from sash.sharing.request import Request, request_of
from sash.sharing.rules import COMPUTATION_RULES, STATE_RULES, ComputationRule, StateRule, Together
from sash.sharing.sharing import Added, Change, ChangeKind, Sharing
from sash.sharing.synopsis import SharedSynopsis
from sash.sharing.work import Work, joint_cost, work_of
from sash.sharing.workload import Offer, Part, Reading, Workload

__all__ = [
    "COMPUTATION_RULES",
    "STATE_RULES",
    "Added",
    "Change",
    "ChangeKind",
    "ComputationRule",
    "Group",
    "Kind",
    "Offer",
    "Part",
    "Reading",
    "Request",
    "SharedSynopsis",
    "Sharing",
    "StateRule",
    "Together",
    "Work",
    "Workload",
    "joint_cost",
    "request_of",
    "work_of",
]
