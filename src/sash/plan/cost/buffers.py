"""State buffers and what it costs to maintain them, per second (002, sections 2.3.3, 3.5.2 and 5.2.3).

The unit of work is one tuple touched: compared, hashed, inserted or deleted. In a steady state a buffer
loses as many tuples as it gains. n is its size, λ its insertions and μ the negative tuples it receives
per second.

| buffer   | for                               | insert and expire            | a negative tuple |
|----------|-----------------------------------|------------------------------|------------------|
| APPEND   | MON                               | λ                            |                  |
| FIFO     | WKS, also under DIRECT            | 2λ                           |                  |
| CALENDAR | WK and STR under UPA              | eager λ(2 + n/2k) + k/life,  | n: all           |
|          |                                   | lazy λ(1 + max(1, 1/(k·5%))) | partitions       |
| LIST     | WK and STR under DIRECT           | λ + checks · n               | n                |
| HASH     | all expirations announced (NT)    | 2λ                           | 2                |
| ARRAY    | values that replace those before  | λ                            |                  |

A calendar queue of k partitions is sorted within a partition where expiration is eager: an insertion
passes half a partition, and the queue turns k pages in a lifetime. Lazy expiration looks through the
partitions that are due.

Lazy expiration happens every `LAZY_INTERVAL` of a lifetime (3.6.1 sets it to five percent of the window).
Eager expiration looks at every arrival (3.6.1), and not more often than the window slides.
"""

from __future__ import annotations

import enum
import math
from dataclasses import dataclass

from sash.plan.patterns import Pattern

LAZY_INTERVAL = 0.05
PARTITION_TUPLES = 4
MIN_PARTITIONS = 10
MAX_PARTITIONS = 1 << 16


class Strategy(enum.Enum):
    """How expired tuples are found.

    UPA: by update patterns; negative tuples only where nothing else will do (002, 3.5).
    NT: a negative tuple for every expiration, processed by every operator, over hashed state (2.3.3).
    DIRECT: expiration timestamps; state is scanned on expiry unless it is first in, first out (2.3.3).
    """

    UPA = "upa"
    NT = "nt"
    DIRECT = "direct"


class BufferKind(enum.Enum):
    APPEND = "append"
    FIFO = "fifo"
    CALENDAR = "calendar queue"
    LIST = "list"
    HASH = "hash table"
    ARRAY = "array"


@dataclass(frozen=True, slots=True)
class Buffer:
    """A state buffer: its kind, live tuples, partitions (calendar queue) and work per second.

    `negative` is the part of the work that negative tuples cause.
    """

    kind: BufferKind
    size: float
    maintenance: float = 0.0
    negative: float = 0.0
    partitions: int | None = None


def calendar_partitions(size: float) -> int:
    """How many partitions keep a partition at `PARTITION_TUPLES` tuples.

    Under eager expiration an insertion passes half a partition, so a number that is fixed while results
    grow makes insertion linear: in 002 (3.6.2) ten partitions became very slow where fifty were up to an
    order of magnitude faster than negative tuples. A partition costs a pointer and one visit a lifetime,
    which is little beside that. At least 10, the default of 3.6.1; at most 65,536.

    >>> calendar_partitions(20), calendar_partitions(2_000), calendar_partitions(1e9)
    (10, 500, 65536)
    """
    return max(MIN_PARTITIONS, min(MAX_PARTITIONS, math.ceil(size / PARTITION_TUPLES)))


@dataclass(frozen=True, slots=True)
class Load:
    """What a buffer has to bear: tuples per second in, negative tuples per second, and checks for expiry."""

    inserts: float
    negatives: float = 0.0
    checks: float = 0.0

    def lifetime(self, size: float) -> float:
        """How long a tuple stays on average (Little's law)."""
        return size / self.inserts if self.inserts else math.inf


def choose_buffer(
    pattern: Pattern,
    strategy: Strategy,
    size: float,
    load: Load,
    *,
    is_announced: bool,
    is_eager: bool,
    partitions: int | None = None,
) -> Buffer:
    """The buffer that a strategy keeps for rows of a pattern, and its cost (3.5.2).

    `is_announced`: every expiration comes as a negative tuple.
    """
    if is_announced:
        return hash_table(size, load)
    if pattern is Pattern.MON:
        return Buffer(BufferKind.APPEND, size, load.inserts)
    if pattern is Pattern.WKS:
        return Buffer(BufferKind.FIFO, size, 2 * load.inserts)
    if strategy is Strategy.UPA:
        return calendar_queue(size, load, is_eager=is_eager, partitions=partitions)
    return scanned_list(size, load, is_eager=is_eager)


def hash_table(size: float, load: Load) -> Buffer:
    """State hashed on the tuple, so that a negative tuple finds it at once (2.3.3)."""
    return Buffer(BufferKind.HASH, size, 2 * load.inserts, 2 * load.negatives)


def calendar_queue(size: float, load: Load, *, is_eager: bool, partitions: int | None = None) -> Buffer:
    """State partitioned by expiration time (3.5.2)."""
    count = calendar_partitions(size) if partitions is None else partitions
    if is_eager:
        work = load.inserts * (2 + size / (2 * count)) + count / max(load.lifetime(size), 1e-6)
    else:
        work = load.inserts * (1 + max(1.0, 1 / (count * LAZY_INTERVAL)))
    return Buffer(BufferKind.CALENDAR, size, work, load.negatives * size, count)


def scanned_list(size: float, load: Load, *, is_eager: bool) -> Buffer:
    """State in the order of arrival, read from end to end to find what has expired (2.3.3)."""
    lifetime = load.lifetime(size)
    checks = load.checks if is_eager else min(load.checks, 1 / max(LAZY_INTERVAL * lifetime, 1e-6))
    return Buffer(BufferKind.LIST, size, load.inserts + checks * size, load.negatives * size)
