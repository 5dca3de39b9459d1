"""Records of text files: where they end, and for CSV where their fields lie.

A record ends at a line end outside quotes. A quote opens only at the start of a field; elsewhere it is
an ordinary character, so `5" pipe` harms nobody. Blank lines are no records. A record that does not
end within MAX_RECORD bytes, or whose quote is still open at the end of the file, is a *runaway*: its
first line is cut off and rejected, and reading goes on with the line after it, so one stray quote
costs one row and not the rest of the file.

Invariant: where a record ends depends only on the bytes from its first one on, never on how the file
was cut into blocks. Hence the driver, which cuts files into chunks, and the task, which reads a chunk,
agree on every record. A runaway always ends its chunk.

Cost: one pass of a state machine over the bytes, 0.3 to 0.5 GB/s on a busy core; memory is one block.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from sash.connectors.sources.chunk import Int64s
from sash.state.jit import kernel

Bytes = npt.NDArray[np.uint8]

MAX_RECORD = 16 << 20
BLOCK_BYTES = 8 << 20
UTF8_BOM = b"\xef\xbb\xbf"

# States of the scan. A record ends at a line end in any state but START and QUOTED.
START, FIELD, PLAIN, QUOTED, CLOSED = 0, 1, 2, 3, 4
NEWLINE, RETURN, QUOTE = 10, 13, 34


# What a byte may be: only bytes other than ORDINARY can change the state. A BLANK is the return of a
# CRLF in a format whose lines end at the newline alone.
ORDINARY, DELIMITER, LINE_END, QUOTATION, BLANK = 0, 1, 2, 3, 4


@dataclass(frozen=True, slots=True)
class Dialect:
    """How records are told apart. JSON lines have neither quotes nor delimiters nor bare returns."""

    delimiter: int
    quotes: bool

    def kinds(self) -> Bytes:
        return _kinds(self)


@lru_cache(maxsize=16)
def _kinds(dialect: Dialect) -> Bytes:
    kinds = np.zeros(256, np.uint8)
    kinds[NEWLINE] = LINE_END
    kinds[RETURN] = LINE_END if dialect.quotes else BLANK
    if dialect.quotes:
        kinds[QUOTE] = QUOTATION
        kinds[dialect.delimiter] = DELIMITER
    return kinds


JSON_LINES = Dialect(delimiter=0, quotes=False)


@kernel
def _scan(data: Bytes, kinds: Bytes, want: int, longest: int) -> tuple[int, int, int, int, bool]:
    """Walk over at most `want` records.

    Gives the end of the last complete record, how many there were, the state and the start of the
    record that is unfinished at the end, and whether that one is too long.
    """
    state = START
    count = 0
    end = 0
    first = 0
    i = 0
    length = len(data)
    while i < length:
        # Most bytes lie inside a field and mean nothing: step over them in a tight loop.
        if state == QUOTED:
            stop = min(length, first + longest)
            while i < stop and data[i] != QUOTE:
                i += 1
        elif state == PLAIN:
            stop = min(length, first + longest)
            while i < stop and kinds[data[i]] == ORDINARY:
                i += 1
        if i >= length:
            break
        if state != START and i - first >= longest:
            return end, count, state, first, True
        kind = kinds[data[i]]
        if state == QUOTED:
            state = CLOSED
        elif kind == LINE_END:
            # A line end at the start is a blank line or the second half of a CRLF: passed over.
            if state != START:
                count += 1
                state = START
            end = i + 1
            if count == want:
                if data[i] == RETURN and i + 1 < length and data[i + 1] == NEWLINE:
                    end += 1
                return end, count, START, end, False
        elif state != START or kind != BLANK:
            if state == START:
                first = i
            if kind == QUOTATION and state != PLAIN:
                state = QUOTED
            elif kind == DELIMITER:
                state = FIELD
            else:
                state = PLAIN
        i += 1
    return end, count, state, first, False


@kernel
def _tokenize(
    data: Bytes,
    kinds: Bytes,
    slots: npt.NDArray[np.int32],
    starts: npt.NDArray[np.int32],
    ends: npt.NDArray[np.int32],
    quoted: npt.NDArray[np.bool_],
    record_starts: Int64s,
    record_ends: Int64s,
    fields: npt.NDArray[np.int32],
) -> int:
    """Fill in where the records and the wanted fields lie; gives the number of records.

    `slots[f]` is the row of `starts`, `ends` and `quoted` that takes field f, or -1.
    """
    state = START
    n = 0
    field = 0
    begin = 0
    was_quoted = False
    length = len(data)
    i = 0
    while i <= length:
        if state == QUOTED:
            while i < length and data[i] != QUOTE:
                i += 1
        elif state == PLAIN:
            while i < length and kinds[data[i]] == ORDINARY:
                i += 1
        # One line end past the last byte finishes a record that has none of its own.
        kind = kinds[data[i]] if i < length else np.uint8(LINE_END)
        if state == QUOTED:
            state = CLOSED
            i += 1
            continue
        if state == START:
            if kind in (LINE_END, BLANK):
                i += 1
                continue
            record_starts[n] = i
            field = 0
            begin = i
            was_quoted = False
        if kind in (LINE_END, DELIMITER):
            if field < len(slots) and slots[field] >= 0:
                starts[slots[field], n] = begin
                ends[slots[field], n] = i
                quoted[slots[field], n] = was_quoted
            field += 1
            begin = i + 1
            was_quoted = False
            state = FIELD
            if kind == LINE_END:
                record_ends[n] = i
                fields[n] = field
                n += 1
                state = START
        elif kind == QUOTATION and state != PLAIN:
            was_quoted = was_quoted or state != CLOSED
            state = QUOTED
        else:
            state = PLAIN
        i += 1
    return n


@dataclass(frozen=True, slots=True)
class Tokens:
    """Records of a block and, slot by slot, the wanted fields (ends exclusive, quotes included)."""

    record_starts: Int64s
    record_ends: Int64s
    fields: npt.NDArray[np.int32]
    starts: npt.NDArray[np.int32]
    ends: npt.NDArray[np.int32]
    quoted: npt.NDArray[np.bool_]


def tokenize(data: Bytes, dialect: Dialect, slots: npt.NDArray[np.int32], width: int) -> Tokens:
    """`width` slots are filled; fields that a short record lacks are left empty."""
    ends = np.count_nonzero(data == NEWLINE)
    if dialect.quotes:
        ends += np.count_nonzero(data == RETURN)
    room = int(ends) + 1
    record_starts, record_ends = np.empty(room, np.int64), np.empty(room, np.int64)
    fields = np.empty(room, np.int32)
    starts, stops = np.zeros((width, room), np.int32), np.zeros((width, room), np.int32)
    quoted = np.zeros((width, room), np.bool_)
    found = (starts, stops, quoted, record_starts, record_ends, fields)
    n = _tokenize(data, dialect.kinds(), slots, *found)
    return Tokens(record_starts[:n], record_ends[:n], fields[:n], starts[:, :n], stops[:, :n], quoted[:, :n])


@dataclass(frozen=True, slots=True)
class Stretch:
    """`records` whole records in the first `size` bytes of a block, or one runaway."""

    size: int
    records: int
    runaway: bool


def scan(data: Bytes, at_end: bool, dialect: Dialect, want: int) -> Stretch:
    """At most `want` records from the start of a block; none where the block is too short for one.

    `at_end` says that nothing follows the block.
    """
    end, count, state, first, too_long = _scan(data, dialect.kinds(), want, MAX_RECORD)
    if count == want:
        return Stretch(end, count, False)
    unfinished = state != START
    if too_long or (at_end and unfinished and (state == QUOTED or len(data) - first >= MAX_RECORD)):
        if count:
            return Stretch(end, count, False)
        line = data[first : first + MAX_RECORD]
        breaks = np.flatnonzero(line == NEWLINE)
        return Stretch(first + (int(breaks[0]) + 1 if len(breaks) else len(line)), 1, True)
    if at_end:
        return Stretch(len(data), count + unfinished, False)
    return Stretch(end, count, False)


def as_bytes(data: bytes) -> Bytes:
    return np.frombuffer(data, np.uint8)


def blocks(
    read: Callable[[int], bytes], dialect: Dialect, block_bytes: int = BLOCK_BYTES
) -> Iterator[tuple[Bytes, Stretch]]:
    """All records of a byte stream, block by block: the bytes of whole records and what they hold."""
    held = b""
    at_end = False
    while True:
        if not at_end:
            more = read(max(block_bytes, len(held)))
            at_end = not more
            held += more
        offset = 0
        view = as_bytes(held)
        while offset < len(view):
            stretch = scan(view[offset:], at_end, dialect, len(view) + 1)
            if stretch.records == 0:
                offset += stretch.size
                break
            yield view[offset : offset + stretch.size], stretch
            offset += stretch.size
        held = held[offset:]
        if at_end:
            return


def text_of(data: Bytes, start: int, end: int) -> str:
    """A record as people see it in a list of rejects: without its line end, bad bytes replaced."""
    return bytes(data[start:end]).decode("utf-8", "replace").rstrip("\r\n")


def record_text(data: Bytes, tokens: Tokens, number: int) -> str:
    return text_of(data, int(tokens.record_starts[number]), int(tokens.record_ends[number]))


def bad_utf8_records(data: Bytes, record_starts: Int64s) -> Int64s:
    """Numbers of the records that hold bytes that are not UTF-8.

    A good block costs one decode. After a bad byte the search resumes at the next record, so the whole
    costs one decode of the block and one step a bad record.
    """
    raw = data.tobytes()
    bad: list[int] = []
    at = 0
    view = memoryview(raw)
    while at < len(raw):
        try:
            str(view[at:], "utf-8")
            break
        except UnicodeDecodeError as error:
            record = int(np.searchsorted(record_starts, at + error.start, side="right")) - 1
            bad.append(record)
            if record + 1 >= len(record_starts):
                break
            at = int(record_starts[record + 1])
    return np.array(bad, np.int64)
