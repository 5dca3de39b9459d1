"""Joins of sliding windows by algorithms 2 to 5 of 002 (section 5.2): one timeline, one answer."""

from __future__ import annotations

import json

import pytest

from sash.lang import bind_program
from sash.runtime.run import run_program

STREAMS = "".join(
    f"CREATE STREAM {name} (t BIGINT, k STRING, n INT) TIMESTAMP BY t FROM 'csv:{name}.csv';" for name in "ab"
)
A = "t,k,n\n1,x,1\n12,x,2\n30,x,9\n"
B = "t,k,n\n4,x,7\n13,x,8\n"


def _answers(tmp_path, kind: str, options: str) -> list[tuple[object, ...]]:
    """
    slides         0         10        20        30
    a (10 s)       1─────────┼11
                             │  12───────22
                             │         │                 30
    b (10 s)           4─────┼────14   │
                             │   13────┼──23
    (1, 7)             4─────┼11       │           lives at slide 10
    (2, 7)                   │  12─14  │           comes and goes between 10 and 20
    (2, 8)                   │   13────┼─22        lives at slide 20
    """
    (tmp_path / "a.csv").write_text(A)
    (tmp_path / "b.csv").write_text(B)
    query = (
        f"CREATE QUERY q INTO 'jsonl:q.jsonl' AS {kind}(SELECT a.n, b.n AS m "
        f"FROM a [RANGE 10 SEC SLIDE 10 SEC], b [RANGE 10 SEC SLIDE 10 SEC] WHERE a.k = b.k) {options};"
    )
    run_program(bind_program(STREAMS + query), base_dir=tmp_path, runtime="inline")
    return [tuple(json.loads(line).values()) for line in (tmp_path / "q.jsonl").read_text().splitlines()]


@pytest.mark.parametrize("algorithm", ["eager", "eager-lazy", "lazy", "lazy-restore"])
def test_what_lives_at_a_slide_is_given_by_every_algorithm(tmp_path, algorithm):
    assert _answers(tmp_path, "Istream", f"WITH (join = '{algorithm}')") == [(10, 1, 7), (20, 2, 8)]


def test_restore_also_gives_what_came_and_went_between_two_slides(tmp_path):
    assert sorted(_answers(tmp_path, "Istream-restore", "")) == [(10, 1, 7), (20, 2, 7), (20, 2, 8)]


def test_the_whole_answer_with_restore_adds_it_to_what_is_there(tmp_path):
    assert sorted(_answers(tmp_path, "Rstream-restore", "")) == [(10, 1, 7), (20, 2, 7), (20, 2, 8)]
