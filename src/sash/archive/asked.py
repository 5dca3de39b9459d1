"""How often an archive is asked: every reader adds a byte to a file, whatever process it is in.

Nobody waits for anybody: appending is one system call. Who may not write there is not counted.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

ASKED = "asked"
_LARGE = 1 << 20


def note_question(root: Path) -> None:
    with suppress(OSError):
        handle = os.open(root / ASKED, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o666)
        try:
            os.write(handle, b".")
        finally:
            os.close(handle)


def questions(root: Path, seen: int) -> tuple[int, int]:
    """How many questions there were since `seen` were counted, and the count to go on from."""
    try:
        count = os.stat(root / ASKED).st_size
        new = count - seen if count >= seen else count
        if count > _LARGE:
            # Questions of this very moment are lost, which matters to nobody.
            os.truncate(root / ASKED, 0)
            count = 0
    except OSError:
        return 0, 0
    return new, count
