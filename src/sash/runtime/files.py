"""Files of the state of a run, and what to say when the disk refuses them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from sash.disk import reason, remedy
from sash.errors import CheckpointError
from sash.files import Buffer, replace_file


@contextmanager
def told(path: Path, doing: str = "write") -> Iterator[None]:
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
    with told(path):
        replace_file(path, content, durable=durable)
