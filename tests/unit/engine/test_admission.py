"""Queries that come into a run are refused where there is no room for them, and the others go on."""

from __future__ import annotations

from typing import Any

import pytest

from sash.engine.control_channel import ControlChannel, Served
from sash.engine.engine import Engine
from sash.errors import UserError
from sash.lang import bind_program
from sash.runtime.run import run_program

STREAM = "CREATE STREAM s (t BIGINT, g BIGINT, n BIGINT) TIMESTAMP BY t FROM 'csv:s.csv' WITH ({});\n".format
FIRST = (
    "CREATE QUERY first INTO 'jsonl:first.jsonl' AS SELECT COUNT(*) AS c FROM s [RANGE 4 SEC SLIDE 2 SEC];\n"
)
LARGE = (
    "CREATE QUERY large INTO 'noop:' AS SELECT g, SUM(n) AS c FROM s [RANGE 1 HOUR SLIDE 1 SEC] GROUP BY g;\n"
)
JOIN = (
    "CREATE QUERY large INTO 'noop:' AS "
    "SELECT a.n FROM s [RANGE 1 HOUR] a, s [RANGE 1 HOUR] b WHERE a.g = b.g;\n"
)


class Late(ControlChannel):
    """Asks for one more query after the first batch."""

    def __init__(self, program):
        super().__init__()
        self.program, self.refused = program, None

    def serve(self, run: Served) -> None:
        assert isinstance(run, Engine)
        if run.taken == 1 and self.refused is None:
            with pytest.raises(UserError) as refused:
                run.change(self.program)
            self.refused = refused.value


def rows(directory):
    (directory / "s.csv").write_text("t,g,n\n" + "".join(f"{t // 5},{t % 3},{t}\n" for t in range(200)))


@pytest.mark.parametrize(
    ("options", "error"),
    [({"max_queries": 1}, "max-queries"), ({"max_state": 300_000}, "state-estimate")],
)
def test_a_query_that_does_not_fit_in_is_refused_and_the_others_go_on(tmp_path, options, error):
    rows(tmp_path)
    stream = STREAM("distinct_g = 3")
    control = Late(bind_program(stream + FIRST + LARGE))
    summary = run_program(
        bind_program(stream + FIRST),
        base_dir=tmp_path,
        runtime="inline",
        batch_rows=50,
        control=control,
        **options,
    )
    assert control.refused is not None
    assert control.refused.id == error
    assert summary.answered["first"] > 0


@pytest.mark.parametrize("query", [LARGE, JOIN])
def test_a_program_that_would_need_more_is_not_begun(tmp_path, query):
    rows(tmp_path)
    program = bind_program(STREAM("rate = 1000, distinct_g = 500") + FIRST + query)
    with pytest.raises(UserError, match="estimated at") as refused:
        run_program(program, base_dir=tmp_path, runtime="inline", max_state=1_000_000)
    assert refused.value.id == "state-estimate"
    assert "large needs most of it" in str(refused.value.got)
    assert not (tmp_path / "first.jsonl").exists()


def test_nobody_is_refused_on_a_guess(tmp_path):
    rows(tmp_path)
    program = bind_program(STREAM("distinct_g = 500") + FIRST + LARGE)
    assert (
        run_program(program, base_dir=tmp_path, runtime="inline", max_state=1_000_000).answered["first"] > 0
    )


def test_a_grouping_that_is_too_large_for_the_driver_fits_into_partitions(tmp_path):
    rows(tmp_path)
    program = bind_program(STREAM("rate = 1000, distinct_g = 500") + FIRST + LARGE)
    options: dict[str, Any] = {"base_dir": tmp_path, "runtime": "inline", "max_state": 100_000_000}
    with pytest.raises(UserError, match="estimated at"):
        run_program(program, **options)
    assert run_program(program, partitions=2, **options).answered["first"] > 0
