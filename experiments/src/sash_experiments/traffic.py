"""Packets of outgoing links, as the experiments of 002, section 3.6 want them.

The trace of those experiments is one stream cut into links by destination, with about one packet a link and
time unit; its packets have a duration, a protocol, a size, a source and a destination. What decides the
experiments is made here with numbers instead of being found in a trace:

- `PROTOCOLS`: with the share of ftp the join of two links of 2,000 sources has as many results as a window of
  200,000 time units has packets, and with that of telnet ten times as many;
- a link's sources are a range of addresses, some busier than others (`skew`, a Zipf exponent); links have
  those sources in common that lie in both ranges;
- each source talks to `partners` destinations, so pairs are up to that many times as frequent as sources.

Packets of a link depend on the link and the seed alone. Time is whole units; several packets may share one.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

PROTOCOLS = {"nntp": 0.31, "smtp": 0.26, "telnet": 0.22, "ftp": 0.07, "http": 0.08, "finger": 0.06}
COLUMNS = "ts BIGINT, duration DOUBLE, proto STRING, length BIGINT, src BIGINT, dst BIGINT"
_SPREAD = 1_000_003


@dataclass(frozen=True, slots=True)
class Link:
    """Who sends on a link: addresses from `first` on, `sources` of them, each to `partners` destinations."""

    sources: int = 2_000
    first: int = 0
    skew: float = 0.5
    partners: int = 10
    rate: float = 1.0


def packets(link: Link, units: int, seed: int) -> pa.Table:
    """The packets of a link in the time units 1 to `units`, in the order of time."""
    random = np.random.Generator(np.random.Philox(key=seed))
    count = round(link.rate * units)
    shares = np.arange(1, link.sources + 1, dtype=np.float64) ** -link.skew
    running = np.cumsum(shares / shares.sum())
    rank = np.minimum(np.searchsorted(running, random.random(count)), link.sources - 1)
    # An address is as busy on every link with the same sources; busy ones lie anywhere in the range.
    order = np.random.Generator(np.random.Philox(key=link.sources)).permutation(link.sources)
    src = link.first + order[rank]
    partner = random.integers(0, link.partners, count)
    names = list(PROTOCOLS)
    bounds = np.cumsum(list(PROTOCOLS.values()))
    proto = np.minimum(np.searchsorted(bounds, random.random(count), side="right"), len(names) - 1)
    return pa.table(
        {
            "ts": np.sort(random.integers(1, units + 1, count)),
            "duration": np.round(random.exponential(10.0, count), 3),
            "proto": pa.array(names).take(pa.array(proto)),
            "length": random.integers(40, 1501, count),
            "src": src,
            "dst": (src * _SPREAD + partner) % (1 << 31),
        }
    )
