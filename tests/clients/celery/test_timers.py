"""The timers of pools without an event loop."""

from __future__ import annotations

import threading

import pytest

from controlmq.clients.celery.timers import DrainTimer, TimerThread

DEADLINE = 60.0


def test_an_earlier_timer_does_not_wait_for_a_later_one() -> None:
    timer = TimerThread()
    fired = threading.Event()
    later = timer.call_later(3600.0, lambda: None)
    timer.cancel(later)
    timer.call_later(0.01, fired.set)
    assert fired.wait(DEADLINE)
    timer.stop()


def test_a_timer_that_is_cancelled_does_not_fire() -> None:
    timer = TimerThread()
    wrong, fired = threading.Event(), threading.Event()
    timer.cancel(timer.call_later(0.01, wrong.set))
    timer.call_later(0.05, fired.set)
    assert fired.wait(DEADLINE)
    assert not wrong.is_set()
    timer.stop()


class Quiet:
    """A connection on which nothing comes."""

    def __init__(self) -> None:
        self.waited: list[float | None] = []

    def drain_events(self, timeout: float | None = None) -> None:
        self.waited.append(timeout)
        if timeout:
            threading.Event().wait(timeout)
        raise TimeoutError


def test_the_thread_that_reads_fires_the_timer_in_between() -> None:
    connection = Quiet()
    timer = DrainTimer(connection)
    fired: list[str] = []
    timer.call_later(0.01, lambda: fired.append("first"))
    connection.drain_events(timeout=DEADLINE)
    while not fired:
        connection.drain_events(timeout=DEADLINE)
    assert fired == ["first"]
    assert all(waited is not None and waited <= 0.01 for waited in connection.waited)
    with pytest.raises(TimeoutError):
        connection.drain_events(timeout=0.0)
