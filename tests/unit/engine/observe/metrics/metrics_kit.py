"""A strict reader of the text format of Prometheus, and a run to be measured."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

from sash.engine.observe.report import Monitor, Summary
from sash.lang import bind_program
from sash.runtime.run import run_program

_NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
_SAMPLE = re.compile(rf"({_NAME})(?:\{{(.*)\}})? ([^ ]+)")
_LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\["\\n])*)"(,|$)')
_ESCAPES = {"\\\\": "\\", '\\"': '"', "\\n": "\n"}

Labels = frozenset[tuple[str, str]]


@dataclass
class Metric:
    kind: str
    help: str
    samples: dict[Labels, float] = field(default_factory=dict)


def parse(text: str) -> dict[str, Metric]:
    """Every line is HELP, TYPE or a sample; a metric is one block; no sample comes twice."""
    assert text == "" or text.endswith("\n")
    found: dict[str, Metric] = {}
    lines = text.splitlines()
    last = ""
    for number, line in enumerate(lines):
        if line.startswith("# HELP "):
            name, _, about = line.removeprefix("# HELP ").partition(" ")
            assert re.fullmatch(_NAME, name)
            assert name not in found, f"{name} twice"
            assert about
            kind = lines[number + 1].removeprefix(f"# TYPE {name} ")
            assert kind in ("counter", "gauge"), lines[number + 1]
            assert (kind == "counter") == name.endswith("_total")
            found[name] = Metric(kind, about)
            last = name
        elif line.startswith("# TYPE "):
            assert lines[number - 1].startswith(f"# HELP {last} ")
        else:
            match = _SAMPLE.fullmatch(line)
            assert match, line
            assert match[1] == last, f"a sample of {match[1]} among those of {last}"
            labels = frozenset(_labels(match[2] or "").items())
            assert labels not in found[last].samples, line
            found[last].samples[labels] = float(match[3])
    assert all(metric.samples for metric in found.values())
    return found


def _labels(text: str) -> dict[str, str]:
    labels = {}
    at = 0
    while at < len(text):
        match = _LABEL.match(text, at)
        assert match, text[at:]
        labels[match[1]] = re.sub(r"\\.", lambda found: _ESCAPES[found[0]], match[2])
        at = match.end()
    return labels


def value(metrics: dict[str, Metric], name: str, **labels: str) -> float:
    """The one sample that has these labels, among others."""
    wanted = set(labels.items())
    (found,) = [number for given, number in metrics[name].samples.items() if wanted <= given]
    return found


# A row a second; k is a, b, c by turns, n counts. The row of 3 s comes late, and one is no row.
STREAM = """CREATE STREAM s (t BIGINT, k STRING, n BIGINT) TIMESTAMP BY t FROM 'csv:s.csv';
"""
PERIODIC = """CREATE QUERY total INTO 'jsonl:total.jsonl' AS
  Rstream(SELECT SUM(n) AS total FROM s [RANGE 4 SEC SLIDE 2 SEC]);
"""
CONTINUOUS = """CREATE QUERY pairs INTO 'jsonl:pairs.jsonl' AS
  SELECT a.n AS x, b.n AS y FROM s [RANGE 3 SEC] AS a, s [RANGE 3 SEC] AS b
  WHERE a.k = b.k AND a.k <> 'c "x\\';
"""


def write_rows(folder: Path, count: int = 12) -> None:
    lines = [f"{i},{'abc'[i % 3]},{i}" for i in range(1, count + 1)]
    lines.insert(6, "3,a,100")
    lines.insert(8, "x,a,100")
    (folder / "s.csv").write_text("t,k,n\n" + "\n".join(lines) + "\n")


def run(
    folder: Path, monitor: Monitor, text: str = STREAM + PERIODIC + CONTINUOUS, **options: object
) -> Summary:
    if not (folder / "s.csv").exists():
        write_rows(folder)
    given = {"runtime": "inline", "batch_rows": 4, **options}
    return run_program(bind_program(text), base_dir=folder, monitor=monitor, **given)  # type: ignore[arg-type]
