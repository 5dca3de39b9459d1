"""Rows of progress: what a query says of itself in its output after the answers of a batch.

batch        |  0  |  1  |  2  |
answers       5 10    15
progress          12    19    24      up to there everything is answered
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sash.engine.engine import Engine
from sash.engine.observe.explaining import explained
from sash.engine.observe.report import RECORD
from sash.errors import DuplicateName, SashError
from sash.lang import bind_program
from sash.plan.run_plan import plan_run
from sash.runtime.run import run_program
from sash.testing.faults import Fault, watched
from sash.testing.runs import StopAfter, bound

STREAMS = """
CREATE STREAM a (t BIGINT, k STRING, n BIGINT) TIMESTAMP BY t SLACK 2 SEC FROM 'csv:a.csv';
CREATE STREAM b (t BIGINT, k STRING, n BIGINT) TIMESTAMP BY t FROM 'csv:b.csv';
"""
SELECTS = (
    "SELECT k, SUM(n) AS s FROM a [RANGE 6 SEC SLIDE 3 SEC] GROUP BY k",
    "Rstream(SELECT k, COUNT(*) AS c FROM b [RANGE 4 SEC SLIDE 2 SEC] GROUP BY k)",
    "SELECT k, MAX(n) AS m FROM a [RANGE 40 SEC SLIDE 20 SEC] GROUP BY k WITH (state = 'partitioned')",
    "SELECT a.k, b.n FROM a [RANGE 5 SEC], b [RANGE 3 SEC] WHERE a.k = b.k",
    "Istream(SELECT n FROM b WHERE n > 3)",
    "SELECT DISTINCT k FROM a [RANGE 5 SEC]",
    "SELECT a.k, COUNT(*) AS c FROM a [RANGE 6 SEC SLIDE 2 SEC], b [RANGE 6 SEC SLIDE 2 SEC] "
    "WHERE a.k = b.k GROUP BY a.k",
)
PLACES = {"jsonl": "{}.jsonl", "csv": "{}.csv", "parquet": "{}"}


def program(prefix: str, sinks: Sequence[str], *, tells: bool) -> str:
    """The queries, each with its sink, which tell their progress or do not."""
    queries = []
    for number, (select, sink) in enumerate(zip(SELECTS, sinks, strict=True)):
        if tells and select.endswith(" WITH (state = 'partitioned')"):
            select = f"{select.removesuffix(')')}, progress = TRUE)"
        elif tells:
            select += " WITH (progress = true)"
        place = PLACES[sink].format(f"{prefix}{number}")
        queries.append(f"CREATE QUERY q{number} INTO '{sink}:{place}' AS {select};\n")
    return STREAMS + "".join(queries)


def write_rows(rng: random.Random, folder: Path) -> dict[str, int]:
    """Some rows of both streams; gives the greatest timestamp of each."""
    newest = {}
    for name in "ab":
        time, rows = rng.randint(0, 9), []
        for _ in range(rng.randint(5, 60)):
            time += rng.choice((0, 0, 1, 1, 2, 9 if rng.random() < 0.2 else 1))
            late = rng.choice((0, 0, 1)) if name == "a" else 0
            rows.append((time - late, rng.choice("xyz"), rng.randint(0, 6)))
        newest[name] = max(t for t, _, _ in rows)
        lines = (f"{t},{k},{n}\n" for t, k, n in rows)
        (folder / f"{name}.csv").write_text("t,k,n\n" + "".join(lines))
    return newest


def rows_of(folder: Path, prefix: str, number: int, sink: str) -> list[dict[str, Any]]:
    """The rows of an output in their order; of an answer without `progress`."""
    place = folder / PLACES[sink].format(f"{prefix}{number}")
    if sink == "jsonl":
        rows = [json.loads(line) for line in place.read_text().splitlines()]
        assert all(row["progress"] is not None for row in rows if "progress" in row)
        return rows
    if sink == "csv":
        options = pa_csv.ConvertOptions(strings_can_be_null=True, quoted_strings_can_be_null=False)
        table = pa_csv.read_csv(place, convert_options=options)
    else:
        table = pq.read_table(sorted(place.glob("part-*.parquet")), partitioning=None)
    if "progress" in table.column_names:
        assert table.column_names[-1] == "progress"
    rows = table.to_pylist()
    return [{name: v for name, v in row.items() if name != "progress" or v is not None} for row in rows]


def told(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The records of the rows of progress, which stand where they should."""
    found: list[dict[str, Any]] = []
    newest = None
    for row in rows:
        if "progress" not in row:
            assert not found or row["ts"] > found[-1]["instant"]
            newest = row["ts"]
            continue
        assert [name for name, value in row.items() if value is not None] == ["ts", "progress"]
        record = json.loads(row["progress"])
        assert list(record) == ["instant", "is_complete", "lacking_until", "skipped_after", "bounds"]
        assert row["ts"] == record["instant"]
        assert newest is None or newest <= row["ts"]
        assert not found or found[-1]["instant"] < row["ts"]
        found.append(record)
    return found


@settings(max_examples=8)
@given(st.integers(0, 2**32), st.integers(3, 40), st.sampled_from([None, 1, 3]))
def test_progress_stands_between_answers_that_are_as_without_it(seed, batch_rows, partitions):
    rng = random.Random(seed)
    sinks = [rng.choice(list(PLACES)) for _ in SELECTS]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        newest = write_rows(rng, folder)
        plain = run_program(bind_program(program("p", sinks, tells=False)), base_dir=folder, runtime="inline")
        summary = run_program(
            bind_program(program("q", sinks, tells=True)),
            base_dir=folder,
            runtime="inline",
            batch_rows=batch_rows,
            partitions=partitions,
        )
        assert summary.answered == plain.answered
        for number, (select, sink) in enumerate(zip(SELECTS, sinks, strict=True)):
            rows = rows_of(folder, "q", number, sink)
            records = told(rows)
            assert [row for row in rows if "progress" not in row] == rows_of(folder, "p", number, sink)
            read = [s for s in "ab" if f"FROM {s} " in select or f", {s} [" in select]
            assert records[-1]["instant"] == max(newest[each] for each in read)
            assert all(record["is_complete"] and record["skipped_after"] is None for record in records)
            if sink == "jsonl":
                lines = (folder / f"q{number}.jsonl").read_text().splitlines()
                answers = [line for line in lines if '"progress":' not in line]
                assert answers == (folder / f"p{number}.jsonl").read_text().splitlines()


def kill_at(folder: Path, operation: int, batch_rows: int, partitions: int | None) -> int:
    """Run the program of a folder in a process of its own, which dies at an operation; 0: it does not."""
    root = Path(__file__).parents[3]
    arguments = [str(folder), str(operation), str(batch_rows), str(partitions or 0)]
    return subprocess.run(
        [sys.executable, __file__, *arguments],
        env={**os.environ, "PYTHONHASHSEED": str(operation), "PYTHONPATH": f"{root / 'src'}:{root}"},
        check=False,
    ).returncode


def start(folder: Path, operation: int, batch_rows: int, partitions: int | None) -> None:
    with watched(Fault(at=operation), folder):
        run_program(
            bound((folder / "p.cql").read_text()),
            base_dir=folder,
            runtime="inline",
            checkpoint=folder / "state",
            batch_rows=batch_rows,
            partitions=partitions,
        )


def test_progress_is_written_once_over_kills(tmp_path):
    rng = random.Random(2)
    sinks = ["jsonl", "csv", "parquet", "jsonl", "parquet", "csv", "jsonl"]
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    for folder in (whole, killed):
        folder.mkdir()
        write_rows(random.Random(2), folder)
        (folder / "p.cql").write_text(program("q", sinks, tells=True))
    start(whole, 0, 7, None)
    codes = [kill_at(killed, rng.randint(40, 160), 7, 2) for _ in range(2)]
    assert codes[0] == -signal.SIGKILL
    start(killed, 0, 7, 2)
    for number, sink in enumerate(sinks):
        rows, right = (rows_of(folder, "q", number, sink) for folder in (killed, whole))
        # With two streams batches are cut otherwise after a start; the end is the same.
        assert told(rows)[-1] == told(right)[-1]
        assert [row for row in rows if "progress" not in row] == [r for r in right if "progress" not in r]


def test_a_batch_that_is_repeated_writes_the_same_bytes(tmp_path):
    """With one stream, a run that was killed has the batches of one that was not."""
    sinks = {0: "jsonl", 2: "csv", 5: "parquet"}
    text = program("q", [sinks.get(number, "jsonl") for number in range(len(SELECTS))], tells=True)
    queries = [line for line in text.splitlines() if any(f" q{number} " in line for number in sinks)]
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    for folder in (whole, killed):
        folder.mkdir()
        write_rows(random.Random(5), folder)
        (folder / "p.cql").write_text("\n".join([*STREAMS.splitlines(), *queries]))
    start(whole, 0, 7, None)
    codes = [kill_at(killed, operation, 7, None) for operation in (60, 45)]
    assert codes == [-signal.SIGKILL] * 2
    start(killed, 0, 7, None)
    for number, sink in sinks.items():
        assert told(rows_of(killed, "q", number, sink))
        place = PLACES[sink].format(f"q{number}")
        paths = [killed / place] if sink != "parquet" else sorted((killed / place).glob("part-*"))
        assert paths
        for path in paths:
            assert path.read_bytes() == (whole / path.relative_to(killed)).read_bytes()


def test_the_console_shows_progress_in_full(tmp_path, capsys):
    (tmp_path / "b.csv").write_text("t,k,n\n1,x,1\n2,y,5\n")
    text = f"{STREAMS}CREATE QUERY q INTO 'console:' AS SELECT k FROM b [NOW] WITH (progress = true);"
    run_program(bind_program(text), base_dir=tmp_path, runtime="inline", batch_rows=100)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["ts", "op", "k", "progress"]
    assert [line.split() for line in lines[1:-1]] == [["1", "+", "x"], ["2", "-", "x"], ["2", "+", "y"]]
    assert json.loads(lines[-1].split()[-1])["instant"] == 2


def test_times_of_a_timestamp_are_told_as_timestamps(tmp_path):
    (tmp_path / "c.csv").write_text("t,n\n2026-01-01T00:00:01Z,1\n2026-01-01T00:00:02Z,5\n")
    text = (
        "CREATE STREAM c (t TIMESTAMP, n BIGINT) TIMESTAMP BY t FROM 'csv:c.csv';"
        "CREATE QUERY q INTO 'jsonl:q.jsonl' AS Istream(SELECT n FROM c) WITH (progress = true);"
    )
    run_program(bind_program(text), base_dir=tmp_path, runtime="inline", batch_rows=100)
    last = json.loads((tmp_path / "q.jsonl").read_text().splitlines()[-1])
    assert last["ts"] == "2026-01-01T00:00:02.000000Z"
    assert json.loads(last["progress"])["instant"] == 1_767_225_602_000_000


@pytest.mark.parametrize("seed", range(6))
def test_elastic_refresh_tells_after_which_instant_boundaries_were_skipped(tmp_path, seed, monkeypatch):
    """
    boundary   2    4    6    8   10
    answered   x         x    x    -         progress up to 9, for 10 waits; 4 was skipped after 2
    """
    rng = random.Random(seed)
    lines = (f"{t},{rng.choice('xy')},{t}\n" for t in range(1, 90))
    (tmp_path / "b.csv").write_text("t,k,n\n" + "".join(lines))
    selects = (
        "Rstream(SELECT COUNT(*) AS c FROM b [RANGE 6 SEC SLIDE 2 SEC])",
        "SELECT k, COUNT(*) AS c FROM b [RANGE 8 SEC SLIDE 4 SEC] GROUP BY k",
        "Rstream(SELECT COUNT(*) AS c FROM b [RANGE 6 SEC SLIDE 3 SEC])",
    )
    text = STREAMS + "".join(
        f"CREATE QUERY q{i} INTO 'jsonl:q{i}.jsonl' AS {select} "
        "WITH (refresh = 'elastic', progress = true);\n"
        for i, select in enumerate(selects)
    )
    # Some batches have time for everything, others for one decision.
    monkeypatch.setattr(Engine, "_seconds_left", lambda self, watch: rng.choice((None, 0.0)))
    for stop in (3, 4, None):
        monitor = StopAfter(stop)
        run_program(
            bind_program(text),
            base_dir=tmp_path,
            runtime="inline",
            checkpoint=tmp_path / "state",
            batch_rows=rng.randint(2, 9),
            monitor=monitor,
            stop=monitor.stop,
        )
    gaps = 0
    for number, slide in enumerate((2, 4, 3)):
        rows = rows_of(tmp_path, "q", number, "jsonl")
        assert told(rows)[-1]["instant"] == 89
        if number == 1:
            # A view tells nothing where nothing has changed.
            continue
        last = 0
        answers: list[int] = []
        for row in rows:
            if "progress" not in row:
                answers.append(row["ts"])
                continue
            record = json.loads(row["progress"])
            assert len(answers) <= 1
            if answers:
                is_skipping = answers[0] > last + slide
                gaps += is_skipping
                assert record["skipped_after"] == (last if is_skipping else None)
                last = answers[0]
            else:
                assert record["skipped_after"] is None
            # The next boundary is not answered yet.
            assert last <= record["instant"] < last + slide
            answers = []
    assert gaps


@pytest.mark.parametrize(
    ("window", "whole"),
    [
        ("RANGE 5 SEC", True),
        ("RANGE 60 SEC", False),
        ("ROWS 3", True),
        ("ROWS 39", False),
        ("UNBOUNDED", None),
    ],
)
def test_a_question_that_joins_a_run_says_whether_its_windows_are_whole(tmp_path, window, whole):
    """
    rows      1 |-----------------| 40
    program          ^ stopped, goes on with a question
    """
    lines = (f"{t},x,{t}\n" for t in range(1, 41))
    (tmp_path / "b.csv").write_text("t,k,n\n" + "".join(lines))
    text = f"{STREAMS}CREATE QUERY q INTO 'noop:' AS SELECT k FROM b [NOW];\n"
    question = f"SELECT COUNT(*) AS c FROM b [{window}];"
    found = {}
    for name, programs in {"first": [text + question], "later": [text, text + question]}.items():
        for number, each in enumerate(programs, start=1):
            monitor = StopAfter(3 if number < len(programs) else None)
            summary = run_program(
                bind_program(each),
                base_dir=tmp_path,
                runtime="inline",
                checkpoint=tmp_path / name,
                batch_rows=5,
                monitor=monitor,
                stop=monitor.stop,
            )
        ((_, table),) = summary.once.items()
        found[name] = json.loads(table.schema.metadata[RECORD])
        assert found[name]["instant"] == 40
    assert found["first"]["is_complete"]
    assert found["later"]["is_complete"] is bool(whole)
    until = found["later"]["lacking_until"]
    assert (until is not None and until > 40) is (window == "RANGE 60 SEC")


@pytest.mark.parametrize(
    ("select", "expected"),
    [
        ("SELECT k FROM b [NOW] WITH (progress = 'often')", "true, false"),
        ("SELECT k FROM b [NOW] WITH (progress = 1)", "true, false"),
    ],
)
def test_what_is_neither_true_nor_false_is_refused(select, expected):
    with pytest.raises(SashError, match=r"progress = '.*' is not known") as caught:
        plan_run(bind_program(f"{STREAMS}CREATE QUERY q INTO 'noop:' AS {select};"))
    assert caught.value.id == "query-option"
    assert expected in str(caught.value.expected)
    assert caught.value.place is not None


def test_a_column_of_that_name_and_the_option_do_not_go_together():
    text = f"{STREAMS}CREATE QUERY q INTO 'noop:' AS SELECT k AS Progress FROM b [NOW]"
    plan_run(bind_program(f"{text} WITH (progress = false);"))
    with pytest.raises(DuplicateName, match="progress"):
        plan_run(bind_program(f"{text} WITH (progress = true);"))


def test_an_archive_does_not_tell_its_progress():
    text = "CREATE ARCHIVE q KEY (k) EVERY 5 SEC INTO 'q' AS SELECT k FROM b [RANGE 5 SEC]"
    with pytest.raises(SashError, match="progress is not for an archive"):
        plan_run(bind_program(f"{STREAMS}{text} WITH (progress = true);"))


def test_explain_says_that_a_query_tells_its_progress():
    query = "CREATE QUERY q INTO 'noop:' AS SELECT k FROM b [NOW]"
    assert "progress" not in explained(bind_program(f"{STREAMS}{query};"))
    assert "WITH (progress = true)" in explained(bind_program(f"{STREAMS}{query} WITH (progress = true);"))


if __name__ == "__main__":
    directory, at, rows_of_a_batch, partition_count = sys.argv[1:]
    start(Path(directory), int(at), int(rows_of_a_batch), int(partition_count) or None)
