"""The techniques: how sub-indices divide time, and what an update does to one (000, tables 1 and 2).

| technique                       | insertion times    | expiration times | re-clusters |
|---------------------------------|--------------------|------------------|-------------|
| Rebuild, NoRebuild              | round-robin        | round-robin      | yes, no     |
| LazyRebuild, LazyNoRebuild      | wait and throw away| round-robin      | yes, no     |
| CountRebuild, CountNoRebuild    | round-robin        | chronological    | yes, no     |
| Chr-Rebuild, Chr-NoRebuild      | chronological      | chronological    | yes, no     |
| Random-Rebuild, Random-NoRebuild| random             | random           | yes, no     |
| R-ins (REINDEX), D-ins (DEL)    | chronological      | not divided      | yes, no     |
| R-exp, D-exp                    | not divided        | chronological    | yes, no     |
| WATA                            | wait and throw away| not divided      | no          |

The last three lines are wave indexes, which are here to be compared with: a grid of G×E becomes n = G·E
partitions of the one time that they divide.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

from sash.errors import ArchiveError, UnknownName

DEFAULT_GRID = (4, 4)


class Order(enum.Enum):
    """Which partition takes an interval of time."""

    WHOLE = "not divided"
    ROUND_ROBIN = "round-robin"
    CHRONOLOGICAL = "chronological"
    RANDOM = "random"
    LAZY = "wait and throw away"


@dataclass(frozen=True, slots=True)
class Technique:
    """`reclusters`: an update writes a sub-index anew; else it appends to it and compacts what is sparse."""

    name: str
    insertion: Order
    expiration: Order
    reclusters: bool

    def grid(self, asked: tuple[int, int] | None) -> tuple[int, int]:
        """The partitions of insertion and of expiration times that a grid stands for."""
        generations, expirations = asked or DEFAULT_GRID
        if self.expiration is Order.WHOLE:
            generations, expirations = generations * expirations, 1
        elif self.insertion is Order.WHOLE:
            generations, expirations = 1, generations * expirations
        if self.insertion is Order.LAZY and generations < 2:
            raise ArchiveError(
                f"{self.name.upper()} needs at least two partitions of insertion times",
                got=f"{generations}x{expirations}",
                hint="one waits to be thrown away while another one is filled",
                id="archive-grid",
            )
        return generations, expirations


def _both(name: str, insertion: Order, expiration: Order) -> tuple[Technique, Technique]:
    return (
        Technique(f"{name}rebuild", insertion, expiration, True),
        Technique(f"{name}norebuild", insertion, expiration, False),
    )


TECHNIQUES = {
    technique.name: technique
    for technique in (
        *_both("", Order.ROUND_ROBIN, Order.ROUND_ROBIN),
        *_both("lazy", Order.LAZY, Order.ROUND_ROBIN),
        *_both("count", Order.ROUND_ROBIN, Order.CHRONOLOGICAL),
        *_both("chr-", Order.CHRONOLOGICAL, Order.CHRONOLOGICAL),
        *_both("random-", Order.RANDOM, Order.RANDOM),
        Technique("r-ins", Order.CHRONOLOGICAL, Order.WHOLE, True),
        Technique("d-ins", Order.CHRONOLOGICAL, Order.WHOLE, False),
        Technique("r-exp", Order.WHOLE, Order.CHRONOLOGICAL, True),
        Technique("d-exp", Order.WHOLE, Order.CHRONOLOGICAL, False),
        Technique("wata", Order.LAZY, Order.WHOLE, False),
    )
}
_SYNONYMS = {"reindex": "r-ins", "del": "d-ins"}


def technique_of(name: str) -> Technique:
    found = TECHNIQUES.get(_SYNONYMS.get(name, name))
    if found is None:
        raise UnknownName("technique", name, (*TECHNIQUES, *_SYNONYMS))
    return found
