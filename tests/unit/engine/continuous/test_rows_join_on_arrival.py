"""A row joins a non-retroactive relation as it was when the row arrived, whenever the answer is given."""

from __future__ import annotations

import json
from typing import Any

import pytest

from sash.lang import bind_program
from sash.runtime.run import run_program
from sash.testing.runs import StopAfter

STREAM = """
CREATE STREAM s (t BIGINT, k BIGINT) TIMESTAMP BY t FROM 'json:s.jsonl';
CREATE RELATION n (at BIGINT, k BIGINT, v BIGINT) KEY (k) NON RETROACTIVE TIMESTAMP BY at FROM 'json:n.jsonl';
CREATE RELATION m (at BIGINT, k BIGINT, w BIGINT) KEY (k) NON RETROACTIVE TIMESTAMP BY at FROM 'json:m.jsonl';
"""
SLIDE = "[RANGE 10 SEC SLIDE 5 SEC]"
AT_5 = [(5, 1, 100), (5, 4, 200), (5, 5, 300)]
AT_10 = [(10, t, v) for _, t, v in AT_5]
ANSWERS: dict[str, Any] = {
    # The row of 5 comes with a change: it sees the relation after it.
    f"Rstream(SELECT s.t AS a, v FROM s {SLIDE}, n WHERE s.k = n.k)": AT_5 + AT_10,
    f"Rstream(SELECT s.t AS a, v FROM s {SLIDE} LEFT JOIN n ON s.k = n.k)": [
        *AT_5, *AT_10, (10, 10, None),
    ],
    "Istream(SELECT s.t AS a, v FROM s [RANGE 10 SEC OFFSET 2 SEC], n WHERE s.k = n.k)": [
        (3, 1, 100), (6, 4, 200), (7, 5, 300),
    ],
    "Istream(SELECT s.t AS a, v FROM s [RANGE 10 SEC], n WHERE s.k = n.k)": [
        (1, 1, 100), (4, 4, 200), (5, 5, 300),
    ],
    f"Istream(SELECT s.t AS a, v + w AS x FROM s {SLIDE}, n, m WHERE s.k = n.k AND s.k = m.k)": [
        (5, 1, 101), (5, 4, 202), (5, 5, 302),
    ],
    f"Istream(SELECT v AS a, COUNT(*) AS c FROM s {SLIDE}, n WHERE s.k = n.k GROUP BY v)": [
        (5, 100, 1), (5, 200, 1), (5, 300, 1),
    ],
    f"Istream(SELECT x.t * 100 + y.t AS a, v FROM s {SLIDE} x, s {SLIDE} y, n "
    "WHERE x.k = n.k AND x.k = y.k AND x.t < y.t)": [(5, 104, 200), (5, 105, 300), (5, 405, 300)],
    "Istream(SELECT x.t * 100 + y.t AS a, v FROM s [RANGE 10 SEC OFFSET 2 SEC] x, s [RANGE 10 SEC] y, n "
    "WHERE x.k = n.k AND x.k = y.k AND x.t < y.t)": [(4, 104, 200), (5, 105, 300), (6, 405, 300)],
    # Whose key the condition names makes no difference.
    "Istream(SELECT x.t * 100 + y.t AS a, v FROM s [RANGE 10 SEC] x, s [RANGE 10 SEC OFFSET 2 SEC] y, n "
    "WHERE x.k = n.k AND x.k = y.k AND x.t < y.t)": [(6, 104, 200), (7, 105, 300), (7, 405, 300)],
    "Istream(SELECT x.t * 100 + y.t AS a, v FROM s [RANGE 10 SEC] x, s [RANGE 10 SEC OFFSET 2 SEC] y, n "
    "WHERE y.k = n.k AND x.k = y.k AND x.t < y.t)": [(6, 104, 200), (7, 105, 300), (7, 405, 300)],
    f"Istream(SELECT x.t * 100 + y.t AS a, v FROM s {SLIDE} x, s [RANGE 10 SEC SLIDE 5 SEC INTERNAL] y, n "
    "WHERE x.k = n.k AND x.k = y.k AND x.t < y.t)": [(5, 104, 200), (5, 105, 300), (5, 405, 300)],
    # The sub-query has joined each row on its own.
    "Istream(SELECT x.t * 100 + y.t AS a, v FROM (SELECT s.t, s.k, v FROM s [RANGE 10 SEC OFFSET 2 SEC], n "
    "WHERE s.k = n.k) x, s [RANGE 10 SEC] y WHERE x.k = y.k AND x.t < y.t)": [
        (4, 104, 100), (5, 105, 100), (6, 405, 200),
    ],
    "Istream(SELECT z.t AS a, v FROM (SELECT t, k FROM s [RANGE 10 SEC OFFSET 2 SEC] UNION ALL "
    "SELECT t + 10, k FROM s [RANGE 9 SEC]) z, n WHERE z.k = n.k)": [
        (1, 11, 100), (3, 1, 100), (4, 14, 200), (5, 15, 300), (6, 4, 200), (7, 5, 300),
    ],
    "Istream(SELECT z.a AS a, v FROM (Istream(SELECT t AS a, k FROM s [NOW])) "
    f"{SLIDE} AS z, n WHERE z.k = n.k)": AT_5,
}  # fmt: skip


@pytest.mark.parametrize("strategy", ["upa", "nt", "direct"])
@pytest.mark.parametrize(("size", "partitions"), [(1, None), (2, 3), (100, None), (100, 3)])
def test_a_row_sees_the_relation_of_its_arrival(tmp_path, size, partitions, strategy):
    write(tmp_path, "s", "tk", [(1, 7), (4, 7), (5, 7), (10, 8)])
    write(tmp_path, "n", ("at", "k", "v"), [(0, 7, 100), (3, 7, 200), (5, 7, 300), (6, 7, 400)])
    write(tmp_path, "m", ("at", "k", "w"), [(0, 7, 1), (2, 7, 2), (6, 7, 3)])
    # Negative tuples are not for a query of which only some windows are INTERNAL.
    answers = {q: rows for q, rows in ANSWERS.items() if strategy != "nt" or "INTERNAL" not in q}
    text = STREAM + "".join(
        f"CREATE QUERY q{i} INTO 'jsonl:q{i}.jsonl' AS {query} WITH (strategy = '{strategy}');\n"
        for i, query in enumerate(answers)
    )
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
    for i, (query, expected) in enumerate(answers.items()):
        lines = (tmp_path / f"q{i}.jsonl").read_text().splitlines()
        assert sorted((tuple(json.loads(line).values()) for line in lines), key=str) == sorted(
            expected, key=str
        ), query


def write(folder, name, columns, rows):
    lines = (json.dumps(dict(zip(columns, row, strict=True))) for row in rows)
    (folder / f"{name}.jsonl").write_text("".join(f"{line}\n" for line in lines))
