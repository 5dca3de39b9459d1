"""Transaction schedulers: pure decisions about who reads what next."""

from sash.transactions.schedulers.lws import LWS
from sash.transactions.schedulers.policy import Policy, Transaction
from sash.transactions.schedulers.scheduler import Scheduler
from sash.transactions.schedulers.serial import Serial
from sash.transactions.schedulers.ttu import TTU
from sash.transactions.schedulers.ws import WS

__all__ = ["LWS", "TTU", "WS", "Policy", "Scheduler", "Serial", "Transaction"]
