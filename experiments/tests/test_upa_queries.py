"""The four queries of chapter 3: strategies agree, and the experiments say what they measured."""

from __future__ import annotations

import pytest
from experiments.tests.kit import changes, number, standing, stored

from sash_experiments import upa_query_1, upa_query_2, upa_query_3, upa_query_4
from sash_experiments.measure import Pace
from sash_experiments.strategies import LOG, VIEW
from sash_experiments.sweep import Point, Sizes

WINDOW, UNITS = 300, 900
CASES = [
    (upa_query_1, upa_query_1.FTP),
    (upa_query_1, upa_query_1.TELNET),
    (upa_query_2, upa_query_2.SOURCES),
    (upa_query_2, upa_query_2.PAIRS),
    (upa_query_3, upa_query_3.NEGATION),
    (upa_query_4, upa_query_4.CASE),
]
TINY = Sizes((200, 400), step=20, other_steps=(100,), rounds=1, round_steps=5)


def variants(module, case, top):
    pace = Pace(WINDOW, 20, UNITS - WINDOW, rounds=1)
    return module.variants(Point(case, top, WINDOW, 20), pace)


@pytest.mark.parametrize(("module", "case"), CASES, ids=lambda value: getattr(value, "NAME", value))
def test_all_strategies_write_the_same_change_log_and_store_its_sum(module, case):
    logs = {name: changes(each, UNITS, 20) for name, each in variants(module, case, LOG).items()}
    first = next(iter(logs.values()))
    assert any(sign < 0 for _, sign, _ in first)
    for log in logs.values():
        assert log == first
    for each in variants(module, case, VIEW).values():
        assert stored(each, UNITS, 30) == standing(first)


@pytest.mark.parametrize("module", [upa_query_1, upa_query_2, upa_query_3, upa_query_4])
def test_an_experiment_has_a_row_for_every_strategy_and_draws_it(module, tmp_path):
    noted = []
    result = module.measure_at(TINY, "tiny", lambda doing, share: noted.append(share))
    assert noted == sorted(noted)
    assert {row["window"] for row in result.table} == {200, 400}
    assert {row["step"] for row in result.table} == {20, 100}
    assert all(number(row, "view ms") > 0 for row in result.table)
    claims = {claim.id: claim for claim in result.claims}
    assert claims["same-results"].holds
    module.draw(result, tmp_path / "picture.png")
    assert (tmp_path / "picture.png").read_bytes().startswith(b"\x89PNG")
    assert module.NAME in str(result)


def test_a_scan_list_looks_at_all_results_and_pages_at_few():
    """The reason why DIRECT is slow, counted."""
    rows = upa_query_1.measure_at(Sizes((400,), other_steps=(), rounds=1, round_steps=5), "tiny").table
    chosen = {
        row["strategy"]: row
        for row in rows
        if (row["case"], row["window"], row["step"]) == (upa_query_1.TELNET, 400, 20)
    }
    looked = {name: number(row, "looked at") for name, row in chosen.items()}
    assert looked["DIRECT"] > 2 * looked["UPA"]
    assert looked["UPA(10)"] >= looked["UPA(50)"]
    assert looked["NT"] == 0
    assert number(chosen["NT"], "negative") > 0
    assert chosen["UPA"]["negative"] == chosen["DIRECT"]["negative"] == 0


def test_delta_star_holds_output_where_the_others_hold_the_window():
    pace = Pace(2_000, 200, 200, rounds=1)
    found = upa_query_2.variants(Point(upa_query_2.SOURCES, LOG, 2_000, 200), pace)
    for each in found.values():
        changes(each, pace.units, 200)
    assert found["UPA"].flow.state_rows < found["NT"].flow.state_rows


def test_two_in_five_expirations_of_the_negation_are_premature():
    result = upa_query_3.measure_at(Sizes((2_000,), step=100, other_steps=(), rounds=2), "tiny")
    assert {claim.id: claim.holds for claim in result.claims}["premature"]
    assert all(0.35 < number(row, "premature") < 0.45 for row in result.table)


def test_upa_has_negative_tuples_from_the_negation_on_only():
    pace = Pace(WINDOW, 20, 100, rounds=1)
    found = upa_query_4.variants(Point(upa_query_4.CASE, VIEW, WINDOW, 20), pace)
    negative = {}
    for name, each in found.items():
        changes(each, UNITS // 2, 20)
        negative[name] = {
            type(vertex.operator).__name__: vertex.negative_out
            for vertex in each.flow.vertices
            if vertex.operator is not None
        }
    assert negative[upa_query_4.UPA_UP]["WindowJoin"] == 0
    assert negative[upa_query_4.UPA_UP]["AntiJoin"] > 0
    assert negative[upa_query_4.NT_UP]["WindowJoin"] > 0
    assert negative[upa_query_4.NT_DOWN]["WindowJoin"] > 0
