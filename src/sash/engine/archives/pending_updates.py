"""Changes of an archive that a checkpoint counts as archived while they are still being written.

An update of a large archive takes its time, and batches need not wait for it: once the changes are in a file
here, a restart can do the update from it. So the file is there before the checkpoint names its instant, and
goes when the version is.
"""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from sash.archive.failures import told
from sash.engine.durability.wire import pack_state, unpack_state
from sash.files import replace_file

PROMISED = "promised"


class Promises:
    def __init__(self, root: Path) -> None:
        self._folder = root / PROMISED

    def make(self, instant: int, changes: pa.Table) -> None:
        """Put the changes up to an instant into a file that outlives the machine."""
        path = self._path(instant)
        with told(path):
            self._folder.mkdir(exist_ok=True)
            replace_file(path, pack_state({"changes": changes}))

    def find(self, instant: int) -> pa.Table | None:
        """The changes that were promised for an instant."""
        path = self._path(instant)
        if not path.exists():
            return None
        with told(path, "read"):
            return unpack_state(path.read_bytes())["changes"]

    def forget(self, instant: int | None = None) -> None:
        """Remove what was promised for an instant, or all."""
        paths = self._folder.glob("*") if instant is None else [self._path(instant)]
        with told(self._folder, "clear"):
            for path in paths:
                path.unlink(missing_ok=True)

    def _path(self, instant: int) -> Path:
        return self._folder / str(instant)
