"""What the core makes of the user's answers."""

from __future__ import annotations

from controlmq.consumer.consumer import Consumer, Shape
from controlmq.consumer.core import Core
from controlmq.consumer.delivery_tags import Ack


def test_a_message_fetched_before_a_recover_is_not_acknowledged_after_it() -> None:
    core = Core()
    lane = core.subscribe(Consumer("tag", "queue", 5.0, Shape(), 0.0), 0.0)
    core.fetched(1)
    core.recovered(1.0)
    core.delivered(lane, 2, 2.0)
    core.acknowledged(2, True, 3.0)
    assert core.take_acks() == (Ack(2, False),), "an ack of tag 1 would close the channel"
