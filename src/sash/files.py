"""Small files that are either the old or the new version, whatever happens in between."""

from __future__ import annotations

import os
import re
import select
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from sash.errors import UserError

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


def has_reader(handle: int) -> bool:
    """Whether somebody may still read what is written to an open pipe, socket or terminal."""
    look = select.poll()
    look.register(handle, 0)
    return not any(event & (select.POLLERR | select.POLLHUP) for _, event in look.poll(0))


# A name of one letter is no scheme; `Path` makes one slash of several.
_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):(/*)(.*)", re.DOTALL)
# As in `hdfs:data`; not `run:2`, `log-10:30.csv` or `q.csv:old`, which are names of files.
_WORD = re.compile(r"[A-Za-z][A-Za-z0-9]+:(?!\d).*", re.DOTALL)
_EXPECTED = "a path of a local or mounted file system, or file:///path"


def local_place(place: str | Path, what: str) -> str:
    """A place as a local path: `file:path` and `file:///path` are some, other URLs are refused by name.

    `what` is the option or the text that names the place, if that is not clear. A `Path` without slashes is
    taken as it is: it may come from `./name:rest`, and from here.
    """
    text = str(place)
    named = f"{what}{': ' if what else ''}'{text}'"
    found = _URL.fullmatch(text.strip())
    if found is None:
        if not text.strip():
            raise UserError(f"{named} names no path", expected=_EXPECTED, id="not-local")
        return text
    scheme, slashes, rest = found[1].lower(), found[2], found[3]
    if scheme == "file" and not slashes + rest:
        raise UserError(f"{named} names no path", expected=_EXPECTED, id="not-local")
    if scheme == "file" and len(slashes) != 2:
        return unquote(slashes[:1] + rest) if slashes else rest
    if scheme == "file" and rest.lower().startswith("localhost/"):
        return unquote(rest[len("localhost") :])
    is_word = _WORD.fullmatch(text.strip()) is not None and not isinstance(place, Path)
    if not slashes and not is_word:
        return text
    also = "" if slashes else f", or './{text.strip()}' for a file or folder of this name"
    raise UserError(
        f"{named} is no local path",
        expected=_EXPECTED + also,
        got=f"a URL with the scheme '{scheme}'" + (" and a host" if scheme == "file" else ""),
        hint=f"places of '{scheme}:' cannot be used yet: mount the storage, or copy to and from it",
        id="not-local",
    )
