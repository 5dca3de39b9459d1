"""The feed on disk: numbered entries, one small file each, and a file that says how many there are.

The process in which Spark plans its batches reads nothing but this, so the module imports next to nothing.
"""

from __future__ import annotations

from pathlib import Path

from sash.engine.durability.files import save_file, translate_os_errors


class FeedLog:
    """Entries as text, by number."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        with translate_os_errors(directory, "make"):
            directory.mkdir(parents=True, exist_ok=True)

    def _path(self, number: int) -> Path:
        return self.directory / f"{number:08d}.json"

    def publish(self, number: int, entry: str) -> None:
        save_file(self._path(number), entry)
        save_file(self.directory / "count", str(number + 1))

    def count(self) -> int:
        try:
            return int((self.directory / "count").read_text())
        except FileNotFoundError:
            return 0

    def check(self) -> None:
        """Raise CheckpointError if what was published is not there any more."""
        with translate_os_errors(self.directory, "find"):
            (self.directory / "count").stat()

    def read(self, number: int) -> str | None:
        try:
            return self._path(number).read_text()
        except FileNotFoundError:
            return None

    def forget(self, before: int) -> None:
        """Remove entries that no restart can ask for."""
        with translate_os_errors(self.directory, "clear"):
            for path in self.directory.glob("*.json"):
                if int(path.stem) < before:
                    path.unlink(missing_ok=True)
