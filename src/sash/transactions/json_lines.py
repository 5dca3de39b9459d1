"""Histories as files: a header, then one JSON array an event.

    {"sash-history": 1, "start": 0, "instant": 0, "rings": [["packets", 60, 1000000, null, null]]}
    ["o", ["trades", 10, 1000000]]               a ring that was opened later
    ["g", 0, 120]                                a ring that grows
    ["m", 1, 5000000, [[0, 4, 5]]]               movement, instant, by ring: first new pane, head, inserts
    ["m", 2, 6000000, [[0, 6, 6, 3, 5]], 0]      … which does not commit at once
    ["c", 2]                                     but here
    ["b", 1, "heavy", "lws", 0, [[0, 60]]]       transaction, query, promise, priority, windows
    ["r", 1, 0, 6, 2]                            transaction, ring, pane, version; "h" handed over, "u" undone
    ["w", 1, "s0", 1000000, 6000000, null]       needs a window of a source, which is complete since …
    ["e", 1, 2, 6000000]                         committed: the state that the answer reflects, its instant
    ["a", 1, "why", 2]                           aborted, and the transaction that tries again or null

Rings are named by their place, those in the header first; the header has their name, size, microseconds of a
sub-window, oldest and newest pane. A file may hold several histories, each with its header: a run that goes
on from a checkpoint appends. A last line that was cut off, as by kill -9, is left out.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sash.errors import HistoryError
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

VERSION = 1
_MARK = "sash-history"
_TOUCHES: dict[str, type[Read] | type[Handed] | type[Undone]] = {"r": Read, "h": Handed, "u": Undone}
_LETTERS = {kind: letter for letter, kind in _TOUCHES.items()}


@dataclass(frozen=True, slots=True)
class Recorded:
    """The histories of a file, and whether its last line was cut off."""

    histories: tuple[History, ...]
    is_cut: bool


def header(rings: Sequence[Ring], start: int, instant: int) -> str:
    listed = [[ring.name, ring.size, ring.period, ring.first, ring.head] for ring in rings]
    return _line({_MARK: VERSION, "start": start, "instant": instant, "rings": listed})


def encode(event: Event, places: Mapping[str, int]) -> str:
    """The line of an event; `places` are those of the rings."""
    match event:
        case Opened(ring):
            return _line(["o", [ring.name, ring.size, ring.period]])
        case Grown(name, size):
            return _line(["g", places[name], size])
        case Moved(number, instant, changes, is_settled):
            listed = [[places[c.ring], c.first, c.head, *c.inserted] for c in changes]
            return _line(["m", number, instant, listed, *([] if is_settled else [0])])
        case Settled(number):
            return _line(["c", number])
        case Began(transaction, query):
            windows = [[places[ring], length] for ring, length in query.windows.items()]
            return _line(["b", transaction, query.name, query.isolation.value, query.priority, windows])
        case Read() | Handed() | Undone():
            name, pane = event.sub_window
            return _line([_LETTERS[type(event)], event.transaction, places[name], pane, event.version])
        case Covered(transaction, source, after, until, since):
            return _line(["w", transaction, source, after, until, since])
        case Committed(transaction, state, instant):
            return _line(["e", transaction, state, instant])
        case Aborted(transaction, why, again):
            return _line(["a", transaction, why, again])


def _line(value: object) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False) + "\n"


def write_history_file(path: Path, history: History) -> None:
    places = {ring.name: place for place, ring in enumerate(history.all_rings())}
    with open(path, "w", encoding="utf-8") as file:
        file.write(header(history.rings, history.start, history.instant))
        file.writelines(encode(event, places) for event in history.events)


def read_history_file(path: Path) -> Recorded:
    """The histories of a file; HistoryError names the line that is none."""
    histories: list[History] = []
    rings: tuple[Ring, ...] = ()
    top: dict[str, Any] | None = None
    names: list[str] = []
    events: list[Event] = []
    is_cut = False
    for number, line in _lines(path):
        if not line.endswith("\n"):
            is_cut = True
            break
        try:
            value = json.loads(line)
            if isinstance(value, dict):
                if top is not None:
                    histories.append(History(rings, top["start"], top["instant"], tuple(events)))
                top, rings, events = value, _rings(value), []
                names = [ring.name for ring in rings]
            elif top is None:
                raise ValueError("no header before it")
            else:
                event = _decode(value, names)
                events.append(event)
                if isinstance(event, Opened):
                    names.append(event.ring.name)
        except (ValueError, TypeError, KeyError, IndexError) as failure:
            raise HistoryError(
                f"line {number} of '{path}' is not part of a history",
                expected="a file that `sash run --record-history` wrote",
                got=line.strip()[:80] or "an empty line",
                hint=str(failure),
            ) from failure
    if top is None:
        raise HistoryError(
            f"'{path}' holds no history", expected="a file that `sash run --record-history` wrote"
        )
    histories.append(History(rings, top["start"], top["instant"], tuple(events)))
    return Recorded(tuple(histories), is_cut)


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    try:
        with open(path, encoding="utf-8", newline="\n") as file:
            yield from enumerate(file, 1)
    except OSError as failure:
        raise HistoryError(f"cannot read '{path}'", got=failure.strerror or str(failure)) from failure
    except UnicodeDecodeError as failure:
        raise HistoryError(f"'{path}' holds no history", got="bytes that are no text") from failure


def _rings(value: dict[str, Any]) -> tuple[Ring, ...]:
    if value.get(_MARK) != VERSION:
        raise ValueError(f"expected a header of version {VERSION} of the format")
    if not isinstance(value["start"], int) or not isinstance(value["instant"], int):
        raise ValueError("start and instant are integers")
    return tuple(Ring(*ring) for ring in value["rings"])


def _named(rings: list[str], place: int) -> str:
    if not 0 <= place < len(rings):
        raise ValueError(f"there is no ring {place}")
    return rings[place]


def _decode(value: Any, rings: list[str]) -> Event:
    # Nearly all events of a history are these.
    if len(value) == 5 and value[0] in _TOUCHES and all(type(each) is int for each in value[1:]):
        letter, transaction, ring, pane, version = value
        return _TOUCHES[letter](transaction, SubWindow(_named(rings, ring), pane), version)
    match value:
        case ["o", [str(name), int(size), int(period)]]:
            return Opened(Ring(name, size, period))
        case ["g", int(ring), int(size)]:
            return Grown(_named(rings, ring), size)
        case ["m", int(number), int(instant), [*changes], *unsettled] if unsettled in ([], [0]):
            listed = tuple(
                Change(_named(rings, ring), int(first), int(head), tuple(map(int, inserted)))
                for ring, first, head, *inserted in changes
            )
            return Moved(number, instant, listed, not unsettled)
        case ["c", int(number)]:
            return Settled(number)
        case ["b", int(transaction), str(name), str(level), int(priority), [*windows]]:
            lengths = {_named(rings, ring): int(length) for ring, length in windows}
            return Began(transaction, Query(name, lengths, Isolation(level), priority))
        case ["w", int(transaction), str(source), int(after), int(until), (int() | None) as since]:
            return Covered(transaction, source, after, until, since)
        case ["e", int(transaction), int(state), int(instant)]:
            return Committed(transaction, state, instant)
        case ["a", int(transaction), str(why), (int() | None) as again]:
            return Aborted(transaction, why, again)
        case _:
            raise ValueError("no event of a history looks like that")
