"""Groupings in partitions: when they move, what is told of them, and that stops, crashes and kinds of query
make no difference to the answers.

batch          0      1      2      3      4
groups seen    2      4      6      8      8        --max-driver-groups 5
with           driver driver driver │ partitions    after the third batch they are more than five
"""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.change_logs import contents

import sash
from sash.engine.durability.checkpoint import Checkpoint
from sash.engine.durability.pane_files import PaneFolder
from sash.engine.durability.partials import by_partition, from_table, part_of, to_table
from sash.engine.observe.explaining import explained
from sash.engine.observe.report import DRIVER
from sash.errors import BindError, DataError
from sash.lang import bind_program
from sash.operators.preaggregate import Partial, preaggregate
from sash.plan.run_plan import plan_run
from sash.runtime.run import run_program
from sash.testing.runs import StopAfter

STREAM = (
    "CREATE STREAM s (t BIGINT, g STRING, n BIGINT) TIMESTAMP BY t FROM 'csv:s.csv' WITH (unit = 'us');\n"
)
SELECTS = {
    "sums": "SELECT g, SUM(n) AS s, COUNT(*) AS c FROM s [RANGE 8 US SLIDE 2 US] GROUP BY g",
    "few": "SELECT g, SUM(n) AS s FROM s [RANGE 8 US SLIDE 2 US] GROUP BY g HAVING SUM(n) > 3",
    "more": "SELECT g, SUM(n) AS s FROM s [RANGE 8 US SLIDE 2 US] GROUP BY g HAVING SUM(n) > 7",
    "whole": "Rstream(SELECT g, MEDIAN(n) AS h, TOP(n, 2) AS t FROM s [RANGE 6 US SLIDE 3 US] GROUP BY g)",
    "coming": "Istream(SELECT COUNT(*) AS c, MAX(n) AS m FROM s [RANGE 4 US SLIDE 2 US] GROUP BY g)",
    "going": "Dstream(SELECT COUNT(*) AS c FROM s [RANGE 4 US SLIDE 2 US] GROUP BY g)",
    "sizes": "SELECT COUNT(*) AS c FROM s [RANGE 4 US SLIDE 2 US] GROUP BY g",
    "best": "SELECT g, SUM(n) AS s FROM s [RANGE 8 US SLIDE 2 US] GROUP BY g ORDER BY s DESC LIMIT 2",
    "total": "SELECT SUM(n) AS s FROM s [RANGE 8 US SLIDE 2 US]",
}


def program(selects: dict[str, str] = SELECTS) -> str:
    queries = (
        f"CREATE QUERY {name} INTO 'jsonl:{name}.jsonl' AS {text};\n" for name, text in selects.items()
    )
    return STREAM + "".join(queries)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    rng = random.Random(7)
    lines = ["t,g,n"]
    for t in range(60):
        # More and more groups, and one without a key.
        g = rng.choice(("", *"abcdefghij"[: 2 + t // 6]))
        lines.append(f"{t // 2},{g},{rng.choice(('', *range(-2, 6)))}")
    (tmp_path / "s.csv").write_text("\n".join(lines) + "\n")
    return tmp_path


def run(folder: Path, text: str, stop: int | None = None, **options: Any) -> StopAfter:
    monitor = StopAfter(stop)
    options = {"batch_rows": 6, "partitions": 2, **options}
    run_program(
        bind_program(text), base_dir=folder, runtime="inline", monitor=monitor, stop=monitor.stop, **options
    )
    return monitor


def answers(folder: Path, selects: dict[str, str] = SELECTS) -> dict[str, Any]:
    return {
        name: contents(folder / f"{name}.jsonl", not text.startswith(("Rstream", "Istream", "Dstream")))
        for name, text in selects.items()
    }


def test_a_grouping_that_grows_beyond_the_limit_moves_and_goes_on(folder):
    run(folder, program(), partitions=None)
    right = answers(folder)
    monitor = run(folder, program(), max_driver_groups=5)
    assert answers(folder) == right
    moved = [any(h.groups for p, h in r.state.items() if p != DRIVER) for r in monitor.reports]
    assert moved == sorted(moved), "it does not come back"
    assert not moved[0]
    assert moved[-1]
    assert [report.state[DRIVER].groups > 1 for report in monitor.reports] == [not each for each in moved]
    assert monitor.summary is not None
    (told, *_) = monitor.summary.chosen["sums"]
    assert "divided among 2 partitions" in told
    assert "--max-driver-groups is 5" in told
    assert not any("divided" in note for note in monitor.summary.chosen["total"])


@pytest.mark.parametrize("limit", [0, 5])
@pytest.mark.parametrize("checkpoint", [False, True])
def test_answers_do_not_depend_on_the_limit(folder, limit, checkpoint):
    run(folder, program(), partitions=None)
    right = answers(folder)
    run(
        folder,
        program(),
        partitions=3,
        max_driver_groups=limit,
        checkpoint=folder / "state" if checkpoint else None,
    )
    assert answers(folder) == right


def test_a_run_with_another_limit_or_without_partitions_goes_on_from_the_same_files(folder):
    """What lies on disk does not depend on who keeps the groups."""
    run(folder, program({"sums": SELECTS["sums"]}), partitions=None)
    right = answers(folder, {"sums": SELECTS["sums"]})
    text, state = program({"sums": SELECTS["sums"]}), folder / "state"
    run(folder, text, 2, max_driver_groups=0, checkpoint=state)
    run(folder, text, 2, max_driver_groups=100, checkpoint=state)
    run(folder, text, 2, partitions=None, checkpoint=state)
    run(folder, text, 2, max_driver_groups=4, checkpoint=state)
    run(folder, text, None, max_driver_groups=4, checkpoint=state)
    assert answers(folder, {"sums": SELECTS["sums"]}) == right


@pytest.mark.parametrize(("owner", "step"), [(PaneFolder, "save"), (Checkpoint, "commit")])
@pytest.mark.parametrize("batch", [0, 5, 6])
def test_a_crash_around_the_move_loses_nothing_and_doubles_nothing(folder, monkeypatch, owner, step, batch):
    run(folder, program(), partitions=None)
    right = answers(folder)
    real, calls = getattr(owner, step), iter(range(1000))

    class Crash(Exception):
        pass

    def crash(self: object, *arguments: object) -> None:
        if next(calls) == batch:
            raise Crash
        real(self, *arguments)

    with monkeypatch.context() as patch:
        patch.setattr(owner, step, crash)
        with pytest.raises(Crash):
            run(folder, program(), max_driver_groups=5, checkpoint=folder / "state")
    run(folder, program(), max_driver_groups=5, checkpoint=folder / "state")
    assert answers(folder) == right


def test_pane_files_go_when_every_window_has_passed_them(folder):
    text = program({"sums": SELECTS["sums"]})
    files = []

    class Counting(StopAfter):
        def batch(self, report):
            super().batch(report)
            files.append(len(list((folder / "state" / "panes").iterdir())))

    run_program(
        bind_program(text),
        base_dir=folder,
        runtime="inline",
        partitions=2,
        batch_rows=2,
        max_driver_groups=0,
        checkpoint=folder / "state",
        monitor=Counting(),
    )
    # Eight instants of two rows, in two partitions, and what is still open.
    assert max(files) <= 2 * (8 + 4)


def test_the_option_of_a_query_says_where_its_groups_are(folder):
    text = program({"sums": SELECTS["sums"] + " WITH (state = 'partitioned')", "total": SELECTS["total"]})
    monitor = run(folder, text)
    assert monitor.summary is not None
    assert "sums has WITH (state = 'partitioned')" in monitor.summary.chosen["sums"][0]
    text = program({"sums": SELECTS["sums"] + " WITH (state = 'driver')"})
    monitor = run(folder, text, max_driver_groups=0)
    assert monitor.reports[-1].refresh()["sums"].partitions == 0
    assert "because of WITH (state = 'driver')" in explained(bind_program(text))
    for select, option in ((SELECTS["sums"], "nowhere"), (SELECTS["total"], "partitioned")):
        with pytest.raises(BindError):
            plan_run(bind_program(program({"q": f"{select} WITH (state = '{option}')"})))
    with pytest.raises(BindError, match="row by row"):
        plan_run(
            bind_program(program({"q": "SELECT DISTINCT g FROM s [RANGE 5 US] WITH (state = 'driver')"}))
        )


def test_queries_that_are_refreshed_elastically_stay_with_the_driver(folder):
    text = program({"sums": SELECTS["sums"] + " WITH (refresh = 'elastic')", "sizes": SELECTS["sizes"]})
    monitor = run(folder, text, max_driver_groups=0)
    assert monitor.reports[-1].refresh()["sums"].partitions == 0


def test_the_largest_grouping_moves_when_the_driver_is_half_full(folder):
    text = program({"sums": SELECTS["sums"]})
    held = run(folder, text).reports[-1].held.bytes
    monitor = run(folder, text, max_state=19 * held // 10)
    assert monitor.summary is not None
    assert "more than half of --max-state" in monitor.summary.chosen["sums"][0]


def test_metrics_and_questions_of_a_session_see_what_partitions_hold(folder):
    select = SELECTS["sums"]
    with sash.connect(
        folder, "inline", checkpoint=folder / "state", partitions=2, max_driver_groups=3, batch_rows=6
    ) as session:
        session.sql(STREAM)
        session.query(select, name="sums", into="noop:")
        session.start()
        session.wait()
        shown = session.sql("SHOW QUERIES").to_pylist()[0]
        assert shown["kept"] == "2 partitions"
        assert shown["state_groups"] > 3
        assert shown["state_bytes"] > 0
        asked = session.ask(
            "SELECT g, SUM(n) AS s FROM s [RANGE 8 US SLIDE 2 US] GROUP BY g ORDER BY s DESC, g LIMIT 3"
        ).to_pylist()
    run(folder, program({"sums": select}), partitions=None)
    last = answers(folder, {"sums": select})["sums"]
    rows = [json.loads(row) for row in last[max(last)]]
    rows.sort(key=lambda row: (row["s"] is None, -(row["s"] or 0), row["g"] is None, row["g"]))
    assert asked == [{"g": row["g"], "s": row["s"]} for row in rows[:3]]


def test_an_overflow_in_a_partition_is_told_as_that_of_the_driver(folder):
    big = (1 << 63) - 1
    (folder / "s.csv").write_text(f"t,g,n\n1,a,{big}\n1,a,{big}\n1,b,1\n9,b,1\n")
    with pytest.raises(DataError, match="SUM"):
        run(folder, program({"sums": SELECTS["sums"]}), max_driver_groups=0)


# ------------------------------------------------------------------------ partials


def made(text: str, rows: int = 200) -> tuple[Any, list[Partial]]:
    plan = plan_run(bind_program(program({"q": text})))
    rng = np.random.default_rng(3)
    words = pa.array([None, "a", "b", "ccc", "dd", "e", "f", ""])
    table = pa.table({"g": words.take(pa.array(rng.integers(0, 8, rows))), "n": rng.integers(-5, 5, rows)})
    return plan, list(preaggregate(np.sort(rng.integers(0, 20, rows)), table, plan.synopses))


@pytest.mark.parametrize("of", [1, 2, 5])
def test_partials_are_divided_by_group_and_nothing_is_lost(of):
    plan, partials = made(
        "SELECT g, SUM(n) AS s, MAX(g) AS m, MEDIAN(n) AS d FROM s [RANGE 8 US SLIDE 2 US] GROUP BY g"
    )
    specs = {spec.name: spec for spec in plan.synopses}
    assert len(partials) == 2
    owners: dict[object, int] = {}
    for partial in partials:
        spec = specs[partial.synopsis]
        given = []
        for partition, part in by_partition(partial, of):
            table = to_table(spec, part)
            for g in table.column("k0").to_pylist():
                assert owners.setdefault(g, partition) == partition
            assert table.equals(to_table(spec, part_of(partial, partition, of)))
            # Of what the driver has written before it let its groups go, each takes its own.
            filed = from_table(spec, to_table(spec, partial))
            assert table.equals(to_table(spec, part_of(filed, partition, of)))
            given += table.to_pylist()
        right = to_table(spec, partial).to_pylist()
        assert sorted(given, key=repr) == sorted(right, key=repr)
