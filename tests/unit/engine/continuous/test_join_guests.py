"""Join queries that come while a run goes on, and between two runs: they share what is kept for them."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.change_logs import at, contents

from sash.cli import calls
from sash.engine.engine import Engine
from sash.engine.options import Options
from sash.lang import bind_program
from sash.operators.join import WindowJoin
from sash.runtime.inline.pipeline import Inline
from sash.runtime.run import run_program
from sash.synopses.joined.aggregates import JoinAggregates
from sash.testing.runs import StopAfter

STREAM = "CREATE STREAM s (t BIGINT, k STRING, n BIGINT) TIMESTAMP BY t FROM 'csv:s.csv';\n"


def query(name, length, aggregate="COUNT(*)"):
    window = f"s [RANGE {length} SEC SLIDE 2 SEC]"
    return (
        f"CREATE QUERY {name} INTO 'jsonl:{name}.jsonl' AS SELECT a.k, {aggregate} AS c "
        f"FROM {window} a, {window} b WHERE a.k = b.k GROUP BY a.k;\n"
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "s.csv").write_text("t,k,n\n" + "".join(f"{t},{'abc'[t % 3]},{t}\n" for t in range(1, 61)))
    return tmp_path


def program(*queries):
    return bind_program(STREAM + "".join(queries))


def run(
    folder: Path,
    *queries: str,
    batches: int | None = None,
    checkpoint: str | None = "state",
    batch_rows: int = 6,
) -> None:
    monitor = StopAfter(batches)
    run_program(
        program(*queries),
        base_dir=folder,
        runtime="inline",
        checkpoint=None if checkpoint is None else folder / checkpoint,
        batch_rows=batch_rows,
        monitor=monitor,
        stop=monitor.stop,
    )


def test_guests_share_a_synopsis_and_it_is_as_long_as_they_need_it(folder):
    engine = Engine(program(query("q", 8)), Options(base_dir=folder, batch_rows=6), "inline", cores=1)
    engine.load()
    engine.open_outputs()
    inline = Inline(engine)

    def go(batches, *queries):
        engine.change(program(*queries))
        for _ in range(batches):
            entry = engine.next_entry()
            assert entry is not None
            engine.take(entry, inline.batch)
        vertices = engine.executor.parts[0].continuous.flow.vertices
        joins = [v for v in vertices if isinstance(v.operator, WindowJoin)]
        (synopsis,) = (v.operator for v in vertices if isinstance(v.operator, JoinAggregates))
        return len(engine.executor.parts), joins[0].state_rows, synopsis.synopsis.b

    host, guest, longer = query("q", 8), query("guest", 4), query("longer", 20)
    # A row a second; both inputs of the join are the stream.
    assert go(3, host) == (1, 2 * 8, 4)
    assert go(1, host, guest) == (2, 2 * 8, 4)
    assert go(4, host, guest, longer) == (3, 2 * 20, 10)
    # Who made the synopsis may go; the guests read on.
    assert go(1, guest, longer) == (3, 2 * 20, 10)
    parts, rows, b = go(1, guest)
    assert (parts, rows, b) == (2, 2 * 4, 2)
    engine.change(program())
    assert not engine.executor.parts
    inline.close()
    engine.close()


def test_a_guest_answers_at_the_next_slide_and_a_longer_one_when_its_windows_are_whole(folder):
    for name, length in (("alone", 4), ("alone_longer", 20)):
        run(folder, query(name, length), checkpoint=None)
    run(folder, query("q", 8), batches=4)
    # Time has come to 24; the synopsis has had panes since 16.
    run(folder, query("q", 8), query("guest", 4), query("longer", 20), batches=1)
    run(folder, query("guest", 4), query("longer", 20))
    held = {
        n: contents(folder / f"{n}.jsonl", is_log=True) for n in ("alone", "guest", "alone_longer", "longer")
    }
    assert (min(held["guest"]), min(held["longer"])) == (24, 36)
    for instant in range(24, 61, 2):
        assert at(held["guest"], instant) == at(held["alone"], instant)
    for instant in range(36, 61, 2):
        assert at(held["longer"], instant) == at(held["alone_longer"], instant)


def test_a_guest_of_a_run_that_is_stopped_before_its_first_slide_is_told_all_there_is(folder):
    run(folder, query("alone", 8), checkpoint=None)
    # A second a batch: the guest comes at 24, and the run is stopped before 26.
    run(folder, query("q", 8), batches=25, batch_rows=1)
    run(folder, query("q", 8), query("guest", 8), batches=1, batch_rows=1)
    run(folder, query("q", 8), query("guest", 8), batch_rows=1)
    alone, guest = (contents(folder / f"{name}.jsonl", is_log=True) for name in ("alone", "guest"))
    assert min(guest) == 26
    assert guest[26] == alone[26]


def test_a_row_that_waits_for_a_slide_lives_as_long_as_a_longer_query_needs_it(folder):
    run(folder, query("alone", 20), checkpoint=None)
    # The run is stopped at 25, whose row is in windows from 26 on.
    run(folder, query("q", 8), batches=25, batch_rows=1)
    run(folder, query("q", 8), query("longer", 20), batch_rows=1)
    alone, longer = (contents(folder / f"{name}.jsonl", is_log=True) for name in ("alone", "longer"))
    same = [t for t in range(26, 61, 2) if at(longer, t) == at(alone, t)]
    assert same == list(range(38, 61, 2))


def test_explain_of_a_run_tells_how_join_queries_fare(folder):
    run(folder, query("q", 8), batches=4)
    queries = (query("q", 8), query("guest", 4), query("longer", 20))
    run(folder, *queries, batches=1)
    text = calls.explain(program(*queries), None, None, checkpoint=folder / "state")
    lines = [line for line in text.splitlines() if line.startswith(("reads", "in the run"))]
    late = "0 s late, at worst 0 s, boundaries skipped: 0"
    fares = f"in the run: answered at 28, period granted 2 s of 2 s, {late}"
    assert lines == [
        "reads j0, a synopsis of its own; in group g0 alone",
        fares,
        "reads j0, rule SS3; in group g1 alone",
        fares,
        "reads j0, rule SS3; in group g2 alone",
        f"{fares}; windows whole from 36 on",
    ]
