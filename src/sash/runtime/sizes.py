"""Sizes of memory as people write them."""

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
