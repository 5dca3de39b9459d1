"""Files of the state of a run, and what to say when the disk refuses them.

What tasks write has another name for each attempt: Spark may run a task twice at once, or again while a first
attempt has only stalled. A file counts once a manifest names it; what other attempts have written is removed
later, when their batch is committed, or if they come after that with a later one.
"""

from __future__ import annotations

import os
import re
import uuid
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from sash.disk import reason, remedy
from sash.errors import CheckpointError
from sash.files import Buffer, replace_file


@contextmanager
def translate_os_errors(path: Path, doing: str = "write") -> Iterator[None]:
    """Tell a refusal of the disk to keep the state of a run as CheckpointError."""
    try:
        yield
    except OSError as failure:
        raise CheckpointError(
            f"cannot {doing} '{path}'",
            got=reason(failure),
            hint=f"{remedy(failure)}, then start again: with --checkpoint all that was committed is kept",
            id="checkpoint-disk",
        ) from failure


def save_file(path: Path, content: str | bytes | Sequence[Buffer], *, durable: bool = True) -> None:
    """Replace a file of the state of a run."""
    with translate_os_errors(path):
        replace_file(path, content, durable=durable)


_STAMP = re.compile(r"\.(-?\d{7,})-[0-9a-f]{12}\.")


def new_attempt() -> str:
    """A name for one attempt to write the files of a task; there is no second one like it."""
    return uuid.uuid4().hex[:12]


def stamp(batch: int, attempt: str) -> str:
    """The part of a file's name, between dots, that says which attempt at which batch has written it."""
    return f"{batch:08d}-{attempt}"


def batch_of(name: str) -> int | None:
    """The batch that a file is written for, also if it is half written; None: it is no file of an attempt."""
    found = _STAMP.findall(name)
    return int(found[-1]) if found else None


def forget_unnamed(directory: Path, names: Collection[str], through: int | None) -> None:
    """Remove files that nobody names: all, or those of attempts at batches up to `through`."""
    with translate_os_errors(directory, "clear"):
        for name in os.listdir(directory):
            if name in names:
                continue
            batch = batch_of(name)
            if through is None or (batch is not None and batch <= through):
                (directory / name).unlink(missing_ok=True)
