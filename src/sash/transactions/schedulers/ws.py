"""WS: a query reads the windows as they were when it began; movements go on beside it (002, section 7.5.1).

Never aborts, but the answer reflects none of the movements that happen meanwhile, and the sub-windows that
they replace are kept until it has read them. Those that will be replaced first are read first, so that few
have to be kept: the opposite order of TTU.
"""

from __future__ import annotations

from typing import ClassVar

from sash.transactions.events import Isolation, SubWindow
from sash.transactions.schedulers.policy import Key, Policy, Transaction, expires
from sash.transactions.windows import Windows


class WS(Policy):
    isolation: ClassVar[Isolation] = Isolation.WS

    def key(self, sub_window: SubWindow, transaction: Transaction, windows: Windows) -> Key:
        return (expires(sub_window, transaction.query, windows),)

    def is_wanted(self, sub_window: SubWindow, transaction: Transaction, windows: Windows) -> bool:
        return True

    def version(self, sub_window: SubWindow, found: int, windows: Windows) -> int:
        return found
