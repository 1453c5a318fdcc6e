"""What a client asks the core for, of a consumer that has messages and lanes already."""

from __future__ import annotations

from controlmq.consumer.bucket import Bucket
from controlmq.consumer.commands import Notice
from controlmq.consumer.consumer import Consumer, Shape
from controlmq.consumer.core import Core


def test_a_message_that_waits_for_one_bucket_is_handed_over_when_another_has_a_token() -> None:
    core = Core()
    consumer = Consumer("tag", "queue", 5.0, Shape(), 0.0)
    core.pace(consumer, 1.0, 1.0, 0.0)
    lane = core.subscribe(consumer, 0.0)
    core.lane_opened(lane, 0.0)
    for tag in (1, 2):
        core.arrived(lane, tag, 0.1, object())
    assert core.hand_over(consumer, 0.1) is not None
    assert core.hand_over_at > 1.0
    core.use_buckets(consumer, (Bucket(1.0, 2.0), Bucket(1.0, 2.0)), 0.2)
    assert core.hand_over_at <= 0.2
    assert core.hand_over(consumer, 0.2) is not None


def test_why_a_consumer_keeps_to_one_subscription_is_logged_before_the_next_sample() -> None:
    core = Core()
    consumer = Consumer("tag", "queue", 5.0, Shape(window="lanes"), 0.0)
    core.lane_opened(core.subscribe(consumer, 0.0), 0.0)
    core.be_single(consumer, "there is a reason", 0.1)
    (notice,) = core.commands
    assert isinstance(notice, Notice)
    assert "there is a reason" in notice.text
