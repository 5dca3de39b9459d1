"""A run that loses most rows of a stream says so, with examples and a SLACK, and can be made to fail."""

from __future__ import annotations

import json
import logging
import random
import threading
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

import sash
from sash.cli.main import app
from sash.engine.ingest.loss import STEPS, Loss, share_of, suggested_slack
from sash.engine.observe.report import BatchReport, Silent, StreamCounts, Summary
from sash.errors import RunError, UserError
from sash.lang import bind_program, intervals
from sash.runtime.run import run_program

PROGRAM = """CREATE STREAM s (t BIGINT, n BIGINT) TIMESTAMP BY t SLACK {slack} US FROM 'csv:s.csv'
  WITH (unit = 'us');
CREATE QUERY q INTO 'noop:' AS SELECT n FROM s [RANGE 1 SEC SLIDE 1 SEC];"""


class Heard(Silent):
    def __init__(self) -> None:
        self.warnings: list[str] = []
        self.reports: list[BatchReport] = []

    def warning(self, text: str) -> None:
        self.warnings.append(text)

    def batch(self, report: BatchReport) -> None:
        self.reports.append(report)


def run(base: Path, slack: int = 0, **options: Any) -> tuple[Summary, Heard]:
    heard = Heard()
    text = PROGRAM.format(slack=slack)
    summary = run_program(bind_program(text), base_dir=base, runtime="inline", monitor=heard, **options)
    return summary, heard


def write(base: Path, rows: list[str], header: str = "t,n") -> None:
    (base / "s.csv").write_text("\n".join([header, *rows]) + "\n")


@settings(max_examples=40, deadline=None)
@given(
    times=st.lists(st.integers(-50, 50) | st.integers(0, 10**12), min_size=2, max_size=30),
    batch_rows=st.sampled_from([1, 2, 5, 100]),
    slack=st.sampled_from([0, 3]),
)
def test_the_slack_that_is_told_keeps_all_rows_and_none_that_is_shorter_does(
    tmp_path_factory: pytest.TempPathFactory, times: list[int], batch_rows: int, slack: int
) -> None:
    base = tmp_path_factory.mktemp("slack")
    write(base, [f"{at},1" for at in times])
    behind = [max(times[:i]) - at for i, at in enumerate(times) if i]
    needed = max([*behind, 0])
    summary, _ = run(base, slack, batch_rows=batch_rows)
    if needed <= slack:
        assert summary.slacks == {}
        return
    assert summary.slacks == {"s": needed}
    assert run(base, needed)[0].streams["s"].late == 0
    assert run(base, needed - 1)[0].streams["s"].late > 0


def test_the_shorter_slack_keeps_99_per_cent(tmp_path: Path) -> None:
    chance = random.Random(5)
    times = [
        10**9 + i * 1000 - chance.choice([0, chance.randrange(900_000), chance.randrange(900_000)])
        for i in range(3000)
    ]
    for i in range(0, 3000, 500):
        times[i] -= 500_000_000
    write(tmp_path, [f"{at},1" for at in times])
    _, heard = run(tmp_path, fail_on_rejects=None)
    assert "SLACK 9 MIN would have kept every late row" in heard.warnings[0]
    (text,) = [line for line in heard.warnings[0].splitlines() if "about 99 %" in line]
    number, unit = text.rpartition("SLACK ")[2].split()[:2]
    short = intervals.to_microseconds(number, unit)
    for slack, enough in ((short, True), (max(step for step in STEPS.tolist() if step < short), False)):
        counts = run(tmp_path, slack)[0].streams["s"]
        assert (counts.late <= counts.read * 0.01) is enough


@pytest.mark.parametrize("partitions", [None, 3])
def test_a_stream_of_rejects_is_told_with_its_first_reasons_each_once(
    tmp_path: Path, partitions: int | None
) -> None:
    write(tmp_path, ["x,1", "y,1", ",1", "3", "4,1.5", "5,zz"])
    summary, heard = run(tmp_path, partitions=partitions)
    assert (summary.streams["s"].rejected, summary.slacks) == (6, {})
    assert heard.warnings == [
        "stream s: all 6 rows take part in no answer (6 rejected)\n"
        f"  {tmp_path}/s.csv, row 1: t: 'x' is not a BIGINT\n"
        f"  {tmp_path}/s.csv, row 3: t: no timestamp\n"
        f"  {tmp_path}/s.csv, row 4: expected 2 fields, got 1"
    ]


def test_a_stream_that_loses_half_of_its_rows_is_not_told(tmp_path: Path) -> None:
    write(tmp_path, ["1,1", "x,1"])
    assert run(tmp_path)[1].warnings == []
    write(tmp_path, ["1,1", "x,1", "y,1"])
    assert len(run(tmp_path)[1].warnings) == 1


@pytest.mark.parametrize(
    ("share", "fails"), [(0.0, True), (0.5, True), (0.65, True), (2 / 3, False), (0.9, False), (1.0, False)]
)
def test_more_than_the_share_fails_after_all_is_written(share: float, fails: bool, tmp_path: Path) -> None:
    write(tmp_path, ["1,1", "x,1", "0,1"])
    if not fails:
        run(tmp_path, fail_on_rejects=share)
        return
    with pytest.raises(RunError) as caught:
        run(tmp_path, fail_on_rejects=share, dead_letters=tmp_path / "dead-letters")
    assert (caught.value.id, caught.value.exit_code) == ("rejects", 1)
    assert "2 of 3 rows take part in no answer (1 rejected, 1 late)" in caught.value.message
    assert "row 2: t: 'x' is not a BIGINT" in caught.value.render()
    assert "SLACK 1 US" in caught.value.render()
    assert len((tmp_path / "dead-letters" / "s.rejects.jsonl").read_text().splitlines()) == 1


def test_all_rows_fail_whatever_the_share(tmp_path: Path) -> None:
    write(tmp_path, ["x,1"])
    with pytest.raises(RunError, match="all 1 rows"):
        run(tmp_path, fail_on_rejects=1.0)
    write(tmp_path, [])
    run(tmp_path, fail_on_rejects=0.0)


def test_a_share_is_a_number_or_per_cent() -> None:
    texts: list[str | float] = ["0.1", "10%", " 10 % ", ".1", 0.1]
    assert [share_of(text, "x") for text in texts] == [0.1] * 5
    assert [share_of(text, "x") for text in (None, "0", "1", "100%")] == [None, 0.0, 1.0, 1.0]
    wrong: list[str | float] = ["", "x", "-1", "1.1", "101%", "nan", "1e-3", 7]
    for text in wrong:
        with pytest.raises(UserError, match="x is not a share"):
            share_of(text, "x")


def test_losses_add_up_in_order() -> None:
    steps = (2,) + (0,) * len(STEPS)
    one, two = Loss(5, steps), Loss(3, steps)
    assert (one + two).slack == 5
    assert (one + two).steps[0] == 4
    assert one + Loss() == one
    assert Loss() + one == one
    assert Loss.from_json(json.loads(json.dumps(one.to_json()))) == one
    assert suggested_slack(StreamCounts(10, 0, 3), Loss()) is None


def test_a_run_that_goes_on_knows_what_was_lost_before(tmp_path: Path) -> None:
    write(tmp_path, ["9,1", *(f"{at},1" for at in range(8)), "x,1"])
    whole, heard = run(tmp_path, batch_rows=2)

    class Stop(Heard):
        def __init__(self) -> None:
            super().__init__()
            self.stop = threading.Event()

        def batch(self, report: BatchReport) -> None:
            self.stop.set()

    for _ in range(20):
        once = Stop()
        summary = run_program(
            bind_program(PROGRAM.format(slack=0)),
            base_dir=tmp_path,
            runtime="inline",
            batch_rows=2,
            checkpoint=tmp_path / "ck",
            monitor=once,
            stop=once.stop,
        )
        if not summary.interrupted:
            break
    assert (summary.streams, summary.slacks) == (whole.streams, whole.slacks)
    assert once.warnings == heard.warnings


def test_a_live_run_is_told_once_while_it_goes_on(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    for name in range(5):
        (tmp_path / "in" / f"{name}.csv").write_text("t,n\n" + "x,1\n" * 6)
    program = bind_program(
        PROGRAM.format(slack=0).replace("s.csv'", "in'").replace("'us'", "'us', watch = true")
    )
    heard, stop = Heard(), threading.Event()

    class Watch(Heard):
        told_after: int | None = None

        def batch(self, report: BatchReport) -> None:
            super().batch(report)
            if report.streams["s"].rejected == 30:
                stop.set()

        def warning(self, text: str) -> None:
            heard.warnings.append(f"{len(self.reports)}: {text.splitlines()[0]}")

    timer = threading.Timer(20, stop.set)
    timer.start()
    run_program(
        program, base_dir=tmp_path, runtime="inline", batch_rows=6, monitor=(watch := Watch()), stop=stop
    )
    timer.cancel()
    batches = len(watch.reports)
    assert [text.partition(" rows")[0] for text in heard.warnings] == [
        "2: stream s: all 12",
        f"{batches}: stream s: all 30",
    ]


@pytest.mark.parametrize("options", [[], ["--quiet"]])
def test_the_command_line_warns_and_fails_if_it_is_told_to(options: list[str], tmp_path: Path) -> None:
    write(tmp_path, ["x,1", "y,1"])
    (tmp_path / "p.cql").write_text(PROGRAM.format(slack=0))
    command = ["run", str(tmp_path / "p.cql"), "--runtime", "inline", *options]
    result = CliRunner().invoke(app, command)
    assert result.exit_code == 0
    shown = result.stderr if options else result.stdout
    assert "warning: stream s: all 2 rows take part in no answer (2 rejected)" in shown
    assert "s.csv, row 1: t: 'x' is not a BIGINT" in shown
    result = CliRunner().invoke(app, [*command, "--fail-on-rejects", "10 %"])
    assert result.exit_code == 1
    assert "error[rejects]: stream s: all 2 rows take part in no answer" in result.stderr
    assert "expected: at most 10 % of the rows late or rejected" in result.stderr
    assert CliRunner().invoke(app, [*command, "--fail-on-rejects", "lots"]).exit_code == 2


def test_a_session_warns_and_fails_if_it_is_told_to(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    write(tmp_path, ["x,1"])
    text = PROGRAM.format(slack=0)
    question = "SELECT COUNT(*) AS n FROM s [RANGE 1 SEC]"
    with (
        caplog.at_level(logging.WARNING, "sash"),
        sash.connect(tmp_path, runtime="inline", dead_letters=tmp_path / "dead-letters") as session,
    ):
        session.sql(text)
        session.ask(question)
        session.wait()
    assert [record.message.splitlines()[0] for record in caplog.records] == [
        "stream s: all 1 rows take part in no answer (1 rejected)"
    ] * 2
    session = sash.connect(
        tmp_path, runtime="inline", dead_letters=tmp_path / "dead-letters", fail_on_rejects="10%"
    )
    session.sql(text)
    for act in (lambda: session.ask(question), session.wait):
        with pytest.raises(RunError, match="take part in no answer"):
            act()
    session.close()
    with pytest.raises(UserError, match="fail_on_rejects"):
        sash.connect(tmp_path, runtime="inline", fail_on_rejects=2)


def test_metrics_have_the_slack(tmp_path: Path) -> None:
    write(tmp_path, ["9000000,1", "4,1"])
    (tmp_path / "p.cql").write_text(PROGRAM.format(slack=0))
    files = ["--metrics", str(tmp_path / "m.jsonl"), "--prometheus", str(tmp_path / "m.prom")]
    CliRunner().invoke(app, ["run", str(tmp_path / "p.cql"), "--runtime", "inline", *files])
    assert json.loads((tmp_path / "m.jsonl").read_text())["streams"]["s"]["slack"] == 8_999_996
    assert 'sash_stream_slack_seconds{stream="s"} 8.999996\n' in (tmp_path / "m.prom").read_text()
