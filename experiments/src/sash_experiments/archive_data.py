"""Results with lifetimes to fill archives with (002, section 4.4.1; 000, section 5.1).

Tuples of about 1,000 bytes: a key of 100 values, a text. A window is rolled over by 36 updates. Lifetimes are
uniform up to the window, so half of the tuples of a window are alive; `live` is how many that are.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sash.archive import BORN, DIES, ArchiveSpec, Update, guess_deaths
from sash.archive.estimates import ArrivalRate
from sash.lang.types import Column, Schema, Type

Ints = npt.NDArray[np.int64]
Doubles = npt.NDArray[np.float64]

PERIODS = 36
EVERY = 1_000_000
SPAN = PERIODS * EVERY
KEYS = 100
_TEXT = 976
_POSITION = "position"
_STEP = 1_000_000_000

_COLUMNS = Schema((Column("k", Type.BIGINT), Column("text", Type.STRING)))
SPEC = ArchiveSpec(_COLUMNS, ("k",), EVERY, SPAN)
STRICT_SPEC = ArchiveSpec(_COLUMNS, ("k",), EVERY, SPAN, is_strict=True)
COUNT_SPEC = ArchiveSpec(_COLUMNS, ("k",), EVERY, SPAN, is_estimated=True, positions=(_POSITION,))

CONSTANT, FLUCTUATING, ALTERNATING = "constant", "fluctuating", "alternating"


@dataclass(frozen=True, slots=True)
class Feed:
    """Updates with `live` tuples alive on average; the rate varies by up to a factor of four, or does not."""

    live: int
    rate: str = CONSTANT
    updates: int = PERIODS
    seed: int = 1

    def weights(self) -> Doubles:
        """How many tuples each interval has, compared with the average."""
        intervals = PERIODS + self.updates
        if self.rate == CONSTANT:
            return np.ones(intervals)
        if self.rate == ALTERNATING:
            drawn: Doubles = np.where(np.arange(intervals) % 2 == 0, 1.0, 4.0)
        else:
            drawn = np.random.default_rng([self.seed, 0]).uniform(1.0, 4.0, intervals)
        shares: Doubles = drawn / drawn.mean()
        return shares

    def batches(self) -> Iterator[Update]:
        """What fills the window up to the instant 0, then the updates."""
        sizes = np.round(2 * self.live / PERIODS * self.weights()).astype(np.int64)
        born = np.repeat(np.arange(-PERIODS, self.updates) * EVERY, sizes)
        rng = np.random.default_rng([self.seed, 1])
        born += rng.integers(1, EVERY, len(born), endpoint=True)
        dies = born + rng.integers(1, SPAN, len(born), endpoint=True)
        ends = np.cumsum(sizes)
        edges = self._edges()
        begin = 0
        for batch, edge in enumerate(edges):
            end, through = int(ends[edge - 1]), (edge - PERIODS) * EVERY
            # What dies before the window is full would be written for nothing.
            live = begin + np.flatnonzero(dies[begin:end] > max(0, through))
            yield Update(batch, through, self._rows(born[live], dies[live], batch))
            begin = end

    def counted(self) -> Iterator[Update]:
        """Results of a window of rows: they leave when enough tuples have arrived, which is guessed."""
        sizes = np.round(2 * self.live / PERIODS * self.weights()).astype(np.int64)
        window = int(sizes[:PERIODS].sum())
        rng = np.random.default_rng([self.seed, 2])
        rate = ArrivalRate(memory=0.0)
        edges = self._edges()
        waiting: list[pa.Table] = []
        arrived = batch = 0
        for interval, size in enumerate(sizes.tolist()):
            number = interval - PERIODS + 1
            born = (number - 1) * EVERY + np.sort(rng.integers(1, EVERY, size, endpoint=True))
            rate.observe(size, EVERY)
            # A result's oldest part stands anywhere in the window.
            position = arrived + np.arange(size) - rng.integers(0, window, size)
            arrived += size
            dies = guess_deaths(born, position + window - (arrived - size + np.arange(size)), rate, SPAN)
            live = position >= max(0, arrived - window)
            rows = self._rows(born[live], dies[live], interval)
            waiting.append(rows.append_column(_POSITION, pa.array(position[live])))
            if interval + 1 in edges:
                floors = {_POSITION: arrived - window}
                yield Update(batch, number * EVERY, pa.concat_tables(waiting), floors=floors)
                waiting = []
                batch += 1

    def _edges(self) -> list[int]:
        """After how many intervals there is an update.

        The window is filled at once, but one table cannot take gigabytes of text: a large one is in steps.
        """
        steps = min(PERIODS, max(1, -(-2 * self.live * (_TEXT + 24) // _STEP)))
        filling = np.linspace(0, PERIODS, steps + 1).astype(int)[1:].tolist()
        return [*filling, *range(PERIODS + 1, PERIODS + self.updates + 1)]

    def _rows(self, born: Ints, dies: Ints, number: int) -> pa.Table:
        rng = np.random.default_rng([self.seed, 3, number])
        rows = len(born)
        # Eight of 64 characters at a time: text of many gigabytes is made faster than it is written.
        letters = rng.integers(0, 1 << 63, rows * _TEXT // 8, dtype=np.uint64)
        letters &= np.uint64(0x3F3F3F3F3F3F3F3F)
        letters += np.uint64(0x3030303030303030)
        offsets = np.arange(0, (rows + 1) * _TEXT, _TEXT, dtype=np.int64)
        buffers = [None, pa.py_buffer(offsets), pa.py_buffer(letters)]
        text = pa.Array.from_buffers(pa.large_string(), rows, buffers)
        keys = pa.array(rng.integers(0, KEYS, rows))
        return pa.table({"k": keys, "text": text, BORN: pa.array(born), DIES: pa.array(dies)})
