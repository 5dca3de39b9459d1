"""Packets are made to measure."""

from __future__ import annotations

import numpy as np
import pyarrow.compute as pc
import pytest

from sash_experiments.traffic import PROTOCOLS, Link, packets


def column(table, name):
    return np.asarray(table.column(name))


def test_the_same_link_and_seed_give_the_same_packets():
    assert packets(Link(), 1000, 7).equals(packets(Link(), 1000, 7))
    assert not packets(Link(), 1000, 7).equals(packets(Link(), 1000, 8))


def test_packets_come_in_the_order_of_time_at_the_rate_of_their_link():
    table = packets(Link(rate=2.0), 5_000, 1)
    ts = column(table, "ts")
    assert len(table) == 10_000
    assert (np.diff(ts) >= 0).all()
    assert ts[0] >= 1
    assert ts[-1] <= 5_000
    assert len(np.unique(ts)) > 4_000


def test_protocols_have_their_shares():
    counts = {
        row["values"]: row["counts"]
        for row in pc.value_counts(packets(Link(), 50_000, 1)["proto"]).to_pylist()
    }
    assert sum(PROTOCOLS.values()) == pytest.approx(1)
    for name, share in PROTOCOLS.items():
        assert counts[name] / 50_000 == pytest.approx(share, abs=0.01)


def test_a_large_window_has_all_sources_and_ten_times_as_many_pairs():
    table = packets(Link(), 200_000, 1)
    sources, pairs = table.select(["src"]), table.select(["src", "dst"])
    assert len(np.unique(column(sources, "src"))) == 2_000
    assert pairs.group_by(["src", "dst"]).aggregate([]).num_rows == pytest.approx(20_000, rel=0.05)


def test_some_sources_are_busier_than_others_if_there_is_skew():
    def busiest(skew):
        _, counts = np.unique(column(packets(Link(skew=skew), 100_000, 1), "src"), return_counts=True)
        return counts.max()

    assert busiest(0.0) < 100
    assert busiest(0.5) > 500


@pytest.mark.parametrize(("predicate", "results"), [("ftp", 200_000), ("telnet", 2_000_000)])
def test_the_join_of_two_links_has_as_many_results_as_was_published(predicate, results):
    """Of windows of 200,000: about as many as a window has packets, or ten times as many."""
    counts = []
    for seed in (1, 2):
        table = packets(Link(), 200_000, seed)
        chosen = table.filter(pc.equal(table["proto"], predicate))
        counts.append(np.bincount(column(chosen, "src"), minlength=2_000))
    assert int((counts[0] * counts[1]).sum()) == pytest.approx(results, rel=0.15)


def test_links_share_the_sources_that_lie_in_both_ranges():
    one, other = packets(Link(sources=100), 10_000, 1), packets(Link(sources=100, first=80), 10_000, 2)
    shared = set(column(one, "src").tolist()) & set(column(other, "src").tolist())
    assert shared == set(range(80, 100))
