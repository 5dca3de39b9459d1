"""Random programs for as long as one likes, against the oracle; every wrong answer becomes a case to keep.

An example is a program with its input and a way to run it. Examples come in rounds, each with a seed of its
own; Hypothesis and `reduce` make the first failure of a round small, and the next round goes on. Whatever a
run raises is a failure, too, but only the first of its kind is kept.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import sys
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from hypothesis import HealthCheck, Phase, Verbosity, given, seed, settings
from hypothesis import strategies as st

from sash.testing.programs import programs
from sash.testing.reduce import Example, failure_of, kind_of, reduced

ROUND = 100
# Each process has so many seeds of its own.
SEEDS = 100_000


@st.composite
def examples(draw: st.DrawFn) -> Example:
    scenario = draw(programs())
    batch_rows = draw(st.integers(1, max(1, scenario.rows)))
    stops = st.lists(st.integers(1, 3), max_size=3).map(tuple)
    interruptions = draw(st.one_of(st.none(), st.none(), stops))
    return Example(scenario, batch_rows, interruptions, draw(st.sampled_from((None, None, 1, 2, 5))))


@dataclass(slots=True)
class Soak:
    """Counts examples and keeps failures as cases in `directory`."""

    directory: Path
    say: Callable[[str], None]
    examples: st.SearchStrategy[Example]
    clock: Callable[[], float] = time.monotonic
    count: int = 0
    failures: list[Path] = field(default_factory=list)
    repeated: Counter[str] = field(default_factory=Counter)
    _kinds: set[str] = field(default_factory=set)

    def run(self, minutes: float, first_seed: int) -> None:
        start = self.clock()
        end = start + 60 * minutes
        number = first_seed
        while self.clock() < end:
            self._round(number, end)
            rate = self.count / max(self.clock() - start, 1e-9)
            left = max(0, round(end - self.clock()))
            failed = f"{len(self.failures)} failures and {self.repeated.total()} like them"
            self.say(
                f"{self.count} examples, {rate:.1f} a second, {failed}, seed {number}, "
                f"{left // 60}:{left % 60:02d} left"
            )
            number += 1

    def _round(self, number: int, end: float) -> None:
        failing: list[tuple[Example, Exception]] = []

        @seed(number)
        @settings(
            max_examples=ROUND,
            deadline=None,
            database=None,
            report_multiple_bugs=False,
            phases=(Phase.generate, Phase.shrink),
            suppress_health_check=list(HealthCheck),
            verbosity=Verbosity.quiet,
        )
        @given(example=self.examples)
        def one_round(example: Example) -> None:
            if not failing and self.clock() > end:
                return
            self.count += 1
            error = failure_of(example)
            if error is None:
                return
            kind = kind_of(error)
            if kind in self._kinds:
                self.repeated[kind] += 1
            # While it is made smaller an example must not turn into another failure.
            elif not failing or kind_of(failing[-1][1]) == kind:
                failing.append((example, error))
                raise error

        try:
            one_round()
        except Exception:
            if not failing:
                raise
            self.failures.append(self._keep(*failing[-1], number))

    def _keep(self, example: Example, error: Exception, number: int) -> Path:
        kind = kind_of(error)
        if not isinstance(error, AssertionError):
            self._kinds.add(kind)

        def fails_alike(other: Example) -> bool:
            found = failure_of(other)
            return found is not None and kind_of(found) == kind

        small = reduced(example, fails_alike)
        reason = f"{kind}: {(str(failure_of(small) or error).splitlines() or [''])[0]}"
        case = small.scenario.case(
            f"Found by make soak, seed {number}: {reason}",
            batch_rows=small.batch_rows,
            interruptions=small.interruptions,
            partitions=small.partitions,
        )
        # A program that cannot be bound, or that the oracle fails on, is kept as it is.
        with contextlib.suppress(Exception):
            case = case.recomputed()
        digest = hashlib.sha256(repr((case.text, sorted(case.inputs.items()))).encode()).hexdigest()
        path = self.directory / f"soak_{digest[:10]}.case"
        case.write(path)
        self.say(f"wrong: {path}\n  {reason}")
        return path


def main(arguments: list[str]) -> int:
    """`python -m sash.testing.soak MINUTES [SEED]`; cases go to tests/regressions."""
    minutes = float(arguments[0]) if arguments else 10.0
    first_seed = int(arguments[1]) if len(arguments) > 1 else time.time_ns() % 1_000_000
    directory = Path("tests/regressions")
    directory.mkdir(parents=True, exist_ok=True)
    cores = os.cpu_count() or 1
    print(f"random programs for {minutes:g} minutes, seeds from {first_seed}, {cores} processes", flush=True)
    with ProcessPoolExecutor(cores) as pool:
        seeds = [first_seed + SEEDS * core for core in range(cores)]
        done = list(pool.map(_soak, [directory] * cores, [minutes] * cores, seeds))
    count, failures = (sum(each) for each in zip(*done, strict=True))
    print(f"in all {count:,} examples, {failures} failures", flush=True)
    return 1 if failures else 0


def _soak(directory: Path, minutes: float, first_seed: int) -> tuple[int, int]:
    """Examples and failures of one process."""
    soak = Soak(directory, lambda line: print(line, flush=True), examples())
    soak.run(minutes, first_seed)
    return soak.count, len(soak.failures)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
