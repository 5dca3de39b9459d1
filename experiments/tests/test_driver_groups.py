"""The experiment with groups in partitions: small runs in one process give the same answers everywhere."""

from __future__ import annotations

from sash_experiments.driver_groups import Sizes, measured, write


def test_the_answers_are_the_same_and_the_driver_holds_no_groups(tmp_path):
    sizes = Sizes(groups=60, batch=200, batches=9)
    write(tmp_path, sizes)
    here, meanwhile, there = (measured(tmp_path, sizes, limit, "inline") for limit in (60, 59, 0))
    assert here.digest == meanwhile.digest == there.digest
    assert here.answers > 0
    assert here.groups == meanwhile.groups == there.groups
    assert here.partition_state == 0
    assert there.driver_state < here.driver_state
    assert there.partition_state > 0
