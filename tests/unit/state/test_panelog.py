"""PaneLog against a list: positions keep their meaning through growth, trimming and renumbering."""

from __future__ import annotations

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from sash.lang.bound import Scalar
from sash.lang.types import Type
from sash.plan.measures import ROWS, Measure, MeasureKind
from sash.state.layout import Layout
from sash.state.panelog import PaneLog

LAYOUT = Layout.of((ROWS, Measure(MeasureKind.SUM, Scalar('"x"', Type.DOUBLE, ("x",), "x", "x"))))


class Log(RuleBasedStateMachine):
    """The model is the list of all rows ever appended; the log holds those from `base` on."""

    def __init__(self) -> None:
        super().__init__()
        self.log = PaneLog(LAYOUT)
        self.rows: list[list[int]] = []
        self.needed = 0
        self.slots = 8
        self.pane = -20

    @rule(count=st.one_of(st.integers(0, 5), st.integers(300, 900)), data=st.randoms(use_true_random=False))
    def append(self, count, data):
        fresh: list[list[int]] = []
        for _ in range(count):
            self.pane += data.choice((0, 0, 0, 1, 3))
            fresh.append([data.randrange(self.slots), self.pane, len(self.rows) + len(fresh)])
        self.rows.extend(fresh)
        slots, panes, marks = (np.array([row[i] for row in fresh], np.int64) for i in range(3))
        self.log.reserve_slots(self.slots)
        self.log.append(slots, panes, marks[:, None], np.column_stack([marks * 0.5, marks * 0.25]))

    @rule(share=st.floats(0, 1))
    def trim(self, share):
        self.needed += int((len(self.rows) - self.needed) * share)
        self.log.trim(self.needed)
        dead = self.needed - self.log.base
        assert dead == 0 or 2 * dead < self.log.end - self.log.base, "dead rows are less than half"

    @rule(more=st.integers(1, 2_000))
    def add_slots(self, more):
        self.slots += more
        self.log.reserve_slots(self.slots)

    @rule(data=st.randoms(use_true_random=False))
    def renumber(self, data):
        live = sorted({row[0] for row in self.rows[self.log.base :]})
        place = np.full(self.slots, -1, np.int64)
        targets = data.sample(range(len(live)), len(live))
        place[live] = targets
        for row in self.rows[self.log.base :]:
            row[0] = int(place[row[0]])
        self.slots = max(len(live), 1)
        self.log.renumber(place, self.slots)

    @invariant()
    def rows_are_those_of_the_model(self):
        log = self.log
        assert log.end == len(self.rows)
        assert log.base <= self.needed
        kept = self.rows[log.base :]
        size = len(kept)
        assert log.slots_between(log.base, log.end).tolist() == [row[0] for row in kept]
        assert log.panes[:size].tolist() == [row[1] for row in kept]
        assert log.ints[:size, 0].tolist() == [row[2] for row in kept]
        assert log.floats[:size].tolist() == [[row[2] * 0.5, row[2] * 0.25] for row in kept]

    @invariant()
    def chains_hold_the_rows_of_their_slot_newest_first(self):
        log = self.log
        chained = {}
        for slot in range(self.slots):
            row, chain = int(log.heads[slot]) - log.base, []
            while row >= 0:
                chain.append(int(log.ints[row, 0]))
                row = int(log.previous[row]) - log.base
            if chain:
                chained[slot] = chain
        model: dict[int, list[int]] = {}
        for slot, _, mark in reversed(self.rows[log.base :]):
            model.setdefault(slot, []).append(mark)
        assert chained == model

    @invariant()
    def panes_are_found_by_position(self):
        log = self.log
        for pane in {self.pane - 5, self.pane - 1, self.pane, *(row[1] for row in self.rows[log.base :][:2])}:
            behind = sum(row[1] <= pane for row in self.rows[log.base :])
            assert log.position_after(pane) == log.base + behind
        if log.end > log.base:
            assert log.pane_at(log.end - 1) == self.rows[-1][1]


Log.TestCase.settings = settings(max_examples=30, stateful_step_count=14)
TestPaneLog = Log.TestCase
