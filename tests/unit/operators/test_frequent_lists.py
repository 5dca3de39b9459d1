"""FREQUENT over rows, and over windows that do not slide: never false, however it is computed."""

from __future__ import annotations

import json
import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from sash.errors import NotYet
from sash.lang import bind_program
from sash.runtime.run import run_program
from sash.testing.runs import StopAfter

STREAM = "CREATE STREAM s (t BIGINT, g STRING, x STRING, n BIGINT) TIMESTAMP BY t FROM 'csv:s.csv';\n"
WINDOWS = {
    "rows": ("[ROWS 40]", lambda seen, now: seen[-40:]),
    "few": ("[ROWS 3]", lambda seen, now: seen[-3:]),
    "slides": ("[ROWS 40 SLIDE 8]", lambda seen, now: seen[: len(seen) // 8 * 8][-40:]),
    "odd": ("[ROWS 20 SLIDE 7]", lambda seen, now: seen[: len(seen) // 7 * 7][-20:]),
    "time": ("[RANGE 20 SEC]", lambda seen, now: [row for row in seen if row[0] > now - 20]),
}


def query(name: str, window: str, more: str = "") -> str:
    return (
        f"CREATE QUERY {name} INTO 'jsonl:{{out}}/{name}.jsonl' AS "
        f"SELECT FREQUENT(x, 2) AS f, FREQUENT(n, 3) AS h, COUNT(*) AS c FROM s {window}{more};\n"
        f"CREATE QUERY {name}_by INTO 'jsonl:{{out}}/{name}_by.jsonl' AS "
        f"SELECT g, FREQUENT(x, 2) AS f, COUNT(*) AS c FROM s {window} WHERE n <> 5 GROUP BY g{more};\n"
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    rng = random.Random(17)
    lines, t = [], 0
    for i in range(500):
        # Several rows at an instant, a long time without rows, skew, NULL, words that do not come back.
        t += rng.choice((0, 0, 1, 1, 2)) + (60 if i == 300 else 0)
        word = rng.choice(["a", "a", "a", "b", "b", "", f"w{i // 20}"])
        number = "" if rng.random() < 0.1 else str(int(rng.paretovariate(1.2)) % 9)
        lines.append(f"{t},{rng.choice('pqr')},{word},{number}")
    (tmp_path / "s.csv").write_text("t,g,x,n\n" + "\n".join(lines) + "\n")
    return tmp_path


def run(folder: Path, out: str, text: str, stops: tuple[int | None, ...] = (None,), **options) -> None:
    (folder / out).mkdir()
    for stop in stops:
        monitor = StopAfter(stop)
        run_program(
            bind_program(STREAM + text.format(out=out)),
            base_dir=folder,
            runtime="inline",
            checkpoint=folder / f"state {out}",
            monitor=monitor,
            stop=monitor.stop,
            **options,
        )


def objects(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def read(folder: Path) -> list[tuple[int, str, str | None, int | None]]:
    lines = (folder / "s.csv").read_text().splitlines()[1:]
    cells = (line.split(",") for line in lines)
    return [(int(t), g, x or None, int(n) if n else None) for t, g, x, n in cells]


def check(text: str | None, values: list[Any]) -> int:
    """What holds of an answer, by the true counts of the values; gives how many values it reports."""
    true = Counter(value for value in values if value is not None)
    if text is None:
        assert not true
        return 0
    answer = json.loads(text)
    delta, reported = answer["delta"], dict(map(tuple, answer["items"]))
    counts = list(reported.values())
    assert counts == sorted(counts, reverse=True)
    assert all(true[value] >= count > delta for value, count in reported.items())
    # Nothing that is missing has more than δ beyond what its lists say, which is no more than δ itself.
    assert all(count <= reported.get(value, delta) + delta for value, count in true.items())
    return len(reported)


@pytest.mark.parametrize("name", WINDOWS)
def test_what_is_reported_is_frequent_and_what_is_missing_is_bounded(folder, name):
    window, held = WINDOWS[name]
    run(folder, "out", query(name, window), batch_rows=64)
    rows = read(folder)
    by_group: dict[int, dict[str, Any]] = {}
    reported = 0
    for answer in objects(folder / "out" / f"{name}.jsonl"):
        if answer["op"] == "+":
            now = answer["ts"]
            inside = held([row for row in rows if row[0] <= now], now)
            assert answer["c"] == len(inside)
            reported += check(answer["f"], [row[2] for row in inside])
            reported += check(answer["h"], [row[3] for row in inside])
    for answer in objects(folder / "out" / f"{name}_by.jsonl"):
        if answer["op"] == "+":
            now = answer["ts"]
            inside = held([row for row in rows if row[0] <= now], now)
            mine = [row for row in inside if row[1] == answer["g"] and row[3] not in (5, None)]
            assert answer["c"] == len(mine)
            reported += check(answer["f"], [row[2] for row in mine])
            by_group[now] = answer
    assert reported > 100
    assert len(by_group) > 20


def test_batches_restarts_and_partitions_make_no_difference(folder):
    text = "".join(query(name, window) for name, (window, _) in WINDOWS.items())
    run(folder, "whole", text)
    run(folder, "small", text, stops=(3, 9, None), batch_rows=23)
    run(folder, "divided", text, stops=(4, None), batch_rows=37, partitions=3)
    for path in sorted((folder / "whole").iterdir()):
        expected = sorted(path.read_text().splitlines())
        assert len(expected) > 100
        for other in ("small", "divided"):
            assert sorted((folder / other / path.name).read_text().splitlines()) == expected, (
                other,
                path.name,
            )


def test_windows_that_slide_are_answered_as_from_synopses(folder):
    window = "[RANGE 20 SEC SLIDE 4 SEC]"
    run(folder, "synopsis", query("q", window))
    run(folder, "operators", query("q", window, " WITH (strategy = 'nt')"), batch_rows=50)
    for name in ("q.jsonl", "q_by.jsonl"):
        expected = sorted((folder / "synopsis" / name).read_text().splitlines())
        assert sorted((folder / "operators" / name).read_text().splitlines()) == expected
        assert len(expected) > 20


@pytest.mark.parametrize(
    "source",
    [
        "s [PARTITION BY g ROWS 3]",
        "s [RANGE 3 SEC] s, s [RANGE 3 SEC] r WHERE s.g = r.g",
        "s [RANGE 7 SEC SLIDE 2 SEC OFFSET 2 SEC]",
    ],
)
def test_rows_that_leave_in_another_order_are_refused(folder, source):
    select = f"SELECT FREQUENT(s.x, 2) AS f FROM {source}"
    with pytest.raises(NotYet, match="leave in another order"):
        run(folder, "out", f"CREATE QUERY q INTO 'noop:' AS {select} WITH (strategy = 'upa');\n")
