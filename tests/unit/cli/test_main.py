"""The commands, through Typer, with a faked binder and runtime."""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from tests.unit.cli.fakes import make_program, make_query, make_stream, make_summary

from sash.cli import calls, demo
from sash.cli.main import app
from sash.engine.observe.report import BatchReport, StreamCounts, Summary
from sash.errors import BindError, DataError, Place, UnknownName
from sash.lang.types import Type


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "traffic.cql"
    path.write_text("CREATE …", encoding="utf-8")
    return path


def report_and_finish(*, monitor, stop, **_):
    """A run of one batch, as a runtime would report it."""
    monitor.started({"heavy": "jsonl:heavy.jsonl"}, {"packets": "generator:packets"})
    table = pa.table({"ts": [1], "src": ["a"], "bytes": [10]})
    monitor.batch(
        BatchReport(1, 1000, 0.1, None, 1.0, {"packets": StreamCounts(990, 6, 4)}, {"heavy": table})
    )
    summary = Summary(
        1, 0.5, None, {"packets": StreamCounts(990, 6, 4)}, {"heavy": 1}, interrupted=stop.is_set()
    )
    monitor.finished(summary)
    return summary


class TestRun:
    def test_the_options_reach_the_runtime(self, runner, fakes, file, tmp_path):
        arguments = [
            "--runtime",
            "inline",
            "--master",
            "local[2]",
            "--checkpoint",
            "state",
            "--batch-rows",
            "500",
            "--partitions",
            "3",
            "--dead-letters",
            "late",
            "--max-state",
            "2GB",
            "--max-memory",
            "none",
            "--refresh",
            "elastic",
            "--policy",
            "edf",
            "--max-queries",
            "7",
        ]
        result = runner.invoke(app, ["run", str(file), *arguments])
        assert result.exit_code == 0, result.output
        (run,) = fakes.runs
        assert run["options"] == calls.RunOptions(
            *("inline", "local[2]", Path("state"), 500, 3, Path("late")),
            max_state=2_000_000_000,
            max_memory=0,
            refresh="elastic",
            policy="edf",
            max_queries=7,
        )
        assert fakes.texts == ["CREATE …"]
        assert run["base_dir"] == tmp_path

    def test_metrics_go_where_the_options_say(self, runner, fakes, file, tmp_path):
        fakes.work = report_and_finish
        lines, page = tmp_path / "m.jsonl", tmp_path / "m.prom"
        result = runner.invoke(app, ["run", str(file), "--metrics", str(lines), "--prometheus", str(page)])
        assert result.exit_code == 0, result.output
        assert '"rows": 1000' in lines.read_text()
        assert "sash_batches_total 1\n" in page.read_text()
        assert "finished: 1 batch" in result.stdout

    def test_metrics_that_cannot_be_written_are_refused_before_the_run(self, runner, fakes, file, tmp_path):
        result = runner.invoke(app, ["run", str(file), "--metrics", str(tmp_path)])
        assert result.exit_code == 2
        assert "cannot write metrics" in result.stderr
        assert fakes.runs == []

    def test_spark_is_the_default(self, runner, fakes, file):
        runner.invoke(app, ["run", str(file)])
        assert fakes.runs[0]["options"] == calls.RunOptions("spark", "local[*]", None, None, None)

    def test_a_dash_reads_standard_input(self, runner, fakes):
        result = runner.invoke(app, ["run", "-"], input="SELECT 1")
        assert result.exit_code == 0, result.output
        assert fakes.texts == ["SELECT 1"]
        assert fakes.runs[0]["base_dir"] == Path.cwd()

    def test_without_a_terminal_it_prints_lines(self, runner, fakes, file):
        fakes.work = report_and_finish
        result = runner.invoke(app, ["run", str(file)])
        lines = result.stdout.splitlines()
        assert lines[0] == "started: 1 stream, 1 query, waiting for Spark"
        assert lines[-3:] == [
            "stream packets: read 1,000, accepted 990, late 6, rejected 4",
            "query heavy: 1 result row to jsonl:heavy.jsonl",
            "finished: 1 batch, 1,000 rows in 0.50 s (2,000 rows/s)",
        ]

    def test_quiet_prints_nothing(self, runner, fakes, file):
        fakes.work = report_and_finish
        result = runner.invoke(app, ["run", str(file), "--quiet"])
        assert (result.exit_code, result.output) == (0, "")

    def test_results_on_stdout_are_not_mixed_with_the_log(self, runner, fakes, file):
        fakes.program = make_program(make_query(sink="console:"))
        fakes.work = report_and_finish
        result = runner.invoke(app, ["run", str(file)])
        assert result.stdout == ""
        assert "finished: 1 batch" in result.stderr

    def test_ctrl_c_stops_after_the_batch_with_exit_code_0(self, runner, fakes, file):
        def work(*, stop, **given):
            os.kill(os.getpid(), signal.SIGINT)
            assert stop.wait(5)
            return report_and_finish(stop=stop, **given)

        fakes.work = work
        result = runner.invoke(app, ["run", str(file)])
        assert result.exit_code == 0
        assert "stopping after this batch" in result.stdout
        assert "interrupted after 1 batch" in result.stdout

    def test_a_second_ctrl_c_is_exit_code_130(self, runner, fakes, file):
        release = threading.Event()

        def work(*, stop, **_):
            os.kill(os.getpid(), signal.SIGINT)
            stop.wait(5)
            os.kill(os.getpid(), signal.SIGINT)
            release.wait(30)

        fakes.work = work
        result = runner.invoke(app, ["run", str(file)])
        release.set()
        assert result.exit_code == 130

    def test_batch_rows_must_be_positive(self, runner, fakes, file):
        result = runner.invoke(app, ["run", str(file), "--batch-rows", "0"])
        assert result.exit_code == 2
        assert not fakes.runs


class TestFailures:
    def test_a_user_s_error_shows_the_place_and_is_exit_code_2(self, runner, fakes, file):
        text = "SELECT scr FROM packets"
        fakes.bind_error = UnknownName("column", "scr", ["src", "dst"], place=Place(text, 7, 10))
        result = runner.invoke(app, ["run", str(file)])
        assert result.exit_code == 2
        assert result.stdout == ""
        assert result.stderr == (
            "error[unknown-name]: unknown column 'scr' (line 1, column 8)\n"
            "1 | SELECT scr FROM packets\n"
            "           ^^^\n"
            "  expected: one of: src, dst\n"
            "  hint: did you mean 'src'?\n"
        )

    def test_long_lines_are_not_wrapped_away_from_their_carets(self, runner, fakes, file):
        text = "SELECT " + "x" * 300 + " FROM s"
        fakes.bind_error = BindError("no", place=Place(text, 7, 307))
        result = runner.invoke(app, ["check", str(file)])
        assert text in result.stderr
        assert "^" * 300 in result.stderr

    def test_a_failure_at_run_time_is_exit_code_1(self, runner, fakes, file):
        def work(**_):
            raise DataError("SUM(length) does not fit 64 bits")

        fakes.work = work
        result = runner.invoke(app, ["run", str(file)])
        assert (result.exit_code, result.stderr) == (1, "error[data]: SUM(length) does not fit 64 bits\n")

    def test_an_error_of_ours_is_found_under_a_library_s(self, runner, fakes, file):
        def work(**_):
            raise RuntimeError("stream terminated") from DataError("the cause")

        fakes.work = work
        result = runner.invoke(app, ["run", str(file)])
        assert result.stderr == "error[data]: the cause\n"

    def test_anything_else_is_one_sentence_and_no_trace(self, runner, fakes, file):
        def work(**_):
            raise RuntimeError("Job aborted.\n\tat org.apache.spark.Task.run(Task.scala:1)\n\tat java.lang")

        fakes.work = work
        result = runner.invoke(app, ["run", str(file)])
        assert result.exit_code == 1
        assert result.stderr == (
            "error[unexpected]: RuntimeError: Job aborted.\n"
            "  hint: run the same command with --debug to see the full trace\n"
        )

    def test_debug_shows_the_whole_trace(self, runner, fakes, file):
        def work(**_):
            raise RuntimeError("Job aborted.\n\tat org.apache.spark")

        fakes.work = work
        result = runner.invoke(app, ["run", str(file), "--debug"])
        assert result.exit_code == 1
        assert "Traceback (most recent call last)" in result.stderr
        assert "org.apache.spark" in result.stderr

    def test_libraries_cannot_print_traces_of_their_own(self, runner, fakes, file, capfd):
        def in_thread():
            raise ValueError("lost in a thread")

        def work(**_):
            try:
                raise ValueError("logged")
            except ValueError:
                logging.getLogger("py4j.clientserver").exception("There was an exception")
            thread = threading.Thread(target=in_thread)
            thread.start()
            thread.join()
            return make_summary()

        fakes.work = work
        result = runner.invoke(app, ["run", str(file)])
        printed = capfd.readouterr()
        assert result.exit_code == 0
        assert "Traceback" not in result.output + printed.out + printed.err

    def test_a_closed_pipe_is_quiet(self, runner, fakes, file):
        def work(**_):
            raise RuntimeError("the sink failed") from BrokenPipeError()

        fakes.work = work
        result = runner.invoke(app, ["run", str(file)])
        assert (result.exit_code, result.stderr) == (141, "")

    @pytest.mark.parametrize("command", ["run", "check", "explain"])
    def test_a_missing_file_is_the_user_s_error(self, runner, command):
        result = runner.invoke(app, [command, "nowhere.cql"])
        assert result.exit_code == 2
        assert result.stderr.startswith("error[file]: there is no file 'nowhere.cql'\n  hint: ")

    def test_a_folder_is_no_program(self, runner, tmp_path):
        result = runner.invoke(app, ["check", str(tmp_path)])
        assert result.exit_code == 2
        assert "is a folder" in result.stderr

    def test_a_byte_order_mark_is_passed_over(self, runner, tmp_path):
        text = "CREATE STREAM s (t BIGINT) TIMESTAMP BY t FROM 'csv:s.csv'; SELECT t FROM s [NOW];"
        (tmp_path / "p.cql").write_text(text, encoding="utf-8-sig")
        assert runner.invoke(app, ["check", str(tmp_path / "p.cql")]).exit_code == 0
        assert runner.invoke(app, ["check", "-"], input=f"\ufeff{text}").exit_code == 0

    def test_a_program_must_be_utf8(self, runner, tmp_path):
        (tmp_path / "x.cql").write_bytes(b"SELECT \xff")
        result = runner.invoke(app, ["check", str(tmp_path / "x.cql")])
        assert result.exit_code == 2
        assert "byte 0xff at offset 7" in result.stderr

    def test_a_wrong_option_is_exit_code_2(self, runner):
        assert runner.invoke(app, ["run", "--nonsense"]).exit_code == 2


class TestCheckAndExplain:
    def test_check_lists_streams_and_queries_with_their_types(self, runner, fakes, file):
        result = runner.invoke(app, ["check", str(file)])
        assert result.exit_code == 0, result.output
        assert result.stdout == (
            "stream packets from generator:packets (time ts, slack 2 SEC)\n"
            "  ts      TIMESTAMP\n"
            "  src     STRING\n"
            "  length  BIGINT\n"
            "query heavy into jsonl:heavy.jsonl (over packets)\n"
            "  src    STRING\n"
            "  bytes  BIGINT\n"
            "ok: 1 stream, 1 query\n"
        )
        assert not fakes.runs

    def test_explain_prints_the_plan_as_it_is(self, runner, fakes, file, monkeypatch):
        monkeypatch.setattr(calls, "analyzes", lambda _program: False)
        monkeypatch.setattr(calls, "explain", lambda *_, **__: "Group [red]\n└─ Window\n")
        result = runner.invoke(app, ["explain", str(file)])
        assert result.stdout == "Group [red]\n└─ Window\n"

    def test_explain_leaves_the_format_to_the_statements_unless_it_is_told(
        self, runner, fakes, file, monkeypatch
    ):
        monkeypatch.setattr(calls, "analyzes", lambda _program: False)
        monkeypatch.setattr(calls, "explain", lambda _program, form, *_, **__: f"form {form}")
        assert runner.invoke(app, ["explain", str(file)]).stdout == "form None\n"
        assert runner.invoke(app, ["explain", str(file), "--format", "json"]).stdout == "form json\n"

    def test_explain_is_told_the_checkpoint_of_a_run(self, runner, fakes, file, monkeypatch):
        monkeypatch.setattr(calls, "analyzes", lambda _program: False)
        monkeypatch.setattr(calls, "explain", lambda *_, checkpoint: f"of {checkpoint}")
        assert runner.invoke(app, ["explain", str(file), "--checkpoint", "state"]).stdout == "of state\n"


class TestDemo:
    def test_it_shows_the_program_and_runs_it_in_a_folder_that_is_gone_afterwards(self, runner, fakes):
        seen: dict[str, Any] = {}

        def work(*, base_dir, options, **_):
            seen.update(
                files=sorted(p.name for p in base_dir.iterdir()),
                folder=base_dir,
                dead_letters=options.dead_letters,
            )
            assert (base_dir / "demo.cql").read_text(encoding="utf-8") == demo.program(7, 100)
            return make_summary()

        fakes.work = work
        result = runner.invoke(app, ["demo", "--seconds", "7", "--rate", "100", "--runtime", "inline"])
        assert result.exit_code == 0, result.output
        assert seen["files"] == ["demo.cql"]
        assert seen["dead_letters"].parent == seen["folder"]
        assert not seen["folder"].exists()
        assert demo.program(7, 100) in result.stdout
        assert (
            "sash demo --keep sash-demo --seconds 7 --rate 100\n  sash run sash-demo/demo.cql"
            in result.stdout
        )

    def test_the_folder_is_removed_after_a_failure_too(self, runner, fakes):
        folders = []

        def work(*, base_dir, **_):
            folders.append(base_dir)
            raise RuntimeError("no")

        fakes.work = work
        assert runner.invoke(app, ["demo"]).exit_code == 1
        assert not folders[0].exists()

    def test_keep_leaves_the_program(self, runner, fakes, tmp_path):
        folder = tmp_path / "a" / "demo"
        result = runner.invoke(app, ["demo", "--keep", str(folder), "--quiet"])
        assert (result.exit_code, result.output) == (0, "")
        assert (folder / "demo.cql").exists()

    def test_keep_never_writes_into_a_folder_that_has_something(self, runner, fakes, tmp_path):
        (tmp_path / "precious").touch()
        result = runner.invoke(app, ["demo", "--keep", str(tmp_path)])
        assert result.exit_code == 2
        assert "is not an empty folder" in result.stderr
        assert not fakes.runs

    def test_the_program_has_five_queries_and_rows_for_the_time(self):
        text = demo.program(30, 5000)
        assert text.count("CREATE QUERY") == 5
        assert "rate = 5000, rows = 150000, pace = true" in text
        assert "late_share = 0.002, bad_share = 0.001" in text


class TestExperiment:
    def test_list_shows_names_and_descriptions(self, runner, monkeypatch):
        monkeypatch.setattr(calls, "experiments", lambda: {"fig-1": "Cost of sliding", "figure-20": ""})
        result = runner.invoke(app, ["experiment", "list"])
        assert result.stdout == "fig-1      Cost of sliding\nfigure-20\n"

    def test_without_the_experiments_it_says_how_to_install_them(self, runner, monkeypatch):
        monkeypatch.setitem(sys.modules, "sash_experiments", None)
        monkeypatch.delitem(sys.modules, "sash_experiments.registry", raising=False)
        result = runner.invoke(app, ["experiment", "list"])
        assert result.exit_code == 2
        assert "the experiments are not installed" in result.stderr
        assert "pip install sash-experiments" in result.stderr

    def test_run_gives_name_scale_and_folder(self, runner, monkeypatch):
        given = []

        def run(name, scale, out, note):
            given.append((name, scale, out))
            note("halfway", 0.5)
            return "faster by 12×"

        monkeypatch.setattr(calls, "run_experiment", run)
        result = runner.invoke(app, ["experiment", "run", "fig-1", "--scale", "paper", "--out", "there"])
        assert given == [("fig-1", "paper", Path("there"))]
        assert result.stdout == "faster by 12×\nwritten: there/fig-1.json, there/fig-1.png\n"
        assert result.stderr == " 50%  halfway\n"


class TestHelp:
    @pytest.mark.parametrize(
        "command", ["", "run", "check", "explain", "demo", "experiment", "experiment list", "experiment run"]
    )
    def test_every_help_has_an_example(self, runner, command):
        result = runner.invoke(app, [*command.split(), "--help"])
        assert result.exit_code == 0
        assert f"Example:  sash {command}".rstrip() in result.stdout

    def test_version(self, runner):
        result = runner.invoke(app, ["--version"])
        assert result.exit_code == 0
        assert result.stdout.startswith("sash ")
        assert "pyspark 4." in result.stdout


class TestHints:
    def test_keys_are_names_and_the_first_measure_ranks(self):
        hints = calls.hints(make_program())
        assert hints.unit is None
        assert hints.keys == {"heavy": frozenset({"src"})}
        assert hints.rank == {"heavy": "bytes"}

    def test_integer_time_gives_its_unit(self):
        program = make_program(streams=(make_stream(time=Type.BIGINT, unit=1000),))
        assert calls.hints(program).unit == 1000

    def test_streams_of_different_units_have_no_integer_in_common(self):
        streams = (make_stream(time=Type.BIGINT, unit=1000), make_stream("other", time=Type.BIGINT, unit=1))
        assert calls.hints(make_program(streams=streams)).unit is None

    def test_a_query_without_groups_is_not_ranked(self):
        plain: Any = SimpleNamespace(name="q", select=SimpleNamespace(is_grouped=False), sink="console:")
        hints = calls.hints(make_program(plain))
        assert (hints.keys, hints.rank) == ({}, {})


class TestOldNames:
    def test_aside_is_called_dead_letters_now(self, runner, fakes, file, tmp_path):
        result = runner.invoke(app, ["run", str(file), "--aside", str(tmp_path / "there")])
        assert result.exit_code == 0, result.output
        assert "--aside is called --dead-letters now" in result.stderr
        (run,) = fakes.runs
        assert run["options"].dead_letters == tmp_path / "there"
