"""CREATE INDEX under standing queries: aggregates of a column come from its index, and are the same."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from sash.engine.control_channel import ControlChannel, Served
from sash.engine.engine import Engine
from sash.engine.options import Options
from sash.lang import bind_program
from sash.lang.bound import Scalar
from sash.runtime.run import run_program
from sash.synopses.indexed_values import IndexedWindow
from sash.testing.runs import StopAfter

STREAM = (
    "CREATE STREAM s (t BIGINT, k STRING, n BIGINT, x DOUBLE) TIMESTAMP BY t SLACK 2 SEC FROM 'csv:s.csv';\n"
)
QUERIES = """
CREATE QUERY a INTO 'jsonl:{out}/a.jsonl' AS
  SELECT MEDIAN(n) AS m, COUNT(DISTINCT n) AS d, TOP(n, 2) AS t, VAR(n) AS v, QUANTILE(x, 0.9) AS q,
    COUNT(DISTINCT x) AS dx, HISTOGRAM(n) AS h
  FROM s [RANGE 12 SEC SLIDE 3 SEC];
CREATE QUERY b INTO 'jsonl:{out}/b.jsonl' AS
  Rstream(SELECT TOP(k, 3) AS t, QUANTILE(k, 0.5) AS q, COUNT(DISTINCT k) AS d, SUM(DISTINCT n) AS s,
    HISTOGRAM(k) AS h
  FROM s [RANGE 7 SEC SLIDE 3 SEC]);
CREATE QUERY c INTO 'jsonl:{out}/c.jsonl' AS
  SELECT k, MEDIAN(n) AS m FROM s [RANGE 12 SEC SLIDE 3 SEC] GROUP BY k;
"""
NAMES = ("a.jsonl", "b.jsonl", "c.jsonl")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    rng = random.Random(3)
    rows = []
    for i in range(900):
        # Skewed, some NULL, words that come and do not come back, and a long time without rows.
        t = i // 10 + (40 if i > 600 else 0) - rng.choice((0, 0, 1))
        word = rng.choice(["", "a", "b", f"w{i // 30}", f"{i % 7}{i // 100}"])
        number = "" if rng.random() < 0.1 else str(int(rng.paretovariate(1)) % 50)
        rows.append(f"{max(0, t)},{word},{number},{rng.choice(['-0.0', '0.0', '1.5', '', 'nan', '-2e9'])}")
    (tmp_path / "s.csv").write_text("t,k,n,x\n" + "\n".join(rows) + "\n")
    return tmp_path


def indexes(kind: str) -> str:
    return "".join(f"CREATE INDEX by_{c} ON s ({c}) USING {kind};\n" for c in "knx")


def run(
    folder: Path,
    out: str,
    more: str,
    stops: tuple[int | None, ...] = (None,),
    control: ControlChannel | None = None,
) -> None:
    (folder / out).mkdir()
    for stop in stops:
        monitor = StopAfter(stop)
        run_program(
            bind_program(STREAM + more + QUERIES.format(out=out)),
            base_dir=folder,
            runtime="inline",
            checkpoint=folder / f"state {out}",
            batch_rows=70,
            monitor=monitor,
            stop=monitor.stop,
            control=control,
        )


def texts(folder: Path, out: str) -> list[list[str]]:
    return [sorted((folder / out / name).read_text().splitlines()) for name in NAMES]


@pytest.mark.parametrize(
    "kind", ["AUTO", "L OVER AGGR", "T OVER LIST", "UH(4)", "RING DB ON H", "RING AUX ON L", "G(5)"]
)
def test_answers_from_an_index_are_those_without_one(folder, kind):
    run(folder, "plain", "")
    run(folder, "indexed", indexes(kind), stops=(2, 3, None))
    expected = texts(folder, "plain")
    assert texts(folder, "indexed") == expected
    assert all(len(lines) > 20 for lines in expected)


class Changing(ControlChannel):
    """Between batches the indexes become others."""

    def __init__(self) -> None:
        super().__init__()
        self.batches = 0

    def serve(self, served: Served) -> None:
        super().serve(served)
        kinds = {2: "T", 4: None, 6: "H OVER LIST", 9: "L"}
        if self.batches in kinds:
            kind = kinds[self.batches]
            more = "" if kind is None else indexes(kind)
            served.change(bind_program(STREAM + more + QUERIES.format(out="changing")))
        self.batches += 1


def test_indexes_come_and_go_without_a_trace_in_the_answers(folder):
    run(folder, "plain", "")
    run(folder, "changing", "", control=Changing())
    assert texts(folder, "changing") == texts(folder, "plain")


def test_the_index_that_was_asked_for_is_the_one_that_answers(folder):
    (folder / "out").mkdir()
    more = "CREATE INDEX i ON s (n) USING H;\nCREATE INDEX j ON s (x) USING G(9);\n"
    program = bind_program(STREAM + more + QUERIES.format(out="out"))
    engine = Engine(program, Options(base_dir=folder), "inline", cores=1)
    engine.load()
    kinds = {}
    for group in engine.executor.groups.values():
        for argument, counts in group.synopsis.values.items():
            window = counts.window((3_000_000, 0))
            is_grouped = bool(group.spec.keys)
            name = window._index.name if isinstance(window, IndexedWindow) else None
            assert isinstance(argument, Scalar)
            kinds[argument.column, is_grouped] = name
    engine.close()
    assert kinds == {("n", False): "H-INDEX", ("x", False): None, ("k", False): None, ("n", True): None}
