"""Data that go wrong in continuous queries: each case has one defined outcome, which docs/cql.md tells."""

from __future__ import annotations

import json

import pytest

from sash.errors import DataError, SourceError
from sash.lang import bind_program
from sash.runtime.run import run_program

STREAM = (
    "CREATE STREAM {name} (t BIGINT, a STRING, n BIGINT, x DOUBLE) TIMESTAMP BY t SLACK 1 SEC "
    "FROM 'csv:{name}.csv';"
)


def _run(tmp_path, query: str, more: str = "", **files: str):
    program = ""
    for name, rows in files.items():
        (tmp_path / f"{name}.csv").write_text(rows)
        if name in ("s", "u"):
            program += STREAM.format(name=name)
    program += more + f"CREATE QUERY q INTO 'jsonl:q.jsonl' AS {query};"
    summary = run_program(bind_program(program), base_dir=tmp_path, runtime="inline")
    lines = (tmp_path / "q.jsonl").read_text().splitlines()
    return summary, [tuple(json.loads(line).values()) for line in lines]


def test_a_late_row_is_kept_aside_and_joins_nothing(tmp_path):
    """
    s: 1, 9, then 5, which is later than 1 s behind 9
    """
    summary, answers = _run(
        tmp_path,
        "SELECT s.n, u.n AS m FROM s [RANGE 10 SEC], u [RANGE 10 SEC] WHERE s.a = u.a",
        s="t,a,n,x\n1,k,1,0\n9,k,2,0\n5,k,3,0\n",
        u="t,a,n,x\n5,k,7,0\n",
    )
    assert summary.streams["s"].late == 1
    assert answers == [(5, "+", 1, 7), (9, "+", 2, 7)]
    assert "late by 3.000000 s" in (tmp_path / "dead-letters" / "s.late.jsonl").read_text()


def test_a_value_that_does_not_fit_is_rejected_with_its_row(tmp_path):
    summary, answers = _run(tmp_path, "SELECT n FROM s [ROWS 2]", s="t,a,n,x\n1,k,one,0\n2,k,2,0\n")
    assert summary.streams["s"].rejected == 1
    assert answers == [(2, "+", 2)]


def test_a_sum_that_leaves_64_bits_ends_the_run(tmp_path):
    rows = f"t,a,n,x\n1,k,{2**63 - 1},0\n2,k,1,0\n"
    with pytest.raises(DataError, match="does not fit into BIGINT"):
        _run(tmp_path, "SELECT a, SUM(n) AS n FROM s [RANGE 10 SEC] GROUP BY a", s=rows)


def test_a_sum_may_leave_64_bits_within_an_instant_as_long_as_it_comes_back(tmp_path):
    rows = f"t,a,n,x\n1,k,{2**63 - 1},0\n1,k,1,0\n1,k,-1,0\n"
    _, answers = _run(tmp_path, "SELECT SUM(n) AS n FROM s [RANGE 10 SEC]", s=rows)
    assert answers == [(1, "+", 2**63 - 1)]


def test_a_division_by_zero_is_null(tmp_path):
    _, answers = _run(
        tmp_path, "SELECT n / 0 AS d, n % 0 AS m, x / 0 AS y FROM s [RANGE 10 SEC]", s="t,a,n,x\n1,k,4,2\n"
    )
    assert answers == [(1, "+", None, None, None)]


def test_nan_joins_nan_and_null_joins_nothing(tmp_path):
    _, answers = _run(
        tmp_path,
        "SELECT s.n, u.n AS m FROM s [RANGE 10 SEC], u [RANGE 10 SEC] WHERE s.x = u.x",
        s="t,a,n,x\n1,k,1,NaN\n1,k,2,\n1,k,3,-0.0\n",
        u="t,a,n,x\n1,k,7,NaN\n1,k,8,\n1,k,9,0.0\n",
    )
    assert sorted(answers) == [(1, "+", 1, 7), (1, "+", 3, 9)]


FEED = (
    "CREATE RELATION r (k STRING, v INT, op STRING, at BIGINT) KEY (k) {kind} "
    "TIMESTAMP BY at OP BY op FROM 'csv:r.csv';"
)


def test_an_operation_that_is_none_ends_the_run(tmp_path):
    with pytest.raises(DataError, match="neither insert, update nor delete"):
        _run(
            tmp_path,
            "SELECT s.n, v FROM s [RANGE 10 SEC] JOIN r ON s.a = r.k",
            FEED.format(kind=""),
            s="t,a,n,x\n1,k,1,0\n9,k,1,0\n",
            r="k,v,op,at\nk,1,upsert,1\n",
        )


def test_a_deleted_key_may_not_come_back_to_a_relation_that_is_not_retroactive(tmp_path):
    with pytest.raises(DataError, match="a deleted key comes back"):
        _run(
            tmp_path,
            "SELECT s.n, v FROM s [RANGE 10 SEC] JOIN r ON s.a = r.k",
            FEED.format(kind="NON RETROACTIVE"),
            s="t,a,n,x\n1,k,1,0\n9,k,1,0\n",
            r="k,v,op,at\nk,1,insert,1\nk,1,delete,2\nk,2,insert,3\n",
        )


def test_a_relation_that_does_not_fit_keeps_the_run_from_starting(tmp_path):
    with pytest.raises(SourceError, match="row 2 does not fit"):
        _run(
            tmp_path,
            "SELECT s.n, v FROM s [RANGE 10 SEC] JOIN r ON s.a = r.k",
            "CREATE RELATION r (k STRING, v INT) KEY (k) FROM 'csv:r.csv';",
            s="t,a,n,x\n1,k,1,0\n",
            r="k,v\nk,1\nl,two\n",
        )
    assert not (tmp_path / "q.jsonl").exists()
