from __future__ import annotations

import pyarrow as pa

from sash.cli.answers import MOST_ROWS, newest


def test_only_the_newest_instant_is_shown():
    table = pa.table({"ts": [1, 2, 2], "src": ["a", "b", "c"]})
    answer = newest(table)
    assert answer is not None
    assert (answer.instant, answer.rows, answer.columns) == (2, (("b",), ("c",)), ("src",))


def test_rows_come_greatest_first_where_they_are_ranked_and_null_last():
    table = pa.table({"ts": [1, 1, 1], "src": ["a", "b", "c"], "bytes": [5, None, 9]})
    answer = newest(table, rank="bytes")
    assert answer is not None
    assert answer.rows == (("c", 9), ("a", 5), ("b", None))
    assert answer.numeric == (False, True)


def test_of_a_change_log_the_rows_that_came_are_shown():
    table = pa.table({"ts": [3, 3], "op": ["-", "+"], "n": [1, 2]})
    answer = newest(table)
    assert answer is not None
    assert (answer.columns, answer.rows) == (("n",), ((2,),))


def test_where_rows_only_went_the_log_says_so():
    answer = newest(pa.table({"ts": [3], "op": ["-"], "n": [1]}))
    assert answer is not None
    assert (answer.columns, answer.rows) == (("op", "n"), (("-", 1),))


def test_a_large_answer_is_cut_but_counted():
    answer = newest(pa.table({"ts": [1] * 1000, "n": list(range(1000))}), rank="n")
    assert answer is not None
    assert (len(answer.rows), answer.total, answer.rows[0]) == (MOST_ROWS, 1000, (999,))


def test_no_rows_are_no_answer():
    assert newest(pa.table({"ts": pa.array([], pa.int64())})) is None
