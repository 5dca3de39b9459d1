"""Sizes of memory and durations as people write them."""

from __future__ import annotations

import re

from sash.errors import UserError

_UNITS = {
    "": 1,
    "b": 1,
    "kb": 1_000,
    "mb": 1_000_000,
    "gb": 1_000_000_000,
    "tb": 1_000_000_000_000,
    "kib": 1 << 10,
    "mib": 1 << 20,
    "gib": 1 << 30,
    "tib": 1 << 40,
}
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([a-z]*)")


def parse_size(text: str, option: str) -> int:
    """`2GB`, `512 MiB`, `1.5gb`, a number of bytes; `none` is 0."""
    written = text.strip().lower()
    if written == "none":
        return 0
    found = _SIZE.fullmatch(written)
    size = 0 if found is None else int(float(found[1]) * _UNITS.get(found[2], 0))
    if size <= 0:
        raise UserError(
            f"{option}: '{text}' is no size",
            expected="a size such as 512MB, 2GB or 1.5GiB, or none",
            id="size",
        )
    return size


_SECONDS = {
    "": 1.0,
    "us": 1e-6,
    "ms": 1e-3,
    "s": 1.0,
    "sec": 1.0,
    "second": 1.0,
    "seconds": 1.0,
    "m": 60.0,
    "min": 60.0,
    "minute": 60.0,
    "minutes": 60.0,
    "h": 3600.0,
    "hour": 3600.0,
    "hours": 3600.0,
}


def parse_seconds(text: str | float, option: str) -> float:
    """`250ms`, `1s`, `2 min`, a number of seconds; `none` is 0."""
    written = str(text).strip().lower()
    if written == "none":
        return 0.0
    found = _SIZE.fullmatch(written)
    factor = None if found is None else _SECONDS.get(found[2])
    if found is None or factor is None:
        raise UserError(
            f"{option}: '{text}' is no duration",
            expected="a duration such as 250ms, 1s or 2 min, or none",
            id="duration",
        )
    return float(found[1]) * factor
