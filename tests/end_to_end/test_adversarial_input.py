"""Input and programs as they should not be: an answer or a clear error, the right exit code, no trace."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from tests.end_to_end.kit import Outcome, rows, sash
from typer.testing import CliRunner

from sash.cli.main import app

GOOD = "t,src,x\n1,a,1\n12,b,2\n"
STREAM = "CREATE STREAM s (t BIGINT, src STRING, x BIGINT) TIMESTAMP BY t FROM 'csv:s.csv';\n"
SELECT = "SELECT src, SUM(x) AS total FROM s [RANGE 10 SEC SLIDE 10 SEC] GROUP BY src"
QUERY = f"CREATE QUERY q INTO 'jsonl:q.jsonl' AS\n{SELECT};\n"


def test_strange_files_are_answered_and_every_row_is_accounted_for(tmp_path: Path) -> None:
    huge = "k" * 1_000_000
    integer, instant = "t BIGINT", "t TIMESTAMP"
    streams = {
        "empty": (integer, ""),
        "header_only": (integer, "t,src,x\n"),
        "marked": (integer, "\ufeff" + GOOD),
        "huge": (integer, f"t,src,x\n1,{huge},1\n12,b,2\n"),
        "nulls": (integer, "t,src,x\n1,,\n2,,\n12,b,\n,,\n"),
        "past": (instant, "t,src,x\n1969-12-31T23:59:45Z,a,1\n1969-12-31T23:59:58Z,a,2\n"),
        "future": (instant, "t,src,x\n9999-12-31T23:59:30Z,a,1\n9999-12-31T23:59:59.999999Z,a,2\n"),
        "beyond": (
            integer,
            "t,src,x\n5,a,1\n4611686018428,a,1\n-4611686018428,a,1\n99999999999999999999,a,1\n13,a,2\n",
        ),
    }
    program = ""
    for name, (time, content) in streams.items():
        (tmp_path / f"{name}.csv").write_text(content)
        program += (
            f"CREATE STREAM {name} ({time}, src STRING, x BIGINT) TIMESTAMP BY t FROM 'csv:{name}.csv';"
        )
        select = SELECT.replace("FROM s", f"FROM {name}")
        program += f"CREATE QUERY q_{name} INTO 'jsonl:{name}.jsonl' AS {select};\n"
    (tmp_path / "p.cql").write_text(program)
    done = sash("run", "p.cql", "--runtime", "inline", cwd=tmp_path)
    assert (done.code, done.err) == (0, "")
    assert "stream nulls: read 4, accepted 3, late 0, rejected 1" in done.out
    assert "stream beyond: read 5, accepted 2, late 0, rejected 3" in done.out
    assert [row["row"] for row in rows(tmp_path / "dead-letters" / "beyond.rejects.jsonl")] == [2, 3, 4]
    answers = {
        name: sorted(
            ((r["ts"], r["op"], r["src"], r["total"]) for r in rows(tmp_path / f"{name}.jsonl")), key=repr
        )
        for name in streams
    }
    # Time ends, for each query, with the newest row of its stream.
    assert answers == {
        "empty": [],
        "header_only": [],
        "marked": [(10, "+", "a", 1)],
        "huge": [(10, "+", huge, 1)],
        "nulls": [(10, "+", None, None)],
        "past": [("1969-12-31T23:59:50.000000Z", "+", "a", 1)],
        "future": [
            ("9999-12-31T23:59:30.000000Z", "+", "a", 1),
            ("9999-12-31T23:59:40.000000Z", "-", "a", 1),
        ],
        "beyond": [(10, "+", "a", 1)],
    }


@dataclass(frozen=True, slots=True)
class Refusal:
    """A command that must fail: how, and what its message holds."""

    program: str
    says: tuple[str, ...]
    code: int = 2
    content: str = GOOD
    arguments: tuple[str, ...] = ("--runtime", "inline")
    env: Mapping[str, str] = field(default_factory=dict)


REFUSALS = {
    "an unknown source scheme": Refusal(
        STREAM.replace("csv:", "kafka:") + QUERY,
        ("error[source]", "unknown source 'kafka:s.csv'", "csv, generator, json, parquet"),
    ),
    "an unknown sink scheme": Refusal(
        STREAM + QUERY.replace("jsonl:", "xml:"),
        ("error[sink]", "unknown sink 'xml:q.jsonl'", "console, csv, jsonl, noop, parquet"),
    ),
    "two queries of one name": Refusal(
        STREAM + QUERY + QUERY, ("error[duplicate-name]", "there is a query 'q' already", "line 4, column 14")
    ),
    "two queries into one file": Refusal(
        STREAM + QUERY + QUERY.replace("QUERY q", "QUERY p").replace("jsonl:q", "csv: ./q"),
        ("error[sink]", "queries q and p write to the same place"),
    ),
    "an output that is the input": Refusal(
        STREAM + QUERY.replace("jsonl:q.jsonl", "csv:s.csv"),
        ("error[sink]", "query q writes to 's.csv', which stream s reads"),
    ),
    "an output into a directory that is watched": Refusal(
        STREAM.replace("csv:s.csv'", "csv:.' WITH (watch = true)")
        + QUERY.replace("jsonl:q.jsonl", "csv:q.csv"),
        ("error[sink]", "query q writes to 'q.csv', which stream s reads"),
    ),
    "a missing input file": Refusal(
        STREAM.replace("s.csv", "none.csv") + QUERY, ("error[source]", "'none.csv': there is no such file")
    ),
    "an output below a regular file": Refusal(
        STREAM + QUERY.replace("jsonl:q", "jsonl:s.csv/q"), ("error[sink]", "s.csv' is not a directory")
    ),
    "a checkpoint below a regular file": Refusal(
        STREAM + QUERY,
        ("error[checkpoint]", "cannot use the checkpoint directory"),
        arguments=("--runtime", "inline", "--checkpoint", "s.csv/state"),
    ),
    "an operand of the wrong type": Refusal(
        STREAM + QUERY.replace("SUM(x)", "SUM(src)"),
        ("error[type]", "SUM does not take STRING", "expected: BIGINT or DOUBLE"),
    ),
    "an unknown column": Refusal(
        STREAM + QUERY.replace("SUM(x)", "SUM(y)"),
        ("error[unknown-name]", "unknown column 'y'", "one of: t, src, x"),
    ),
    "a syntax error": Refusal(
        STREAM + QUERY.replace("SLIDE 10 SEC", "SLIDE"),
        (
            "error[syntax]: unexpected ']' (line 3, column 55)",
            "3 | SELECT src, SUM(x) AS total FROM s [RANGE 10 SEC SLIDE] GROUP BY src;\n" + " " * 58 + "^\n",
        ),
    ),
    "a column that the file lacks": Refusal(
        STREAM + QUERY, ("error[source]", "has no column 'x'", "t, src"), content="t,src\n1,a\n"
    ),
    "an empty program": Refusal("", ("error[no-query]", "there is no query to run")),
    "a program without queries": Refusal(STREAM, ("error[no-query]", "there is no query to run")),
    "an integer overflow": Refusal(
        STREAM + QUERY.replace("SUM(x)", "SUM(x * 9223372036854775807)"),
        ("error[data-expression]", "x * 9223372036854775807"),
        code=1,
    ),
    "a JAVA_HOME that leads nowhere": Refusal(
        STREAM + QUERY,
        ("error[java-missing]", "JAVA_HOME is '/nowhere'", "hint: install Java 17+"),
        arguments=(),
        env={"JAVA_HOME": "/nowhere"},
    ),
    "no Java at all": Refusal(
        STREAM + QUERY,
        ("error[java-missing]", "no java on the PATH"),
        arguments=(),
        env={"JAVA_HOME": "", "PATH": "/nowhere"},
    ),
    "a Java that is too old": Refusal(
        STREAM + QUERY,
        ("error[java-old]", "Spark needs Java 17 or later", "Java 11"),
        arguments=(),
        env={"JAVA_HOME": "old-java"},
    ),
}


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return {name: tmp_path_factory.mktemp("refused") for name in REFUSALS}


@pytest.fixture(scope="module")
def outcomes(folders: dict[str, Path]) -> dict[str, Outcome]:
    """All refusals: those in which Java is sought as a user's command, the others in this process."""

    def outcome(name: str) -> Outcome:
        folder, refusal = folders[name], REFUSALS[name]
        (folder / "p.cql").write_text(refusal.program)
        (folder / "s.csv").write_text(refusal.content)
        (folder / "q.jsonl").write_text("of an earlier run\n")
        java = folder / "old-java" / "bin" / "java"
        java.parent.mkdir(parents=True)
        java.write_text("#!/bin/sh\necho 'openjdk version \"11.0.2\" 2019-01-15' >&2\n")
        java.chmod(0o755)
        if refusal.env:
            return sash("run", "p.cql", *refusal.arguments, cwd=folder, env=refusal.env)
        with contextlib.chdir(folder):
            done = CliRunner().invoke(app, ["run", "p.cql", *refusal.arguments])
        return Outcome(done.exit_code, done.stdout, done.stderr)

    return {name: outcome(name) for name in REFUSALS}


@pytest.mark.parametrize("name", REFUSALS)
def test_is_refused_with_its_reason(name: str, outcomes: dict[str, Outcome]) -> None:
    refusal, done = REFUSALS[name], outcomes[name]
    for text in refusal.says:
        assert text in done.err
    assert done.code == refusal.code
    assert done.err.startswith("error[")
    assert "Traceback" not in done.out + done.err


@pytest.mark.parametrize("name", [name for name, refusal in REFUSALS.items() if refusal.code == 2])
def test_a_users_error_is_found_before_anything_is_written(
    name: str, folders: dict[str, Path], outcomes: dict[str, Outcome]
) -> None:
    assert outcomes[name].out == ""
    assert (folders[name] / "q.jsonl").read_text() == "of an earlier run\n"
    assert (folders[name] / "s.csv").read_text() == REFUSALS[name].content
