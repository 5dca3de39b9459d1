"""Ctrl-C while a run is under way: the signals are real."""

from __future__ import annotations

import os
import signal
import threading

import pytest
import typer

from sash.cli.attended import attend


class Watcher:
    def __init__(self) -> None:
        self.announced = 0

    def stopping(self) -> None:
        self.announced += 1


def interrupt(number: int = signal.SIGINT) -> None:
    os.kill(os.getpid(), number)


def test_the_result_comes_back():
    assert attend(lambda _stop: 42, Watcher()) == 42


def test_the_failure_comes_back():
    def work(_stop):
        raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        attend(work, Watcher())


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_first_signal_asks_the_run_to_stop(number):
    watcher = Watcher()

    def work(stop: threading.Event) -> str:
        interrupt(number)
        return "stopped" if stop.wait(5) else "never told"

    assert attend(work, watcher) == "stopped"
    assert watcher.announced == 1


def test_the_second_signal_leaves_at_once():
    release = threading.Event()

    def work(stop: threading.Event) -> None:
        interrupt()
        stop.wait(5)
        interrupt()
        release.wait(30)

    with pytest.raises(typer.Exit) as leaving:
        attend(work, Watcher())
    release.set()
    assert leaving.value.exit_code == 130


def test_the_handlers_are_put_back():
    before = signal.getsignal(signal.SIGINT)
    attend(lambda _stop: None, Watcher())
    assert signal.getsignal(signal.SIGINT) is before


def test_it_runs_in_a_thread_of_its_own():
    assert attend(lambda _stop: threading.current_thread(), Watcher()) is not threading.main_thread()
