"""The standard streams of a command, made fit for use before it opens anything else.

A descriptor that is closed when the process begins (`>&-`) has no stream in Python, and its number would go
to the next file that is opened: an output would then receive what is printed. `prepare` lets it lead to the
null device, and `was_closed` tells for those who are asked to write there.

A failure to write to standard output names it, as failures of files name theirs.
"""

from __future__ import annotations

import io
import os
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

STANDARD_OUTPUT = "standard output"
"""The file name of an OSError that says why standard output cannot be written."""

_NAMES = ("stdin", "stdout", "stderr")
_closed: set[int] = set()


def was_closed(number: int) -> bool:
    """Whether a standard descriptor was closed when the process began."""
    return number in _closed


def prepare() -> None:
    """Call it first: what has been opened before may have taken the number of a closed descriptor."""
    for number, name in enumerate(_NAMES):
        if getattr(sys, name) is None:
            _closed.add(number)
            _set(name, _silence(number))
    _set("stdout", _named(sys.stdout))
    for stream in (sys.stdout, sys.stderr):
        # A terminal that cannot show a character shows a question mark; it is no reason to fail.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")


def _silence(number: int) -> io.TextIOWrapper:
    # The lowest free number is given, so this one unless it is taken.
    handle = os.open(os.devnull, os.O_RDWR)
    if handle == number:
        os.set_inheritable(handle, True)
    return open(handle, "w" if number else "r", encoding="utf-8", closefd=False)


class _StandardOutput(io.FileIO):
    def write(self, data: ReadableBuffer, /) -> int:
        try:
            # None: it is not ready, and does not block.
            return super().write(data)
        except OSError as failure:
            failure.filename = STANDARD_OUTPUT
            raise


def _named(stream: object) -> object:
    if not isinstance(stream, io.TextIOWrapper) or stream.fileno() != 1:
        return stream
    raw = _StandardOutput(1, "w", closefd=False)
    # `python -u` has no buffer.
    is_buffered = isinstance(stream.buffer, io.BufferedWriter)
    return io.TextIOWrapper(
        io.BufferedWriter(raw) if is_buffered else raw,
        encoding=stream.encoding,
        line_buffering=stream.line_buffering,
        write_through=stream.write_through,
    )


def _set(name: str, stream: object) -> None:
    setattr(sys, name, stream)
    setattr(sys, f"__{name}__", stream)
