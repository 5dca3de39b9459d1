"""Side files: each late and rejected row once, over interruptions too."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest

from sash.errors import SinkError
from sash.runtime.aside import Aside
from sash.runtime.sources import REJECTS_SCHEMA
from sash.runtime.stage import ChunkResult


def result(late: int = 0, rejected: int = 0, start: int = 0) -> ChunkResult:
    def rows(count: int, reason: str) -> pa.Table:
        listed = [
            {"source": "f.csv", "row": start + i, "reason": reason, "data": f"é,{i}"} for i in range(count)
        ]
        return pa.Table.from_pylist(listed, schema=REJECTS_SCHEMA)

    return ChunkResult("s", 0, 0, None, None, (), rows(late, "late"), rows(rejected, "bad"))


def read(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_a_file_appears_with_its_first_row(tmp_path):
    aside = Aside(tmp_path / "aside", durable=False)
    aside.open(["s"], {})
    aside.write([result()])
    assert not (tmp_path / "aside").exists()
    aside.write([result(late=2), result(rejected=1)])
    aside.commit()
    aside.close()
    assert [row["row"] for row in read(tmp_path / "aside" / "s.late.jsonl")] == [0, 1]
    assert read(tmp_path / "aside" / "s.rejects.jsonl") == [
        {"source": "f.csv", "row": 0, "reason": "bad", "data": "é,0"}
    ]


def test_files_of_an_earlier_run_are_removed_and_those_of_others_are_left(tmp_path):
    for name in ("s.late.jsonl", "s.rejects.jsonl", "other.late.jsonl"):
        (tmp_path / name).write_text("old\n")
    Aside(tmp_path, durable=False).open(["s"], {})
    assert [path.name for path in tmp_path.iterdir()] == ["other.late.jsonl"]


def test_what_was_not_committed_is_taken_back(tmp_path):
    aside = Aside(tmp_path, durable=True)
    aside.open(["s"], {})
    aside.write([result(late=2)])
    committed = json.loads(json.dumps(aside.commit()))
    aside.write([result(late=3, rejected=1, start=2)])
    aside.close()
    again = Aside(tmp_path, durable=True)
    again.open(["s"], committed)
    assert not (tmp_path / "s.rejects.jsonl").exists()
    again.write([result(late=1, start=2)])
    again.commit()
    again.close()
    assert [row["row"] for row in read(tmp_path / "s.late.jsonl")] == [0, 1, 2]


def test_a_file_that_cannot_be_replaced_is_an_error_that_says_what_to_do(tmp_path):
    (tmp_path / "s.late.jsonl").mkdir()
    with pytest.raises(SinkError, match="cannot replace") as caught:
        Aside(tmp_path, durable=False).open(["s"], {})
    assert "--aside" in str(caught.value.hint)
