"""The evaluator: rows keep their order, errors of the data name the expression."""

from __future__ import annotations

import pyarrow as pa
import pytest

from sash.errors import DataError
from sash.lang import bind_program
from sash.lang.bound import BoundSelect, Scalar
from sash.operators.evaluate import ARROW_TYPES, evaluate, evaluate_mask

STREAM = "CREATE STREAM s (t BIGINT, n BIGINT, x DOUBLE, k STRING) TIMESTAMP BY t FROM 'csv:s';\n"
LARGEST = 2**63 - 1


def select_of(text: str) -> BoundSelect:
    select = bind_program(f"{STREAM}EXPLAIN SELECT {text};").explains[0].select
    assert select is not None
    return select


def keys_of(*expressions: str) -> tuple[Scalar, ...]:
    listed = ", ".join(f"{expression} AS c{i}" for i, expression in enumerate(expressions))
    return select_of(f"{listed} FROM s [RANGE 1 SEC SLIDE 1 SEC]").keys


TABLE = pa.table(
    {
        "t": pa.array([1, 2, 3]),
        "n": pa.array([5, None, -1]),
        "x": pa.array([0.5, 2.0, None]),
        "k": pa.chunked_array([["b", "a"], [None]]),
    }
)


def test_expressions_are_computed_row_by_row_in_order_and_have_their_declared_types():
    scalars = keys_of("n + 1", "x * 2.0", "UPPER(k)", "n > 0", "k", "7")
    columns = evaluate(TABLE, scalars)
    assert [column.to_pylist() for column in columns] == [
        [6, None, 0],
        [1.0, 4.0, None],
        ["B", "A", None],
        [True, None, False],
        ["b", "a", None],
        [7, 7, 7],
    ]
    assert [column.type for column in columns] == [ARROW_TYPES[scalar.type] for scalar in scalars]


def test_a_bare_column_is_passed_through_untouched():
    (scalar,) = keys_of("k")
    (column,) = evaluate(TABLE, [scalar])
    assert column.equals(TABLE.column("k"))
    assert column.num_chunks == 2


def test_no_rows_give_no_values():
    scalars = keys_of("n + 1", "3")
    assert [len(column) for column in evaluate(TABLE.slice(0, 0), scalars)] == [0, 0]


@pytest.mark.parametrize("expression", ["n + 1", "n * 2", "0 - n - 2", "ABS(0 - n - 1)"])
def test_an_integer_overflow_is_an_error_that_names_the_expression(expression):
    table = pa.table({"n": pa.array([1, LARGEST])})
    with pytest.raises(DataError) as caught:
        evaluate(table, keys_of(expression))
    assert caught.value.id == "data-expression"
    assert expression in caught.value.message
    assert caught.value.hint is not None


def test_a_text_that_is_no_number_is_an_error_of_the_data():
    with pytest.raises(DataError, match="CAST"):
        evaluate(pa.table({"k": pa.array(["12", "x"])}), keys_of("CAST(k AS BIGINT)"))


def test_a_condition_that_is_null_counts_as_false():
    for text in ("n > 0", "n > 0 OR x > 1.0", "k LIKE 'b%'"):
        where = select_of(f"n FROM s [RANGE 1 SEC SLIDE 1 SEC] WHERE {text}").where
        assert where is not None
        mask = evaluate_mask(TABLE, where)
        assert mask.null_count == 0
        assert mask.to_pylist()[0] is True
        assert mask.to_pylist()[2] is False
