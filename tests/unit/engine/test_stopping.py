"""A run that is asked to stop: when batches are abandoned, and who may leave without it."""

from __future__ import annotations

import pytest

from sash.engine.stopping import GRACE, Abandoned, Look, Stop, leaving, on_leave, over


class Wall:
    def __init__(self) -> None:
        self.time = 0.0

    def __call__(self) -> float:
        return self.time


def give_up() -> None:
    raise Abandoned


def test_a_batch_has_its_time_from_the_last_look_before_the_stop():
    stop, wall = Stop(), Wall()
    look = Look(stop, wall)
    look.is_on = True
    look()
    stop.set()
    wall.time = GRACE - 0.01
    look()
    wall.time = GRACE
    with pytest.raises(Abandoned):
        look()


def test_who_was_not_asked_to_stop_works_as_long_as_it_takes():
    stop, wall = Stop(), Wall()
    look = Look(stop, wall)
    look.is_on = True
    for _ in range(3):
        wall.time += 100
        look()
    # The last look is long ago: no time is left.
    wall.time += 100
    stop.set()
    with pytest.raises(Abandoned):
        look()


def test_state_is_read_and_a_run_ended_as_a_whole():
    stop, wall = Stop(), Wall()
    look = Look(stop, wall)
    stop.set()
    wall.time = 100
    look()
    with leaving(stop, look, lambda: None), pytest.raises(Abandoned):
        look()
    look()
    assert not stop.has_abandoned


def test_an_abandoned_batch_is_no_error_and_leaving_is_allowed_until_it_is_over():
    stop, calls = Stop(), []
    look = Look(stop, Wall())
    assert stop.leave(), "nothing has begun"
    on_leave(stop, lambda: calls.append("scratch"))
    assert stop.leave()
    with leaving(stop, look, lambda: calls.append("outputs")):
        assert stop.leave()
        give_up()
    assert stop.has_abandoned
    assert stop.leave()
    assert calls == ["scratch", "outputs", "outputs"]
    over(stop)
    assert not stop.leave()
