"""A controller that sits at its upper limit below the goal is reported once."""

from __future__ import annotations

import math
from unittest.mock import Mock, patch

import pytest

from controlmq.clients.channel_runner import Runner
from controlmq.clients.controlled_consumer import ControlledConsumer
from controlmq.clients.controllers import Controllers
from controlmq.clients.settings import settings_from
from controlmq.clients.stuck_at_limit import SAMPLES_AT_THE_LIMIT, UpperLimit
from controlmq.controllers.limits import Limits
from controlmq.loop import Sample, Step

LIMITS = Limits(0.1, 13.7)


def texts(
    watched: UpperLimit, rate: int, prefetch: float, goal: float = 512.0, starved: float = 0.0
) -> list[str]:
    """What is said in 40 samples of one second."""
    found = []
    for number in range(40):
        sample = Sample(
            number=number,
            time=float(number),
            interval=1.0,
            prefetch=prefetch,
            arrivals=rate,
            starved=starved,
        )
        text = watched.missed(Step(sample, goal, prefetch), LIMITS)
        if text is not None:
            assert number >= SAMPLES_AT_THE_LIMIT - 1
            found.append(text)
    return found


def test_it_is_said_once_with_the_numbers_and_what_to_do() -> None:
    watched = UpperLimit()
    (text,) = texts(watched, rate=420, prefetch=13.7)
    for part in ("512", "420", "13.7", "raise the limit"):
        assert part in text
    assert texts(watched, rate=420, prefetch=13.7) == []
    assert len(texts(watched, rate=420, prefetch=13.7, goal=600.0)) == 1


def test_a_goal_that_is_reached_or_a_queue_that_gives_too_little_is_not_reported() -> None:
    watched = UpperLimit()
    assert texts(watched, rate=510, prefetch=13.7) == []
    assert texts(watched, rate=420, prefetch=12.0) == []
    assert texts(watched, rate=420, prefetch=13.7, starved=0.5) == []


def test_without_a_goal_there_is_nothing_to_report() -> None:
    assert texts(UpperLimit(), rate=420, prefetch=13.7, goal=math.nan) == []


def test_the_loop_of_a_consumer_logs_it(caplog: pytest.LogCaptureFixture) -> None:
    adapter = Mock()
    settings = settings_from(
        512, lambda sample, goal: 13.7, limits=LIMITS, prefetch=13.7, interval=60
    )
    controller = Controllers().new(settings, "orders")
    consumer = ControlledConsumer("tag", "orders", settings, controller, None, Runner(adapter))
    sample = Sample(number=1, time=1.0, interval=1.0, prefetch=13.7, arrivals=420)
    with patch.object(consumer.plant, "observe", lambda: sample):
        for _ in range(2 * SAMPLES_AT_THE_LIMIT):
            consumer.turn()
    (message,) = caplog.messages
    assert message.startswith("queue orders: ")
    assert "raise the limit" in message
