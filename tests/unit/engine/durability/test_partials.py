"""Partials on disk: what is read back says the same about every pane and group."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.synopses.synopsis_kit import Fed, partials_of, plan_of

from sash.engine.batch_result import BatchResult
from sash.engine.durability.partials import from_table, string_columns, to_table
from sash.operators.preaggregate import Partial
from sash.plan.periodic import SynopsisSpec
from sash.state.layout import Layout
from sash.synopses.basic_interval import BasicIntervalSynopsis
from sash.synopses.value_counts import ValueCounts

SELECT = (
    "SELECT COUNT(*) AS a, COUNT(n) AS b, SUM(n) AS c, SUM(x) AS d, MIN(n) AS e, MAX(x) AS f, MIN(k) AS h, "
    "MAX(k) AS i FROM s [RANGE 7 US SLIDE 3 US]%s"
)
rows = st.lists(
    st.tuples(
        st.integers(-9, 9),
        st.one_of(st.none(), st.sampled_from(["", "a", "é", "zz"])),
        st.one_of(st.none(), st.integers(0, 2)),
        st.one_of(st.none(), st.integers(-(2**62), 2**62)),
        st.one_of(st.none(), st.floats()),
    ),
    min_size=1,
    max_size=12,
)


def content(spec: SynopsisSpec, partial: Partial) -> list[list[object]]:
    """A row per (pane, group), words spelled out, doubles by their text so that NaN equals NaN."""
    table = to_table(spec, partial)
    return sorted([[repr(value) for value in row.values()] for row in table.to_pylist()])


def rows_in(tables: Iterable[pa.Table]) -> list[str]:
    return sorted(repr(row) for table in tables for row in table.to_pylist())


def test_extrema_of_strings_are_the_columns_that_hold_words():
    (spec,) = plan_of(SELECT % "").synopses
    names = [str(measure) for measure in spec.measures]
    layout = Layout.of(spec.measures)
    assert string_columns(layout) == {layout.ints[names.index("min(k)")], layout.ints[names.index("max(k)")]}


@given(rows, st.sampled_from(["", " GROUP BY g", " GROUP BY k, x"]))
def test_partials_come_back_as_they_were(given_rows, grouping):
    (spec,) = plan_of(SELECT % grouping).synopses
    (partial,) = partials_of(given_rows, [spec])
    table = to_table(spec, partial)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    back = from_table(spec, pa.ipc.open_stream(sink.getvalue()).read_all())
    assert back.synopsis == spec.name
    assert content(spec, back) == content(spec, partial)


# Sums that are exact and fit, so that an answer is one answer.
tame_rows = rows.map(
    lambda many: [
        (t, k, g, None if n is None else n % 7, None if x is None else float(n or 0) % 3)
        for t, k, g, n, x in many
    ]
)


@given(st.lists(tame_rows, min_size=1, max_size=3))
def test_a_plane_that_absorbs_partials_read_back_answers_like_one_that_saw_the_rows(batches):
    fed = Fed(f"Rstream({SELECT % ' GROUP BY g'})")
    other = Fed(f"Rstream({SELECT % ' GROUP BY g'})")
    (spec,) = fed.plan.synopses
    for batch in batches:
        for partial in partials_of(batch, [spec]):
            other.executor.absorb_partial(from_table(spec, to_table(spec, partial)))
    fed.feed([row for batch in batches for row in batch], end=True)
    other.executor.streams = fed.executor.streams
    for group in other.executor.groups.values():
        group.begin(fed.executor.parts[0].first.get("s"))
    answers = [table for name, table in other.executor.answer(0, BatchResult([])) if name == "q0"]
    assert rows_in(answers) == rows_in(fed.tables["q0"])


@given(rows, rows, st.sampled_from([" GROUP BY g", ""]))
def test_counted_values_of_several_chunks_in_one_table_are_those_of_the_chunks(first, second, grouping):
    plan = plan_of(f"SELECT MEDIAN(n) AS a, TOP(k, 2) AS b FROM s [RANGE 7 US SLIDE 3 US]{grouping}")
    of_chunks, of_tables = (BasicIntervalSynopsis(plan.synopses[0]) for _ in range(2))
    chunks = [partials_of(chunk, plan.synopses) for chunk in (first, second)]
    for partial in chunks[0] + chunks[1]:
        of_chunks.absorb(partial)
    for spec, *partials in zip(plan.synopses, *chunks, strict=True):
        of_tables.absorb(from_table(spec, pa.concat_tables(to_table(spec, partial) for partial in partials)))
    for synopsis in (of_chunks, of_tables):
        synopsis.seal(20)
    for argument, counts in of_chunks.values.items():
        others = of_tables.values[argument]
        assert _logged(of_chunks, counts) == _logged(of_tables, others)


def _logged(synopsis: BasicIntervalSynopsis, counts: ValueCounts) -> list[tuple[object, ...]]:
    """Every cell of the log with its group, values and their counts."""
    cells = counts.log.cells
    keys = [key.to_pylist() for key in synopsis.groups.keys_of(np.arange(synopsis.groups.size))]
    found = []
    for position in range(cells.base, cells.end):
        slot = int(cells.slots[position - cells.base])
        values, often = counts.log.between(position, position + 1)
        group = tuple(key[slot] for key in keys)
        found.append(
            (cells.pane_at(position), repr(group), counts.decode(values).to_pylist(), often.tolist())
        )
    return sorted(cell for cell in found if cell[3])
