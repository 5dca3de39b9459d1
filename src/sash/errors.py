"""The exceptions of Sash.

    SashError
    ├── UserError              exit 2: the user can mend it; carries a place, expected, got and a hint
    │   ├── CqlSyntaxError     the text is not CQL
    │   ├── BindError          the text is CQL but does not fit the catalog
    │   │   ├── UnknownName    a name that does not exist; lists those that do
    │   │   ├── DuplicateName  a name that is taken
    │   │   └── TypeMismatch   an operand of the wrong type
    │   ├── NotYet             understood and planned, but no runtime executes it yet
    │   ├── SourceError        a source that cannot be opened or does not fit its schema
    │   ├── SinkError          an output that cannot be written
    │   ├── ArchiveError       an archive of another definition or format, a damaged one, a disk that refuses
    │   ├── CheckpointError    a checkpoint of another program, another format, or a damaged one
    │   ├── HistoryError       a history that is none: a damaged file, or operations that cannot be
    │   └── SetupError         the machine lacks something, such as Java
    ├── RunError               exit 1: the run failed; the cause in one sentence
    │   ├── OutputClosed       exit 141: whoever read the output has left
    │   ├── DataError          the data asked for something undefined, such as an integer overflow
    │   │   └── TimeJump       a timestamp so far ahead that a query would answer an empty window without end
    │   └── LimitError         the run holds more than it was allowed to
    └── InternalError          exit 1: a bug of ours
        ├── AlgebraError       a synopsis was asked to keep what its method cannot combine
        └── NotCovered         a synopsis was asked for a window that it does not hold

Every error has a stable `id` that documentation and tests can name. `render()` gives what a person
reads: the message, the place in the query text with a caret, what was expected, what was found, a hint.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Place:
    """A stretch of a query text: offsets of its first character and of the one after its last."""

    text: str
    start: int
    end: int

    @property
    def line(self) -> int:
        return self.text.count("\n", 0, self.start) + 1

    @property
    def column(self) -> int:
        return self.start - (self.text.rfind("\n", 0, self.start) + 1) + 1

    def excerpt(self) -> str:
        """The line of the place with a caret line under it."""
        first = self.text.rfind("\n", 0, self.start) + 1
        last = self.text.find("\n", self.start)
        line = self.text[first : len(self.text) if last < 0 else last]
        width = max(1, min(self.end - self.start, len(line) - (self.start - first)))
        margin = f"{self.line} | "
        # Tabs are kept in the margin so that the caret stands under its character.
        before = "".join("\t" if c == "\t" else " " for c in line[: self.start - first])
        return f"{margin}{line}\n{' ' * len(margin)}{before}{'^' * width}"


class SashError(Exception):
    """Anything that Sash itself raises."""

    id = "sash"
    exit_code = 1

    def __init__(
        self,
        message: str,
        *,
        place: Place | None = None,
        expected: str | None = None,
        got: str | None = None,
        hint: str | None = None,
        id: str | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.place = place
        self.expected = expected
        self.got = got
        self.hint = hint
        if id is not None:
            self.id = id

    def render(self) -> str:
        head = f"error[{self.id}]: {self.message}"
        if self.place is not None:
            head += f" (line {self.place.line}, column {self.place.column})"
        parts = [head]
        if self.place is not None:
            parts.append(self.place.excerpt())
        for label, value in (("expected", self.expected), ("got", self.got), ("hint", self.hint)):
            if value is not None:
                parts.append(f"  {label}: {value}")
        return "\n".join(parts)


@contextmanager
def at_place(place: Place | None) -> Iterator[None]:
    """Errors that come from here have this place, unless they know a better one."""
    try:
        yield
    except SashError as error:
        error.place = error.place or place
        raise


class UserError(SashError):
    id = "user"
    exit_code = 2


class CqlSyntaxError(UserError):
    id = "syntax"


class BindError(UserError):
    id = "bind"


class UnknownName(BindError):
    """A name that does not exist, with the ones that do and the likeliest of them."""

    id = "unknown-name"

    def __init__(self, kind: str, name: str, known: Iterable[str], *, place: Place | None = None) -> None:
        names = list(known)
        close = difflib.get_close_matches(name.lower(), names, n=1)
        listing = ", ".join(names) if names else f"there is no {kind} yet"
        super().__init__(
            f"unknown {kind} '{name}'",
            place=place,
            expected=f"one of: {listing}" if names else listing,
            hint=f"did you mean '{close[0]}'?" if close else None,
        )


class DuplicateName(BindError):
    id = "duplicate-name"


class TypeMismatch(BindError):
    id = "type"


class NotYet(UserError):
    """A construct that is part of the language and that this runtime does not execute yet."""

    id = "not-yet"


class SourceError(UserError):
    id = "source"


class SinkError(UserError):
    id = "sink"


class ArchiveError(UserError):
    id = "archive"


class CheckpointError(UserError):
    id = "checkpoint"


class HistoryError(UserError):
    id = "history"


class SetupError(UserError):
    id = "setup"


class RunError(SashError):
    id = "run"


class OutputClosed(RunError):
    """Whoever read an output has left. Nothing is said of a console, as is usual for pipes."""

    id = "output-closed"
    exit_code = 141

    def __init__(self, message: str, *, is_quiet: bool = True, **details: str | None) -> None:
        super().__init__(message, **details)  # type: ignore[arg-type]
        self.is_quiet = is_quiet


class DataError(RunError):
    id = "data"


class TimeJump(DataError):
    """Time goes on so far over an empty window that a query would answer it again and again."""

    id = "time-jump"

    def __init__(self, query: str, stream: str, answers: int) -> None:
        super().__init__(
            f"{query} would give {answers:,} answers in a row over an empty window: stream {stream} has no "
            "rows there, and time goes on",
            hint="if the timestamp is wrong, correct it or declare the stream with MAX AHEAD, such as "
            "MAX AHEAD 1 DAY: rows that are further ahead are then rejected. "
            "Without Rstream only changes are written",
        )
        self.stream = stream


class LimitError(RunError):
    id = "limit"


class InternalError(SashError):
    id = "internal"


class AlgebraError(InternalError):
    id = "algebra"


class NotCovered(InternalError):
    id = "not-covered"
