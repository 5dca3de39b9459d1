"""The queries of the experiment; times are not tested."""

from __future__ import annotations

import re
from collections import Counter

from sash.lang import bind_program
from sash.plan.run_plan import plan_run
from sash_experiments.scan_limit import program


def test_24_queries_have_each_aggregate_of_each_grouping_once_and_windows_and_slides_of_all_lengths():
    text = program("packets", 24)
    shapes = Counter(
        re.sub(r"q\d+|\[.*?\]| HAVING SUM\(length\) > \d+", "", line) for line in text.splitlines()[1:]
    )
    assert len(shapes) == 24
    windows = re.findall(r"\[RANGE (\d+) SEC SLIDE (\d+) SEC\]", text)
    assert {reach for reach, _ in windows} == {"20", "40", "60", "80", "100"}
    assert Counter(slide for _, slide in windows) == {"1": 6, "2": 6, "5": 6, "10": 6}


def test_24_queries_read_the_same_synopses_as_240():
    few, many = (plan_run(bind_program(program("packets", count))) for count in (24, 240))
    assert len(many.queries) == 240
    assert {spec.keys for spec in few.synopses} == {spec.keys for spec in many.synopses}
