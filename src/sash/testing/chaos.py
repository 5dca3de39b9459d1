"""A run that is killed again and again, at any moment, gives what an undisturbed one gives.

`python -m sash.testing.chaos [KILLS] [SEED] [RUNTIME]` runs a program with a join, a NOT EXISTS, a DISTINCT,
a window of ROWS and twenty periodic aggregates on Spark, kills it with SIGKILL at random moments, starts it
again each time, and kills Python processes beside Spark (workers, and holders of state) while it runs. In
the end it compares all output with that of a run that nobody disturbed.
"""

from __future__ import annotations

import itertools
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

_PACKETS = """
CREATE STREAM {name} (ts TIMESTAMP, src STRING, port BIGINT, length BIGINT)
  TIMESTAMP BY ts SLACK 1 SEC FROM 'generator:packets'
  WITH (rate = 200, rows = {rows}, hosts = 40, disorder = 0.8, late_share = 0.001, seed = {seed});
"""
_CONTINUOUS = {
    "joined": "SELECT a.src, a.length, b.port FROM a [RANGE 4 SEC], b [RANGE 4 SEC] "
    "WHERE a.src = b.src AND a.port < b.port AND a.length > 1400",
    "missing": "SELECT src, length FROM a [RANGE 10 SEC] "
    "WHERE length > 1200 AND NOT EXISTS (SELECT * FROM b [RANGE 2 SEC] WHERE a.src = b.src)",
    "ports": "SELECT DISTINCT port FROM a [RANGE 5 SEC]",
    "recent": "SELECT src, COUNT(*) AS n FROM b [ROWS 200] GROUP BY src",
}
_AGGREGATES = ("COUNT(*)", "SUM(length)", "MAX(length)", "AVG(length)")
_WINDOWS = ((10, 2), (20, 5), (30, 10), (60, 10), (15, 3))
# A run is killed after so many batches at most, and some are killed while they start, within so many seconds.
_MOST_BATCHES = 6
_STARTING = 15.0
_EARLY_SHARE = 0.2


def program(out: str, rows: int) -> str:
    """The program; its output goes to the folder `out`."""
    parts = [_PACKETS.format(name=name, rows=rows, seed=seed) for seed, name in enumerate("ab")]
    for name, text in _CONTINUOUS.items():
        parts.append(f"CREATE QUERY {name} INTO 'jsonl:{out}/{name}.jsonl' AS {text};\n")
    for number, (aggregate, (range_, slide)) in enumerate(itertools.product(_AGGREGATES, _WINDOWS)):
        # Of one stream the groups are with the driver, of the other in partitions.
        stream, option = (("a", ""), ("b", " WITH (state = 'partitioned')"))[number % 2]
        parts.append(
            f"CREATE QUERY p{number} INTO 'jsonl:{out}/p{number}.jsonl' AS SELECT src, {aggregate} AS v "
            f"FROM {stream} [RANGE {range_} SEC SLIDE {slide} SEC] GROUP BY src{option};\n"
        )
    return "".join(parts)


@dataclass(slots=True)
class Chaos:
    """`kills` of the whole run are wanted; `hits` counts processes beside it that were killed."""

    directory: Path
    kills: int
    seed: int
    say: Callable[[str], None]
    runtime: str = "spark"
    rows: int = 60_000
    hits: int = 0
    starts: int = 0
    _random: random.Random = field(init=False)

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)

    def run(self) -> bool:
        """Whether the disturbed run gave what the undisturbed one gave."""
        self._write("whole")
        self._write("disturbed")
        self.say("an undisturbed run")
        whole = self._start("whole", "--runtime", "inline")
        if whole.wait() != 0:
            raise RuntimeError("the undisturbed run failed")
        done = 0
        while done < self.kills:
            if not self._disturb():
                # It came to its end: all of it once more, with what is left to kill.
                self._compare_or_raise()
                self._forget()
                continue
            done += 1
            self.say(f"killed {done} of {self.kills}, {self._batches()} batches committed")
        self.say("left alone until its end")
        last = self._start("disturbed", *self._options())
        if last.wait() != 0:
            raise RuntimeError("the run that was left alone failed")
        return self._is_equal()

    def _disturb(self) -> bool:
        """Let a run work for a while, killing a process beside it now and then, and kill it.

        False: it came to its end before.
        """
        is_early = self._random.random() < _EARLY_SHARE
        batches = self._batches() + (1_000_000 if is_early else self._random.randint(0, _MOST_BATCHES))
        moment = time.monotonic() + self._random.uniform(0, _STARTING) if is_early else None
        run = self._start("disturbed", *self._options())
        while self._batches() < batches and (moment is None or time.monotonic() < moment):
            time.sleep(0.1)
            if run.poll() is not None:
                if run.returncode != 0:
                    raise RuntimeError(f"a disturbed run failed with code {run.returncode}")
                return False
            if self._random.random() < 0.01:
                self._hit(run.pid)
        # Anywhere in a batch.
        time.sleep(self._random.uniform(0, 1.5))
        run.send_signal(signal.SIGKILL)
        run.wait()
        return True

    def _hit(self, driver: int) -> None:
        """Kill one of the Python processes that work for a run."""
        beside = [pid for pid in _descendants(driver) if _is_worker(pid)]
        if beside:
            with suppress(ProcessLookupError):
                os.kill(self._random.choice(beside), signal.SIGKILL)
                self.hits += 1

    # ---------------------------------------------------------------- files

    def _write(self, name: str) -> None:
        (self.directory / f"{name}.cql").write_text(program(name, self.rows))

    def _options(self) -> tuple[str, ...]:
        options = ("--checkpoint", "state", "--batch-rows", str(self.rows // 20), "--runtime", self.runtime)
        return (*options, "--master", "local[2]")

    def _start(self, name: str, *options: str) -> subprocess.Popen[bytes]:
        self.starts += 1
        command = [sys.executable, "-m", "sash", "run", f"{name}.cql", "--quiet", *options]
        with open(self.directory / "log", "ab") as log:
            return subprocess.Popen(command, cwd=self.directory, stdout=log, stderr=log)

    def _batches(self) -> int:
        try:
            return int(json.loads((self.directory / "state" / "manifest.json").read_text())["batch"]) + 1
        except FileNotFoundError:
            return 0

    def _forget(self) -> None:
        for name in ("state", "disturbed"):
            subprocess.run(["rm", "-rf", str(self.directory / name)], check=True)

    def _compare_or_raise(self) -> None:
        if not self._is_equal():
            raise RuntimeError("a disturbed run gave something else")

    def _is_equal(self) -> bool:
        different = []
        for path in sorted((self.directory / "whole").iterdir()):
            given = self.directory / "disturbed" / path.name
            if not given.exists() or _sorted(given) != _sorted(path):
                different.append(path.name)
        if different:
            self.say(f"different: {', '.join(different)}")
        return not different


def _sorted(path: Path) -> list[str]:
    """The lines of an output, those of one instant in order."""
    lines = path.read_text().splitlines()
    groups = itertools.groupby(lines, key=lambda line: json.loads(line)["ts"])
    return [line for _, group in groups for line in sorted(group)]


def _is_worker(pid: int) -> bool:
    with suppress(OSError):
        command = Path(f"/proc/{pid}/cmdline").read_text()
        return any(f"-m\0sash.runtime.spark.{name}\0" in command for name in ("daemon", "holder"))
    return False


def _descendants(pid: int) -> Iterator[int]:
    """All processes that come from one, also those in groups of their own."""
    children: dict[int, list[int]] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            fields = path.read_text().rpartition(")")[2].split()
            children.setdefault(int(fields[1]), []).append(int(path.parent.name))
    waiting = [pid]
    while waiting:
        found = children.get(waiting.pop(), [])
        yield from found
        waiting.extend(found)


def main(arguments: list[str]) -> int:
    kills = int(arguments[0]) if arguments else 30
    seed = int(arguments[1]) if len(arguments) > 1 else time.time_ns() % 1_000_000
    runtime = arguments[2] if len(arguments) > 2 else "spark"
    print(f"{kills} kills on {runtime}, seed {seed}", flush=True)
    with tempfile.TemporaryDirectory(prefix="sash-chaos-") as directory:
        chaos = Chaos(Path(directory), kills, seed, lambda line: print(line, flush=True), runtime)
        try:
            is_equal = chaos.run()
        except RuntimeError as failure:
            print(failure, (Path(directory) / "log").read_text()[-3_000:], sep="\n", flush=True)
            return 1
    verdict = "the output is that of an undisturbed run" if is_equal else "the output differs"
    print(f"{chaos.starts - 1} starts, {kills} kills, {chaos.hits} processes beside: {verdict}", flush=True)
    return 0 if is_equal else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
