"""Periodic windows as sets, bags and in order, against windows that are taken anew at each boundary."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

from sash.lang import bind_program
from sash.runtime.run import run_program
from sash.testing.runs import StopAfter

Row = tuple[int, str | None, int | None]
Values = list[str | None]
RANGE, SLIDE = 8, 4
WINDOW = f"[RANGE {RANGE} SEC SLIDE {SLIDE} SEC]"
PROGRAM = """
CREATE STREAM a (t BIGINT, k STRING, n BIGINT) TIMESTAMP BY t SLACK 1 SEC FROM 'csv:a.csv';
CREATE STREAM b (t BIGINT, k STRING, n BIGINT) TIMESTAMP BY t FROM 'csv:b.csv';
"""


def in_both(a: Values, b: Values) -> list[str | None]:
    return list(set(a) & set(b))


def only_left(a: Values, b: Values) -> list[str | None]:
    return list(set(a) - set(b))


def as_often_in_both(a: Values, b: Values) -> list[str | None]:
    return list((Counter(a) & Counter(b)).elements())


def more_often_left(a: Values, b: Values) -> list[str | None]:
    return list((Counter(a) - Counter(b)).elements())


SETS: dict[str, Callable[[Values, Values], list[str | None]]] = {
    "INTERSECT": in_both,
    "EXCEPT": only_left,
    "INTERSECT ALL": as_often_in_both,
    "EXCEPT ALL": more_often_left,
}
ORDERED = {
    "first": ("n, k", " ORDER BY n DESC, k LIMIT 3"),
    "least": ("DISTINCT k", " ORDER BY k LIMIT 4"),
    "sorted": ("n, k", " ORDER BY k NULLS FIRST, n"),
}


def made(seed: int, rows: int) -> list[Row]:
    """Skewed words, some of which come once, NULLs, and a time without rows."""
    rng = random.Random(seed)
    found: list[Row] = []
    for i in range(rows):
        words = [None, "", *"aaab", f"w{i // 5}", f"{seed}{i}"]
        number = None if rng.random() < 0.1 else int(rng.paretovariate(1)) % 9
        found.append((i // 3 + (25 if i > rows // 2 else 0), rng.choice(words), number))
    return found


def key(*values: object) -> tuple[tuple[bool, object], ...]:
    """NULL last; a word is as its bytes."""
    return tuple((v is None, "" if v is None else v.encode() if isinstance(v, str) else v) for v in values)


def by_definition(name: str, rows: Sequence[Row]) -> list[list[object]]:
    match name:
        case "first":
            descending = sorted(rows, key=lambda r: (r[2] is None, -(r[2] or 0), key(r[1])))
            return [[n, k] for _, k, n in descending[:3]]
        case "least":
            return [[k] for k in sorted({k for _, k, _ in rows}, key=key)[:4]]
    ordered = sorted(rows, key=lambda r: (r[1] is not None, (r[1] or "").encode(), key(r[2])))
    return [[n, k] for _, k, n in ordered]


def test_every_boundary_has_the_answer_of_its_windows(tmp_path: Path) -> None:
    """Over two stops, with an empty window in between."""
    streams = {"a": made(1, 150), "b": made(2, 150)}
    for name, rows in streams.items():
        lines = (",".join("" if v is None else f'"{v}"' for v in row) for row in rows)
        (tmp_path / f"{name}.csv").write_text("\n".join(["t,k,n", *lines]) + "\n")
    queries = [f"SELECT k FROM a {WINDOW} {word} SELECT k FROM b {WINDOW}" for word in SETS]
    queries += [f"SELECT {columns} FROM a {WINDOW}{order}" for columns, order in ORDERED.values()]
    text = PROGRAM + "".join(
        f"CREATE QUERY q{i} INTO 'jsonl:q{i}.jsonl' AS Rstream({query});\n" for i, query in enumerate(queries)
    )
    for stop in (2, 3, None):
        monitor = StopAfter(stop)
        run_program(
            bind_program(text),
            base_dir=tmp_path,
            runtime="inline",
            checkpoint=tmp_path / "state",
            batch_rows=41,
            monitor=monitor,
            stop=monitor.stop,
        )
    last = streams["a"][-1][0] // SLIDE * SLIDE
    assert any(not any(at - RANGE < row[0] <= at for row in streams["a"]) for at in range(0, last + 1, SLIDE))
    for i, name in enumerate([*SETS, *ORDERED]):
        answers: dict[int, list[list[object]]] = {at: [] for at in range(0, last + 1, SLIDE)}
        for line in (tmp_path / f"q{i}.jsonl").read_text().splitlines():
            ts, *values = json.loads(line).values()
            answers[ts].append(values)
        for at, found in answers.items():
            a, b = ([row for row in streams[s] if at - RANGE < row[0] <= at] for s in "ab")
            if name in SETS:
                expected = SETS[name]([k for _, k, _ in a], [k for _, k, _ in b])
                assert Counter(k for (k,) in found) == Counter(expected), (name, at)
            else:
                assert found == by_definition(name, a), (name, at)
