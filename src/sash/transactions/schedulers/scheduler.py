"""The transaction scheduler: movements and queries go in, the operations to perform come out.

It does no I/O and knows no clock. Whatever it gives out, in that order, is the history of the run.

    move(moved)    a movement is due. Gives it back at once, with what it means for the queries that run;
                   under Serial it waits until the running query has committed
    arrive(query)  a query wants to run; gives the number of its transaction
    choose()       whose turn it is: the highest priority first, so that a one-time query suspends a periodic
                   one; among equals, who has begun goes on, then who came first
    next(k)        the next operation of transaction k: Read or Undone (and Began before the first)
    done(k)        the operation has been performed. Gives Committed if there is nothing left

A loop that calls `choose`, `next` and `done`, with no movement between the last two, is Algorithm 7.
Threads call `next` and `done` for themselves, and movements may come in between: what `next` has given
counts as read.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable

from sash.errors import InternalError
from sash.transactions.events import (
    Aborted,
    Began,
    Committed,
    Event,
    Grown,
    Isolation,
    Moved,
    Opened,
    Query,
    Ring,
    SubWindow,
)
from sash.transactions.schedulers.policy import Policy, Transaction, is_abort
from sash.transactions.windows import Windows


class Scheduler:
    """`policy` is for queries that arrive without one. With `restarts` an aborted query arrives again.

    `retire` is told of versions that movements have put out of the windows.
    """

    def __init__(
        self,
        rings: Iterable[Ring],
        policy: Policy,
        *,
        restarts: bool = True,
        start: int = 0,
        instant: int = 0,
        retire: Callable[[SubWindow, int], None] | None = None,
    ) -> None:
        self.windows = Windows(rings, start, instant)
        self._policy = policy
        self._restarts = restarts
        self._retire = retire
        self._running: dict[int, Transaction] = {}
        self._delayed: deque[Moved] = deque()
        self._arrivals = 0

    @property
    def running(self) -> tuple[int, ...]:
        """Transactions that have arrived and not ended."""
        return tuple(self._running)

    def transaction(self, number: int) -> Transaction:
        return self._running[number]

    def open(self, ring: Ring) -> list[Event]:
        """A ring that comes into being while others are read."""
        self.windows.open(ring)
        return [Opened(ring)]

    def grow(self, ring: str, size: int) -> list[Event]:
        """A ring keeps more sub-windows from now on; what has left it does not come back."""
        self.windows.grow(ring, size)
        return [Grown(ring, size)]

    def close(self, ring: str) -> list[Event]:
        """A ring goes; queries over it are aborted."""
        events: list[Event] = []
        for transaction in list(self._running.values()):
            if ring in transaction.query.windows:
                events.extend(self.withdraw(transaction.number, f"ring '{ring}' is gone"))
        for sub_window, version in self.windows.close(ring):
            if self._retire is not None:
                self._retire(sub_window, version)
        return events

    def move(self, moved: Moved) -> list[Event]:
        self._delayed.append(moved)
        return self._move_on()

    def _move_on(self) -> list[Event]:
        events: list[Event] = []
        while self._delayed and not self._is_locked():
            moved = self._delayed.popleft()
            retired = self.windows.apply(moved)
            events.append(moved)
            for transaction in [each for each in self._running.values() if each.is_begun]:
                meant = transaction.policy.moved(transaction, moved, self.windows)
                if is_abort(meant):
                    (aborted,) = meant
                    assert isinstance(aborted, Aborted)
                    meant = self._abort(transaction, aborted.why)
                events.extend(meant)
            if self._retire is not None:
                for sub_window, version in retired:
                    self._retire(sub_window, version)
        return events

    def _is_locked(self) -> bool:
        return any(each.is_begun and each.policy.delays_movements for each in self._running.values())

    def arrive(self, query: Query, policy: Policy | None = None) -> int:
        for ring, length in query.windows.items():
            if ring not in self.windows.rings or not 1 <= length <= self.windows.rings[ring].size:
                raise InternalError(f"query {query.name} reads {length} sub-windows of ring '{ring}'")
        self._arrivals += 1
        number = self._arrivals
        self._running[number] = Transaction(number, query, policy or self._policy, number)
        return number

    def choose(self) -> int | None:
        if not self._running:
            return None
        return max(self._running.values(), key=_turn).number

    def next(self, number: int) -> list[Event]:
        transaction = self._running[number]
        events: list[Event] = []
        if not transaction.is_begun:
            transaction.is_begun = True
            transaction.policy.begin(transaction, self.windows)
            events.append(Began(number, transaction.query))
        operation = transaction.policy.next(transaction, self.windows)
        if operation is not None:
            events.append(operation)
        return events

    def done(self, number: int) -> list[Event]:
        """Also gives the movements that waited for a commit."""
        transaction = self._running.get(number)
        if transaction is None or transaction.policy.has_more(transaction, self.windows):
            return []
        del self._running[number]
        return [Committed(number, transaction.state, transaction.instant), *self._move_on()]

    def withdraw(self, number: int, why: str) -> list[Event]:
        """Whoever ran a transaction gives it up."""
        transaction = self._running.pop(number)
        began = [Aborted(number, why)] if transaction.is_begun else []
        return [*began, *self._move_on()]

    def _abort(self, transaction: Transaction, why: str) -> list[Event]:
        del self._running[transaction.number]
        again = self.arrive(transaction.query, transaction.policy) if self._restarts else None
        return [Aborted(transaction.number, why, again)]

    def validate_state(self) -> None:
        """For tests: who reads the latest state has nothing else, and has or awaits all of it."""
        for transaction in self._running.values():
            if not transaction.is_begun or transaction.policy.isolation is not Isolation.LWS:
                continue
            waiting = {sub_window for _, sub_window, _ in transaction.waiting}
            for sub_window, version in transaction.reads.items():
                assert transaction.policy.is_wanted(sub_window, transaction, self.windows), sub_window
                assert self.windows.version(sub_window) == version, sub_window
            for ring, length in transaction.query.windows.items():
                for pane in self.windows.panes(ring, length):
                    assert (ring, pane) in waiting or (ring, pane) in transaction.reads, (ring, pane)


def _turn(transaction: Transaction) -> tuple[bool, int, bool, int]:
    has_lock = transaction.is_begun and transaction.policy.delays_movements
    return has_lock, transaction.query.priority, transaction.is_begun, -transaction.arrival
