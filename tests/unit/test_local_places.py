"""Places are local paths: `file:` is one, other URLs are refused by name wherever a place is given."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

import sash
from sash.cli.main import app
from sash.errors import SashError, UserError
from sash.files import local_place

PROGRAM = """
CREATE STREAM p (ts TIMESTAMP, src STRING, length BIGINT)
  TIMESTAMP BY ts FROM 'generator:packets' WITH (rate = 100, rows = 1000);
CREATE QUERY c INTO '{sink}' AS SELECT COUNT(*) AS n FROM p [RANGE 10 SEC SLIDE 10 SEC];
"""
ARCHIVE = """
CREATE ARCHIVE a KEY (src) EVERY 10 SEC INTO '{place}' AS SELECT src, length FROM p [RANGE 1 MIN];
"""
URLS = ("s3a://bucket/ck", "hdfs://host:8020/ck", "HTTP://host/ck", "file://host/ck", "gs://b/c", "s3:ck")
EMPTY = ("file:", "FILE:", "")


@pytest.mark.parametrize(
    ("place", "path"),
    [
        ("ck", "ck"),
        ("/a/b c", "/a/b c"),
        ("file:///a/b%20c", "/a/b c"),
        ("file:/a/b", "/a/b"),
        ("file://localhost/a", "/a"),
        ("file:a/b", "a/b"),
        ("FILE:///a", "/a"),
        ("c:/a", "c:/a"),
        ("state:1", "state:1"),
        ("run-10:30.csv", "run-10:30.csv"),
        ("q.csv:old", "q.csv:old"),
        ("./foo:bar", "./foo:bar"),
        ("out/foo:bar", "out/foo:bar"),
        # As the command line gives './foo:bar'.
        (Path("foo:bar"), "foo:bar"),
        ("~/ck", "~/ck"),
        (Path("file:///a/b"), "/a/b"),
    ],
)
def test_local_paths(place: str | Path, path: str) -> None:
    assert local_place(place, "checkpoint") == path


@pytest.mark.parametrize("url", [*URLS, Path("s3a://bucket/ck")])
def test_urls_are_refused_by_name(url: str | Path) -> None:
    with pytest.raises(UserError, match=r"checkpoint: '.*' is no local path") as caught:
        local_place(url, "checkpoint")
    assert str(url).partition(":")[0].lower() in caught.value.render()


@pytest.mark.parametrize("place", EMPTY)
def test_a_place_without_a_path_is_refused(place: str) -> None:
    with pytest.raises(UserError, match=f"checkpoint: '{place}' names no path"):
        local_place(place, "checkpoint")


def test_a_word_and_a_colon_are_refused_with_the_way_to_mean_a_file() -> None:
    with pytest.raises(UserError, match="'foo:bar' is no local path") as caught:
        local_place("foo:bar", "checkpoint")
    assert "'./foo:bar' for a file or folder of this name" in caught.value.render()


def test_a_folder_whose_name_has_a_colon(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "p.cql").write_text(PROGRAM.format(sink="jsonl:./out:c"))
    command = ["run", "p.cql", "--runtime", "inline", "-q", "--checkpoint", "./foo:bar"]
    assert CliRunner().invoke(app, command).exit_code == 0
    assert (tmp_path / "foo:bar" / "manifest.json").exists()
    assert (tmp_path / "out:c").exists()


@pytest.mark.parametrize(
    "option", ["--checkpoint", "--dead-letters", "--metrics", "--prometheus", "--record-history"]
)
@pytest.mark.parametrize("place", EMPTY)
def test_options_without_a_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str, option: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "p.cql").write_text(PROGRAM.format(sink="jsonl:c.jsonl"))
    done = CliRunner().invoke(app, ["run", "p.cql", "--runtime", "inline", option, place])
    assert done.exit_code == 2
    assert "names no path" in " ".join(done.output.replace("│", " ").split())
    assert [path.name for path in tmp_path.iterdir()] == ["p.cql"]


@pytest.mark.parametrize("url", URLS)
@pytest.mark.parametrize(
    "option",
    ["--checkpoint", "--dead-letters", "--metrics", "--prometheus", "--record-history"],
)
def test_options_of_a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, url: str, option: str) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "p.cql").write_text(PROGRAM.format(sink="jsonl:c.jsonl"))
    done = CliRunner().invoke(app, ["run", "p.cql", "--runtime", "inline", option, url])
    assert done.exit_code == 2
    assert "is no local path" in " ".join(done.output.replace("│", " ").split())
    assert [path.name for path in tmp_path.iterdir()] == ["p.cql"]


@pytest.mark.parametrize(
    "command",
    [
        ("query", "--checkpoint", "s3a://b/ck", "SELECT 1"),
        ("query", "--archive", "s3a://b/ck", "SELECT 1"),
        ("explain", "p.cql", "--checkpoint", "s3a://b/ck"),
        ("verify-history", "s3a://b/h"),
        ("demo", "--keep", "s3a://b/d"),
        ("experiment", "run", "x", "--out", "s3a://b/d"),
        ("run", "s3a://b/p.cql"),
        ("check", "s3a://b/p.cql"),
    ],
)
def test_other_commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...]) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "p.cql").write_text(PROGRAM.format(sink="jsonl:c.jsonl"))
    done = CliRunner().invoke(app, command)
    assert done.exit_code == 2
    assert "is no local path" in " ".join(done.output.replace("│", " ").split())
    assert [path.name for path in tmp_path.iterdir()] == ["p.cql"]


@pytest.mark.parametrize(
    "program",
    [
        PROGRAM.format(sink="jsonl:s3a://bucket/q.jsonl"),
        PROGRAM.format(sink="parquet:hdfs://host/q"),
        PROGRAM.format(sink="s3a://bucket/q.jsonl"),
        PROGRAM.format(sink="noop:").replace("generator:packets", "csv:https://host/p.csv"),
        PROGRAM.format(sink="noop:").replace("generator:packets", "s3a://bucket/p.csv"),
        PROGRAM.format(sink="noop:") + ARCHIVE.format(place="s3a://bucket/a"),
        PROGRAM.format(sink="jsonl:file:"),
        PROGRAM.format(sink="parquet:file:"),
        PROGRAM.format(sink="parquet:hdfs:q"),
        PROGRAM.format(sink="noop:").replace("generator:packets", "csv:file:"),
        PROGRAM.format(sink="noop:") + ARCHIVE.format(place="file:"),
        PROGRAM.format(sink="noop:") + ARCHIVE.format(place=" "),
    ],
)
@pytest.mark.parametrize("command", [("check",), ("run", "--runtime", "inline")])
def test_places_in_a_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, program: str, command: tuple[str, ...]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "p.cql").write_text(
        program.replace(" WITH (rate = 100, rows = 1000)", "") if "csv" in program else program
    )
    done = CliRunner().invoke(app, [*command, "p.cql"])
    assert done.exit_code == 2
    assert any(
        scheme in done.output for scheme in ("'s3a'", "'hdfs'", "'https'", "unknown s", "'s3a:", "no path")
    )
    assert [path.name for path in tmp_path.iterdir()] == ["p.cql"]


@pytest.mark.parametrize("name", ["base_dir", "checkpoint", "dead_letters", "record_history"])
def test_a_session(name: str) -> None:
    for place in EMPTY:
        with pytest.raises(SashError, match=f"{name}: '{place}' names no path"):
            sash.connect(**{name: place})  # type: ignore[arg-type]
    with pytest.raises(SashError, match=f"{name}: 's3a://bucket/x' is no local path"):
        sash.connect(**{name: "s3a://bucket/x"})  # type: ignore[arg-type]


def test_file_urls_work(tmp_path: Path) -> None:
    (tmp_path / "p.cql").write_text(PROGRAM.format(sink=f"jsonl:file://{tmp_path}/c.jsonl"))
    checkpoint = f"file://{tmp_path}/ck"
    command = ["run", f"file:{tmp_path}/p.cql", "--runtime", "inline", "-q", "--checkpoint", checkpoint]
    assert CliRunner().invoke(app, command).exit_code == 0
    assert (tmp_path / "c.jsonl").read_text().count("\n") == 1
    assert (tmp_path / "ck" / "manifest.json").exists()
