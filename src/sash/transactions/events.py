"""What happens to windows that slide while queries read them: the vocabulary of histories and of schedulers.

A window is a *ring* of `size` sub-windows (002, section 7.2.3). Time is cut into *panes* 0, 1, 2, …; pane p
lies in slot p mod size until pane p + size replaces it. The ring's *head* is its newest pane. A query over a
shorter window reads the panes (head − length, head].

    Moved       w_j: movement j replaces the oldest sub-windows of some rings, or inserts into live ones
    Settled     c_j: the commit of a movement, where it does not come at once
    Began       a read-only transaction T_Qk starts
    Read        r_Qk[i]: it reads a sub-window as movement `version` left it
    Handed      what movement `version` inserted into a sub-window that was already read (section 7.4.3)
    Undone      it reads an old copy again, to take back what that copy contributed (section 7.4.2)
    Covered     which window its answer needs of a source, and since when that is complete
    Committed   c_Qk: the answer is that of the window after movement `state`
    Aborted     a_Qk
    Opened      a ring comes into being, empty
    Grown       a ring keeps more sub-windows from now on

A movement may slide several rings, and a ring by several panes: a micro-batch that crosses several slide
boundaries of several streams is one movement. In the publication a movement slides one ring by one pane, so
that movement j writes pane j.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple


class Isolation(enum.StrEnum):
    """What a query is promised (002, Definitions 7.1 and 7.2).

    WS: a state that the windows had at some instant before the commit. LWS: the state at the commit.
    """

    WS = "ws"
    LWS = "lws"


class SubWindow(NamedTuple):
    ring: str
    pane: int


@dataclass(frozen=True, slots=True)
class Ring:
    """A window of `size` sub-windows of `period` microseconds each.

    `first` and `head` are the oldest and the newest pane that it has; both are None while it is empty.
    """

    name: str
    size: int
    period: int = 1
    first: int | None = None
    head: int | None = None

    def __post_init__(self) -> None:
        if self.size < 1 or self.period < 1:
            raise ValueError(f"ring {self.name}: size and period are at least 1")
        if (self.first is None) != (self.head is None):
            raise ValueError(f"ring {self.name}: first and head are given together")
        if self.first is not None and self.head is not None and not 0 <= self.head - self.first < self.size:
            raise ValueError(f"ring {self.name}: panes {self.first} to {self.head} do not fit {self.size}")


@dataclass(frozen=True, slots=True)
class Query:
    """What a query reads: by ring, how many of the youngest sub-windows. Higher priorities go first."""

    name: str
    windows: Mapping[str, int]
    isolation: Isolation = Isolation.LWS
    priority: int = 0


@dataclass(frozen=True, slots=True)
class Change:
    """What a movement does to a ring: panes `first` to `head` are new; live panes `inserted` got rows.

    A movement that only inserts has `first` = `head` + 1.
    """

    ring: str
    first: int
    head: int
    inserted: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Moved:
    """The window after it is that of `instant`."""

    number: int
    instant: int
    changes: tuple[Change, ...]
    is_settled: bool = True


@dataclass(frozen=True, slots=True)
class Settled:
    number: int


@dataclass(frozen=True, slots=True)
class Began:
    transaction: int
    query: Query


@dataclass(frozen=True, slots=True)
class Read:
    transaction: int
    sub_window: SubWindow
    version: int


@dataclass(frozen=True, slots=True)
class Handed:
    transaction: int
    sub_window: SubWindow
    version: int


@dataclass(frozen=True, slots=True)
class Undone:
    transaction: int
    sub_window: SubWindow
    version: int


@dataclass(frozen=True, slots=True)
class Covered:
    """The answer needs a window (after, until] of a source: a synopsis, or the rows that a stream keeps.

    The source has everything that came after the instant `since`; None: everything.
    """

    transaction: int
    source: str
    after: int
    until: int
    since: int | None

    @property
    def is_whole(self) -> bool:
        return self.since is None or self.after >= self.since


@dataclass(frozen=True, slots=True)
class Committed:
    transaction: int
    state: int
    instant: int


@dataclass(frozen=True, slots=True)
class Aborted:
    """`again` is the transaction that tries once more, if one does."""

    transaction: int
    why: str = ""
    again: int | None = None


@dataclass(frozen=True, slots=True)
class Opened:
    ring: Ring


@dataclass(frozen=True, slots=True)
class Grown:
    ring: str
    size: int


Event = Opened | Grown | Moved | Settled | Began | Read | Handed | Undone | Covered | Committed | Aborted
Touch = Read | Handed | Undone
