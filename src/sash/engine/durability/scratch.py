"""A folder for what a run needs only while it lasts."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sash.disk import reason
from sash.errors import SetupError


@contextmanager
def scratch_folder() -> Iterator[Path]:
    try:
        folder = Path(tempfile.mkdtemp(prefix="sash-"))
    except OSError as failure:
        raise SetupError(
            "cannot make a temporary folder",
            got=reason(failure),
            hint="make room in the folder for temporary files, or name another one in TMPDIR",
            id="scratch",
        ) from failure
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
