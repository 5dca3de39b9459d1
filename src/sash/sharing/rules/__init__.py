"""The rules of 002, chapter 8, in the order in which they are tried. A new rule is a file and a line here."""

from sash.sharing.rules.cs1 import CS1
from sash.sharing.rules.cs2 import CS2
from sash.sharing.rules.cs3 import CS3
from sash.sharing.rules.cs4 import CS4
from sash.sharing.rules.cs5 import CS5
from sash.sharing.rules.cs6 import CS6
from sash.sharing.rules.cs7 import CS7
from sash.sharing.rules.cs8 import CS8
from sash.sharing.rules.rule import ComputationRule, StateRule, Together
from sash.sharing.rules.ss1 import SS1
from sash.sharing.rules.ss2 import SS2
from sash.sharing.rules.ss3 import SS3
from sash.sharing.rules.ss4 import SS4

STATE_RULES: tuple[StateRule, ...] = (SS1, SS3, SS2, SS4)
COMPUTATION_RULES: tuple[ComputationRule, ...] = (CS8, CS1, CS2, CS3, CS4, CS5, CS6, CS7)

__all__ = [
    "COMPUTATION_RULES",
    "CS1",
    "CS2",
    "CS3",
    "CS4",
    "CS5",
    "CS6",
    "CS7",
    "CS8",
    "SS1",
    "SS2",
    "SS3",
    "SS4",
    "STATE_RULES",
    "ComputationRule",
    "StateRule",
    "Together",
]
