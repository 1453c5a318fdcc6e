"""What was handled on a channel that is lost is known again once, and nothing else is."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from controlmq.clients.handled import (
    FORGET_EVERY_SECONDS,
    MOST_REMEMBERED,
    REDELIVERY_SECONDS,
    REMEMBERED_SECONDS,
    ChannelAcks,
    GivenAcks,
    LostAcks,
    MessageKey,
    key_of,
    outlives_its_channel,
)

HOLD = 10.0


def properties(message_id: str | None = None, **headers: object) -> SimpleNamespace:
    return SimpleNamespace(message_id=message_id, headers=headers or None)


BODY = b"body"


def key(message_id: Any = None, body: bytes = BODY, **headers: object) -> MessageKey | None:
    return key_of(properties(message_id, **headers), body)


def test_a_message_without_an_id_is_never_known() -> None:
    assert key() is None
    assert key(None, colour="red") is None
    assert key("") is None


def test_what_the_broker_counts_makes_no_difference_and_what_the_user_adds_does() -> None:
    first = key("a", retries=1)
    assert key("a", retries=1, **{"x-delivery-count": 3, "x-acquired-count": 4}) == first
    assert key("a", retries=2) != first
    assert key("a", **{"x-delivery-count": 1}) == key("a")
    assert key("b", retries=1) != first


def test_a_copy_that_differs_in_anything_is_another_message() -> None:
    first = key("a")
    assert key("a", b"another body") != first
    assert key("a", **{"x-retry": 2}) != first
    assert key("a", b"bo" + BODY[2:]) == first, "the same bytes are the same body"
    # What has been in a dead-letter exchange is back in its queue for another time.
    assert key("a", **{"x-death": [{"count": 1}]}) != key("a", **{"x-death": [{"count": 2}]})
    assert key_of(properties("a"), BODY, "other queue") != key_of(properties("a"), BODY, "queue")


def test_a_body_that_looks_like_headers_is_no_header() -> None:
    assert key("a", b"{'n': 1}" + BODY) != key("a", BODY, n=1)


def test_taskiq_has_its_id_in_a_header() -> None:
    first = key(None, task_id="t", task_name="mail")
    assert first is not None
    assert first == key(None, task_id="t", task_name="mail")
    assert first != key(None, task_id="t", task_name="mail", _retries="1")


def test_a_task_id_of_somebody_else_is_no_id() -> None:
    assert key(None, b"chunk 1", task_id="job-42") is None


def test_what_is_no_text_is_no_id() -> None:
    assert key(None, task_id=["t"], task_name="mail") is None
    assert key(None, task_id={"t": 1}, task_name="mail") is None


def lost_channel(*keys: str, lost: LostAcks) -> None:
    """These were acknowledged on a channel that ended at 1.0."""
    given = GivenAcks(lost, HOLD)
    for key in keys:
        given.add(key, 0.0)
    given.end(1.0)


def test_without_a_lost_channel_nothing_counts_as_handled() -> None:
    given = GivenAcks({}, HOLD)
    given.add("a", 0.0)
    assert not given.handled_before("a", redelivered=True, now=1.0)


def test_what_was_acknowledged_on_a_lost_channel_is_known_once() -> None:
    lost: LostAcks = {}
    lost_channel("a", lost=lost)
    given = GivenAcks(lost, HOLD)
    assert given.handled_before("a", redelivered=True, now=2.0)
    assert not given.handled_before("a", redelivered=True, now=3.0)


def test_what_is_known_again_may_be_lost_again() -> None:
    lost: LostAcks = {}
    lost_channel("a", lost=lost)
    second = GivenAcks(lost, HOLD)
    assert second.handled_before("a", redelivered=True, now=2.0)
    second.end(3.0)
    assert GivenAcks(lost, HOLD).handled_before("a", redelivered=True, now=4.0)


def test_another_message_with_an_old_id_is_handled_as_often_as_it_is_given_back() -> None:
    lost: LostAcks = {}
    lost_channel("a", lost=lost)
    given = GivenAcks(lost, HOLD)
    assert not given.handled_before("a", redelivered=False, now=2.0), "it comes for the first time"
    assert not given.handled_before("a", redelivered=True, now=3.0), "it was given back"


def test_a_message_that_was_out_with_the_id_of_a_handled_one_is_handled() -> None:
    lost: LostAcks = {}
    given = GivenAcks(lost, HOLD)
    given.add("a", 0.0)
    assert not given.handled_before("a", redelivered=False, now=1.0)
    given.end(2.0)
    assert not GivenAcks(lost, HOLD).handled_before("a", redelivered=True, now=3.0)


def test_what_ended_after_its_channel_is_known_too() -> None:
    lost: LostAcks = {}
    given = GivenAcks(lost, HOLD)
    given.end(0.0)
    given.add("a", 1.0)
    assert GivenAcks(lost, HOLD).handled_before("a", redelivered=True, now=2.0)


def test_what_the_broker_has_received_is_not_delivered_again() -> None:
    lost: LostAcks = {}
    given = GivenAcks(lost, HOLD)
    given.add("a", 0.0)
    given.have_arrived()
    given.end(1.0)
    assert not GivenAcks(lost, HOLD).handled_before("a", redelivered=True, now=2.0)


def test_old_acks_are_forgotten() -> None:
    lost: LostAcks = {}
    given = GivenAcks(lost, HOLD)
    given.add("old", 0.0)
    later = REMEMBERED_SECONDS + HOLD + 1.0
    given.add("new", later)
    given.end(later)
    assert list(lost) == ["new"]
    after = later + REDELIVERY_SECONDS
    assert not GivenAcks(lost, HOLD).handled_before("new", redelivered=True, now=after)
    lost_channel("a", lost=lost)
    GivenAcks(lost, HOLD).end(after)
    assert not lost


def test_there_is_a_bound_on_what_is_remembered() -> None:
    lost: LostAcks = {}
    lost_channel(*map(str, range(MOST_REMEMBERED + 1)), lost=lost)
    assert len(lost) == MOST_REMEMBERED
    assert "0" not in lost


def test_acks_that_are_too_old_are_not_kept() -> None:
    given = GivenAcks({}, HOLD)
    for second in range(3 * int(REMEMBERED_SECONDS)):
        given.add(str(second), float(second))
    assert len(given._given) <= REMEMBERED_SECONDS + HOLD + FORGET_EVERY_SECONDS + 1


# Of all consumers of a channel

QUEUE = "orders"


class Channel:
    """The acks of one channel, whose messages come in one by one."""

    def __init__(self, lost: LostAcks) -> None:
        self.acks = ChannelAcks(lost, HOLD)
        self.delivered = 0

    def deliver(self, message_id: str, *, again: bool = False, queue: str = QUEUE) -> bool | None:
        """Whether a message of this id is only to be acknowledged."""
        self.delivered += 1
        delivery = SimpleNamespace(delivery_tag=self.delivered, redelivered=again)
        return self.acks.handled_before(queue, delivery, properties(message_id), BODY, 0.0)

    def ack(self, tag: int) -> None:
        self.acks.acknowledged(tag, False, 0.0)


def after(lost: LostAcks, message_id: str = "a") -> bool | None:
    """Whether the next channel knows a message that comes again."""
    return Channel(lost).deliver(message_id, again=True)


def test_of_two_messages_that_are_the_same_none_is_known_while_one_is_out() -> None:
    lost: LostAcks = {}
    channel = Channel(lost)
    channel.deliver("a")
    channel.deliver("a")
    channel.ack(1)  # and this ack may have arrived
    channel.acks.end(0.0, have_arrived=False)
    assert after(lost) is False


def test_what_is_acknowledged_while_a_channel_closes_has_not_arrived() -> None:
    lost: LostAcks = {}
    channel = Channel(lost)
    channel.deliver("a")
    channel.deliver("late")
    channel.ack(1)
    channel.acks.closing()
    channel.ack(2)
    channel.acks.end(0.0, have_arrived=True)
    assert after(lost, "late") is True
    assert after(lost, "a") is False


def test_acks_before_a_close_count_as_lost_if_the_connection_is_lost_then() -> None:
    lost: LostAcks = {}
    channel = Channel(lost)
    channel.deliver("a")
    channel.ack(1)
    channel.acks.closing()
    channel.acks.end(0.0, have_arrived=False)
    assert after(lost) is True


def test_a_cancel_by_the_broker_is_about_one_queue() -> None:
    lost: LostAcks = {}
    channel = Channel(lost)
    for queue in (QUEUE, "another"):
        channel.deliver("a", queue=queue)
        channel.deliver("late", queue=queue)
    channel.ack(1)
    channel.ack(3)
    channel.acks.cancelled_by_broker(QUEUE, 0.0)
    channel.ack(2)
    channel.ack(4)
    assert channel.deliver("a", again=True, queue="another") is False
    assert channel.deliver("late", again=True, queue="another") is False
    assert channel.deliver("a", again=True) is True
    assert channel.deliver("late", again=True) is True


def test_queues_whose_names_the_broker_chose_have_no_messages_of_before() -> None:
    assert outlives_its_channel("orders")
    assert not outlives_its_channel("")
    assert not outlives_its_channel("amq.gen-JzTY20BRgKO")
