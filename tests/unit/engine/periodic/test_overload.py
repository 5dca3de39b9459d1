"""Under overload periods get longer and lateness is told; answers are right, and nobody is left out."""

from __future__ import annotations

from tests.overload import FIRST, answers, right, rows_of, run_overloaded

QUERIES, COUNT = 6, 600


def test_a_live_stream_that_is_too_fast_stretches_periods_and_drops_nobody(tmp_path):
    rows = rows_of(COUNT)
    watch = run_overloaded(tmp_path, rows, QUERIES, "inline")
    under = watch.fares[COUNT // 50 - 1]
    for query in range(QUERIES):
        fares, period = under[f"q{query}"], (query % 3 + 1) * 10 / 1e6
        # Six take turns, one after each batch of 50 µs.
        assert fares.granted is not None
        assert fares.granted >= 200e-6 > period == fares.period
        assert fares.worst >= fares.late > 0
        assert fares.skipped > 5
        given = answers(tmp_path, query)
        assert sum(at < COUNT for at in given) >= 2
        for at, held in given.items():
            assert held == right(rows, query, at), (query, at)
        last = watch.fares[-1][f"q{query}"].at
        assert last is not None
        assert last >= FIRST + COUNT - 1
        assert max(given) <= last - FIRST
