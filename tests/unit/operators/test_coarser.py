"""A grouping that is added up from a finer one gives the partials that its own pass over the rows gives."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sash.lang import bind_program
from sash.operators import preaggregate as module
from sash.operators.preaggregate import preaggregate
from sash.plan.coarser import finer_than
from sash.plan.periodic import plan_periodic
from sash.state.layout import Layout

STREAM = (
    "CREATE STREAM s (t BIGINT, k STRING, g BIGINT, n BIGINT, x DOUBLE, w STRING) TIMESTAMP BY t "
    "FROM 'csv:s.csv' WITH (unit = 'us');\n"
)
CALLS = "COUNT(n) AS a, SUM(n) AS b, MIN(n) AS c, MAX(x) AS d, SUM(x) AS e, MIN(w) AS f"
GROUPINGS = ("k, g, b", "k, g", "g, k", "g", "k", "")


def specs():
    text = STREAM.replace("w STRING", "w STRING, b BIGINT")
    for number, keys in enumerate(GROUPINGS):
        calls = CALLS if number < 4 else "SUM(x) AS a, MIN(w) AS b, MAX(x) AS c"
        group = f" GROUP BY {keys}" if keys else ""
        shown = f"{keys}, {calls}".lstrip(", ").replace("b, COUNT", "b AS z, COUNT")
        text += f"CREATE QUERY q{number} AS SELECT {shown} FROM s [RANGE 4 US SLIDE 2 US]{group};\n"
    program = bind_program(text)
    return [s for s in plan_periodic(program.streams, program.queries).synopses if s.of is None]


def rows(seed, count):
    rng = np.random.default_rng(seed)

    def some(values):
        return [values[i] for i in rng.integers(0, len(values), count)]

    table = pa.table(
        {
            "k": pa.array(some([None, "p", "q", "é"]), pa.string()),
            "g": pa.array(some([None, 1, 2**40]), pa.int64()),
            "b": pa.array(some([0, 1]), pa.int64()),
            "n": pa.array(some([None, -4, 7, 2**60]), pa.int64()),
            "x": pa.array(some([None, 0.1, -1.25, 1e9]), pa.float64()),
            "w": pa.array(some([None, "b", "a", "zz"]), pa.string()),
        }
    )
    return rng.integers(0, 12, count), table


def told(partial, spec):
    """The measures by pane and key; sums as one number, extrema of strings as strings."""
    layout, found = Layout.of(spec.measures), {}
    for row, pane in enumerate(partial.panes.tolist()):
        key = tuple(column[int(partial.groups[row])].as_py() for column in partial.keys)
        values = []
        for measure in spec.measures:
            column, pair = layout.column(measure.kind, measure.argument)
            if column < 0:
                values.append(partial.floats[row, pair] + partial.floats[row, pair + 1])
            elif column in partial.words and 0 <= partial.ints[row, column] < len(partial.words[column]):
                values.append(partial.words[column][int(partial.ints[row, column])].as_py())
            elif measure.kind.value == "sum":
                values.append(int(partial.ints[row, column]) * 2**32 + int(partial.ints[row, column + 1]))
            else:
                values.append(int(partial.ints[row, column]))
        found[pane, key] = values
    return found


@settings(max_examples=15)
@given(seed=st.integers(0, 2**32), count=st.integers(1, 60))
def test_coarser_partials_are_those_of_the_rows(seed, count):
    ts, table = rows(seed, count)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "WORTH_ADDING", 0)
        together = {partial.synopsis: partial for partial in preaggregate(ts, table, specs())}
    for spec in specs():
        (alone,) = preaggregate(ts, table, [spec])
        assert told(together[spec.name], spec) == told(alone, spec)


def test_what_a_grouping_can_be_added_up_from():
    finest, both, other, g, k, none = specs()
    assert [each.name for each in finer_than(g, specs())] == [both.name, other.name, finest.name]
    assert finer_than(finest, specs()) == []
    assert {each.name for each in finer_than(none, specs())} == {s.name for s in (finest, both, other, g, k)}
