"""Selectivities of predicates."""

import pytest

from sash.lang.bound import Scalar
from sash.lang.types import Type
from sash.plan.cost.selectivity import distinct_values, fixed_columns, selectivity
from sash.plan.cost.statistics import Statistics, StreamStatistics

VALUES = {"s.a": 10.0, "s.b": 4.0, "s.p": 5.0}


def scalar(sql):
    return Scalar(sql, Type.BOOLEAN, tuple(name for name in VALUES if f'"{name}"' in sql))


@pytest.mark.parametrize(
    ("sql", "share"),
    [
        ('"s.a" = 3', 1 / 10),
        ("'ftp' = \"s.p\"", 1 / 5),
        ('"s.a" <> 3', 9 / 10),
        ('"s.a" IS DISTINCT FROM 3', 9 / 10),
        ('"s.a" = "s.b"', 1 / 10),
        ('"s.a" + 1 = 3', 1 / 10),
        ('"s.a" < 3', 1 / 3),
        ('3 >= "s.a"', 1 / 3),
        ('"s.a" BETWEEN 1 AND 3', 1 / 9),
        ('"s.a" IN (1, 2, 3)', 3 / 10),
        ('"s.b" IN (1, 2, 3, 4, 5)', 1),
        ("\"s.p\" LIKE 'f%'", 1 / 10),
        ('"s.a" IS NULL', 1 / 20),
        ('NOT "s.a" IS NULL', 19 / 20),
        ('"s.b"', 1 / 2),
        ("TRUE", 1),
        ("FALSE", 0),
        ("NULL", 0),
        ('"s.a" = 3 AND "s.b" = 1', 1 / 40),
        ('("s.a" = 3 OR "s.b" = 1)', 1 / 10 + 1 / 4 - 1 / 40),
        ('NOT ("s.a" = 3 AND "s.b" = 1)', 39 / 40),
        ('CASE WHEN "s.a" = 3 THEN TRUE ELSE FALSE END', 1 / 3),
    ],
)
def test_shares_follow_the_table(sql, share):
    assert selectivity(scalar(sql), VALUES, Statistics()) == pytest.approx(share)


def test_a_declared_selectivity_of_a_column_replaces_comparisons_with_it():
    statistics = Statistics({"s": StreamStatistics(selectivity={"p": 0.6})})
    assert selectivity(scalar("\"s.p\" = 'ftp'"), VALUES, statistics) == 0.6
    assert selectivity(scalar("\"s.p\" <> 'ftp'"), VALUES, statistics) == pytest.approx(0.4)
    assert selectivity(scalar('"s.p" = \'ftp\' AND "s.a" = 1'), VALUES, statistics) == pytest.approx(0.06)
    # Two columns: nothing was declared about that.
    assert selectivity(scalar('"s.p" = "s.a"'), VALUES, statistics) == pytest.approx(0.1)


def test_a_declared_predicate_wins_wherever_it_stands():
    statistics = Statistics(predicates={'"s.a"=3': 0.75})
    assert selectivity(scalar('"s.a" = 3'), VALUES, statistics) == 0.75
    assert selectivity(scalar('"s.a" = 3 AND "s.b" < 1'), VALUES, statistics) == pytest.approx(0.25)
    assert selectivity(scalar('"s.a" = 4'), VALUES, statistics) == pytest.approx(0.1)


def test_values_of_an_expression_are_at_most_the_product_of_its_columns():
    assert distinct_values(scalar('"s.a"'), VALUES) == 10
    assert distinct_values(scalar('"s.a" + "s.b"'), VALUES) == 40
    assert distinct_values(scalar("7"), VALUES) == 1


def test_equalities_with_constants_fix_their_columns():
    assert fixed_columns(scalar('"s.a" = 3 AND (4 = "s.b" AND "s.p" > \'a\')')) == {"s.a", "s.b"}
    assert fixed_columns(scalar('"s.a" = 3 OR "s.b" = 4')) == frozenset()
    assert fixed_columns(scalar('"s.a" = "s.b"')) == frozenset()
