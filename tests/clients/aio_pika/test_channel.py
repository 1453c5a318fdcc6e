"""A channel of aiormq with a window: order, and what counts as handled when a channel is lost."""

from __future__ import annotations

import asyncio
import math
from typing import Any

import aiormq
import pytest
from pamqp import commands as spec

from controlmq.clients import channel_runner
from controlmq.clients.aio_pika.adapter import ON_BLOCKED, ON_UNBLOCKED
from tests.clients.aio_pika.unconnected import UnconnectedChannel, in_a_loop, settled

BODY = b"body"


class Handled:
    """``acknowledge`` and ``give_back`` are handlers; ``bodies`` are those of their messages."""

    def __init__(self) -> None:
        self.bodies: list[bytes] = []

    async def acknowledge(self, message: Any) -> None:
        self.bodies.append(message.body)
        await message.channel.basic_ack(message.delivery.delivery_tag)

    async def give_back(self, message: Any) -> None:
        self.bodies.append(message.body)
        await message.channel.basic_nack(message.delivery.delivery_tag, requeue=True)


@in_a_loop
async def test_messages_of_two_lanes_that_a_gate_lets_go_together_keep_their_order(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = math.ceil(channel_runner.clock()) + 1.0  # a bucket counts in whole ticks
    monkeypatch.setattr(channel_runner, "clock", lambda: now)
    channel = UnconnectedChannel(prefetch=3, at_most=2, burst=2, window="lanes")
    seen: list[int] = []

    async def handle(message: Any) -> None:
        seen.append(int(message.body))

    consumer = await channel.consume("orders", handle, "mine")
    consumer.prefetch = 6.0
    now += 1.0
    channel.runner.wake(now)
    await settled()
    first, second = (lane.tag for lane in consumer.plant.window.subscribed)
    for number, lane in enumerate([first, second, first, second]):
        channel.deliver(lane, body=b"%d" % number)
    await settled()
    assert seen == [0, 1], "there were two tokens"
    now += 1.0
    channel.deliver(first, body=b"4")
    await settled()
    assert seen == [0, 1, 2, 3]


@in_a_loop
async def test_the_copies_that_two_queues_have_of_a_message_are_handled_both() -> None:
    handled = Handled()
    channel = UnconnectedChannel(prefetch=2)
    await channel.consume("a", handled.acknowledge, "of a")
    await channel.consume("b", handled.give_back, "of b")
    lanes = [each.plant.window.lanes[0].tag for each in channel.controlled.values()]
    channel.deliver(lanes[0], "id", body=BODY)
    channel.deliver(lanes[1], "id", body=BODY)
    await settled()
    channel.deliver(lanes[1], "id", redelivered=True, body=BODY)
    await settled()
    await channel.lose()
    again = UnconnectedChannel(channel.remembered, prefetch=2)
    consumer = await again.consume("b", handled.give_back, "of b")
    again.deliver(consumer.plant.window.lanes[0].tag, "id", redelivered=True, body=BODY)
    await settled()
    assert handled.bodies == [BODY] * 4


@in_a_loop
async def test_a_message_with_an_old_id_is_handled_as_often_as_it_is_given_back() -> None:
    handled = Handled()
    answers = iter([handled.acknowledge, handled.give_back, handled.acknowledge])
    channel = UnconnectedChannel(prefetch=2)
    consumer = await channel.consume("a", lambda message: next(answers)(message), "mine")
    lane = consumer.plant.window.lanes[0].tag
    channel.deliver(lane, "id", body=BODY)
    await settled()
    channel.deliver(lane, "id", body=BODY)
    await settled()
    channel.deliver(lane, "id", redelivered=True, body=BODY)
    await settled()
    assert handled.bodies == [BODY] * 3


async def again_after(
    channel: UnconnectedChannel, handled: Handled, message_id: str = "id"
) -> None:
    """On the next channel the broker delivers a message again."""
    again = UnconnectedChannel(channel.remembered, prefetch=2)
    consumer = await again.consume("a", handled.acknowledge, "mine")
    again.deliver(consumer.plant.window.lanes[0].tag, message_id, redelivered=True, body=BODY)
    await settled()


@in_a_loop
async def test_what_was_acknowledged_on_a_lost_channel_is_not_handled_again() -> None:
    handled = Handled()
    channel = UnconnectedChannel(prefetch=2)
    consumer = await channel.consume("a", handled.acknowledge, "mine")
    channel.deliver(consumer.plant.window.lanes[0].tag, "id", body=BODY)
    await settled()
    await channel.lose()
    await again_after(channel, handled)
    assert handled.bodies == [BODY]
    await again_after(channel, handled)
    assert handled.bodies == [BODY] * 2, "each is known once"


@in_a_loop
async def test_a_bound_on_the_rate_goes_on_after_every_lost_connection() -> None:
    handled = Handled()
    words: dict[str, Any] = {"at_most": "5/minute"}
    channel = UnconnectedChannel(**words)
    for body in (b"first", b"second", b"third"):
        consumer = await channel.consume("a", handled.acknowledge, "mine")
        channel.deliver(consumer.plant.window.lanes[0].tag, body=body)
        await settled()
        await channel.lose()
        channel = UnconnectedChannel(channel.remembered, **words)
    assert handled.bodies == [b"first"]


@in_a_loop
async def test_an_ack_that_comes_too_late_for_its_channel_counts() -> None:
    handled = Handled()
    go_on = asyncio.Event()

    async def slow(message: Any) -> None:
        await go_on.wait()
        await handled.acknowledge(message)

    channel = UnconnectedChannel(prefetch=2)
    consumer = await channel.consume("a", slow, "mine")
    channel.deliver(consumer.plant.window.lanes[0].tag, "id", body=BODY)
    await channel.lose()
    go_on.set()
    await settled()
    await again_after(channel, handled)
    assert handled.bodies == [BODY]


@in_a_loop
async def test_what_was_acknowledged_in_a_transaction_may_have_to_be_handled_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def agreed(*_: Any) -> None:
        """The broker's answer."""

    monkeypatch.setattr("aiormq.Channel.tx_select", agreed)
    handled = Handled()
    channel = UnconnectedChannel(prefetch=2)
    consumer = await channel.consume("a", handled.acknowledge, "mine")
    await channel.tx_select()
    channel.deliver(consumer.plant.window.lanes[0].tag, "id", body=BODY)
    await settled()
    await channel.lose()
    await again_after(channel, handled)
    assert handled.bodies == [BODY] * 2


def closed_by_aiormq(monkeypatch: pytest.MonkeyPatch) -> list[UnconnectedChannel]:
    """The channels that aiormq has closed."""
    closed: list[UnconnectedChannel] = []

    async def close(channel: UnconnectedChannel, *_: Any) -> None:
        closed.append(channel)

    monkeypatch.setattr("aiormq.Channel._on_close", close)
    return closed


async def write(channel: UnconnectedChannel) -> list[bytes]:
    """What a writer has written once nothing more comes."""
    written = []
    await settled()
    while not channel.write_queue.empty():
        frame = channel.write_queue.get_nowait()
        written.append(frame.payload)
        frame.drain()
        await settled()
    return written


@in_a_loop
async def test_what_was_acknowledged_before_a_close_has_arrived_and_nothing_is_sent_after_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    closed_by_aiormq(monkeypatch)
    handled = Handled()
    go_on = asyncio.Event()

    async def handle(message: Any) -> None:
        if message.header.properties.message_id == "slow":
            await go_on.wait()
        await handled.acknowledge(message)

    channel = UnconnectedChannel(prefetch=3)
    consumer = await channel.consume("a", handle, "mine")
    lane = consumer.plant.window.lanes[0].tag
    channel.deliver(lane, "id", body=BODY)
    channel.deliver(lane, "slow", body=BODY)
    closing = asyncio.create_task(channel._on_close())
    await write(channel)
    await closing
    channel.deliver(lane, "late", body=b"it was on its way")
    go_on.set()
    assert await write(channel) == []
    await channel.lose()
    await again_after(channel, handled)
    assert handled.bodies == [BODY] * 3, "the first ack has arrived: this is another message"
    await again_after(channel, handled, "slow")
    assert handled.bodies == [BODY] * 3, "its ack came too late"


@pytest.mark.parametrize("frame", ["_on_close_frame", "_on_close_ok_frame"])
@in_a_loop
async def test_nothing_is_sent_once_the_broker_says_that_a_channel_is_closed(
    monkeypatch: pytest.MonkeyPatch, frame: str
) -> None:
    async def on_frame(*_: Any) -> None:
        """As aiormq's, whose reader ends."""

    monkeypatch.setattr(f"aiormq.Channel.{frame}", on_frame)
    closed = closed_by_aiormq(monkeypatch)
    channel = UnconnectedChannel(prefetch=2)
    await channel.consume("a", Handled().acknowledge, "mine")
    await write(channel)
    await getattr(channel, frame)(None)
    await channel._on_close()
    assert await write(channel) == []
    assert closed == [channel]


@in_a_loop
async def test_a_close_does_not_overtake_what_waits_for_a_busy_writer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    closed = closed_by_aiormq(monkeypatch)
    channel = UnconnectedChannel(prefetch=2)
    await channel.consume("a", Handled().acknowledge, "mine")
    writer = channel.write_queue = asyncio.Queue(1)
    writer.put_nowait("what somebody publishes")
    closing = asyncio.create_task(channel._on_close())
    await settled()
    assert not closed
    assert writer.get_nowait() == "what somebody publishes"
    cancel = await writer.get()
    assert b"mine" in cancel.payload
    assert not closed
    (await writer.get()).drain()
    await closing
    assert closed == [channel]


@in_a_loop
async def test_nobody_waits_for_what_a_lost_connection_does_not_write() -> None:
    channel = UnconnectedChannel(prefetch=2)
    await channel.consume("a", Handled().acknowledge, "mine")
    lost = asyncio.get_running_loop().create_future()
    lost.add_done_callback(lambda future: future.exception())
    channel.create_future = lambda: lost  # type: ignore[method-assign]
    giving_back = asyncio.create_task(channel.give_back_all())
    await settled()
    assert not giving_back.done()
    lost.set_exception(asyncio.CancelledError())  # as aiormq has it where heartbeats are missing
    await giving_back


@in_a_loop
async def test_no_lane_is_asked_for_while_the_broker_does_not_read_from_the_connection() -> None:
    connection = aiormq.Connection("amqp://localhost")
    channel = UnconnectedChannel(connection=connection, prefetch=2, window="lanes")
    UnconnectedChannel(connection=connection, prefetch=2)
    connection.channels |= {1: channel, 2: object()}
    consumer = await channel.consume("orders", Handled().acknowledge, "mine")
    window = consumer.plant.window
    # As aiormq's reader calls what it does about a frame, by the name that it has there.
    await getattr(connection, ON_BLOCKED)(spec.Connection.Blocked("memory"))
    consumer.prefetch = 6.0
    channel.runner.wake(channel_runner.clock())
    await settled()
    assert (channel.runner.core.blocked, len(window.subscribed)) == (True, 1)
    await getattr(connection, ON_UNBLOCKED)(spec.Connection.Unblocked())
    channel.runner.wake(channel_runner.clock())
    await settled()
    assert (channel.runner.core.blocked, len(window.subscribed)) == (False, 2)
