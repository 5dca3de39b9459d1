"""Statistics: what is declared, what is measured, and what is assumed otherwise."""

import pytest

from sash.errors import BindError, UnknownName
from sash.lang.bound import StreamDefinition
from sash.lang.types import Column, Schema, Type
from sash.plan.cost.statistics import (
    DEFAULT_DISTINCT,
    DEFAULT_RATE,
    DEFAULT_ROWS,
    Statistics,
    StreamStatistics,
)


def definition(**options):
    schema = Schema(
        (Column("ts", Type.TIMESTAMP), Column("src", Type.STRING), Column("is_syn", Type.BOOLEAN))
    )
    return StreamDefinition("packets", schema, "ts", 1, 0, "parquet:x", tuple(options.items()))


def test_options_of_a_definition_are_read_and_others_ignored():
    statistics = Statistics.from_definitions(
        [definition(rate=50, distinct_src=2000, selectivity_src=0.25, unit="ms")]
    )
    assert statistics.rate("packets") == 50
    assert statistics.distinct("packets", "src", Type.STRING) == 2000
    assert statistics.selectivity("packets.src") == statistics.selectivity("packets#2.src") == 0.25


def test_columns_with_an_underscore_are_found():
    statistics = Statistics.from_definitions([definition(distinct_is_syn=1)])
    assert statistics.distinct("packets", "is_syn", Type.BOOLEAN) == 1


def test_defaults_hold_where_nothing_is_declared():
    statistics = Statistics.from_definitions([definition()])
    assert statistics.rate("packets") == DEFAULT_RATE
    assert statistics.distinct("packets", "src", Type.STRING) == DEFAULT_DISTINCT
    assert statistics.distinct("packets", "is_syn", Type.BOOLEAN) == 2
    assert statistics.selectivity("packets.src") is None
    assert statistics.selectivity("k0") is None
    assert statistics.rows("hosts") == DEFAULT_ROWS
    assert statistics.update_rate("hosts") == 0


def test_the_only_key_of_a_relation_is_different_in_every_row():
    statistics = Statistics({"hosts": StreamStatistics(rows=400)})
    assert statistics.distinct("hosts", "ip", Type.STRING, ("ip",)) == 400
    assert statistics.distinct("hosts", "ip", Type.STRING, ("ip", "port")) == DEFAULT_DISTINCT


def test_measured_values_override_declared_ones_one_by_one():
    measured = {"packets": StreamStatistics(rate=75), "other": StreamStatistics(rate=1)}
    statistics = Statistics.from_definitions([definition(rate=50, distinct_src=2000)], measured)
    assert statistics.rate("packets") == 75
    assert statistics.distinct("packets", "src", Type.STRING) == 2000
    assert statistics.rate("other") == 1


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"rate": -1}, "not negative"),
        ({"rate": "fast"}, "not negative"),
        ({"rate": True}, "not negative"),
        ({"distinct_src": 0}, "at least 1"),
        ({"selectivity_src": 2}, "between 0 and 1"),
    ],
)
def test_values_that_do_not_fit_are_the_users_error(options, expected):
    with pytest.raises(BindError) as error:
        Statistics.from_definitions([definition(**options)])
    assert expected in (error.value.expected or "")


def test_an_option_about_a_column_that_does_not_exist_lists_those_that_do():
    with pytest.raises(UnknownName) as error:
        Statistics.from_definitions([definition(distinct_scr=5)])
    assert "src" in error.value.render()


def test_statistics_do_not_change_after_they_are_made():
    values = {"src": 5.0}
    statistics = StreamStatistics(1, values)
    values["src"] = 6.0
    assert statistics.distinct["src"] == 5.0
    with pytest.raises(TypeError):
        statistics.distinct["src"] = 7.0  # type: ignore[index]


def test_impossible_statistics_are_refused():
    for make in (
        lambda: StreamStatistics(rate=-1),
        lambda: StreamStatistics(distinct={"a": 0}),
        lambda: StreamStatistics(selectivity={"a": 1.5}),
        lambda: Statistics(horizon=0),
        lambda: Statistics(predicates={"a = 1": 2}),
    ):
        with pytest.raises(ValueError):
            make()
