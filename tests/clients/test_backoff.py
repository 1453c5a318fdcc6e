"""Pauses between attempts double, are drawn at random, and start again after a success."""

from __future__ import annotations

from controlmq.clients.backoff import Backoff


def test_pauses_double_up_to_the_longest() -> None:
    backoff = Backoff(0.2, 1.0)
    for limit in (0.2, 0.4, 0.8, 1.0, 1.0):
        assert limit / 2 <= backoff.pause() <= limit
    backoff.reset()
    assert backoff.pause() <= 0.2


def test_two_consumers_do_not_come_back_together() -> None:
    assert len({Backoff(1.0, 30.0).pause() for _ in range(50)}) > 1
