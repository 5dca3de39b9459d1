"""Programs with archives that are run inline, and compared with the change log of the same SELECT."""

from __future__ import annotations

import json
import random
from collections import Counter

import pytest

from sash.archive import open_snapshot
from sash.lang import bind_program
from sash.runtime.run import run_program
from sash.testing.runs import StopAfter

STREAMS = """
CREATE STREAM a (ts BIGINT, k BIGINT, v BIGINT, life BIGINT) TIMESTAMP BY ts FROM 'json:a.jsonl';
CREATE STREAM b (ts BIGINT, k BIGINT, v BIGINT, life BIGINT) TIMESTAMP BY ts FROM 'json:b.jsonl';
CREATE STREAM mortal (ts BIGINT, k BIGINT, v BIGINT, life BIGINT) TIMESTAMP BY ts
  LIFETIME BY life MAX LIFETIME 30 SEC FROM 'json:a.jsonl';
"""
JOIN = "SELECT a.k, a.v, b.v AS w FROM a [RANGE 20 SEC], b [RANGE 20 SEC] WHERE a.k = b.k"
STRICT = (
    "SELECT k, v FROM a [RANGE 20 SEC] WHERE NOT EXISTS (SELECT b.k FROM b [RANGE 4 SEC] WHERE b.k = a.k)"
)
LIFETIMES = "SELECT k, v FROM mortal [UNBOUNDED]"
GROUPS = "SELECT k, COUNT(*) AS n, SUM(v) AS s FROM a [RANGE 20 SEC] GROUP BY k"
ROWS = "SELECT a.k, a.v, b.v AS w FROM a [ROWS 9], b [RANGE 10 SEC] WHERE a.k = b.k"
LATEST = "SELECT k, v FROM a [ROWS 7]"
SLIDING = "SELECT DISTINCT k FROM a [RANGE 12 SEC SLIDE 3 SEC]"
BODIES = {
    "join": JOIN,
    "strict": STRICT,
    "lifetimes": LIFETIMES,
    "groups": GROUPS,
    "rows": ROWS,
    "latest": LATEST,
    "sliding": SLIDING,
}


@pytest.fixture
def folder(tmp_path):
    made = random.Random(4)
    for name in "ab":
        rows = (
            {"ts": ts, "k": made.randint(0, 4), "v": made.randint(0, 9), "life": made.randint(0, 40)}
            for ts in range(120)
        )
        (tmp_path / f"{name}.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return tmp_path


def text_of(body=JOIN, technique="REBUILD 2x2", every="7 SEC", name="kept"):
    return (
        f"{STREAMS}CREATE QUERY log INTO 'jsonl:log.jsonl' AS {body};\n"
        f"CREATE ARCHIVE {name} KEY (k) USING {technique} EVERY {every} INTO 'archives/{name}' AS {body};\n"
    )


class Watch(StopAfter):
    """Compares the archive with the change log after every batch."""

    def __init__(self, folder, batches=None):
        super().__init__(batches)
        self._folder = folder
        self.instants = []

    def batch(self, report):
        super().batch(report)
        self.instants.append(check(self._folder))


def check(folder):
    """Assert that the archive holds what the change log says of its instant, which is given back."""
    with open_snapshot(folder / "archives" / "kept") as snapshot:
        through = snapshot.through
        columns = snapshot.scan().to_pydict()
    relation: Counter[tuple[object, ...]] = Counter()
    for line in (folder / "log.jsonl").read_text().splitlines():
        row = json.loads(line)
        instant, op = row.pop("ts"), row.pop("op")
        if through is not None and instant * 1_000_000 <= through:
            relation[tuple(row.values())] += 1 if op == "+" else -1
    assert Counter(zip(*columns.values(), strict=True)) == +relation
    return through


def run(folder, text, *, batch_rows=37, checkpoint=True, batches=None, **options):
    watch = Watch(folder, batches)
    summary = run_program(
        bind_program(text),
        base_dir=folder,
        runtime="inline",
        checkpoint=folder / "checkpoint" if checkpoint else None,
        batch_rows=batch_rows,
        monitor=watch,
        stop=watch.stop,
        **options,
    )
    return watch, summary
