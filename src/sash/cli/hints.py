"""What a view should know of a program. It imports nothing of the product, so that commands start quickly."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Hints:
    """What a view wants to know of the program to show it well.

    `unit`: microseconds that an integer clock counts, None for UTC. `keys`: per query, the columns that name
    a group; a number among them is a name (a port), not a quantity. `rank`: per query, the column whose
    greatest values matter most. `is_kept`: whether the folder of the program is still there after the run.
    """

    unit: int | None = None
    keys: Mapping[str, frozenset[str]] = field(default_factory=dict)
    rank: Mapping[str, str] = field(default_factory=dict)
    is_kept: bool = True
