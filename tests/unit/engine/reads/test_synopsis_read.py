"""One-time aggregates that synopses answer: the same as from the rows, without touching them."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sash.engine.reads.checkpoint_reader import CheckpointReader
from sash.errors import UserError
from sash.lang import bind_program
from sash.runtime.run import run_program
from sash.testing.runs import StopAfter

STREAM = "CREATE STREAM s (t BIGINT, g BIGINT, k STRING, n BIGINT) TIMESTAMP BY t{retain} FROM 'csv:s.csv';\n"
QUERIES = (
    "CREATE QUERY a INTO 'noop:' AS SELECT g, COUNT(*) AS c, SUM(n) AS n, MAX(k) AS k, AVG(n) AS m, "
    "MEDIAN(n) AS h, TOP(k, 3) AS t "
    "FROM s [RANGE 12 SEC SLIDE 2 SEC] GROUP BY g;\n"
    "CREATE QUERY b INTO 'noop:' AS SELECT SUM(n) AS n, MIN(n) AS m FROM s [RANGE 8 SEC SLIDE 1 SEC];\n"
)
VALUED = "COUNT(*) AS c, VAR(n) AS v, QUANTILE(n, 0.9) AS q, TOP(k, 2) AS t, COUNT(DISTINCT k) AS d"


def peek(folder: Path, retain: str, batches: int | None, limit: int | None = None) -> CheckpointReader:
    monitor = StopAfter(batches)
    run_program(
        bind_program(STREAM.format(retain=retain) + QUERIES),
        base_dir=folder,
        runtime="inline",
        checkpoint=folder / f"state{retain}",
        batch_rows=5,
        partitions=None if limit is None else 2,
        max_driver_groups=limit,
        monitor=monitor,
        stop=monitor.stop,
    )
    return CheckpointReader(folder / f"state{retain}")


rows = st.lists(
    st.tuples(
        st.integers(0, 2), st.integers(0, 3), st.sampled_from(("", "a", "é", "zz")), st.integers(-4, 9)
    ),
    min_size=1,
    max_size=40,
)


@settings(max_examples=40)
@given(rows, st.integers(1, 9), st.data())
def test_a_synopsis_answers_as_the_rows_do(steps, batches, data):
    time, lines = 0, ["t,g,k,n"]
    for step, g, k, n in steps:
        time += step
        lines.append(f"{time},{g},{k},{n}")
    span = data.draw(st.integers(1, 6), "panes")
    offset = data.draw(st.integers(0, span - 1), "offset")
    past = f" OFFSET {2 * offset} SEC" if offset else ""
    if data.draw(st.booleans(), "grouped"):
        shown = data.draw(
            st.sampled_from(("COUNT(*) AS c", "SUM(n) AS n, MAX(k) AS k", "AVG(n) + 1 AS m", VALUED))
        )
        having = data.draw(st.sampled_from(("", " HAVING SUM(n) > 3")))
        tail = data.draw(st.sampled_from(("", " ORDER BY g DESC", " ORDER BY g LIMIT 2")))
        text = f"SELECT g, {shown} FROM s [RANGE {2 * span} SEC{past} SLIDE 2 SEC] GROUP BY g{having}{tail}"
    else:
        past = " OFFSET 1 SEC" if span > 1 else ""
        text = f"SELECT SUM(n) AS n, COUNT(*) AS c FROM s [RANGE {span} SEC{past} SLIDE 1 SEC]"
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "s.csv").write_text("\n".join(lines) + "\n")
        # Some are in partitions.
        looked = peek(folder, "", batches, data.draw(st.sampled_from((None, 0, 2)), "limit")).ask(text)
        read = peek(folder, " RETAIN 1 HOUR", batches)
        # From the rows: a filter that always holds keeps the synopsis out of it.
        scanned = read.ask(text.replace("]", "] WHERE n < 1000000", 1))
        given, right = looked.table.to_pylist(), scanned.table.to_pylist()
        if "ORDER BY" in text:
            assert given == right
        assert sorted(map(str, given)) == sorted(map(str, right))


def test_a_window_without_slide_is_that_of_the_last_edge(tmp_path):
    (tmp_path / "s.csv").write_text("t,g,k,n\n" + "".join(f"{t},{t % 2},a,1\n" for t in range(30)))
    found = peek(tmp_path, "", 3)
    answer = found.ask("SELECT g, COUNT(*) AS c FROM s [RANGE 4 SEC] GROUP BY g ORDER BY g")
    # 15 rows have come, and everything before 14 is complete; panes end at even seconds.
    assert answer.instant == 12_000_000
    assert answer.table.to_pylist() == [{"g": 0, "c": 2}, {"g": 1, "c": 2}]


@pytest.mark.parametrize(
    "text",
    [
        "SELECT g, COUNT(*) AS c FROM s [RANGE 14 SEC] GROUP BY g",  # longer than any that is kept
        "SELECT g, COUNT(*) AS c FROM s [RANGE 3 SEC SLIDE 2 SEC] GROUP BY g",  # between two edges
        "SELECT g, MIN(k) AS c FROM s [RANGE 4 SEC] GROUP BY g",  # another measure
        "SELECT k, COUNT(*) AS c FROM s [RANGE 4 SEC] GROUP BY k",  # another grouping
        "SELECT COUNT(*) AS c FROM s [RANGE 4 SEC] WHERE n > 1",  # another filter
        "SELECT n FROM s [RANGE 4 SEC]",  # no aggregate
    ],
)
def test_what_no_synopsis_covers_needs_rows(tmp_path, text):
    (tmp_path / "s.csv").write_text("t,g,k,n\n" + "".join(f"{t},{t % 2},a,1\n" for t in range(60)))
    with pytest.raises(UserError, match="no synopsis covers this one"):
        peek(tmp_path, "", 9).ask(text)


@pytest.mark.parametrize("where", ["k IN ('a', 'b')", "k = 'a'"])
def test_what_is_put_together_from_synopses_is_looked_up_in_them(tmp_path, where):
    lines = "".join(f"{t // 2},{t % 3},{'abc'[t // 3 % 3]},{t}\n" for t in range(60))
    (tmp_path / "s.csv").write_text("t,g,k,n\n" + lines)
    select = (
        "SELECT g, COUNT(*) AS c, SUM(n) AS n FROM s [RANGE 8 SEC SLIDE 2 SEC] WHERE {} GROUP BY g".format
    )
    first, second = ("k = 'a'", "k = 'b'") if "IN" in where else ("k IN ('a', 'b')", "k = 'b'")
    standing = "".join(
        f"CREATE QUERY q{i} INTO 'noop:' AS {select(condition)};\n"
        for i, condition in enumerate((first, second, where))
    )
    for retain in ("", " RETAIN 1 HOUR"):
        program = bind_program(STREAM.format(retain=retain) + standing)
        run_program(program, base_dir=tmp_path, runtime="inline", checkpoint=tmp_path / f"state{retain}")
    ordered = select(where) + " ORDER BY g"
    looked = CheckpointReader(tmp_path / "state").ask(ordered)
    read = CheckpointReader(tmp_path / "state RETAIN 1 HOUR").ask(ordered.replace("SUM(n)", "SUM(n + 0)"))
    assert looked.table.num_rows == 3, looked.table
    assert looked.table.to_pylist() == read.table.to_pylist()
