"""Options of `WITH (name = value, …)`: checked names, typed values, errors that list what there is."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass

from sash.errors import SourceError
from sash.lang.bound import StreamDefinition
from sash.plan.cost.statistics import is_statistic

# Read by the language or the feed, not by a source, and therefore legal everywhere.
COMMON = ("unit", "heartbeat")

Value = str | int | float | bool


@dataclass(frozen=True, slots=True)
class Options:
    """The options of one stream."""

    stream: str
    values: dict[str, Value]

    @classmethod
    def of(cls, stream: StreamDefinition) -> Options:
        return cls(stream.name, {name.lower(): value for name, value in stream.options})

    def check_names(self, known: Iterable[str], what: str) -> None:
        """Raise SourceError for an option that neither the source nor the planner knows."""
        names = sorted({*known, *COMMON})
        for name in self.values:
            if name not in names and not is_statistic(name):
                close = difflib.get_close_matches(name, names, n=1)
                raise SourceError(
                    f"stream '{self.stream}': {what} has no option '{name}'",
                    expected=f"one of: {', '.join(names)}",
                    hint=f"did you mean '{close[0]}'?" if close else None,
                )

    def check_pair(self, name: str, of: str) -> None:
        """Raise SourceError for an option that does nothing without another one."""
        if name in self.values and of not in self.values:
            raise SourceError(
                f"stream '{self.stream}': option '{name}' does nothing without '{of}'",
                hint=f"give '{of}', too, or take '{name}' away",
            )

    def boolean(self, name: str, default: bool) -> bool:
        value = self.values.get(name, default)
        if isinstance(value, bool):
            return value
        text = str(value).strip().lower()
        if text in ("true", "false"):
            return text == "true"
        raise self._wrong(name, "true or false", value)

    def text(self, name: str, default: str) -> str:
        return str(self.values.get(name, default))

    def optional_text(self, name: str) -> str | None:
        return str(self.values[name]) if name in self.values else None

    def integer(self, name: str, default: int, least: int) -> int:
        value = self.values.get(name, default)
        try:
            number = int(str(value))
        except ValueError:
            raise self._wrong(name, "a whole number", value) from None
        if number < least:
            raise self._wrong(name, f"a whole number from {least}", value)
        return number

    def number(self, name: str, default: float, least: float, most: float = float("inf")) -> float:
        value = self.values.get(name, default)
        try:
            number = float(str(value))
        except ValueError:
            number = float("nan")
        if not least <= number <= most or number == float("inf"):
            limits = f"from {least:g}" if most == float("inf") else f"from {least:g} to {most:g}"
            raise self._wrong(name, f"a number {limits}", value)
        return number

    def _wrong(self, name: str, expected: str, value: Value) -> SourceError:
        return SourceError(
            f"stream '{self.stream}': option '{name}' has a wrong value", expected=expected, got=repr(value)
        )
