"""What `CREATE INDEX … USING` can name: how basic windows are stored, what indexes values, what finds tuples.

    USING T                    a T-INDEX over LIST; T-INDEX is another way to write it
    USING H OVER HASH          an H-INDEX over HASH
    USING H(50)                an H-INDEX of 50 buckets; without a number they follow the values
    USING G(50)                a G-INDEX of 50 ranges over GROUP
    USING RING DB              rings with dirty bits on a T-INDEX
    USING RING BW ON H         backward-linked rings on an H-INDEX

A specification checks itself: which of them go together is 003, sections 5.1 to 5.4 and 6.
"""

from __future__ import annotations

import enum
import re
from dataclasses import dataclass
from typing import TypeVar

from sash.errors import BindError, UnknownName

E = TypeVar("E", bound=enum.Enum)


class Storage(enum.Enum):
    """How a basic window keeps the values of its tuples (003, 3.2)."""

    LIST = "LIST"
    AGGR = "AGGR"
    HASH = "HASH"
    GROUP = "GROUP"


class ValueIndexKind(enum.Enum):
    """How the values of a window and their counts are found (003, 5.1 to 5.4)."""

    L = "L"
    T = "T"
    H = "H"
    UH = "UH"
    G = "G"


class RingKind(enum.Enum):
    """How tuples of equal value are linked (003, 6)."""

    RING = "RING"
    AUX = "AUX"
    BW = "BW"
    DB = "DB"


@dataclass(frozen=True, slots=True)
class IndexSpec:
    """An index: `groups` are the ranges of a G-INDEX, `rings` is None where only values are indexed.

    `buckets` are those of an H-INDEX or UH-INDEX; None: as many as there are values.
    """

    values: ValueIndexKind = ValueIndexKind.T
    storage: Storage = Storage.LIST
    groups: int | None = None
    rings: RingKind | None = None
    buckets: int | None = None

    def __post_init__(self) -> None:
        is_grouped = self.values is ValueIndexKind.G
        if is_grouped and self.groups is None:
            raise _refused("a G-INDEX needs its number of ranges", hint="write G(50)")
        if not is_grouped and self.groups is not None:
            raise _refused(f"a {self.values.value}-INDEX has no ranges", hint="only G takes a number: G(50)")
        if self.buckets is not None and self.values not in (ValueIndexKind.H, ValueIndexKind.UH):
            raise _refused(
                f"a {self.values.value}-INDEX has no size", hint="G(ranges), H(buckets) and UH(buckets) do"
            )
        size = self.groups if is_grouped else self.buckets
        if size is not None and not 1 <= size <= _MOST:
            raise _refused(
                f"an index has from 1 to {_MOST:,} groups or buckets, not {size}", hint="write G(50)"
            )
        if is_grouped and self.storage not in (Storage.LIST, Storage.GROUP):
            raise _refused(f"a G-INDEX does not work over {self.storage.value}", hint="use LIST or GROUP")
        if not is_grouped and self.storage is Storage.GROUP:
            raise _refused("GROUP stores counts of ranges, and only a G-INDEX reads them", hint="use G(50)")
        if self.rings is not None and self.storage is not Storage.LIST:
            raise _refused("rings link tuples, and only LIST stores them", hint="leave OVER out")

    def __str__(self) -> str:
        size = self.groups or self.buckets
        values = self.values.value if size is None else f"{self.values.value}({size})"
        if self.rings is not None:
            kind = "RING" if self.rings is RingKind.RING else f"RING {self.rings.value}"
            return f"{kind} ON {values}"
        return f"{values} OVER {self.storage.value}"


_MOST = 1_000_000
_VALUES = r"(?P<values>[A-Z]+)(?:-INDEX)?(?:\((?P<size>\d+)\))?"
_VALUE_FORM = re.compile(rf"{_VALUES}(?: OVER (?P<storage>[A-Z]+))?")
_RING_FORM = re.compile(rf"(?:RING(?: (?!ON\b)(?P<rings>[A-Z]+))?|(?P<alone>AUX|BW|DB))(?: ON {_VALUES})?")


def read_index(words: str) -> IndexSpec:
    """The specification that stands after USING.

    >>> str(read_index("g(50)")), str(read_index("ring db"))
    ('G(50) OVER GROUP', 'RING DB ON T')
    """
    text = re.sub(r"\s*([()])\s*", r"\1", " ".join(words.upper().split())).replace(")O", ") O")
    found = _RING_FORM.fullmatch(text) or _VALUE_FORM.fullmatch(text)
    if found is None:
        raise BindError(
            f"'{words}' is no kind of index",
            expected="AUTO; T, H, UH, L or G(ranges), with OVER LIST | AGGR | HASH | GROUP; "
            "or RING [AUX | BW | DB] [ON T | H | UH | L | G(ranges)]",
            id="index-kind",
        )
    part = found.groupdict()
    values = _one_of(ValueIndexKind, "value index", part["values"] or "T")
    size = None if part["size"] is None else int(part["size"])
    groups, buckets = (size, None) if values is ValueIndexKind.G else (None, size)
    if found.re is _RING_FORM:
        rings = _one_of(RingKind, "ring", part["rings"] or part["alone"] or "RING")
        return IndexSpec(values, Storage.LIST, groups, rings, buckets)
    usual = Storage.GROUP if values is ValueIndexKind.G else Storage.LIST
    storage = usual if part["storage"] is None else _one_of(Storage, "storage", part["storage"])
    return IndexSpec(values, storage, groups, buckets=buckets)


def _one_of(kind: type[E], what: str, name: str) -> E:
    known = {member.value: member for member in kind}
    if name not in known:
        raise UnknownName(f"kind of {what}", name, known)
    return known[name]


def _refused(message: str, hint: str) -> BindError:
    return BindError(message, hint=hint, id="index-kind")
