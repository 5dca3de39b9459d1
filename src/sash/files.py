"""Small files that are either the old or the new version, whatever happens in between."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

Buffer = Any
"""What can be written as bytes: the module imports next to nothing, so it cannot name Arrow's buffers."""


def replace_file(path: Path, content: str | bytes | Sequence[Buffer], *, durable: bool = True) -> None:
    """Write a file under a temporary name, make it durable, then give it its name.

    What is not durable survives the end of the process, but not that of the machine.
    """
    temporary = path.with_name(f".{path.name}.tmp")
    parts: Sequence[Buffer] = [content] if isinstance(content, bytes) else content
    if isinstance(content, str):
        parts = [content.encode()]
    try:
        _fill(temporary, parts, durable=durable)
        os.replace(temporary, path)
    except OSError:
        # Half a file is of no use, and on a full disk its room is.
        with suppress(OSError):
            temporary.unlink()
        raise
    if durable:
        sync_directory(path.parent)


def _fill(path: Path, parts: Sequence[Buffer], *, durable: bool) -> None:
    with open(path, "wb") as file:
        for part in parts:
            file.write(part)
        if durable:
            file.flush()
            os.fsync(file.fileno())


def sync_directory(directory: Path) -> None:
    """Make names in a directory durable: a file that is synced may still have no name after a crash."""
    sync_file(directory)


def sync_file(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
