"""aio-pika on a real broker: changes, stops, lost connections, and what is refused."""

from __future__ import annotations

import asyncio
import math
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import aio_pika
import pytest

from controlmq.clients.aio_pika import adapt, adaptive
from controlmq.controllers import OpenLoop
from controlmq.errors import InputError
from tests.conformance.drivers import plain_message
from tests.live.handled import assert_empty, left_in
from tests.sharing.processes import most_in
from tests.testbed import Broker, Proxy, wait_until
from tests.testbed.management import DEADLINE
from tests.testbed.proxy import proxied
from tests.testbed.publishing import (
    DeclareQueue,
    QueueKind,
    declare_queue,
    delete_queue,
    fill,
)

CHANGES = 200
MESSAGES = 3000
LARGEST_PREFETCH = 20
"""Messages that the random changes ask for at most."""
MORE_THAN_SOCKETS_KEEP = 20_000_000
"""Bytes."""


@asynccontextmanager
async def channel_on(url: str, *args: Any, **kwargs: Any) -> AsyncIterator[Any]:
    connection = await aio_pika.connect_robust(url, connection_class=adaptive(*args, **kwargs))
    async with connection:
        yield await connection.channel()


async def until(condition: Callable[[], Any], what: str) -> None:
    """Wait for a condition, with a deadline."""
    end = asyncio.get_running_loop().time() + DEADLINE
    while not condition():
        assert asyncio.get_running_loop().time() < end, f"waited {DEADLINE:g} s until {what}"
        await asyncio.sleep(0.01)


def run(program: Awaitable[None]) -> None:
    async def bounded() -> None:
        await asyncio.wait_for(program, 2 * DEADLINE)

    asyncio.run(bounded())


class Handled:
    """A handler that works for a moment, and what it saw.

    ``numbers`` were handed to it, ``acknowledged`` are those of them whose ack it has given.
    """

    def __init__(self, seconds: float = 0.002, seed: int = 1) -> None:
        self.numbers: list[int] = []
        self.acknowledged: set[int] = set()
        self.redelivered = 0
        self.tags: set[str | None] = set()
        self._draw = random.Random(seed)
        self._seconds = seconds

    async def __call__(self, message: Any) -> None:
        number = int(message.body)
        self.numbers.append(number)
        self.redelivered += bool(message.redelivered)
        self.tags.add(message.consumer_tag)
        await asyncio.sleep(self._draw.uniform(0, self._seconds))
        await message.ack()
        self.acknowledged.add(number)


@pytest.mark.parametrize("kind", ["classic", "quorum"])
def test_whatever_changes_nothing_is_lost_or_requeued(
    broker: Broker, queue: DeclareQueue, kind: QueueKind
) -> None:
    name = queue(kind)
    fill(broker.parameters, name, MESSAGES)
    draw = random.Random(7)
    over: list[str] = []

    async def program() -> None:
        handled = Handled()
        async with channel_on(broker.url, prefetch=5) as channel:
            source = await channel.get_queue(name)
            tag = await source.consume(handled)
            consumer = channel.adaptive_consumers[tag]
            window = consumer.plant.window
            for _ in range(CHANGES):
                granted = window.granted
                target = draw.choice(
                    [0.5, 1.0, LARGEST_PREFETCH, draw.uniform(0.3, LARGEST_PREFETCH)]
                )
                consumer.prefetch = target
                for _ in range(3):
                    await asyncio.sleep(0.005)
                    bound = max(math.ceil(target), granted)
                    if max(window.granted, consumer.in_flight) > bound:
                        over.append(f"{window.granted}, {consumer.in_flight} above {bound}")
            consumer.prefetch = LARGEST_PREFETCH
            await until(lambda: len(handled.acknowledged) == MESSAGES, "all messages are handled")
            assert handled.tags == {tag}
            await source.cancel(tag)
        assert handled.numbers == sorted(handled.numbers)
        assert handled.numbers == list(range(MESSAGES))
        assert handled.redelivered == 0

    run(program())
    assert over == []
    assert_empty(broker, name)


def test_an_iterator_and_process_work_as_ever(broker: Broker, queue_name: str) -> None:
    fill(broker.parameters, queue_name, 50)

    async def program() -> None:
        seen = []
        async with channel_on(broker.url, prefetch=2.5) as channel:
            source = await channel.get_queue(queue_name)
            async with source.iterator() as messages:
                async for message in messages:
                    async with message.process():
                        seen.append(int(message.body))
                    if len(seen) == 50:
                        break
        assert seen == list(range(50))

    run(program())
    assert_empty(broker, queue_name)


@pytest.mark.parametrize("way", ["cancel", "channel", "connection"])
def test_a_stop_gives_back_what_is_held(broker: Broker, queue_name: str, way: str) -> None:
    fill(broker.parameters, queue_name, 40)

    async def program() -> None:
        handled = Handled(0.0)
        async with channel_on(broker.url, prefetch=20) as channel:
            source = await channel.get_queue(queue_name)
            tag = await source.consume(handled)
            consumer = channel.adaptive_consumers[tag]
            consumer.prefetch = 0.5
            await until(lambda: consumer.held > 3, "acks are held")
            if way == "cancel":
                await source.cancel(tag)
            elif way == "channel":
                await channel.close()
        done.extend(handled.numbers)

    done: list[int] = []
    run(program())
    rest: list[int] = []

    async def collect() -> None:
        connection = await aio_pika.connect(broker.url)
        async with connection:
            channel = await connection.channel()
            source = await channel.get_queue(queue_name)
            while (message := await source.get(fail=False)) is not None:
                rest.append(int(message.body))
                await message.ack()

    run(collect())
    assert sorted(done + rest) == list(range(40)), "each message was handled once"


def test_a_lost_connection_brings_back_tag_prefetch_and_controller(
    broker: Broker, queue_name: str
) -> None:
    fill(broker.parameters, queue_name, 2000)

    async def program() -> None:
        handled = Handled()
        async with channel_on(broker.url, prefetch=3) as channel:
            source = await channel.get_queue(queue_name)
            tag = await source.consume(handled, consumer_tag="mine")
            channel.adaptive_consumers[tag].prefetch = 7.5
            before = channel.adaptive_consumers[tag]
            await until(lambda: len(handled.numbers) > 100, "messages come")
            await lose_connection(broker, queue_name)
            await until(lambda: channel.adaptive_consumers.get(tag) is not before, "it is back")
            assert channel.adaptive_consumers[tag].prefetch == 7.5
            await until(lambda: handled.acknowledged == set(range(2000)), "all are handled")
            await source.cancel(tag)
        assert handled.tags == {"mine"}

    run(program())
    assert_empty(broker, queue_name)


async def lose_connection(broker: Broker, queue: str) -> None:
    """Have the broker close the connection that consumes a queue."""
    loop = asyncio.get_running_loop()
    names: list[str] = []
    while not names:
        names = await loop.run_in_executor(None, broker.management.connections_consuming, queue)
    await loop.run_in_executor(None, broker.management.close_connection, names[0])


def test_what_was_handled_is_not_handled_again_after_a_lost_connection(
    broker: Broker, queue: DeclareQueue
) -> None:
    name = queue("quorum")
    fill(broker.parameters, name, 100, make=plain_message)

    async def program() -> None:
        done: list[int] = []

        async def on_message(message: Any) -> None:
            await asyncio.sleep(0)
            done.append(int(message.body))
            await message.ack()

        async with channel_on(broker.url, prefetch=20) as channel:
            source = await channel.get_queue(name)
            tag = await source.consume(on_message)
            first = channel.adaptive_consumers[tag]
            first.prefetch = 0.5
            await until(lambda: first.held > 5, "acks are held")
            await lose_connection(broker, name)
            await until(lambda: channel.adaptive_consumers.get(tag) is not first, "it is back")
            channel.adaptive_consumers[tag].prefetch = 20
            await until(lambda: set(done) == set(range(100)), "all are handled")
            # What the lost connection had may come again only now.
            await asyncio.get_running_loop().run_in_executor(
                None,
                broker.management.wait_for_queue,
                name,
                lambda view: view.messages_ready + view.messages_unacknowledged == 0,
                "nothing is to come again",
            )
        assert sorted(done) == list(range(100)), "each once"

    run(program())
    assert_empty(broker, name)


def test_every_queue_of_a_fanout_handles_its_copy_until_it_is_acknowledged(
    broker: Broker, queue: DeclareQueue
) -> None:
    names = queue("classic"), queue("quorum")
    for name in names:
        fill(broker.parameters, name, 5, make=plain_message)  # with the same ids
    first, second = names

    async def program() -> None:
        handled: dict[str, list[int]] = {name: [] for name in names}

        async def acknowledge(message: Any) -> None:
            handled[first].append(int(message.body))
            await message.ack()

        async def acknowledge_at_last(message: Any) -> None:
            handled[second].append(int(message.body))
            if message.redelivered:
                await message.ack()
            else:
                await message.nack(requeue=True)

        async with channel_on(broker.url, prefetch=1) as channel:
            await (await channel.get_queue(first)).consume(acknowledge)
            await until(lambda: len(handled[first]) == 5, "one queue is handled")
            await (await channel.get_queue(second)).consume(acknowledge_at_last)
            await asyncio.to_thread(assert_empty, broker, second)
        assert sorted(handled[second]) == sorted([*range(5), *range(5)])

    run(program())


def test_a_ceiling_keeps_the_order_of_messages_of_several_lanes(
    broker: Broker, queue_name: str
) -> None:
    fill(broker.parameters, queue_name, MESSAGES // 2)
    draw = random.Random(3)

    async def program() -> None:
        seen: list[int] = []
        lanes = 0

        async def handle(message: Any) -> None:
            seen.append(int(message.body))
            await message.ack()
            if len(seen) % 2 == 0:
                time.sleep(0.003)  # meanwhile two tokens come, and messages to be read

        bound = {"at_most": 500, "burst": 3, "window": "lanes"}
        async with channel_on(broker.url, prefetch=2, max_hold=0.2, **bound) as channel:
            tag = await (await channel.get_queue(queue_name)).consume(handle)
            consumer = channel.adaptive_consumers[tag]
            while len(seen) < MESSAGES // 2:
                consumer.prefetch = draw.uniform(1, 50)
                await asyncio.sleep(0.01)
                lanes = max(lanes, len(consumer.plant.window.subscribed))
        assert seen == list(range(MESSAGES // 2))
        assert lanes > 2

    run(program())


def test_a_connection_that_is_lost_while_it_closes_is_closed(
    broker: Broker, proxy: Proxy, queue_name: str
) -> None:
    async def program() -> None:
        connection = await aio_pika.connect_robust(
            proxied(broker.url, proxy), connection_class=adaptive(prefetch=2), reconnect_interval=1
        )
        channel = await connection.channel()
        await (await channel.get_queue(queue_name)).consume(Handled())
        proxy.stall()
        exchange = channel.default_exchange
        large = aio_pika.Message(bytes(MORE_THAN_SOCKETS_KEEP))
        publishing = asyncio.create_task(exchange.publish(large, "nowhere"))
        closing = asyncio.create_task(connection.close())
        consumers = (await channel.get_underlay_channel()).runner.core.consumers
        await until(lambda: not consumers, "they are cancelled, and that is to be written")
        assert not closing.done()
        proxy.cut()
        await closing
        assert connection.is_closed
        await asyncio.gather(publishing, return_exceptions=True)

    run(program())
    wait_until(lambda: proxy.connections() == 0, "nobody is connected")


def test_a_channel_that_the_broker_closes_takes_no_connection_with_it(
    broker: Broker, queue_name: str
) -> None:
    fill(broker.parameters, queue_name, 200, make=plain_message)

    async def program() -> None:
        handled = Handled(0.0)
        async with channel_on(broker.url, prefetch=20) as channel:
            reconnects: list[object] = []
            channel._connection.reconnect_callbacks.add(lambda *_: reconnects.append(1))
            tag = await (await channel.get_queue(queue_name)).consume(handled)
            first = channel.adaptive_consumers[tag]
            first.prefetch = 0.5
            await until(lambda: first.held > 5, "acks are held")
            with pytest.raises(aio_pika.exceptions.ChannelNotFoundEntity):
                await channel.get_queue("no-such-queue")
            await until(lambda: channel.adaptive_consumers[tag] is not first, "it is back")
            channel.adaptive_consumers[tag].prefetch = 20
            # One that waited for its ack when the channel closed may not have come so far.
            await until(lambda: set(handled.numbers) == set(range(200)), "all are handled")
            await asyncio.to_thread(assert_empty, broker, queue_name)
            assert reconnects == []
        assert len(handled.numbers) == 200, "each once"

    run(program())


def test_a_channel_that_is_closed_while_messages_come_leaves_the_connection_open(
    broker: Broker, proxy: Proxy, queue_name: str
) -> None:
    fill(broker.parameters, queue_name, 1000)

    async def program() -> None:
        handled = Handled()
        url, kind = proxied(broker.url, proxy), adaptive(prefetch=50)
        async with await aio_pika.connect_robust(url, connection_class=kind) as connection:
            reconnects: list[object] = []
            connection.reconnect_callbacks.add(lambda *_: reconnects.append(1))
            for closed in range(3):
                channel = await connection.channel()
                await (await channel.get_queue(queue_name)).consume(handled)
                await until(lambda much=100 * closed: len(handled.numbers) > much, "some are here")
                await channel.close()
            another = await connection.channel()
            await another.get_queue(queue_name)
            assert reconnects == []

    run(program())


def test_a_consumer_timeout_needs_no_other_connection(broker: Broker) -> None:
    if broker.version < (4, 3):
        pytest.skip("RabbitMQ 4.3 is the first to cancel a consumer that is late")
    name = declare_queue(broker.parameters, "quorum", arguments={"x-consumer-timeout": 1000})
    fill(broker.parameters, name, 60, make=plain_message)

    async def program() -> None:
        done: set[int] = set()
        slow = True

        async def on_message(message: Any) -> None:
            nonlocal slow
            if slow:
                slow = False
                await asyncio.sleep(2)
            done.add(int(message.body))
            await message.ack()

        async with channel_on(broker.url, prefetch=4, max_hold=0.2) as channel:
            reconnects: list[object] = []
            channel._connection.reconnect_callbacks.add(lambda *_: reconnects.append(1))
            underlay = await channel.get_underlay_channel()
            source = await channel.get_queue(name)
            tag = await source.consume(on_message, consumer_tag="mine")
            first = channel.adaptive_consumers[tag]
            await until(lambda: channel.adaptive_consumers[tag] is not first, "it is back")
            await until(lambda: done == set(range(60)), "all are handled")
            # On a busy machine more were late, and come again after they were handled.
            await asyncio.to_thread(assert_empty, broker, name)
            assert await channel.get_underlay_channel() is underlay, "the channel is the same"
            assert reconnects == []

    try:
        run(program())
        assert_empty(broker, name)
    finally:
        delete_queue(broker.parameters, name)


def test_a_consumer_that_the_broker_cancels_is_reported_once(
    broker: Broker, queue: DeclareQueue
) -> None:
    name = queue("classic")
    fill(broker.parameters, name, 100)

    async def program() -> None:
        async with channel_on(broker.url, prefetch=3) as channel:
            cancels: list[str] = []
            underlay = await channel.get_underlay_channel()
            underlay.on_consumer_cancel_callbacks.add(lambda f: cancels.append(f.consumer_tag))
            source = await channel.get_queue(name)
            tag = await source.consume(Handled(), consumer_tag="mine")
            channel.adaptive_consumers[tag].prefetch = 12.0
            window = channel.adaptive_consumers[tag].plant.window
            await until(lambda: len(window.subscribed) > 1, "there is a second lane")
            await channel.queue_delete(name)
            await until(lambda: cancels, "the cancel is reported")
            await channel.declare_queue("", exclusive=True)  # a round trip
            assert cancels == ["mine"]

    run(program())


def test_after_refused_lanes_there_is_a_single_subscription(
    broker: Broker, request: pytest.FixtureRequest, caplog: pytest.LogCaptureFixture
) -> None:
    if broker.version < (4, 0):
        pytest.skip("RabbitMQ 3.10 has no limit of consumers per channel")
    broker = request.getfixturevalue("disposable_broker")
    queue = declare_queue(broker.parameters, "quorum")
    fill(broker.parameters, queue, 200)
    limit = "application:set_env(rabbit, consumer_max_per_channel, 1)."
    broker.control("rabbitmqctl", "eval", limit)
    handled = Handled()

    async def program() -> None:
        kind = adaptive(100, lambda sample, _: 2 + sample.number % 5, prefetch=2, interval=0.1)
        connection = await aio_pika.connect_robust(
            broker.url, connection_class=kind, reconnect_interval=0.2
        )
        async with connection:
            channel = await connection.channel()
            await (await channel.get_queue(queue)).consume(handled)
            await until(lambda: len(handled.acknowledged) == 200, "all are handled")

    run(program())
    assert_empty(broker, queue)
    assert "ends the connection when a further consumer is added" in caplog.text


def test_what_was_fetched_before_a_recover_is_acknowledged_by_nobody(
    broker: Broker, queue: DeclareQueue
) -> None:
    name, other = queue("classic"), queue("classic")
    fill(broker.parameters, name, 6)
    fill(broker.parameters, other, 1)

    async def program() -> None:
        messages: list[Any] = []

        async def on_message(message: Any) -> None:
            messages.append(message)

        async with channel_on(broker.url, prefetch=3) as channel:
            await (await channel.get_queue(other)).get()
            await (await channel.get_queue(name)).consume(on_message)
            await until(lambda: len(messages) == 3, "every slot is filled")
            await (await channel.get_underlay_channel()).basic_recover(requeue=True)
            for count in (6, 9):
                await until(lambda count=count: len(messages) == count, "three more came")
                await messages[-1].ack(multiple=True)
            await channel.declare_queue(name, passive=True)  # the channel is open there, too
        assert [int(message.body) for message in messages] == [0, 1, 2, 0, 1, 2, 3, 4, 5]

    run(program())
    assert left_in(broker, other) == [0]
    assert_empty(broker, name)


def test_a_channel_can_be_adapted_by_itself(broker: Broker, queue_name: str) -> None:
    fill(broker.parameters, queue_name, 300)
    steps: list[Any] = []

    async def program() -> None:
        connection = await aio_pika.connect(broker.url)
        async with connection, connection.channel() as channel:
            handled = Handled()
            adapt(
                channel,
                controller=OpenLoop([2.0, 6.0, 3.5]),
                interval=0.05,
                on_step=steps.append,
            )
            source = await channel.get_queue(queue_name)
            await source.consume(handled)
            await until(lambda: len(handled.acknowledged) == 300, "all are handled")

    run(program())
    assert [step.prefetch for step in steps[:2]] == [2.0, 6.0]
    assert_empty(broker, queue_name)


def test_what_cannot_work_is_refused(broker: Broker, queue_name: str) -> None:
    async def program() -> None:
        async with channel_on(broker.url, prefetch=3) as channel:
            source = await channel.get_queue(queue_name)
            with pytest.raises(InputError, match="no_ack=True leaves nothing to adapt"):
                await source.consume(Handled(), no_ack=True)
            with pytest.raises(InputError, match="global_=True is not for"):
                await channel.set_qos(5, global_=True)
            with pytest.raises(InputError, match="adaptive already"):
                adapt(channel, prefetch=2)

    run(program())
    with pytest.raises(InputError, match="cannot adapt a object"):
        adapt(object(), prefetch=2)


def test_consumers_share_a_rate(broker: Broker, queue_name: str) -> None:
    fill(broker.parameters, queue_name, 300)

    async def program() -> None:
        times: list[float] = []
        clock = asyncio.get_running_loop().time

        async def handle(message: Any) -> None:
            times.append(clock())
            await message.ack()

        goals = {"at_most": 100, "shared": "orders"}
        async with channel_on(broker.url, **goals) as one, channel_on(broker.url, **goals) as other:
            for channel in (one, other):
                await (await channel.get_queue(queue_name)).consume(handle)
            both = [*one.adaptive_consumers.values(), *other.adaptive_consumers.values()]
            await until(lambda: min(each.shared.share for each in both) > 40, "both have a share")
            assert sum(each.shared.share for each in both) <= 100
            await until(lambda: len(times) == 300, "all are handled")
        assert most_in(times, 1.0) <= 105

    run(program())
    assert_empty(broker, queue_name)


def test_a_channel_knows_that_its_connection_is_blocked(disposable_broker: Broker) -> None:
    broker = disposable_broker
    queue_name = declare_queue(broker.parameters)

    async def consume() -> None:
        async with channel_on(broker.url, prefetch=2, window="lanes") as channel:
            queue = await channel.get_queue(queue_name)
            await queue.consume(Handled())
            plain = await channel.get_underlay_channel()
            core = plain.runner.core
            broker.control("rabbitmqctl", "set_vm_memory_high_watermark", "0.00000001")
            try:
                # A broker blocks those that publish.
                publishing = asyncio.create_task(
                    channel.default_exchange.publish(aio_pika.Message(b""), "nowhere")
                )
                await until(lambda: core.blocked, "it is blocked")
            finally:
                broker.control("rabbitmqctl", "set_vm_memory_high_watermark", "0.9")
            await until(lambda: not core.blocked, "it is not any more")
            await publishing

    run(consume())
