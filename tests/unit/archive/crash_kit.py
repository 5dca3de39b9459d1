"""Updates that are known in advance, and a process that dies in the middle of one."""

from __future__ import annotations

import os
import random
import signal
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from tests.unit.archive.archive_kit import STRICT, Model, Row, Values, bag, keys, random_rows, table

from sash import files
from sash.archive import ArchiveWriter, Update, open_snapshot
from sash.archive.versions import Versions

UPDATES = 12
KILLED = 9

Steps = list[tuple[Update, Counter[Values]]]


def script(seed: int) -> Steps:
    """Updates, and what the archive holds after each; rows and keys are taken back, too."""
    rng = random.Random(seed)
    model = Model(STRICT)
    found = []
    for batch in range(UPDATES):
        rows = random_rows(rng, model.through, model.through + 10, 30)
        taken: list[Row] = rng.sample(model.rows, k=len(model.rows) // 8)
        gone = [(batch % 6, model.through + 5)] if batch % 4 == 3 else []
        taken = [row for row in taken if (row.values[0], model.through + 5) not in gone]
        update = Update(batch, model.through + 10, table(rows), table(taken), keys(gone))
        model.apply(update, rows, taken, gone)
        found.append((update, model.bag()))
    return found


class Countdown:
    """Counts operations on files, before and after each, and does something at one of them."""

    def __init__(self, at: int, action: Callable[[], None]) -> None:
        self.seen = 0
        self._at = at
        self._action = action

    def _count(self) -> None:
        if self.seen == self._at:
            self.seen += 1
            self._action()
        self.seen += 1

    def wrap(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*arguments: Any, **named: Any) -> Any:
            self._count()
            result = function(*arguments, **named)
            self._count()
            return result

        return counted

    def install(self, patch: Callable[[object, str, object], None]) -> None:
        """Through `patch(owner, name, value)`, as that of monkeypatch."""
        for name in ("replace", "fsync", "unlink"):
            patch(os, name, self.wrap(getattr(os, name)))
        patch(files, "_fill", self._half_filled(files._fill))
        patch(pq.ParquetWriter, "write_table", self.wrap(pq.ParquetWriter.write_table))

    def _half_filled(self, fill: Callable[..., None]) -> Callable[..., None]:
        """A small file can also be there in part."""

        def counted(path: Path, parts: list[bytes], *, durable: bool) -> None:
            whole = b"".join(bytes(part) for part in parts)
            path.write_bytes(whole[: len(whole) // 2])
            self._count()
            fill(path, parts, durable=durable)
            self._count()

        return counted


def run_until_killed(root: Path, technique: str, steps: Steps, at: int) -> None:
    """Bring an archive up to date, and die at an operation on files, as by kill −9."""
    countdown = Countdown(at, lambda: os._exit(KILLED))
    with ArchiveWriter(root, STRICT, technique, (2, 2)) as writer:
        countdown.install(setattr)
        for update, _ in steps[writer.manifest.batch + 1 :]:
            writer.update(update)


def kill_again_and_again(folder: str, kills: int) -> None:
    """Children that die, each of which goes on where the one before was killed; readers look in between."""
    rng = random.Random(11)
    killed = run = 0
    while killed < kills:
        root, steps = Path(folder) / str(run), script(run)
        technique = ["rebuild", "norebuild", "lazyrebuild", "d-ins"][run % 4]
        last = -1
        while last < UPDATES - 1:
            at = rng.randrange(250)
            child = os.fork()
            if child == 0:
                # A child that hangs dies, too, but not as it should.
                signal.alarm(60)
                run_until_killed(root, technique, steps, at)
                os._exit(0)
            code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
            assert code in (0, KILLED), code
            killed += code == KILLED
            if Versions(root).numbers():
                with open_snapshot(root) as snapshot:
                    batch = snapshot.manifest.batch
                    assert batch >= last
                    assert bag(snapshot.scan()) == steps[batch][1]
                last = batch
        run += 1
