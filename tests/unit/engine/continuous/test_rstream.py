"""When Rstream is evaluated, and when answers over windows that move by rows begin.

stream s          1,7  2,7  3,7  4,7       6,7     8,9
[ROWS 3 SLIDE 2]       ●         ●                 ●
"""

from __future__ import annotations

import json

import pytest

from sash.lang import bind_program
from sash.runtime.run import run_program
from sash.testing.runs import StopAfter

STREAMS = """
CREATE STREAM s (t BIGINT, k BIGINT) TIMESTAMP BY t FROM 'json:s.jsonl';
CREATE STREAM l (t BIGINT, k BIGINT, life BIGINT) TIMESTAMP BY t LIFETIME BY life MAX LIFETIME 9 SEC
  FROM 'json:l.jsonl';
CREATE RELATION n (at BIGINT, k BIGINT, v BIGINT) KEY (k) TIMESTAMP BY at FROM 'json:n.jsonl';
"""
ROWS = [(1, 7), (2, 7), (3, 7), (4, 7), (6, 7), (8, 9)]
LIVES = [(1, 7, 2), (4, 7, 9), (5, 8, 1), (20, 7, 1)]
CHANGES = [(0, 7, 100), (5, 7, 200), (7, 1, 0)]
COUNT = "SELECT COUNT(*) AS n FROM s"
ANSWERS = {
    f"Rstream({COUNT} [ROWS 3 SLIDE 1])": [(1, 1), (2, 2), (3, 3), (4, 3), (6, 3), (8, 3)],
    f"Rstream({COUNT} [ROWS 3 SLIDE 2])": [(2, 2), (4, 3), (8, 3)],
    f"Rstream({COUNT} [ROWS 3 SLIDE 2] WHERE k = 9)": [(2, 0), (4, 0), (8, 1)],
    f"Rstream({COUNT} [ROWS 1 SLIDE 9])": [],
    f"{COUNT} [ROWS 3 SLIDE 9]": [],
    f"{COUNT} [ROWS 3 SLIDE 4]": [(4, 3)],
    f"Istream({COUNT} [ROWS 3 SLIDE 2])": [(2, 2), (4, 3)],
    f"Istream({COUNT} [PARTITION BY k ROWS 9 SLIDE 2])": [(2, 2), (4, 4)],
    f"Rstream({COUNT} [PARTITION BY k ROWS 1 SLIDE 2] WHERE k = 9)": [(2, 0), (4, 0)],
    "Rstream(SELECT k FROM s [NOW])": [(1, 7), (2, 7), (3, 7), (4, 7), (6, 7), (8, 9)],
    "Rstream(SELECT k FROM s [NOW] WHERE k = 9)": [(8, 9)],
    # The row of 1 leaves at 2, when another comes; that of 4 leaves at 5, when none does.
    f"Rstream({COUNT} [NOW])": [(1, 1), (2, 1), (3, 1), (4, 1), (5, 0), (6, 1), (7, 0), (8, 1)],
    f"Rstream({COUNT} [NOW] WHERE k = 9)": [(1, 0), (2, 0), (3, 0), (4, 0), (5, 0), (6, 0), (7, 0), (8, 1)],
    f"Rstream({COUNT} [ROWS 2] WHERE k = 9)": [(1, 0), (2, 0), (3, 0), (4, 0), (6, 0), (8, 1)],
    f"Rstream({COUNT} [PARTITION BY k ROWS 1] WHERE k = 9)": [(1, 0), (2, 0), (3, 0), (4, 0), (6, 0), (8, 1)],
    # The relation changes at 5 and 7.
    "Rstream(SELECT COUNT(*) AS n FROM s [RANGE 9 SEC], n WHERE s.k = n.k AND v = 9)": [
        (at, 0) for at in range(1, 9)
    ],
    f"Rstream({COUNT} [RANGE 4 SEC SLIDE 2 SEC])": [(2, 2), (4, 4), (6, 3), (8, 2)],
    # Rows leave at the ends of their lives; the last comes at 20.
    "Rstream(SELECT COUNT(*) AS n FROM l [ROWS 2] WHERE k = 8)": [
        (1, 0), (3, 0), (4, 0), (5, 1), (6, 0), (13, 0), (20, 0),
    ],
    "Rstream(SELECT COUNT(*) AS n FROM l WHERE k = 8)": [
        (1, 0), (3, 0), (4, 0), (5, 1), (6, 0), (13, 0), (20, 0),
    ],
}  # fmt: skip


@pytest.mark.parametrize(("size", "partitions"), [(1, None), (2, 3), (100, None), (100, 3)])
def test_when_rstream_is_evaluated(tmp_path, size, partitions):
    write(tmp_path, "s", [dict(zip("tk", row, strict=True)) for row in ROWS])
    write(tmp_path, "l", [dict(zip(("t", "k", "life"), row, strict=True)) for row in LIVES])
    write(tmp_path, "n", [dict(zip(("at", "k", "v"), row, strict=True)) for row in CHANGES])
    text = STREAMS + "".join(
        f"CREATE QUERY q{i} INTO 'jsonl:q{i}.jsonl' AS {query};\n" for i, query in enumerate(ANSWERS)
    )
    text = text.replace("FROM l WHERE k = 8);", "FROM l WHERE k = 8) ALLOW UNBOUNDED STATE;")
    for batches in (1, 1, None):
        stop = StopAfter(batches)
        run_program(
            bind_program(text),
            base_dir=tmp_path,
            runtime="inline",
            checkpoint=tmp_path / "checkpoint",
            batch_rows=size,
            partitions=partitions,
            monitor=stop,
            stop=stop.stop,
        )
    for i, (query, expected) in enumerate(ANSWERS.items()):
        rows = [json.loads(line) for line in (tmp_path / f"q{i}.jsonl").read_text().splitlines()]
        given = [
            (row["ts"], value) for row in rows for value in list(row.values())[-1:] if row.get("op") != "-"
        ]
        assert given == expected, query


def write(folder, name, rows):
    (folder / f"{name}.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
