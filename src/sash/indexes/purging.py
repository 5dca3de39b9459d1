"""When values that no tuple has any more leave an index (003, section 5.5).

A value that has gone often comes back, and taking it out of a tree or a list costs, so it stays for a
while with the count 0. Cleaning up rarely makes the index large; how rarely is a policy:

- every so many tuples, or every so many slides: the whole index is scanned for zeros;
- by share: values with the count 0 are listed as they become so, and are removed, without a scan, when they
  are more than a share of all. With the share 0 they leave at every slide.
"""

from __future__ import annotations

from dataclasses import dataclass

from sash.errors import InternalError


@dataclass(frozen=True, slots=True)
class Purging:
    """One of the three is given."""

    tuples: int | None = None
    slides: int | None = None
    share: float | None = None

    def __post_init__(self) -> None:
        if sum(given is not None for given in (self.tuples, self.slides, self.share)) != 1:
            raise InternalError("values without tuples are purged by tuples, by slides or by share")

    @property
    def keeps_list(self) -> bool:
        return self.share is not None

    def is_due(self, *, tuples: int, slides: int, zeros: int, nodes: int) -> bool:
        """`tuples` and `slides` are since the last time; `zeros` of `nodes` are listed."""
        if self.tuples is not None:
            return tuples >= self.tuples
        if self.slides is not None:
            return slides >= self.slides
        return zeros > (self.share or 0.0) * nodes


BY_SHARE = Purging(share=0.25)
