"""What a synopsis knows of time: which panes it holds, and which windows it can answer."""

from __future__ import annotations

from sash.errors import NotCovered


class Spanned:
    """The last `span` panes up to `newest`; `begin` is the pane before the first ever, if there was one."""

    def __init__(self, span: int) -> None:
        self.span = span
        self.begin: int | None = None
        self.newest = 0

    @property
    def oldest(self) -> int:
        """The pane after which everything is held."""
        return self.newest if self.begin is None else max(self.begin, self.newest - self.span)

    def covers(self, left: int, right: int) -> bool:
        """Whether the window (left, right] can be looked up."""
        if self.begin is None:
            return True
        is_all_held = left >= self.newest - self.span or self.newest - self.begin <= self.span
        return right <= self.newest and is_all_held

    def held_after(self, left: int, right: int) -> int:
        """Where the window (left, right] begins in what is held; a window that is not held is refused."""
        if not self.covers(left, right):
            raise NotCovered(
                f"no window from pane {left} to {right}",
                expected=f"panes after {self.newest - self.span} up to {self.newest}",
            )
        return right if self.begin is None else max(left, self.begin)

    def begins_before(self, pane: int) -> None:
        """The first pane that is ever told of."""
        if self.begin is None:
            self.begin = self.newest = pane - 1
