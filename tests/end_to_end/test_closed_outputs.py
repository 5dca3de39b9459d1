"""Whoever reads the output leaves: the run ends soon and quietly, also if no further row comes."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.end_to_end.kit import PATIENCE, SASH, Outcome, committed, rows, sash, wait_until

# After two seconds of rows the stream is silent, but has no end.
STREAM = """
CREATE STREAM s (ts BIGINT, a BIGINT) TIMESTAMP BY ts FROM 'csv:in' WITH (watch = true, unit = 'ms');
CREATE QUERY q INTO '{sink}' AS Istream(SELECT a FROM s [UNBOUNDED]);
"""


def prepared(folder: Path, sink: str) -> None:
    (folder / "in").mkdir()
    (folder / "p.cql").write_text(STREAM.format(sink=sink))
    feed(folder, 0)


def feed(folder: Path, number: int) -> None:
    lines = "".join(f"{1000 * number + i},{i}\n" for i in range(100))
    (folder / f"{number}.tmp").write_text("ts,a\n" + lines)
    (folder / f"{number}.tmp").rename(folder / "in" / f"{number}.csv")


@contextmanager
def running(folder: Path, *options: str, **how: object) -> Iterator[subprocess.Popen[bytes]]:
    command = [SASH, "run", "p.cql", "--runtime", "inline", *options]
    with open(folder / "err", "wb") as err:
        process = subprocess.Popen(command, cwd=folder, stderr=err, stdin=subprocess.DEVNULL, **how)  # type: ignore[call-overload]
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def ended(process: subprocess.Popen[bytes], folder: Path, seconds: float = 10) -> int:
    code = process.wait(seconds)
    said = (folder / "err").read_text()
    for noise in ("Traceback", "error", "hint", "disk", "Exception"):
        assert noise not in said
    return code


@pytest.mark.parametrize("sink", ["console:", "jsonl:/dev/stdout", "csv:/dev/fd/1", "jsonl:q.jsonl"])
def test_a_live_run_ends_when_head_has_had_enough_though_no_row_comes(tmp_path: Path, sink: str) -> None:
    prepared(tmp_path, sink)
    with running(tmp_path, "--checkpoint", "ck", stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline()
        # The batch is committed, and then nothing comes any more.
        wait_until(lambda: committed(tmp_path / "ck") >= 0, 30)
        process.stdout.close()
        assert ended(process, tmp_path) == 141
    # The checkpoint is consistent: the next run goes on after what was committed.
    feed(tmp_path, 1)
    (tmp_path / "p.cql").write_text(STREAM.format(sink=sink))
    with running(tmp_path, "--checkpoint", "ck", stdout=subprocess.PIPE) as process:
        before = committed(tmp_path / "ck")
        wait_until(lambda: committed(tmp_path / "ck") > before, 30)
        process.send_signal(signal.SIGINT)
        out = process.communicate(timeout=20)[0].decode()
        assert process.returncode == 0
    if sink == "jsonl:/dev/stdout":
        # The newest instant may not be complete.
        assert [json.loads(line)["ts"] for line in out.splitlines()] == [99, *range(1000, 1099)]
    if sink == "jsonl:q.jsonl":
        assert [row["a"] for row in rows(tmp_path / "q.jsonl")] == [*range(100), *range(99)]


@pytest.mark.parametrize("sink", ["console:", "jsonl:/dev/stdout"])
def test_a_run_that_writes_without_pause_ends_when_nobody_reads(tmp_path: Path, sink: str) -> None:
    (tmp_path / "p.cql").write_text(f"""
        CREATE STREAM p (ts TIMESTAMP, src STRING) TIMESTAMP BY ts
          FROM 'generator:packets' WITH (rate = 1000000);
        CREATE QUERY q INTO '{sink}' AS Istream(SELECT src FROM p [UNBOUNDED]);
    """)
    with running(tmp_path, "-q", stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline()
        process.stdout.close()
        assert ended(process, tmp_path) == 141


def test_a_terminal_that_is_closed_ends_the_run(tmp_path: Path) -> None:
    prepared(tmp_path, "console:")
    ours, theirs = pty.openpty()
    with running(tmp_path, stdout=theirs, start_new_session=True) as process:
        os.close(theirs)
        assert os.read(ours, 100)
        os.close(ours)
        assert ended(process, tmp_path) == 141


def test_a_hang_up_ends_the_run_like_ctrl_c(tmp_path: Path) -> None:
    prepared(tmp_path, "jsonl:q.jsonl")
    with running(tmp_path, stdout=subprocess.DEVNULL) as process:
        wait_until(lambda: (tmp_path / "q.jsonl").exists() and len(rows(tmp_path / "q.jsonl")) == 99, 30)
        process.send_signal(signal.SIGHUP)
        assert ended(process, tmp_path) == 0


def test_a_named_pipe_waits_for_its_reader_and_its_end_is_told(tmp_path: Path) -> None:
    prepared(tmp_path, "jsonl:pipe")
    os.mkfifo(tmp_path / "pipe")
    with running(tmp_path, "-q", stdout=subprocess.DEVNULL) as process:
        time.sleep(0.5)
        with open(tmp_path / "pipe", "rb") as pipe:
            assert json.loads(pipe.readline()) == {"ts": 0, "a": 0}
        assert process.wait(10) == 141
    assert "whoever read the output has left" in (tmp_path / "err").read_text()


def test_devices_and_redirected_output(tmp_path: Path) -> None:
    (tmp_path / "p.cql").write_text("""
        CREATE STREAM p (ts TIMESTAMP, src STRING) TIMESTAMP BY ts
          FROM 'generator:packets' WITH (rate = 100, rows = 1000);
        CREATE QUERY a INTO 'jsonl:/dev/null' AS Istream(SELECT src FROM p [UNBOUNDED]);
        CREATE QUERY b INTO 'jsonl:/dev/null' AS Istream(SELECT src FROM p [UNBOUNDED]);
        CREATE QUERY c INTO 'jsonl:/dev/stdout' AS SELECT COUNT(*) AS n FROM p [RANGE 10 SEC SLIDE 10 SEC];
        CREATE QUERY d INTO 'csv:/dev/stdout' AS SELECT COUNT(*) AS n FROM p [RANGE 10 SEC SLIDE 10 SEC];
    """)
    done = sash("run", "p.cql", "--runtime", "inline", "-q", "--checkpoint", "ck", cwd=tmp_path)
    assert done.code == 0
    assert "query c cannot be taken back: after a restart rows may come twice" in done.err
    assert done.out.count('"n":') == 1
    assert done.out.count("\n") == 3
    with open(tmp_path / "out", "wb") as out:
        out.write(b"before\n")
        out.flush()
        code = subprocess.run(
            [SASH, "run", "p.cql", "--runtime", "inline", "-q"],
            cwd=tmp_path,
            stdout=out,
            timeout=60,
            check=False,
        ).returncode
    assert code == 0
    lines = (tmp_path / "out").read_text().splitlines()
    assert lines[0] == "before"
    assert len(lines) == 4


FINITE = """
CREATE STREAM p (ts TIMESTAMP, src STRING) TIMESTAMP BY ts RETAIN 1 MIN
  FROM 'generator:packets' WITH (rate = 100, rows = 1000);
CREATE QUERY q INTO '{sink}' AS SELECT COUNT(*) AS n FROM p [RANGE 10 SEC SLIDE 5 SEC];
SELECT COUNT(*) AS n FROM p [RANGE 10 SEC SLIDE 5 SEC];
"""


def with_closed(folder: Path, closed: str, *command: str) -> Outcome:
    """How a command ends whose standard streams are closed from the beginning."""
    done = subprocess.run(
        ["bash", "-c", f'exec "$@" {closed}', "closed", SASH, *command],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    return Outcome(done.returncode, done.stdout, done.stderr)


# The changes at 0 and 5 s.
COUNTS = [1, 1, 501]
RUN_FINITE = ("run", "p.cql", "--runtime", "inline")


@pytest.mark.parametrize(
    ("command", "closed"),
    [(RUN_FINITE, closed) for closed in (">&-", "2>&-", ">&- 2>&-", "<&- >&- 2>&-")]
    + [(command, ">&- 2>&-") for command in (("check", "p.cql"), ("explain", "p.cql"), ("--help",))],
)
def test_a_command_that_nobody_can_hear_says_nothing_and_does_its_work(
    tmp_path: Path, command: tuple[str, ...], closed: str
) -> None:
    (tmp_path / "p.cql").write_text(FINITE.format(sink="jsonl:q.jsonl"))
    done = with_closed(tmp_path, closed, *command)
    assert (done.code, done.err) == (0, "")
    assert bool(done.out) == (closed == "2>&-")
    if command[0] == "run":
        assert [row["n"] for row in rows(tmp_path / "q.jsonl")] == COUNTS


def test_a_question_that_nobody_can_hear(tmp_path: Path) -> None:
    (tmp_path / "p.cql").write_text(FINITE.format(sink="jsonl:q.jsonl"))
    assert sash("run", "p.cql", "--runtime", "inline", "--checkpoint", "ck", cwd=tmp_path).code == 0
    question = ("query", "--checkpoint", "ck", "SELECT COUNT(*) AS n FROM p [RANGE 10 SEC SLIDE 5 SEC]")
    for form in ("table", "csv", "jsonl"):
        done = with_closed(tmp_path, ">&- 2>&-", *question, "--format", form)
        assert (done.code, done.out, done.err) == (0, "", "")


@pytest.mark.parametrize("sink", ["jsonl:/dev/stdout", "csv:/dev/fd/1"])
def test_an_output_on_a_descriptor_that_was_closed_is_refused(tmp_path: Path, sink: str) -> None:
    (tmp_path / "p.cql").write_text(FINITE.format(sink=sink))
    done = with_closed(tmp_path, ">&-", *RUN_FINITE)
    assert done.code == 2
    assert done.err.startswith(f"error[sink]: '{sink}': it is not open\n")


def test_rows_on_standard_output_while_standard_error_is_closed(tmp_path: Path) -> None:
    (tmp_path / "p.cql").write_text(FINITE.format(sink="jsonl:/dev/stdout"))
    done = with_closed(tmp_path, "2>&-", "run", "p.cql", "--runtime", "inline")
    assert done.code == 0
    given = [json.loads(line) for line in done.out.splitlines() if line.startswith("{")]
    assert [row["n"] for row in given] == COUNTS


def test_a_program_from_standard_input_that_is_closed(tmp_path: Path) -> None:
    done = with_closed(tmp_path, "<&-", "check", "-")
    assert done.code == 2
    assert "standard input is not open" in done.err
