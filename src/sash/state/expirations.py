"""State buffers: which rows of a store leave next (002, sections 2.3.3 and 3.5.2).

A buffer holds slots of a `RowStore` and finds those whose `exp` has come. Which one fits is a matter of the
update pattern of the rows:

| buffer        | for                    | push      | due                          | remove     |
|---------------|------------------------|-----------|------------------------------|------------|
| Fifo          | WKS                    | O(1)      | O(rows due)                  | no need    |
| CalendarQueue | WK, STR (few negative) | O(1)      | O(rows due + pages turned)   | O(1)       |
| ScanList      | WK, STR under DIRECT   | O(1)      | O(rows)                      | O(rows)    |
| Silent        | MON, negative tuples   | nothing   | nothing                      | nothing    |

`NEVER` is never due.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
import numpy.typing as npt

from sash.errors import InternalError
from sash.state.fingerprints import Bools
from sash.state.jit import kernel
from sash.state.keytable import grown

Ints = npt.NDArray[np.int64]
_NEVER = np.iinfo(np.int64).max
_NONE = np.zeros(0, dtype=np.int64)


class Expirations(Protocol):
    """What all state buffers do."""

    def push(self, slots: Ints, exp: Ints) -> None: ...

    def due(self, through: int) -> Ints:
        """Take out and give the slots of rows that leave by `through`."""
        ...

    def remove(self, slots: Ints) -> None:
        """Take out rows that leave before their time."""
        ...

    @property
    def nbytes(self) -> int: ...


class Silent:
    """Nothing leaves by its timestamp: rows stay for ever, or negative tuples take them back."""

    def push(self, slots: Ints, exp: Ints) -> None:
        pass

    def due(self, through: int) -> Ints:
        return _NONE

    def remove(self, slots: Ints) -> None:
        pass

    @property
    def nbytes(self) -> int:
        return 0


class Fifo:
    """A queue in a ring: rows leave in the order in which they came."""

    def __init__(self) -> None:
        self._slots = np.zeros(64, dtype=np.int64)
        self._exp = np.zeros(64, dtype=np.int64)
        self._head = 0
        self._tail = 0

    @property
    def nbytes(self) -> int:
        return self._slots.nbytes + self._exp.nbytes

    def push(self, slots: Ints, exp: Ints) -> None:
        if len(exp) > 1 and bool((exp[1:] < exp[:-1]).any()):
            order = np.argsort(exp, kind="stable")
            slots, exp = slots[order], exp[order]
        if self._tail + len(slots) > len(self._slots):
            self._make_room(len(slots))
        self._slots[self._tail : self._tail + len(slots)] = slots
        self._exp[self._tail : self._tail + len(slots)] = exp
        self._tail += len(slots)

    def _make_room(self, added: int) -> None:
        """Move what there is to the front, of longer arrays if they are more than half full."""
        live = self._tail - self._head
        size = max(64, len(self._slots) // 4)
        while size < 2 * (live + added):
            size *= 2
        for name in ("_slots", "_exp"):
            old = getattr(self, name)
            new = np.zeros(size, dtype=np.int64)
            new[:live] = old[self._head : self._tail]
            setattr(self, name, new)
        self._head, self._tail = 0, live

    def due(self, through: int) -> Ints:
        count = int(np.searchsorted(self._exp[self._head : self._tail], through, side="right"))
        if count == 0:
            return _NONE
        slots = self._slots[self._head : self._head + count].copy()
        self._head += count
        return slots

    def remove(self, slots: Ints) -> None:
        raise InternalError("rows of a FIFO queue leave in order")


class ScanList:
    """Rows in the order in which they came, read from end to end to find what has expired."""

    def __init__(self) -> None:
        self._slots = np.zeros(64, dtype=np.int64)
        self._exp = np.zeros(64, dtype=np.int64)
        self._size = 0

    @property
    def nbytes(self) -> int:
        return self._slots.nbytes + self._exp.nbytes

    def push(self, slots: Ints, exp: Ints) -> None:
        needed = self._size + len(slots)
        if needed > len(self._slots):
            self._slots = grown(self._slots, 2 * needed, 0)
            self._exp = grown(self._exp, 2 * needed, 0)
        self._slots[self._size : needed] = slots
        self._exp[self._size : needed] = exp
        self._size = needed

    def due(self, through: int) -> Ints:
        slots = self._slots[: self._size]
        is_due = self._exp[: self._size] <= through
        found = slots[is_due]
        if len(found):
            self._keep(~is_due)
        return found

    def remove(self, slots: Ints) -> None:
        self._keep(~np.isin(self._slots[: self._size], slots))

    def _keep(self, kept: Bools) -> None:
        count = int(kept.sum())
        self._slots[:count] = self._slots[: self._size][kept]
        self._exp[:count] = self._exp[: self._size][kept]
        self._size = count


# What a calendar queue knows of a slot, side by side: its neighbours on the page, and when it leaves.
_FOLLOWING, _BEFORE, _WHEN = 0, 1, 2
_FIRST, _ABSENT = -1, -2


@kernel
def _link(slots: Ints, exp: Ints, width: int, heads: Ints, entries: Ints) -> None:
    pages = heads.shape[0]
    for i in range(slots.shape[0]):
        slot = slots[i]
        entries[slot, _WHEN] = exp[i]
        if exp[i] == _NEVER:
            entries[slot, _BEFORE] = _ABSENT
            continue
        page = (exp[i] // width) % pages
        head = heads[page]
        entries[slot, _FOLLOWING] = head
        entries[slot, _BEFORE] = _FIRST
        if head >= 0:
            entries[head, _BEFORE] = slot
        heads[page] = slot


@kernel
def _unlink(slots: Ints, width: int, heads: Ints, entries: Ints) -> None:
    for i in range(slots.shape[0]):
        slot = slots[i]
        before, after = entries[slot, _BEFORE], entries[slot, _FOLLOWING]
        if before == _ABSENT:
            continue
        if before >= 0:
            entries[before, _FOLLOWING] = after
        else:
            heads[(entries[slot, _WHEN] // width) % heads.shape[0]] = after
        if after >= 0:
            entries[after, _BEFORE] = before
        entries[slot, _BEFORE] = _ABSENT


@kernel
def _turn(since: int, through: int, width: int, heads: Ints, entries: Ints, out: Ints) -> int:
    """Take out what is due, page by page from that of `since`; gives how much it is."""
    pages = heads.shape[0]
    first, last = since // width, through // width
    if last - first >= pages:
        first = last - pages + 1
    count = 0
    for page in range(first, last + 1):
        slot = heads[page % pages]
        kept = -1
        while slot >= 0:
            after = entries[slot, _FOLLOWING]
            if entries[slot, _WHEN] <= through:
                entries[slot, _BEFORE] = _ABSENT
                out[count] = slot
                count += 1
            else:
                # What stays is linked anew.
                entries[slot, _FOLLOWING] = kept
                entries[slot, _BEFORE] = _FIRST
                if kept >= 0:
                    entries[kept, _BEFORE] = slot
                kept = slot
            slot = after
        heads[page % pages] = kept
    return count


class CalendarQueue:
    """Rows by the page of time on which they leave, on a wheel of pages.

    The number of pages follows the number of rows: with a number that is fixed, pages grow with the result
    and turning one becomes a scan (002, 3.6.2: ten are too few where fifty do well). `pages` fixes it all the
    same, for experiments.
    """

    ROWS_A_PAGE = 4

    def __init__(self, pages: int | None = None) -> None:
        self._fixed = pages is not None
        self._heads = np.full(pages or 16, -1, dtype=np.int64)
        self._entries = np.full((64, 4), _ABSENT, dtype=np.int64)
        self._width = 1
        self._size = 0
        self._since: int | None = None
        self._last = 0

    def __len__(self) -> int:
        return self._size

    @property
    def pages(self) -> int:
        return len(self._heads)

    @property
    def nbytes(self) -> int:
        return self._heads.nbytes + self._entries.nbytes

    def push(self, slots: Ints, exp: Ints) -> None:
        if not len(slots):
            return
        needed = int(slots.max()) + 1
        if needed > len(self._entries):
            self._entries = grown(self._entries, 1 << (needed - 1).bit_length(), _ABSENT)
        timed = exp[exp != _NEVER]
        self._size += len(timed)
        if len(timed):
            self._last = max(self._last, int(timed.max()))
            low = int(timed.min())
            self._since = low if self._since is None else min(self._since, low)
            if self._needs_new_wheel():
                self._rebuild()
        _link(slots, exp, self._width, self._heads, self._entries)

    def _needs_new_wheel(self) -> bool:
        assert self._since is not None
        is_crowded = not self._fixed and self._size > 2 * self.ROWS_A_PAGE * self.pages
        is_short = self._last - self._since > 2 * self._width * self.pages
        return is_crowded or is_short

    def _rebuild(self) -> None:
        """A wheel with pages for the rows there are, wide enough to reach the last of them in one turn."""
        assert self._since is not None
        slots = np.flatnonzero(self._entries[:, _BEFORE] != _ABSENT)
        if not self._fixed:
            wanted = max(16, self._size // self.ROWS_A_PAGE)
            pages = 1 << (wanted - 1).bit_length()
            self._heads = np.full(pages, -1, dtype=np.int64)
        else:
            self._heads[:] = -1
        self._width = max(1, -(-(self._last - self._since) // self.pages))
        _link(slots, self._entries[slots, _WHEN], self._width, self._heads, self._entries)

    def due(self, through: int) -> Ints:
        if self._since is None or self._size == 0 or through < self._since:
            return _NONE
        out = np.empty(self._size, dtype=np.int64)
        count = _turn(self._since, through, self._width, self._heads, self._entries, out)
        self._since = through
        self._size -= count
        return out[:count].copy()

    def remove(self, slots: Ints) -> None:
        self._size -= int((self._entries[slots, _BEFORE] != _ABSENT).sum())
        _unlink(slots, self._width, self._heads, self._entries)
