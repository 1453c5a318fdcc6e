"""Giving messages to a pool of greenlets without waiting for it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from controlmq.clients.celery.feeding import Feeder


class Greenlets:
    """Starts functions when it is told to."""

    def __init__(self) -> None:
        self.ready: list[Callable[[], None]] = []

    def spawn(self, function: Callable[[], None]) -> None:
        self.ready.append(function)

    def run(self) -> None:
        while self.ready:
            self.ready.pop(0)()


def test_messages_are_handed_over_in_their_order_and_not_by_who_brings_them() -> None:
    greenlets, given = Greenlets(), list[int]()
    feeder = Feeder(greenlets.spawn)
    for tag in (1, 2, 3):
        feeder.put(tag, lambda tag=tag: given.append(tag))  # type: ignore[misc]
    assert given == []
    assert len(greenlets.ready) == 1
    greenlets.run()
    feeder.put(4, lambda: given.append(4))
    greenlets.run()
    assert given == [1, 2, 3, 4]


def test_what_waits_can_be_given_back() -> None:
    greenlets, given = Greenlets(), list[int]()
    feeder = Feeder(greenlets.spawn)
    feeder.put(1, lambda: given.append(1))
    feeder.put(2, lambda: given.append(2))
    assert feeder.clear() == [1, 2]
    greenlets.run()
    assert given == []


def test_a_message_that_fails_keeps_back_no_other(caplog: pytest.LogCaptureFixture) -> None:
    greenlets, given = Greenlets(), list[int]()
    feeder = Feeder(greenlets.spawn)
    feeder.put(1, lambda: 1 // 0)  # type: ignore[arg-type, return-value]
    feeder.put(2, lambda: given.append(2))
    greenlets.run()
    assert given == [2]
    assert "could not be handed over" in caplog.text
