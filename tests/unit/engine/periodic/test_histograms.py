"""HISTOGRAM: values, or given ranges of them, counted in windows, groups and questions."""

from __future__ import annotations

import json
import random
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from sash.lang import bind_program
from sash.runtime.run import run_program
from sash.session import connect
from sash.testing.runs import StopAfter

STREAM = (
    "CREATE STREAM s (t BIGINT, k STRING, n BIGINT, x DOUBLE, at TIMESTAMP) "
    "TIMESTAMP BY t RETAIN 1 HOUR FROM 'csv:s.csv';\n"
)
NUMBERS, DOUBLES, WORDS = [-4, -1, 2, 4], [0.1, 0.30000000000000004], ["B", "a", "é"]
MOMENTS = [f"2026-01-01T0{hour}:00:00.000000Z" for hour in (0, 4, 8)]
RANGES = {
    "n": "HISTOGRAM(n)",
    "r": "HISTOGRAM(n, -4, 4, 3)",
    "x": "HISTOGRAM(x, BOUNDS(0.1, 0.30000000000000004))",
    "k": "HISTOGRAM(k, BOUNDS('B', 'a', 'é'))",
    "a": "HISTOGRAM(at, TIMESTAMP '2026-01-01 00:00:00', TIMESTAMP '2026-01-01 08:00:00', 2)",
}
SELECT = ", ".join(f"{call} AS h{name}" for name, call in RANGES.items())
Row = tuple[int, str | None, int | None, float | None, str | None]


@pytest.fixture
def rows(tmp_path: Path) -> list[Row]:
    rng = random.Random(8)

    def some(values: Sequence[Any]) -> Any:
        return rng.choice([None, *values, *values])

    made: list[Row] = []
    for i in range(240):
        # Values on the bounds, beside them and far away; for a while nothing, then rows without values.
        moment = some([*MOMENTS, "2025-12-31T23:59:59.999999Z", "2026-01-01T03:59:59.999999Z"])
        row = some([*WORDS, "", "A", "z"]), some(range(-6, 7)), some([*DOUBLES, 0.3, -0.0, 1e300]), moment
        made.append((i // 4 + (30 if i > 160 else 0), *(row if i < 220 else (None,) * 4)))
    written = ([("" if value is None else f'"{value}"') for value in row] for row in made)
    (tmp_path / "s.csv").write_text("t,k,n,x,at\n" + "\n".join(map(",".join, written)) + "\n")
    # An empty field in quotes is the empty word.
    return made


def ranges(values: Sequence[Any], bounds: Sequence[Any], key: Callable[[Any], Any] = lambda v: v) -> Any:
    """The definition: each bound with how many values are not below it but below the next."""
    present = [key(value) for value in values if value is not None]
    counts = Counter(bisect_right([key(bound) for bound in bounds], value) for value in present)
    return [[name, counts[i]] for i, name in enumerate([None, *bounds])] if present else None


def histograms(rows: Sequence[Row]) -> dict[str, Any]:
    words, numbers, doubles, moments = ([row[i] for row in rows] for i in range(1, 5))
    present = sorted(Counter(n for n in numbers if n is not None).items())
    return {
        "hn": [list(pair) for pair in present] or None,
        "hr": ranges(numbers, NUMBERS),
        "hx": ranges(doubles, DOUBLES),
        "hk": ranges(words, WORDS, lambda word: word.encode()),
        "ha": ranges(moments, MOMENTS),
    }


def by_definition(rows: Sequence[Row]) -> dict[str | None, dict[str, Any]]:
    groups: dict[str | None, list[Row]] = defaultdict(list)
    for row in rows:
        groups[row[1]].append(row)
    return {word: histograms(own) for word, own in groups.items()}


def read(row: dict[str, Any]) -> dict[str, Any]:
    names = [f"h{name}" for name in RANGES]
    return {name: None if row[name] is None else json.loads(row[name]) for name in names}


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_every_window_is_counted_in_ranges_as_by_definition(tmp_path, rows):
    """Periodic and continuous, whole and by groups, with two stops on the way."""
    program = bind_program(
        f"""{STREAM}
        CREATE QUERY whole INTO 'jsonl:whole.jsonl' AS
          Rstream(SELECT {SELECT} FROM s [RANGE 9 SEC SLIDE 3 SEC]);
        CREATE QUERY groups INTO 'jsonl:groups.jsonl' AS
          Rstream(SELECT k, {SELECT} FROM s [RANGE 9 SEC SLIDE 3 SEC] GROUP BY k);
        CREATE QUERY always INTO 'jsonl:always.jsonl' AS
          Rstream(SELECT {SELECT} FROM s [RANGE 4 SEC]);"""
    )
    for stop in (2, 3, None):
        monitor = StopAfter(stop)
        run_program(
            program,
            base_dir=tmp_path,
            runtime="inline",
            checkpoint=tmp_path / "state",
            batch_rows=37,
            monitor=monitor,
            stop=monitor.stop,
        )
    whole = lines(tmp_path / "whole.jsonl")
    last = rows[-1][0] // 3 * 3
    assert [row["ts"] for row in whole] == list(range(0, last + 1, 3))
    windows = {at: [row for row in rows if at - 9 < row[0] <= at] for at in range(0, last + 1, 3)}
    assert any(not own for own in windows.values())
    for row in whole:
        assert read(row) == histograms(windows[row["ts"]])
    found: dict[int, dict[str | None, Any]] = defaultdict(dict)
    for row in lines(tmp_path / "groups.jsonl"):
        found[row["ts"]][row["k"]] = read(row)
    assert found == {at: by_definition(own) for at, own in windows.items() if own}
    always = lines(tmp_path / "always.jsonl")
    assert len(always) > 60
    for row in always:
        assert read(row) == histograms([each for each in rows if row["ts"] - 4 < each[0] <= row["ts"]])


def test_a_question_is_answered_from_kept_rows_and_from_a_synopsis(tmp_path, rows):
    with connect(base_dir=tmp_path, runtime="inline", checkpoint=tmp_path / "state") as session:
        session.sql(STREAM)
        handle = session.query(f"SELECT k, {SELECT} FROM s [RANGE 40 SEC SLIDE 5 SEC] GROUP BY k")
        session.start()
        session.wait()
        last = rows[-1][0]
        for source, own in (
            ("[RANGE 30 SEC]", [row for row in rows if row[0] > last - 30]),
            (
                "[RANGE 40 SEC SLIDE 5 SEC]",
                [row for row in rows if last // 5 * 5 - 40 < row[0] <= last // 5 * 5],
            ),
        ):
            answer = session.ask(f"SELECT k, {SELECT} FROM s {source} GROUP BY k").to_pylist()
            assert {row["k"]: read(row) for row in answer} == by_definition(own)
        shown = {row["k"]: read(row) for row in handle.latest().to_pylist()}
        assert shown == by_definition(own)
