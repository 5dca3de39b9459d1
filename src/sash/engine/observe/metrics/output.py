"""Files of metrics: worth less than the run that they are about.

A file that cannot be written when the run begins is the user's to mend. One that fails later, because the
disk is full or its folder is gone, is left alone with one warning, and the run goes on.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from sash.disk import reason
from sash.errors import UserError

Warn = Callable[[str], None]


class Output:
    """Guards the writing of one file."""

    def __init__(self, path: Path, warn: Warn) -> None:
        self.path = path
        self._warn = warn
        self._has_warned = False

    def open(self, write: Callable[[], None]) -> None:
        """The first write."""
        try:
            write()
        except OSError as failure:
            raise UserError(
                f"cannot write metrics to '{self.path}'",
                got=reason(failure),
                hint="name a file in a folder that is there and can be written",
                id="metrics",
            ) from failure

    def attempt(self, write: Callable[[], None]) -> None:
        """A later write; what fails is tried again with the next batch."""
        try:
            write()
        except OSError as failure:
            if not self._has_warned:
                self._has_warned = True
                self._warn(f"cannot write metrics to '{self.path}': {reason(failure)}; the run goes on")
