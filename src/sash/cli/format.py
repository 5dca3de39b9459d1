"""Numbers, times and values as a person reads them. Pure functions of their arguments."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
NO_VALUE = "–"


def count(number: int) -> str:
    return f"{number:,}"


def counted(number: int, noun: str, plural: str | None = None) -> str:
    """`1 row`, `2 rows`, `3 queries`."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def rate(rows: int, seconds: float) -> str:
    return f"{rows / seconds:,.0f} rows/s" if seconds > 0 else f"{NO_VALUE} rows/s"


def percent(share: float) -> str:
    """Rounded down: 100 % means that nothing is left."""
    return f"{int(min(max(share, 0.0), 1.0) * 100)} %"


def duration(seconds: float) -> str:
    """`0.21 s`, `12.3 s`, `2 min 05 s`, `1 h 02 min`."""
    if seconds < 10:
        return f"{seconds:.2f} s"
    if seconds < 59.95:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest:02} s"
    return f"{minutes // 60:,} h {minutes % 60:02} min"


def size(count: int) -> str:
    """`0 B`, `812 B`, `1.5 kB`, `130 MB`, `2.25 GB`: three digits are enough."""
    value = float(count)
    for unit in ("B", "kB", "MB", "GB"):
        if value < 999.5:
            return f"{value:.3g} {unit}"
        value /= 1000
    return f"{value:,.3g} TB"


def instant(micros: int, unit: int | None) -> str:
    """A moment of a stream: UTC, or where its time is an integer of `unit` microseconds, that integer."""
    if unit is not None:
        return str(micros // unit)
    try:
        moment = EPOCH + timedelta(microseconds=micros)
    except OverflowError:
        return f"{micros} µs"
    return f"{_moment(moment)} UTC"


def clock(micros: int, unit: int | None) -> str:
    """The clock of a run: an instant to the tenth of a second, since the rest changes too fast to be read."""
    return instant(micros if unit is not None else micros // 100_000 * 100_000, unit)


def _moment(moment: datetime) -> str:
    text = moment.strftime("%Y-%m-%d %H:%M:%S")
    return text + f".{moment.microsecond:06}".rstrip("0") if moment.microsecond else text


def value(item: object, *, separators: bool = True) -> str:
    """One cell of an answer. Control characters are shown, never sent to the terminal."""
    if item is None:
        return "NULL"
    if isinstance(item, bool):
        return "true" if item else "false"
    if isinstance(item, int):
        return f"{item:,}" if separators else str(item)
    if isinstance(item, float):
        return _number(item, separators=separators)
    if isinstance(item, datetime):
        return _moment(item)
    return "".join(char if char.isprintable() else ascii(char)[1:-1] for char in str(item))


def _number(number: float, *, separators: bool) -> str:
    size = abs(number)
    if size != 0 and (size < 0.01 or size >= 1e15):
        return f"{number:.4g}"
    return f"{number:,.2f}" if separators else f"{number:.2f}"
