"""USING AUTO: which technique suits an archive (002, section 4.4.6; 000, section 5.8).

|             | few queries between updates | many queries between updates                        |
|-------------|-----------------------------|-----------------------------------------------------|
| small       | NoRebuild 4x4               | Rebuild 2x2                                         |
| large       | NoRebuild 3x3               | NoRebuild 2x2, Rebuild 2x2 if only probes count     |

The archives that were measured for this had 500 MB and 5 GB; the border is put between them. How many
queries are many is not published: it is a setting here. An archive of guessed expirations takes the Count
techniques.
"""

from __future__ import annotations

from typing import NamedTuple

LARGE = 1_600_000_000
MANY = 16
# What is near a border stays as it is, so that an archive does not go to and fro.
_RELUCTANCE = 2.0


class Choice(NamedTuple):
    technique: str
    grid: tuple[int, int]


FIRST_CHOICE = Choice("norebuild", (4, 4))
"""For an archive of which nothing is known: it is small, and nobody has asked it anything."""


def choose(
    size: float,
    queries: float,
    periods: int,
    *,
    is_estimated: bool = False,
    is_probing_crucial: bool = False,
    many: float = MANY,
    large: float = LARGE,
) -> Choice:
    """The technique for `size` bytes, `queries` between two updates, and p = `periods`."""
    is_large, is_asked_often = size >= large, queries >= many
    if is_asked_often:
        name, side = ("norebuild" if is_large and not is_probing_crucial else "rebuild"), 2
    else:
        name, side = "norebuild", 3 if is_large else 4
    side = max(1, min(side, periods))
    return Choice(f"count{name}" if is_estimated else name, (side, side))


def reconsider(
    current: Choice,
    size: float,
    queries: float,
    periods: int,
    *,
    is_estimated: bool = False,
    is_probing_crucial: bool = False,
    many: float = MANY,
    large: float = LARGE,
) -> Choice | None:
    """Another technique that an archive should migrate to, None if it should stay.

    It goes only if what speaks for the other one speaks for it with borders twice as high and half as high,
    too.
    """
    wished = {
        choose(
            size,
            queries,
            periods,
            is_estimated=is_estimated,
            is_probing_crucial=is_probing_crucial,
            many=many * a,
            large=large * b,
        )
        for a in (1 / _RELUCTANCE, _RELUCTANCE)
        for b in (1 / _RELUCTANCE, _RELUCTANCE)
    }
    return wished.pop() if len(wished) == 1 and current not in wished else None
