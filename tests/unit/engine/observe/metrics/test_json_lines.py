"""Metrics as JSON lines, held against a run whose numbers are known."""

from __future__ import annotations

import json
import shutil

import pytest
from tests.unit.engine.observe.metrics.metrics_kit import run

from sash.engine.observe.metrics import JsonLinesMetrics
from sash.errors import UserError


def no_warning(text):
    raise AssertionError(text)


@pytest.fixture
def records(tmp_path):
    summary = run(tmp_path, JsonLinesMetrics(tmp_path / "m.jsonl", no_warning))
    found = [json.loads(line) for line in (tmp_path / "m.jsonl").read_text().splitlines()]
    return found, summary


def test_there_is_a_line_a_batch_and_the_last_one_agrees_with_the_summary(records):
    found, summary = records
    assert [each["batch"] for each in found] == list(range(summary.batches))
    assert sum(each["rows"] for each in found) == 14
    last = found[-1]
    assert last["streams"] == {
        "s": {
            "accepted": 12,
            "late": 1,
            "rejected": 1,
            "slack": 3_000_000,
            "newest": 12_000_000,
            "behind": None,
        }
    }
    assert last["clock"] == summary.clock == 12_000_000
    assert last["lag"] == 0
    assert last["progress"] == 1.0
    assert last["time"].endswith("Z")
    assert last["memory"] > 1_000_000
    for name, answered in summary.answered.items():
        assert last["queries"][name]["answered"] == answered
        assert sum(each["queries"][name]["rows"] for each in found) == answered


def test_the_clock_lags_until_the_input_has_ended(records):
    found, _ = records
    # The clock stands right before the newest row, of which another may come.
    assert [each["lag"] for each in found] == [1e-6] * (len(found) - 1) + [0]


def test_the_parts_of_a_batch_add_up_to_its_seconds(records):
    found, _ = records
    for each in found:
        assert list(each["parts"]) == ["read", "wait", "answer", "write", "commit"]
        assert sum(each["parts"].values()) == pytest.approx(each["seconds"], abs=1e-4)


def test_operators_are_told_with_their_lines_of_the_plan(records):
    found, summary = records
    operators = {(o["query"], o["number"]): o for o in found[-1]["operators"]}
    assert len(operators) == len(found[-1]["operators"])
    texts = [o["operator"] for o in found[-1]["operators"] if o["query"] == "pairs"]
    assert texts[0].startswith("Output view: the view's change log")
    assert any(text.startswith("Join ") for text in texts)
    windows = [o for o in found[-1]["operators"] if o["query"] == "pairs" and "Window" in o["operator"]]
    assert windows[0]["operator"] == "Window [RANGE 3 s], rows live from ts until ts + 3 s"
    assert [window["rows_in"] for window in windows] == [12] * len(windows)
    answer = operators["pairs", 0]
    assert answer["rows_out"] == summary.answered["pairs"]
    assert answer["negative"] > 0
    join = next(o for o in found[-1]["operators"] if o["operator"].startswith("Join"))
    assert join["state_rows"] > 0
    assert join["state_bytes"] > 0
    assert operators["total", 0]["rows_out"] == summary.answered["total"]
    assert operators["total", 0]["rows_in"] == 12


def test_state_is_that_of_the_operators(records):
    found, _ = records
    last = found[-1]
    assert list(last["state"]["partitions"]) == ["driver"]
    assert last["state"]["state_bytes"] >= max(q["state_bytes"] for q in last["queries"].values())
    for name, query in last["queries"].items():
        own = [o for o in last["operators"] if o["query"] == name]
        assert query["state_bytes"] == sum(o["state_bytes"] for o in own) > 0
        assert query["state_rows"] == sum(o["state_rows"] for o in own) > 0


def test_partitions_are_told_apart_and_their_operators_added_up(tmp_path, records):
    whole, _ = records
    path = tmp_path / "parts.jsonl"
    run(tmp_path, JsonLinesMetrics(path, no_warning), partitions=2)
    last = [json.loads(line) for line in path.read_text().splitlines()][-1]
    assert set(last["state"]["partitions"]) == {"driver", "0", "1"}
    held = [place["state_bytes"] for place in last["state"]["partitions"].values()]
    assert last["state"]["state_bytes"] == sum(held)
    for mine, theirs in zip(last["operators"], whole[-1]["operators"], strict=True):
        for key in ("query", "number", "operator", "rows_in", "rows_out", "negative"):
            assert mine[key] == theirs[key], (mine, theirs)


def test_lines_of_earlier_runs_stay(tmp_path):
    (tmp_path / "m.jsonl").write_text("{}\n")
    run(tmp_path, JsonLinesMetrics(tmp_path / "m.jsonl", no_warning), batch_rows=100)
    assert len((tmp_path / "m.jsonl").read_text().splitlines()) == 2


def test_a_file_that_cannot_be_written_is_refused_before_the_run(tmp_path):
    with pytest.raises(UserError, match="cannot write metrics to") as caught:
        JsonLinesMetrics(tmp_path / "missing" / "m.jsonl", no_warning)
    assert caught.value.got == "there is no such file or directory"


def test_a_folder_that_goes_away_is_one_warning_and_the_run_goes_on(tmp_path):
    folder = tmp_path / "metrics"
    folder.mkdir()
    warnings: list[str] = []
    monitor = JsonLinesMetrics(folder / "m.jsonl", warnings.append)
    shutil.rmtree(folder)
    summary = run(tmp_path, monitor)
    assert summary.batches > 2
    assert len(warnings) == 1
    assert warnings[0].endswith("there is no such file or directory; the run goes on")


def test_a_full_disk_is_one_warning_and_the_run_goes_on(tmp_path):
    warnings: list[str] = []
    (tmp_path / "full").symlink_to("/dev/full")
    monitor = JsonLinesMetrics(tmp_path / "full", warnings.append)
    assert not run(tmp_path, monitor).interrupted
    assert warnings == [f"cannot write metrics to '{tmp_path}/full': the disk is full; the run goes on"]
