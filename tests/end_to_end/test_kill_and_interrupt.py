"""Killed at any moment, or interrupted, and started again: the output is that of an undisturbed run."""

from __future__ import annotations

import os
import random
import signal
import time
from pathlib import Path

from tests.end_to_end.kit import Started, committed, sash, sorted_within_instants, wait_until
from tests.end_to_end.workers import kill_in_their_tasks

PROGRAM = """
CREATE STREAM packets (ts TIMESTAMP, src STRING, port BIGINT, length BIGINT)
  TIMESTAMP BY ts SLACK 1 SEC FROM 'generator:packets'
  WITH (rate = {rate}, rows = {rows}, hosts = 12, disorder = 0.8, late_share = 0.01, bad_share = 0.01);
CREATE QUERY heavy INTO 'jsonl:{out}/heavy.jsonl' AS
  SELECT src, SUM(length) AS bytes FROM packets [RANGE 30 SEC SLIDE 5 SEC] GROUP BY src HAVING COUNT(*) > 3;
CREATE QUERY ports INTO 'jsonl:{out}/ports.jsonl' AS
  Rstream(SELECT port, COUNT(*) AS n, AVG(length) AS mean FROM packets [RANGE 10 SEC SLIDE 2 SEC]
          GROUP BY port);
"""
QUERIES = ("heavy", "ports")


def prepare(folder: Path, row_count: int, rate: int = 20) -> tuple[Path, dict[str, list[str]]]:
    """A program to be disturbed, and what the same program gave when nobody disturbed it."""
    whole, disturbed = folder / "whole.cql", folder / "disturbed.cql"
    whole.write_text(PROGRAM.format(out="whole", rows=row_count, rate=rate))
    disturbed.write_text(PROGRAM.format(out="out", rows=row_count, rate=rate))
    done = sash("run", whole, "--runtime", "inline", "--quiet", cwd=folder)
    assert (done.code, done.out, done.err) == (0, "", "")
    return disturbed, answers(folder / "whole")


def answers(folder: Path) -> dict[str, list[str]]:
    return {name: sorted_within_instants(folder / f"{name}.jsonl") for name in QUERIES}


def assert_no_noise(text: str) -> None:
    for noise in ("WARN", "Traceback", "Exception", "java", "JAVA", "log4j", "org.apache", "py4j"):
        assert noise not in text, text


def assert_whole_prefix(folder: Path, expected: dict[str, list[str]]) -> None:
    """Every instant that is there is there as a whole, from the first one on."""
    for name, given in answers(folder).items():
        assert given == expected[name][: len(given)]


def lost_tasks(checkpoint: Path) -> int:
    """How many tasks the runs on a checkpoint have lost."""
    log = checkpoint / "spark.log"
    return log.read_text().count("Lost task") if log.exists() else 0


def test_inline_killed_a_dozen_times_at_different_moments(tmp_path: Path) -> None:
    program, expected = prepare(tmp_path, 5_000)
    chance = random.Random(5)
    checkpoint = tmp_path / "state"
    command = ("run", program, "--runtime", "inline", "--checkpoint", checkpoint, "--batch-rows", "25")
    kills = 0
    while True:
        run = Started(*command, cwd=tmp_path)
        before = committed(checkpoint)
        target = before + chance.randrange(8, 20)
        run.until(lambda: committed(checkpoint) >= target)  # noqa: B023
        time.sleep(chance.random() * 0.01)
        if not run.is_running:
            break
        run.send(signal.SIGKILL)
        assert run.end().code == -signal.SIGKILL
        kills += 1
    done = run.end()
    assert (done.code, done.err) == (0, "")
    assert kills >= 10
    assert committed(checkpoint) == 5_000 // 25 - 1
    assert answers(tmp_path / "out") == expected


def test_spark_killed_interrupted_by_the_terminal_and_finished_though_workers_die(tmp_path: Path) -> None:
    rows, batch = 2_400_000, 200_000
    program, expected = prepare(tmp_path, rows, rate=10_000)
    checkpoint = tmp_path / "state"
    command = (
        "run", program, "--master", "local[2]", "--checkpoint", checkpoint, "--batch-rows", str(batch),
    )  # fmt: skip

    # Killed in the middle of a batch; what a kill at each step of a commit does is shown in-process.
    run = Started(*command, cwd=tmp_path)
    run.until(lambda: committed(checkpoint) >= 2)
    time.sleep(0.15)
    assert run.is_running
    assert run.has_jvm
    run.send(signal.SIGKILL)
    assert run.end().code == -signal.SIGKILL
    wait_until(lambda: run.survivors() == [], 15)

    # Ctrl-C reaches every process of the terminal's group; the batch under way is finished, or abandoned.
    run = Started(*command, cwd=tmp_path)
    target = committed(checkpoint) + 1
    run.until(lambda: committed(checkpoint) >= target)
    run.send_to_group(signal.SIGINT)
    done = run.end()
    assert done.err == ""
    assert done.code in (0, 128 + signal.SIGINT)
    assert done.code or "interrupted after" in done.out
    assert_no_noise(done.out)
    wait_until(lambda: run.survivors() == [], 15)
    reached = committed(checkpoint)
    assert reached < rows // batch - 1
    assert_whole_prefix(tmp_path / "out", expected)

    # Workers that are killed in their tasks cost time only, and the user sees nothing but the run itself.
    crashes = already = lost_tasks(checkpoint)
    run = Started(*command, cwd=tmp_path)
    while run.is_running and crashes < already + 2:
        before = crashes, committed(checkpoint)
        kill_in_their_tasks(run)
        # Some may have been between two tasks when they died, which is as good and not the point.
        run.until(lambda: lost_tasks(checkpoint) > before[0] or committed(checkpoint) > before[1])  # noqa: B023
        crashes = lost_tasks(checkpoint)
    done = run.end()
    assert (done.code, done.err) == (0, ""), done.out
    assert crashes > already
    assert "finished" in done.out
    assert "stream packets: read 2,400,000" in done.out
    assert_no_noise(done.out)
    assert committed(checkpoint) == rows // batch - 1
    assert answers(tmp_path / "out") == expected


def test_spark_left_at_once_by_a_second_ctrl_c_leaves_no_process_behind(tmp_path: Path) -> None:
    program = tmp_path / "p.cql"
    program.write_text(PROGRAM.format(out="out", rows=1_000, rate=20))
    run = Started("run", program, cwd=tmp_path)
    run.until(lambda: run.has_jvm)
    run.send_to_group(signal.SIGINT)
    # Two signals of one kind that come together are one: wait until the first has been heard.
    run.until(lambda: "stopping" in (tmp_path / f"out-{run.mark}").read_text())
    run.send_to_group(signal.SIGINT)
    done = run.end()
    assert done.code == 128 + signal.SIGINT
    assert "Traceback" not in done.out + done.err
    wait_until(lambda: run.survivors() == [], 20)


def test_inline_interrupted_twice_says_so_leaves_whole_rows_and_goes_on(tmp_path: Path) -> None:
    program, expected = prepare(tmp_path, 6_000)
    checkpoint = tmp_path / "state"
    command = ("run", program, "--runtime", "inline", "--checkpoint", checkpoint, "--batch-rows", "25")
    for number in (signal.SIGINT, signal.SIGTERM):
        run = Started(*command, cwd=tmp_path)
        target = committed(checkpoint) + 10
        run.until(lambda: committed(checkpoint) >= target)  # noqa: B023
        run.send(number)
        done = run.end()
        assert (done.code, done.err) == (0, "")
        assert "stopping after this batch" in done.out
        assert "interrupted after" in done.out
        assert target <= committed(checkpoint) < 6_000 // 25 - 1
        assert_whole_prefix(tmp_path / "out", expected)
    done = sash(*command, cwd=tmp_path)
    assert (done.code, done.err) == (0, "")
    assert "finished" in done.out
    assert answers(tmp_path / "out") == expected


def test_a_paced_source_without_end_runs_until_it_is_interrupted(tmp_path: Path) -> None:
    program = tmp_path / "p.cql"
    program.write_text(PROGRAM.format(out="out", rows=1, rate=2000).replace("rows = 1,", "pace = true,"))
    run = Started("run", program, "--runtime", "inline", cwd=tmp_path)
    ports = tmp_path / "out" / "ports.jsonl"
    run.until(lambda: ports.exists() and os.path.getsize(ports) > 0)
    run.send(signal.SIGINT)
    done = run.end()
    assert (done.code, done.err) == (0, "")
    assert "interrupted after" in done.out
    assert sorted_within_instants(ports)
