"""A standalone Spark cluster whose executors know nothing of sash gives the answers of one process."""

from __future__ import annotations

import os
import random
import signal
import subprocess
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
