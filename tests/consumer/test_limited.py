"""Limits that change while a consumer runs."""

from __future__ import annotations

from controlmq.consumer.commands import Notice
from controlmq.consumer.consumer import Consumer, Shape
from controlmq.consumer.core import Core
from controlmq.controllers.limits import Limits


def subscribed(core: Core, shape: Shape, prefetch: float) -> Consumer:
    consumer = Consumer("tag", "queue", prefetch, shape, 0.0)
    core.lane_opened(core.subscribe(consumer, 0.0), 0.0)
    core.wake(0.0)
    return consumer


def test_other_limits_change_lanes_at_once() -> None:
    core = Core()
    consumer = subscribed(core, Shape(window="lanes", controlled=True), 5.0)
    core.limited(consumer, Limits(20, 30), 0.1)
    assert core.wake_at == 0.1


def test_limits_beyond_a_single_subscription_are_logged_at_once() -> None:
    core = Core()
    consumer = subscribed(core, Shape(window="single"), 5.0)
    core.limited(consumer, Limits(20, 30), 0.1)
    assert any(isinstance(each, Notice) for each in core.commands)
