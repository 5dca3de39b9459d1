"""Windows of the experiments of 003, section 7: their tuples, windows without an index, races between them.

Values are drawn uniformly or by a power law (the i-th value 1/i as often as the first). Windows are full
from the start. All variants go through a round of slides before the next round begins; the fastest round
counts. Times are of the processor, so other work on the machine hardly counts.
"""

from __future__ import annotations

import gc
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sash.indexes.aggr_storage import runs
from sash.indexes.h_index import HIndex
from sash.indexes.purging import Purging
from sash.indexes.storage import BasicWindowStorage
from sash.indexes.value_index import ValueIndex
from sash.indexes.value_window import Upkeep, ValueWindow

Ints = npt.NDArray[np.int64]
UNIFORM, POWER_LAW = "uniform", "power"
INT = pa.int64()


@dataclass(frozen=True, slots=True)
class Setting:
    """A window of `tuples` with `values` different ones, in `basic_windows`."""

    distribution: str
    values: int
    basic_windows: int
    tuples: int = 100_000

    @property
    def each(self) -> int:
        return self.tuples // self.basic_windows


def refresh_settings(tuples: int, values: Sequence[int], basic_windows: Sequence[int]) -> Iterator[Setting]:
    """Windows that are refreshed with every basic window."""
    for distribution in (UNIFORM, POWER_LAW):
        for different in values:
            for count in basic_windows:
                yield Setting(distribution, different, count, tuples)


def drawn(setting: Setting, count: int, seed: int) -> Ints:
    """So many values of the stream."""
    random = np.random.Generator(np.random.Philox(key=seed))
    if setting.distribution == UNIFORM:
        return random.integers(0, setting.values, count)
    shares = 1 / np.arange(1, setting.values + 1)
    running = np.cumsum(shares / shares.sum())
    # Frequent values lie anywhere among the others.
    order = np.random.Generator(np.random.Philox(key=setting.values)).permutation(setting.values)
    return order[np.minimum(np.searchsorted(running, random.random(count)), setting.values - 1)]


def repeats(setting: Setting) -> float:
    """Tuples of equal value in a basic window, on average."""
    values = drawn(setting, 20 * setting.each, seed=1).reshape(20, -1)
    return setting.each / float(np.mean([len(np.unique(each)) for each in values]))


@dataclass(frozen=True, slots=True)
class Input:
    """What a window is filled with, and the rounds after that; a round is a list of basic windows."""

    fill: Sequence[pa.Array]
    rounds: Sequence[Sequence[pa.Array]]
    tuples: int


def input_of(setting: Setting, round_tuples: int, rounds: int, seed: int = 2) -> Input:
    slides = max(2, round_tuples // setting.each)
    values = drawn(setting, setting.tuples + (rounds + 1) * slides * setting.each, seed)
    basic = [pa.array(values[i : i + setting.each]) for i in range(0, len(values), setting.each)]
    fill, rest = basic[: setting.basic_windows], basic[setting.basic_windows :]
    return Input(fill, [rest[i : i + slides] for i in range(0, len(rest), slides)], slides * setting.each)


def filled(
    setting: Setting, index: ValueIndex, storage: BasicWindowStorage, fill: Sequence[pa.Array], side: int = 0
) -> ValueWindow:
    """A full window. It is filled in one go, because a list takes long to fill one by one.

    Values without tuples are purged five times while the window rolls over once, as published.
    """
    upkeep = Upkeep(index, Purging(tuples=max(1, setting.tuples // 5)))
    window = ValueWindow(index, storage, setting.basic_windows, side=side, upkeep=upkeep)
    quick = ValueWindow(HIndex(INT), storage, setting.basic_windows) if index.is_exact else window
    for values in fill:
        quick.slide(values)
    if quick is not window:
        window.restore(quick.snapshot())
    return window


class Unindexed:
    """LIST and nothing else: tuples are kept, and the window is sorted when it is asked."""

    def __init__(self, fill: Sequence[pa.Array]) -> None:
        self._held = deque((values.to_numpy() for values in fill), maxlen=len(fill))

    def slide(self, values: pa.Array) -> None:
        self._held.append(np.array(values.to_numpy()))

    def window(self) -> Ints:
        return np.concatenate(self._held)

    def histogram(self) -> tuple[Ints, Ints]:
        return runs(np.sort(self.window()))

    def median_and_distinct(self) -> tuple[int, int]:
        """Both from one sort, which is faster than NumPy's `median` and `unique`."""
        ordered = np.sort(self.window())
        differs = np.count_nonzero(ordered[1:] != ordered[:-1])
        return int(ordered[(len(ordered) - 1) // 2]), 1 + int(differs)


class UnindexedAggr:
    """AGGR and nothing else: basic windows are merged when the window is asked."""

    def __init__(self, fill: Sequence[pa.Array]) -> None:
        self._held: deque[tuple[Ints, Ints]] = deque(maxlen=len(fill))
        for values in fill:
            self.slide(values)

    def slide(self, values: pa.Array) -> None:
        self._held.append(runs(np.sort(values.to_numpy())))

    def histogram(self) -> tuple[Ints, Ints]:
        values = np.concatenate([values for values, _ in self._held])
        counts = np.concatenate([counts for _, counts in self._held])
        # A stable sort merges what is sorted already.
        order = np.argsort(values, kind="stable")
        once, lengths = runs(values[order])
        begins = np.cumsum(lengths) - lengths
        return once, np.add.reduceat(counts[order], begins)


Slide = Callable[[pa.Array], object]


def race(variants: Mapping[str, Slide], given: Input) -> dict[str, float]:
    """Microseconds per tuple of each variant, in its fastest round after the first."""
    best = dict.fromkeys(variants, float("inf"))
    gc.collect()
    for number, slides in enumerate(given.rounds):
        for name, slide in variants.items():
            began = time.process_time()
            for values in slides:
                slide(values)
            spent = time.process_time() - began
            # The first round loads what is compiled and grows what must grow.
            if number:
                best[name] = min(best[name], 1e6 * spent / given.tuples)
    return best
