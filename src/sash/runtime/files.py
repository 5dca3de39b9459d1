"""Small files that are either the old or the new version, whatever happens in between."""

from __future__ import annotations

import os
from pathlib import Path


def replace_file(path: Path, content: str | bytes, *, durable: bool = True) -> None:
    """Write a file under a temporary name, make it durable, then give it its name.

    What is not durable survives the end of the process, but not that of the machine.
    """
    temporary = path.with_name(f".{path.name}.tmp")
    data = content.encode() if isinstance(content, str) else content
    with open(temporary, "wb") as file:
        file.write(data)
        if durable:
            file.flush()
            os.fsync(file.fileno())
    os.replace(temporary, path)
    if durable:
        sync_directory(path.parent)


def sync_directory(directory: Path) -> None:
    """Make names in a directory durable: a file that is synced may still have no name after a crash."""
    sync_file(directory)


def sync_file(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
