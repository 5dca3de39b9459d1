"""Histories as they are written in 002: `rQ1[0] w5[0] c5 rQ1[1] cQ1`.

One ring, one pane a movement: w5[0] is movement 5, which writes pane 5 into slot 5 mod n. A read sees what is
in the slot when it happens. Movements that filled the ring before are not written.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import pairwise

from sash.transactions.events import (
    Aborted,
    Began,
    Change,
    Committed,
    Covered,
    Event,
    Grown,
    Handed,
    Isolation,
    Moved,
    Opened,
    Query,
    Read,
    Ring,
    Settled,
    SubWindow,
    Undone,
)
from sash.transactions.history import History

RING = "window"
_OPERATION = re.compile(r"([rwca])(Q?)(\d+)(?:\[(\d+)\])?")


def parse_history(
    text: str,
    sub_windows: int,
    windows: Mapping[int, int] | None = None,
    isolation: Isolation = Isolation.LWS,
) -> History:
    """The history of a full ring; `windows` has the lengths of queries over shorter windows."""
    found = []
    for word in text.split():
        match = _OPERATION.fullmatch(word)
        if match is None:
            raise ValueError(f"'{word}' is no operation: expected rQ1[0], w5[0], c5, cQ1 or aQ1")
        found.append((match[1], match[2] == "Q", int(match[3]), None if match[4] is None else int(match[4])))
    first = next((number for kind, _, number, _ in found if kind == "w"), sub_windows)
    head = first - 1
    ring = Ring(RING, sub_windows, 1, head - sub_windows + 1, head)
    events: list[Event] = []
    begun = set[int]()
    settled = {
        number
        for (kind, _, number, _), following in pairwise(found)
        if kind == "w" and following[:3] == ("c", False, number)
    }
    for kind, is_query, number, slot in found:
        if is_query and number not in begun:
            begun.add(number)
            length = (windows or {}).get(number, sub_windows)
            events.append(Began(number, Query(f"Q{number}", {RING: length}, isolation)))
        match kind, is_query:
            case "w", False:
                if number != head + 1 or slot != number % sub_windows:
                    raise ValueError(f"w{number}[{slot}]: expected w{head + 1}[{(head + 1) % sub_windows}]")
                head = number
                events.append(Moved(number, number, (Change(RING, number, number),), number in settled))
            case "c", False:
                if number not in settled:
                    events.append(Settled(number))
            case "r", True if slot is not None:
                pane = head - (head - slot) % sub_windows
                events.append(Read(number, SubWindow(RING, pane), pane))
            case "c", True:
                events.append(Committed(number, head, head))
            case "a", True:
                events.append(Aborted(number))
            case _:
                raise ValueError(f"'{kind}{'Q' if is_query else ''}{number}' is no operation")
    return History((ring,), first - 1, first - 1, tuple(events))


def write_history(history: History) -> str:
    """The operations of a history of one ring; a version that is not the newest is named after `@`."""
    (ring,) = history.rings
    words: list[str] = []
    newest: dict[int, int] = {}
    for event in history.events:
        match event:
            case Moved(number, _, changes, is_settled):
                for change in changes:
                    written = [*range(change.first, change.head + 1), *change.inserted]
                    newest.update(dict.fromkeys(written, number))
                    words.extend(f"w{number}[{pane % ring.size}]" for pane in written)
                words.extend([f"c{number}"] if is_settled else [])
            case Settled(number):
                words.append(f"c{number}")
            case Read(k, (_, pane), version) | Handed(k, (_, pane), version) | Undone(k, (_, pane), version):
                at = "" if newest.get(pane, version) == version else f"@{version}"
                words.append(f"{_LETTERS[type(event)]}Q{k}[{pane % ring.size}{at}]")
            case Committed(k):
                words.append(f"cQ{k}")
            case Aborted(k):
                words.append(f"aQ{k}")
            case Began() | Opened() | Grown() | Covered():
                pass
    return " ".join(words)


_LETTERS = {Read: "r", Handed: "h", Undone: "u"}
