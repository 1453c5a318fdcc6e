"""How far apart a consumer keeps the acks that open its slots."""

from __future__ import annotations

import pytest
from controlmq.rabbitmq.consumer import ENOUGH, USED, Consumer
from controlmq.rabbitmq.settings import Settings

from controlmq.controllers import OpenLoop

TURNAROUND, WORK = 0.012, 0.001


def spacing_after(prefetch: float, messages: int, controlled: bool = True) -> float:
    """The spacing after an interval with so many messages, each waited for and worked on."""
    now = 0.0
    controller = OpenLoop([prefetch] * 3) if controlled else None
    settings = Settings(controller=controller, prefetch=prefetch)
    consumer = Consumer("tag", "queue", settings, controller, None, lambda: now)
    lane = consumer.new_lane(consumer.first_size)
    for _ in range(messages):
        consumer.sensors.released(1, now)
        now += TURNAROUND
        consumer.sensors.delivered(now, 0)
        lane.received += 1
        now += WORK
        consumer.sensors.settled(now)
        consumer.sensors.active_at = now
    consumer.tick(now)
    spacing = consumer.window.spacing
    consumer.fix(prefetch)
    assert consumer.window.spacing == 0
    return spacing


@pytest.mark.parametrize("prefetch", [1.5, 6.0, 6.3])
def test_slots_are_spread_over_the_way_of_a_message(prefetch: float) -> None:
    spread = (TURNAROUND + WORK) / (1 + USED * (prefetch - 1))
    assert spacing_after(prefetch, ENOUGH) == pytest.approx(spread)


@pytest.mark.parametrize(
    ("prefetch", "messages", "controlled"),
    [(1.0, ENOUGH, True), (0.4, ENOUGH, True), (6.0, ENOUGH - 1, True), (6.0, ENOUGH, False)],
    ids=["one", "less than one", "few messages", "fixed"],
)
def test_what_need_not_or_cannot_be_spread_is_not(
    prefetch: float, messages: int, controlled: bool
) -> None:
    assert spacing_after(prefetch, messages, controlled) == 0


def test_a_window_of_hundreds_has_nothing_to_spread() -> None:
    assert spacing_after(200.0, ENOUGH) == 0
