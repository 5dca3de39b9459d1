"""TTU: as LWS, and the sub-window that will be replaced last is read first (002, Algorithm 8).

The *time-to-update* of a sub-window is the number of movements until it is replaced. Movements replace the
oldest sub-windows, which a query reads last: when one comes, what it replaces has most likely not been read.
No order of reading has fewer aborts (Theorem 7.4). Several rings are ordered by the time at which a
sub-window will leave the query's window, as their sub-windows may differ in length.
"""

from __future__ import annotations

from sash.transactions.events import SubWindow
from sash.transactions.schedulers.lws import LWS
from sash.transactions.schedulers.policy import Key, Transaction, expires
from sash.transactions.windows import Windows


class TTU(LWS):
    def key(self, sub_window: SubWindow, transaction: Transaction, windows: Windows) -> Key:
        return (-expires(sub_window, transaction.query, windows),)
