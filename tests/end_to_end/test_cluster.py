"""A standalone Spark cluster whose executors know nothing of sash gives the answers of one process."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import time
from contextlib import suppress
from pathlib import Path

from tests.end_to_end.cluster import QUICK, cluster
from tests.end_to_end.kit import Started, committed, sorted_within_instants, wait_until

from sash.archive import open_snapshot
from sash.lang import bind_program
from sash.runtime.run import run_program

PROGRAM = """
CREATE STREAM calls (ts BIGINT, line STRING, cost BIGINT) TIMESTAMP BY ts FROM 'csv:calls.csv';
CREATE STREAM alarms (ts BIGINT, line STRING, level BIGINT) TIMESTAMP BY ts FROM 'csv:alarms.csv';
CREATE QUERY pairs INTO 'jsonl:out/pairs.jsonl' AS
  SELECT c.line, c.cost, a.level FROM calls [RANGE 20 SEC] c, alarms [RANGE 20 SEC] a WHERE c.line = a.line;
CREATE QUERY costs INTO 'jsonl:out/costs.jsonl' AS
  Rstream(SELECT line, SUM(cost) AS total FROM calls [RANGE 20 SEC SLIDE 10 SEC] GROUP BY line);
CREATE ARCHIVE kept KEY (line) USING NOREBUILD 2x2 EVERY 10 SEC INTO 'kept' AS
  SELECT c.line, c.cost, a.level FROM calls [RANGE 20 SEC] c, alarms [RANGE 20 SEC] a WHERE c.line = a.line;
CREATE ARCHIVE latest KEY (line) USING COUNTREBUILD 2x2 EVERY 10 SEC INTO 'latest' AS
  SELECT line, cost FROM calls [ROWS 50];
"""
ROWS = 600


def prepare(folder: Path) -> dict[str, list[str]]:
    """The program and its streams, and what they give in one process."""
    chance = random.Random(11)
    for name, column in (("calls", "cost"), ("alarms", "level")):
        lines = [f"{row // 4},line{chance.randrange(20)},{chance.randrange(100)}" for row in range(ROWS)]
        (folder / f"{name}.csv").write_text("\n".join([f"ts,line,{column}", *lines]) + "\n")
    (folder / "p.cql").write_text(PROGRAM)
    run_program(bind_program(PROGRAM), base_dir=folder, runtime="inline")
    return answers(folder)


def answers(folder: Path) -> dict[str, list[str]]:
    return {name: sorted_within_instants(folder / "out" / f"{name}.jsonl") for name in ("pairs", "costs")} | {
        f"{name} {how}": rows for name in ("kept", "latest") for how, rows in archived(folder / name).items()
    }


def archived(directory: Path) -> dict[str, list[str]]:
    """The instant of an archive, and what scans, probes and ranges find in it."""
    with open_snapshot(directory) as snapshot:
        found = {
            "all": snapshot.scan(),
            **{f"of line{n}": snapshot.probe(f"line{n}") for n in (0, 7, 19, 20)},
            "between": snapshot.range("line1", "line15"),
        }
        if snapshot.spec.grain is not None:
            found["shorter"] = snapshot.scan(within=10_000_000)
        instant = str(snapshot.through)
    rows = {how: sorted(map(str, table.to_pylist())) for how, table in found.items()}
    assert rows.pop("of line20") == []
    return {"instant": [instant], **rows}


def test_joins_and_archives_on_two_workers_that_have_sash_from_the_driver_only(tmp_path: Path) -> None:
    """Updates of archives are jobs, however small; one executor is killed in the middle of one."""
    expected = prepare(tmp_path)
    assert all(expected.values())
    shared = tmp_path / "shared"
    with cluster(tmp_path / "cluster") as spark:
        alone = subprocess.run(
            [spark.python, "-c", "import pyarrow, pyspark; import sash"],
            env={},
            capture_output=True,
            text=True,
        )
        assert alone.stderr.splitlines()[-1] == "ModuleNotFoundError: No module named 'sash'"
        run = Started(
            "run", "p.cql", "--master", spark.master, "--checkpoint", "shared", "--batch-rows", "400",
            "--max-driver-update", "1B",
            cwd=tmp_path, env={"JAVA_TOOL_OPTIONS": QUICK, "PYSPARK_PYTHON": str(spark.python)},
        )  # fmt: skip
        run.until(lambda: any(shared.glob("archived-*")))
        os.kill(executors_in(spark.work)[0], signal.SIGKILL)
        done = run.end(240)
        assert (done.code, done.err) == (0, ""), done.out
        assert "finished" in done.out
        wait_until(lambda: run.survivors() == [], 20)
        assert sent_to(spark.work) >= 2, "both workers had an executor, and it was sent the package"
    assert committed(shared) >= 2
    assert not [*shared.glob("seen-*"), *shared.glob("archived-*"), *tmp_path.glob("*/data/seen-*")]
    assert answers(tmp_path) == expected
    wait_until(lambda: processes_in(tmp_path / "cluster") == {}, 20)


SPECULATION = {
    "spark.speculation": "true",
    "spark.speculation.interval": "20ms",
    "spark.speculation.minTaskRuntime": "20ms",
    "spark.speculation.multiplier": "1",
    "spark.speculation.quantile": "0.5",
}


def test_stalled_attempts_that_write_after_the_commit_harm_no_checkpoint(tmp_path: Path) -> None:
    """Holders are stopped until second attempts have been committed; then they go on, and write."""
    expected = prepare(tmp_path)
    shared, conf = tmp_path / "shared", tmp_path / "conf"
    conf.mkdir()
    settings = "".join(f"{name} {value}\n" for name, value in SPECULATION.items())
    (conf / "spark-defaults.conf").write_text(settings)
    chance = random.Random(5)
    with cluster(tmp_path / "cluster") as spark:
        arguments = (
            "run", "p.cql", "--master", spark.master, "--checkpoint", "shared", "--batch-rows", "20",
            "--partitions", "2",
        )  # fmt: skip
        env = {"JAVA_TOOL_OPTIONS": QUICK, "PYSPARK_PYTHON": str(spark.python), "SPARK_CONF_DIR": str(conf)}
        for times in (3, 2):
            overtaken = 0
            run = Started(*arguments, cwd=tmp_path, env=env)
            while run.is_running and overtaken < times:
                holders = holders_in(spark.work)
                overtaken += bool(holders) and is_overtaken(run, shared, chance.choice(holders))
                time.sleep(0.1)
            assert run.is_running, run.end().err
            assert overtaken == times
            if times == 3:
                run.send_to_group(signal.SIGKILL)
                run.end(10)
                wait_for_end(run)
        done = run.end(240)
        assert (done.code, done.err) == (0, ""), done.out
        wait_until(lambda: holders_in(spark.work) == [], 30)
    assert answers(tmp_path) == expected
    assert committed(shared) >= 20
    manifest = json.loads((shared / "manifest.json").read_text())
    named = {name for files in manifest["cells"].values() for name, *_ in files}
    assert named <= {path.name for path in (shared / "cells").iterdir()}


def wait_for_end(run: Started) -> None:
    wait_until(lambda: run.survivors() == [], 30)


def is_overtaken(run: Started, checkpoint: Path, holder: int) -> bool:
    """Stop a holder; says whether batches are committed without it before it goes on with what it was at."""
    batch, end = committed(checkpoint), time.monotonic() + 15
    try:
        os.kill(holder, signal.SIGSTOP)
        while run.is_running and time.monotonic() < end:
            if committed(checkpoint) >= batch + 2:
                return True
            time.sleep(0.02)
        return False
    finally:
        with suppress(ProcessLookupError):
            os.kill(holder, signal.SIGCONT)


def holders_in(work: Path) -> list[int]:
    """The processes that have state; they are children of one of their kind."""
    found = {
        p: command
        for p, command in processes_in(work).items()
        if "sash.runtime.spark.state_server" in command
    }
    return [process for process in found if _parent(process) in found]


def _parent(process: int) -> int:
    try:
        return int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return -1


def sent_to(work: Path) -> int:
    return len(list(work.glob("app-*/*/sash-*/sash/__init__.py")))


def executors_in(work: Path) -> list[int]:
    return [
        process
        for process, command in processes_in(work).items()
        if "CoarseGrainedExecutorBackend" in command
    ]


def processes_in(folder: Path) -> dict[int, str]:
    """Processes that were started in a folder or below it, with their command lines."""
    found = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if Path(os.readlink(entry / "cwd")).is_relative_to(folder):
                    found[int(entry.name)] = (entry / "cmdline").read_text().replace("\0", " ")
            except OSError:
                continue
    return found
