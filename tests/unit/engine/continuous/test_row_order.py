"""Rows of one instant come in one order: by ORDER BY, else in order of arrival, else by their values."""

from __future__ import annotations

import itertools
import json
import random
from pathlib import Path

import pytest

from sash.lang import bind_program
from sash.runtime.run import run_program
from sash.testing.runs import StopAfter

STREAMS = """
CREATE STREAM a (t BIGINT, k STRING, x DOUBLE) TIMESTAMP BY t FROM 'csv:a.csv';
CREATE STREAM b (t BIGINT, k STRING, x DOUBLE) TIMESTAMP BY t FROM 'csv:b.csv';
"""
WAYS = [(None, None), (None, 1), (3, 2), (3, None)]
"""Partitions and rows a batch."""


def ask(
    folder: Path, query: str, rows: dict[str, list[str]], way: tuple[int | None, int | None]
) -> list[str]:
    """What a query answers, line by line: instants with their rows; NULL is a hyphen."""
    for name in "ab":
        (folder / f"{name}.csv").write_text("\n".join(["t,k,x", *rows.get(name, [])]) + "\n")
    partitions, batch_rows = way
    run_program(
        bind_program(f"{STREAMS}CREATE QUERY q INTO 'jsonl:q.jsonl' AS {query};"),
        base_dir=folder,
        runtime="inline",
        partitions=partitions,
        batch_rows=batch_rows,
        dead_letters=folder / "dead-letters",
        monitor=StopAfter(),
    )
    answers = map(json.loads, (folder / "q.jsonl").read_text().splitlines())
    return [" ".join("-" if v is None else str(v) for v in answer.values()) for answer in answers]


@pytest.mark.parametrize("way", WAYS)
class TestTheOrderOfArrival:
    def test_passes_through_a_sub_query_so_the_last_quote_is_the_last(self, tmp_path, way):
        quotes = {"a": ["1,N,9", "1,N,3", "1,N,5", "2,L,4", "2,N,8", "2,N,1"]}
        query = "SELECT k, x FROM (Istream(SELECT k, x FROM a [NOW])) [PARTITION BY k ROWS 1]"
        right = ["1 + N 5.0", "2 - N 5.0", "2 + L 4.0", "2 + N 1.0"]
        assert ask(tmp_path, query, quotes, way) == right

    def test_is_that_of_all_arrivals_also_of_rows_like_those_before(self, tmp_path, way):
        rows = {"a": ["1,z,1", "1,a,2", "2,z,3", "2,a,4", "2,a,5", "4,a,1"]}
        right = ["1 z", "1 a", "2 z", "2 a", "2 a", "4 a"]
        assert ask(tmp_path, "Rstream(SELECT k FROM a [NOW])", rows, way) == right
        query = "SELECT k FROM (Rstream(SELECT k FROM a [NOW])) [ROWS 2]"
        assert ask(tmp_path, query, rows, way) == ["1 + a", "1 + z", "2 - z", "2 + a"]

    @pytest.mark.parametrize("window", ["", "[NOW]", "[RANGE 5 SEC]", "[PARTITION BY k ROWS 3]", "[ROWS 9]"])
    def test_is_that_of_a_stream_of_selected_rows(self, tmp_path, way, window):
        rows = {"a": ["1,z,1", "1,a,2", "1,m,3", "1,b,4", "2,y,1", "2,a,0", "2,c,9"]}
        right = ["1 z", "1 a", "1 m", "1 b", "2 y", "2 c"]
        assert ask(tmp_path, f"Istream(SELECT k FROM a {window} WHERE x > 0)", rows, way) == right

    def test_in_a_union_is_time_then_branch_then_arrival(self, tmp_path, way):
        rows = {"a": ["1,z,1", "1,a,2", "3,m,3", "3,b,4"], "b": ["1,y,1", "2,a,0", "3,c,9", "3,a,1"]}
        right = ["1 y", "1 z", "1 a", "2 a", "3 c", "3 a", "3 m", "3 b"]
        plain = "SELECT k FROM b UNION ALL SELECT k FROM a"
        assert ask(tmp_path, f"Istream({plain})", rows, way) == right
        assert ask(tmp_path, f"Istream(SELECT k FROM ({plain}) [RANGE 1 MIN])", rows, way) == right
        assert [line.replace(" +", "") for line in ask(tmp_path, plain, rows, way)] == right

    def test_is_that_of_the_last_rows_where_equal_ones_leave(self, tmp_path, way):
        # At 3 one a leaves and two come: the last of them remains.
        rows = {"a": ["1,a,0", "3,a,0", "3,z,0", "3,a,0", "3,b,0"]}
        given = ask(tmp_path, "Istream(SELECT k FROM a [RANGE 2 SEC])", rows, way)
        assert given == ["1 a", "3 z", "3 a", "3 b"]


@pytest.mark.parametrize("way", WAYS)
class TestTheOrderOfValues:
    VALUES = ("z,1", "a,inf", "a,nan", "a,", ",2", "a,-0.0", "B,0", "b,-inf", "é,1")
    ORDERED = (
        "B 0.0", "a 0.0", "a Infinity", "a NaN", "a -", "b -Infinity", "z 1.0", "é 1.0", "- 2.0",
    )  # fmt: skip

    def test_has_a_place_for_every_value(self, tmp_path, way):
        rows = {"a": [f"5,{value}" for value in self.VALUES]}
        # What leaves comes first, whatever its values.
        given = ask(tmp_path, "SELECT DISTINCT k, x FROM a [RANGE 2 SEC]", {"a": [*rows["a"], "7,A,1"]}, way)
        entered, left = [f"5 + {row}" for row in self.ORDERED], [f"7 - {row}" for row in self.ORDERED]
        assert given == [*entered, *left, "7 + A 1.0"]
        query = "SELECT k, x, COUNT(*) AS n FROM a [RANGE 5 SEC SLIDE 5 SEC] GROUP BY k, x"
        assert ask(tmp_path, query, rows, way) == [f"5 + {row} 1" for row in self.ORDERED]
        query = "Rstream(SELECT k, x FROM a [RANGE 5 SEC SLIDE 5 SEC])"
        assert ask(tmp_path, query, rows, way) == [f"5 {row}" for row in self.ORDERED]
        query = "Rstream(SELECT k, x FROM a [ROWS 20])"
        assert [row for row in ask(tmp_path, query, rows, way)][-9:] == [f"5 {row}" for row in self.ORDERED]

    def test_is_that_of_joins(self, tmp_path, way):
        rows = {"a": ["1,k,3", "1,k,1", "2,j,5"], "b": ["1,k,2", "1,j,9", "2,k,1", "2,j,7"]}
        query = "Istream(SELECT a.x AS x, b.x AS y FROM a [RANGE 9 SEC], b [RANGE 9 SEC] WHERE a.k = b.k)"
        right = ["1 1.0 2.0", "1 3.0 2.0", "2 1.0 1.0", "2 3.0 1.0", "2 5.0 7.0", "2 5.0 9.0"]
        assert ask(tmp_path, query, rows, way) == right
        assert ask(tmp_path, f"SELECT x FROM ({query}) [ROWS 1]", rows, way) == [
            "1 + 3.0",
            "2 - 3.0",
            "2 + 5.0",
        ]

    def test_breaks_the_ties_of_order_by(self, tmp_path, way):
        rows = {"a": ["1,c,1", "2,a,2", "3,b,1", "4,d,", "5,a,1", "8,z,0"]}
        query = "SELECT k, x FROM a [RANGE 5 SEC SLIDE 5 SEC] ORDER BY x DESC"
        entered = ["5 + a 2.0", "5 + a 1.0", "5 + b 1.0", "5 + c 1.0", "5 + d -"]
        assert ask(tmp_path, query, rows, way) == entered


def test_files_are_the_same_for_any_batches_partitions_and_names_of_groups(tmp_path):
    rng = random.Random(5)
    rows: dict[str, list[str]] = {}
    for name, words in (("a", "zyxwvutsrq"), ("b", "qrstuvwxyz")):
        times = itertools.accumulate(rng.choice((0, 0, 0, 1, 2)) for _ in range(300))
        rows[name] = [f"{t},{rng.choice(words)},{rng.choice((1, 2.5, '', -1))}" for t in times]
    for query in (
        "SELECT k, COUNT(*) AS n FROM a [RANGE 9 SEC SLIDE 3 SEC] GROUP BY k",
        "Dstream(SELECT x, k FROM a [RANGE 9 SEC SLIDE 3 SEC])",
        "Rstream(SELECT COUNT(*) AS n FROM a [RANGE 9 SEC SLIDE 3 SEC] GROUP BY k)",
        "SELECT a.k, b.x FROM a [RANGE 5 SEC], b [RANGE 3 SEC] WHERE a.k = b.k",
        "Wstream(SELECT k, x FROM a [RANGE 2 SEC])[ROWS 9]",
        "Istream-restore(SELECT k, x FROM a [RANGE 5 SEC SLIDE 9 SEC])",
        "SELECT k, n FROM (Dstream(SELECT k, COUNT(*) AS n FROM a [RANGE 3 SEC] GROUP BY k)) [ROWS 5]",
    ):
        first, *others = [ask(tmp_path, query, rows, way) for way in (*WAYS, (1, 7))]
        assert first
        for other in others:
            assert other == first, query
