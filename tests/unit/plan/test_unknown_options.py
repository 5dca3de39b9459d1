"""An option of a query that there is not is refused when it is planned, whatever answers the query."""

from __future__ import annotations

import pytest

from sash.errors import UnknownName
from sash.lang import bind_program
from sash.plan.run_plan import plan_run

STREAM = "CREATE STREAM s (t BIGINT, k BIGINT) TIMESTAMP BY t FROM 'csv:s.csv';\n"


@pytest.mark.parametrize("window", ["[RANGE 5 SEC SLIDE 1 SEC]", "[RANGE 5 SEC]"])
def test_an_unknown_option_is_refused(window):
    text = f"CREATE QUERY q AS SELECT COUNT(*) AS n FROM s {window} WITH (stratgy = 'upa');"
    with pytest.raises(UnknownName) as refused:
        plan_run(bind_program(STREAM + text))
    assert refused.value.hint == "did you mean 'strategy'?"
