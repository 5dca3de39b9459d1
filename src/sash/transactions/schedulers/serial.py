"""Serial: a query locks its window; movements wait until it has committed (002, sections 7.1 and 7.5.1).

What systems without concurrency control do. There are no conflicts, but answers are of the window before
the query began, movements are late, and no query suspends another.
"""

from __future__ import annotations

from typing import ClassVar

from sash.transactions.events import Isolation, SubWindow
from sash.transactions.schedulers.policy import Key, Policy, Transaction
from sash.transactions.windows import Windows


class Serial(Policy):
    isolation: ClassVar[Isolation] = Isolation.LWS
    delays_movements: ClassVar[bool] = True

    def key(self, sub_window: SubWindow, transaction: Transaction, windows: Windows) -> Key:
        return windows.order[sub_window.ring], sub_window.pane

    def is_wanted(self, sub_window: SubWindow, transaction: Transaction, windows: Windows) -> bool:
        return True

    def version(self, sub_window: SubWindow, found: int, windows: Windows) -> int:
        return found
