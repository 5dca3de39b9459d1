"""Runs of random programs that are killed at any moment give what an undisturbed run gives, byte for byte.

`python -m sash.testing.chaos [--minutes M] [--seed N] [--spark SHARE] [--keep DIR]` takes program after
program of `programs.durable_programs`. Each runs undisturbed, inline and without a checkpoint; then again
with a checkpoint, divided otherwise or on Spark, where it is killed and started again, each time in a process
with another hash seed. It is killed at a file operation (also within a write), or after some time, also
before it has begun; on Spark, processes beside it are killed, too. Now and then a disk fails instead. In the
end all outputs are compared. Queries that are refreshed elastically answer other instants; each answer must
be that of its instant.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import random
import re
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow.parquet as pq
from hypothesis import HealthCheck, Phase, Verbosity, given, settings
from hypothesis import seed as seeded

from sash.archive import open_snapshot
from sash.testing.faults import ERRORS, KILL, Fault
from sash.testing.forks import ForkServer
from sash.testing.programs import durable_programs
from sash.testing.scenario import Scenario

# Processes of this many hash seeds take turns.
SERVERS = 3
PROGRAM, STATE, LOG, OPERATIONS, DEAD_LETTERS = "program.cql", "state", "log", "operations", "dead-letters"
_COMMON = ("--quiet", "--dead-letters", DEAD_LETTERS)
# Programs are drawn so many at a time; Hypothesis soon begins to vary those that it has.
_ROUND = 6
ELASTIC = "refresh = 'elastic'"
# A program is killed so often at most, and a run may take so many seconds on a busy machine.
MOST_KILLS = 8
_PATIENCE = 600.0
# How often a disk fails instead, and how often a run is killed by the clock and not at an operation.
_ERRORS, _BY_TIME = 0.15, 0.25


class Wrong(Exception):
    """A run that did not end as it should, or gave something else."""


@dataclass(frozen=True, slots=True)
class Example:
    """A program and how it is run: `partitions` None: operators are not divided."""

    scenario: Scenario
    runtime: str
    partitions: int | None
    batch_rows: int

    @property
    def options(self) -> list[str]:
        options = [*_COMMON, "--runtime", self.runtime, "--batch-rows", str(self.batch_rows)]
        if self.runtime == "spark":
            options += ["--master", "local[2]"]
        if self.partitions is not None:
            options += ["--partitions", str(self.partitions)]
        return options

    @property
    def undisturbed(self) -> list[str]:
        """As little as there can be between the input and the output."""
        return [*_COMMON, "--runtime", "inline", "--batch-rows", str(self.batch_rows)]

    def write(self, folder: Path, text: str) -> None:
        folder.mkdir(parents=True)
        (folder / PROGRAM).write_text(text, encoding="utf-8")
        for source in self.scenario.sources:
            source.write(folder)


def drawn(seed: int, count: int) -> list[Scenario]:
    """Random programs, the same for a seed in every process."""
    found: list[Scenario] = []

    @seeded(seed)
    @settings(
        max_examples=count,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        verbosity=Verbosity.quiet,
        suppress_health_check=list(HealthCheck),
    )
    @given(durable_programs())
    def draw(scenario: Scenario) -> None:
        if scenario.queries and scenario.text not in [other.text for other in found]:
            found.append(scenario)

    draw()
    # The first one is the simplest.
    return found[1:]


@dataclass(slots=True)
class Tally:
    """What was done: kills by how, and what else happened."""

    programs: int = 0
    refused: int = 0
    starts: int = 0
    kills: Counter[str] = field(default_factory=Counter)
    on_spark: int = 0
    errors: int = 0
    beside: int = 0
    failures: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        kills = ", ".join(f"{count} {how}" for how, count in sorted(self.kills.items()))
        return (
            f"{self.programs} programs ({self.refused} more refused), {self.starts} starts, "
            f"{self.kills.total()} kills ({kills or 'none'}; {self.on_spark} on Spark), "
            f"{self.beside} processes beside killed, "
            f"{self.errors} failures of the disk: {len(self.failures)} wrong"
        )


class Chaos:
    """Disturbs runs in folders below `directory`; what went wrong is kept in `keep`."""

    def __init__(
        self,
        directory: Path,
        seed: int,
        say: Callable[[str], None],
        *,
        spark: float = 0.0,
        keep: Path | None = None,
        as_bags: bool = False,
        most_kills: int = MOST_KILLS,
    ) -> None:
        self._directory = directory
        self._most_kills = most_kills
        self._seed = seed
        self._say = say
        self._spark = spark
        self._keep = keep
        self._as_bags = as_bags
        self._random = random.Random(seed)
        self._servers: list[ForkServer] = []
        self._turns: Iterator[ForkServer] = iter(())
        self.tally = Tally()

    def __enter__(self) -> Chaos:
        temporary = self._directory / "tmp"
        temporary.mkdir()
        seeds = [self._random.randrange(1 << 32) for _ in range(SERVERS)]
        self._servers = [ForkServer(each, temporary) for each in seeds]
        self._turns = itertools.cycle(self._servers)
        return self

    def __exit__(self, *_: object) -> None:
        for server in self._servers:
            server.close()

    def run(self, is_over: Callable[[Tally], bool]) -> Tally:
        """Program after program, until it is over."""
        for seed in itertools.count(self._seed * 1_000):
            for number, scenario in enumerate(drawn(seed, _ROUND)):
                if is_over(self.tally):
                    return self.tally
                self._take(f"{seed}-{number}", self._example(scenario))
        return self.tally

    def _example(self, scenario: Scenario) -> Example:
        chance = self._random
        is_spark = chance.random() < self._spark
        # From a handful of batches to dozens; on Spark each takes a while.
        batches = chance.randint(2, 6) if is_spark else chance.randint(2, 24)
        return Example(
            scenario,
            "spark" if is_spark else "inline",
            chance.choice((2, 3)) if is_spark else chance.choice((None, 1, 3)),
            max(1, -(-scenario.rows // batches)),
        )

    def _take(self, name: str, example: Example) -> None:
        folder = self._directory / name
        try:
            self.check(folder, example)
        except Wrong as wrong:
            self.tally.failures.append(name)
            self._say(f"{name}: {wrong}\n{example.options}\n{example.scenario.text}")
            if self._keep is not None:
                shutil.copytree(folder, self._keep / name, dirs_exist_ok=True)
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def check(self, folder: Path, example: Example) -> None:
        """Disturb one program; raises `Wrong`."""
        whole, disturbed = folder / "whole", folder / "disturbed"
        text = example.scenario.text
        example.write(whole, text.replace(ELASTIC, "refresh = 'exact'"))
        example.write(disturbed, text)
        code = self._start(whole, ["run", PROGRAM, *example.undisturbed]).wait()
        if code == 2:
            self.tally.refused += 1
            return
        if code != 0:
            raise Wrong(f"the undisturbed run ended with {code}\n{_log(whole)}")
        self.tally.programs += 1
        self._disturb(disturbed, ["run", PROGRAM, *example.options, "--checkpoint", STATE])
        different = compared(whole, disturbed, example.scenario, as_bags=self._as_bags)
        if different:
            raise Wrong(f"different: {', '.join(different)}\n{_log(disturbed)}")

    def _disturb(self, folder: Path, options: Sequence[str]) -> None:
        """Kill a run and start it again, some times, then leave it alone until its end."""
        chance, operations, seconds = self._random, 300, 3.0
        is_spark = "spark" in options
        for _ in range(chance.randint(1, self._most_kills)):
            before, started = self.tally.kills.total(), time.monotonic()
            if chance.random() < _BY_TIME:
                code = self._kill_in_time(folder, options, chance.uniform(0, seconds))
            else:
                # Rather too early than at the end: what is done is done.
                at = max(1, int(operations * chance.random() ** 1.5))
                what = chance.choice(list(ERRORS)) if chance.random() < _ERRORS else KILL
                code = self._fail_at(folder, options, what, at)
            self.tally.on_spark += (self.tally.kills.total() - before) * is_spark
            if code == 0:
                with suppress(OSError, ValueError):
                    operations = int((folder / OPERATIONS).read_text())
                if before == self.tally.kills.total() == 0:
                    # It had ended before it could be killed: all of it once more.
                    seconds = time.monotonic() - started
                    self._forget(folder)
                    continue
                return
        code = self._start(folder, options).wait()
        if code != 0:
            raise Wrong(f"the run that was left alone ended with {code}\n{_log(folder)}")

    def _fail_at(self, folder: Path, options: Sequence[str], what: str, at: int) -> int:
        """Start a run that meets a fault at a file operation; gives how it ended."""
        code = self._start(folder, options, Fault(what, at, OPERATIONS)).wait()
        if code == -signal.SIGKILL and what == KILL:
            self.tally.kills["at a file operation"] += 1
        elif code in (1, 2) and what != KILL:
            # Refused with a sentence of ours, or else something has burst.
            log = _log(folder)
            if "error[" not in log or "error[unexpected]" in log or "error[internal]" in log:
                raise Wrong(f"{what} at operation {at} ended with {code}\n{log}")
            self.tally.errors += 1
            (folder / LOG).unlink()
        elif code != 0:
            raise Wrong(f"a run with {what} at operation {at} ended with {code}\n{_log(folder)}")
        return code

    def _kill_in_time(self, folder: Path, options: Sequence[str], seconds: float) -> int:
        """Start a run and kill it after some time, on Spark also processes beside it."""
        run = self._start(folder, options)
        is_spark = "spark" in options
        # Spark has hardly started by then.
        end = time.monotonic() + (self._random.uniform(0, 25) if is_spark else seconds)
        while time.monotonic() < end and not run.has_ended:
            run.ended.wait(min(0.2, max(0.0, end - time.monotonic())))
            if is_spark and self._random.random() < 0.01:
                self._kill_beside(run.pid)
        if not run.has_ended:
            with suppress(ProcessLookupError):
                os.kill(run.pid, signal.SIGKILL)
        code = run.wait()
        if code == -signal.SIGKILL:
            self.tally.kills["by the clock"] += 1
        elif code != 0:
            raise Wrong(f"a run ended with {code}\n{_log(folder)}")
        return code

    def _kill_beside(self, driver: int) -> None:
        """Kill one of the Python processes that work for a run on Spark."""
        beside = [pid for pid in _descendants(driver) if _is_worker(pid)]
        if beside:
            with suppress(ProcessLookupError):
                os.kill(self._random.choice(beside), signal.SIGKILL)
                self.tally.beside += 1

    def _start(self, folder: Path, options: Sequence[str], fault: Fault | None = None) -> _Run:
        self.tally.starts += 1
        return _Run(next(self._turns), folder, options, fault)

    def _forget(self, folder: Path) -> None:
        """What a run has left, but for its input."""
        inputs = {PROGRAM, *(path.name for path in (folder.parent / "whole").glob("*.*") if _is_input(path))}
        for path in folder.iterdir():
            if path.name not in inputs:
                shutil.rmtree(path) if path.is_dir() else path.unlink()


class _Run:
    """A process that has been started; a thread waits for it."""

    def __init__(self, server: ForkServer, folder: Path, options: Sequence[str], fault: Fault | None) -> None:
        self.pid = server.start(options, folder, fault)
        self.ended = threading.Event()
        self._code = 1
        self._thread = threading.Thread(target=self._await, args=(server,))
        self._thread.start()

    def _await(self, server: ForkServer) -> None:
        self._code = server.wait()
        self.ended.set()

    @property
    def has_ended(self) -> bool:
        return self.ended.is_set()

    def wait(self) -> int:
        if not self.ended.wait(_PATIENCE):
            with suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)
            self._thread.join()
            raise Wrong(f"a run did not end within {_PATIENCE:.0f} s")
        self._thread.join()
        # What is left of it: Spark's JVM, workers, holders.
        for pid in _of_session(self.pid):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        return self._code


# ---------------------------------------------------------------------- comparing


def compared(whole: Path, disturbed: Path, scenario: Scenario, *, as_bags: bool = False) -> list[str]:
    """The outputs that differ. `as_bags`: the order of rows within an instant does not matter."""
    different = []
    program = scenario.program
    for query in program.queries:
        scheme, _, place = query.sink.partition(":")
        first, second = (list(_rows(scheme, folder / place)) for folder in (whole, disturbed))
        if ELASTIC in query.text:
            if scheme == "csv":
                # The names of columns are of no instant.
                first, second = first[1:], second[1:]
            if wrong := _untrue(first, second):
                different.append(f"{place}: {wrong}")
            continue
        if as_bags:
            first, second = _sorted_within_instants(first), _sorted_within_instants(second)
        if first != second:
            different.append(f"{place}: {_first_difference(first, second)}")
    for archive in program.archives:
        if _contents(whole / archive.sink) != _contents(disturbed / archive.sink):
            different.append(f"archive {archive.name}")
    for path in sorted((whole / DEAD_LETTERS).glob("*")):
        other = disturbed / DEAD_LETTERS / path.name
        if not other.exists() or _unplaced(other) != _unplaced(path):
            different.append(path.name)
    return different


Line = tuple[object, bytes]
"""A row of an output with its instant."""


def _rows(scheme: str, path: Path) -> Iterator[Line]:
    if not path.exists():
        return
    if scheme == "parquet":
        # Parts end where batches do; what counts are the rows.
        for part in sorted(path.glob("*.parquet")):
            for row in pq.read_table(part).to_pylist():
                yield row["ts"], repr(row).encode()
        return
    for line in path.read_bytes().splitlines(keepends=True):
        yield (json.loads(line)["ts"] if scheme == "jsonl" else _instant(line.split(b",", 1)[0])), line


def _instant(text: bytes) -> object:
    return int(text) if text.removeprefix(b"-").isdigit() else text


def _untrue(exact: Sequence[Line], elastic: Sequence[Line]) -> str:
    """What is wrong with the change log of a view that answers some of the instants of another one."""
    held = [Counter[bytes](), Counter[bytes]()]
    pending = list(exact)
    for instant, rows in itertools.groupby(elastic, key=lambda row: row[0]):
        _apply(held[1], (row for _, row in rows))
        while pending and pending[0][0] <= instant:
            _apply(held[0], [pending.pop(0)[1]])
        if held[0] != held[1]:
            return f"not what holds at {instant!r}: {held[1]} instead of {held[0]}"
    return ""


_OP = re.compile(rb"""(?:^[^,]*,|"op":"|'op': ')([+-])""")


def _apply(held: Counter[bytes], changes: Iterable[bytes]) -> None:
    """Change a relation by rows with an op, which are kept without op and instant."""
    for change in changes:
        op = _OP.search(change)
        if op is not None:
            held[change[op.end() :]] += 1 if op[1] == b"+" else -1
            if held[change[op.end() :]] == 0:
                del held[change[op.end() :]]


def _sorted_within_instants(rows: Iterable[Line]) -> list[Line]:
    groups = itertools.groupby(rows, key=lambda row: row[0])
    return [row for _, group in groups for row in sorted(group, key=lambda row: row[1])]


def _first_difference(first: Sequence[Line], second: Sequence[Line]) -> str:
    pairs = itertools.zip_longest(first, second)
    number, (one, other) = next((i, pair) for i, pair in enumerate(pairs) if pair[0] != pair[1])
    has_same_rows = _sorted_within_instants(first) == _sorted_within_instants(second)
    what = "only the order within an instant" if has_same_rows else f"{len(first)} rows, {len(second)} rows"
    return f"{what}; row {number}: {one and one[1]!r} and {other and other[1]!r}"


def _contents(archive: Path) -> tuple[int | None, list[str]]:
    with open_snapshot(archive) as snapshot:
        columns = [column.to_pylist() for column in snapshot.scan().columns]
        return snapshot.through, sorted(map(repr, zip(*columns, strict=True)))


def _unplaced(path: Path) -> list[str]:
    """Side rows without the folder that the run was in."""
    return path.read_text(encoding="utf-8").replace(str(path.parents[1]), "").splitlines()


def _is_input(path: Path) -> bool:
    return path.suffix in (".csv", ".parquet") and path.is_file() and path.name[0] in "sr"


def _log(folder: Path) -> str:
    with suppress(FileNotFoundError):
        return (folder / LOG).read_text(errors="replace")[-3_000:]
    return ""


# ---------------------------------------------------------------------- processes


def _is_worker(pid: int) -> bool:
    with suppress(OSError):
        command = Path(f"/proc/{pid}/cmdline").read_text()
        return any(f"-m\0sash.runtime.spark.{name}\0" in command for name in ("daemon", "holder"))
    return False


def _stats() -> Iterator[tuple[int, list[str]]]:
    """All processes with what is known of them, from the state on."""
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            yield int(path.parent.name), path.read_text().rpartition(")")[2].split()


def _descendants(pid: int) -> Iterator[int]:
    """All processes that come from one, also those in groups of their own."""
    children: dict[int, list[int]] = {}
    for each, stat in _stats():
        children.setdefault(int(stat[1]), []).append(each)
    waiting = [pid]
    while waiting:
        found = children.get(waiting.pop(), [])
        yield from found
        waiting.extend(found)


def _of_session(leader: int) -> list[int]:
    return [pid for pid, stat in _stats() if int(stat[3]) == leader and pid != leader]


# ---------------------------------------------------------------------- the command


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m sash.testing.chaos", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--kills", type=int, help="end after so many kills, if there is time")
    parser.add_argument("--seed", type=int, default=time.time_ns() % 1_000_000)
    parser.add_argument(
        "--spark", type=float, default=0.2, metavar="SHARE", help="of programs that run on Spark"
    )
    parser.add_argument("--keep", type=Path, metavar="DIR", help="copy what went wrong")
    parser.add_argument("--as-bags", action="store_true", help="any order of rows within an instant is right")
    given_ = parser.parse_args(arguments)
    end = time.monotonic() + 60 * given_.minutes

    def is_over(tally: Tally) -> bool:
        if tally.programs % 20 == 0 and tally.programs:
            say(str(tally))
        return time.monotonic() > end or (given_.kills is not None and tally.kills.total() >= given_.kills)

    def say(line: str) -> None:
        print(line, flush=True)

    say(f"{given_.minutes:g} minutes, seed {given_.seed}")
    fast = Path("/dev/shm")
    with ExitStack() as held:
        folder = held.enter_context(
            tempfile.TemporaryDirectory(prefix="sash-chaos-", dir=fast if fast.is_dir() else None)
        )
        chaos = held.enter_context(
            Chaos(
                Path(folder), given_.seed, say, spark=given_.spark, keep=given_.keep, as_bags=given_.as_bags
            )
        )
        tally = chaos.run(is_over)
    say(f"seed {given_.seed}: {tally}")
    return 1 if tally.failures else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
