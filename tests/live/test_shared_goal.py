"""Consumers that share a rate on a real broker: never more together, whatever happens to them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import aio_pika
import pytest

from controlmq.clients.aio_pika import adaptive
from controlmq.clients.pika.wrap import wrap
from controlmq.clients.shared_goal import SharingRefusedError
from tests.sharing.processes import SharingProcess, SharingProcesses, most_in
from tests.testbed import Broker, wait_until
from tests.testbed.publishing import connected, fill, process_until

RATE = 100.0
DEADLINE_SECONDS = 60.0


def test_processes_that_share_a_rate_never_exceed_it_together(
    broker: Broker, queue_name: str, tmp_path: Path
) -> None:
    fill(broker.parameters, queue_name, 8000)
    with SharingProcesses(broker.url, queue_name, RATE, tmp_path) as processes:
        first, second, third, fourth = [processes.start() for _ in range(4)]

        def use_the_rate(*some: SharingProcess) -> bool:
            return sum(each.lately(2.0) for each in some) > 1.8 * RATE

        def works(process: SharingProcess, since: int = 0) -> bool:
            return len(process.times) > since + 10

        wait_for(lambda: all(works(each) for each in processes.all), "each has a share")
        wait_for(lambda: use_the_rate(*processes.all), "the rate is used")
        first.kill()
        second.stop()
        wait_for(lambda: use_the_rate(third, fourth), "the others have taken over the shares")
        assert second.lately(2.0) == 0
        stood_at = len(second.times)
        second.go_on()
        joined = processes.start()
        wait_for(lambda: works(joined) and works(second, stood_at), "both have a share")
        times = processes.times
    # 99.5 % of the rate, and a burst of at least 1 for each; a second has both of its ends.
    assert most_in(times, 1.0) <= RATE + 5
    assert most_in(times, 10.0) <= 10 * RATE + 10


def wait_for(condition: Any, what: str) -> None:
    wait_until(condition, what, deadline=DEADLINE_SECONDS)


def test_two_consumers_of_a_connection_share_a_rate_by_need(
    broker: Broker, connection: Any, queue_name: str
) -> None:
    fill(broker.parameters, queue_name, 3000)
    numbers: list[int] = []
    with connected(broker.parameters) as idle_connection:
        idle = wrap(idle_connection.channel(), at_most=RATE, shared="orders")
        idle_queue = idle.queue_declare("", exclusive=True).method.queue
        idle.basic_consume(idle_queue, lambda *_: None)
        channel = wrap(connection.channel(), at_most=RATE, shared="orders")

        def on_message(channel: Any, method: Any, properties: Any, body: bytes) -> None:
            numbers.append(int(body))
            channel.basic_ack(method.delivery_tag)

        tag = channel.basic_consume(queue_name, on_message)
        busy = channel.adaptive_consumers[tag].shared

        def most_is_for_the_busy_one() -> bool:
            idle_connection.process_data_events(0)
            return bool(busy.share > 0.9 * RATE)

        process_until(connection, most_is_for_the_busy_one, "the busy one has nearly all")
        idle.close()
        process_until(
            connection, lambda: len(busy.member.shares.members) == 1, "the other has left"
        )
        channel.close()
    assert numbers == list(range(len(numbers)))


@pytest.fixture
def unfit(broker: Broker) -> Iterator[Any]:
    """Parameters of a user who may declare nothing."""
    management = broker.management
    management.put("/users/unfit", {"password": "unfit", "tags": ""})
    rights = {"configure": "^$", "write": ".*", "read": ".*"}
    management.put("/permissions/%2F/unfit", rights)
    parameters = broker.parameters
    parameters.credentials = type(parameters.credentials)("unfit", "unfit")
    yield parameters
    management.delete("/users/unfit")


def test_without_the_right_to_declare_the_stream_a_shared_rate_is_refused(
    unfit: Any, queue_name: str
) -> None:
    with connected(unfit) as connection:
        channel = wrap(connection.channel(), at_most=RATE, shared="orders")
        with pytest.raises(SharingRefusedError, match="needs the stream"):
            channel.basic_consume(queue_name, lambda *_: None)
        assert channel.is_open
        assert not channel.adaptive_consumers


def test_aio_pika_refuses_it_too_and_consumes_nothing(
    broker: Broker, unfit: Any, queue_name: str
) -> None:
    async def handle(message: Any) -> None:
        raise AssertionError("nothing is handed over")

    async def program() -> None:
        connection = await aio_pika.connect_robust(
            host=unfit.host,
            port=unfit.port,
            login="unfit",
            password="unfit",
            connection_class=adaptive(at_most=RATE, shared="orders"),
        )
        async with connection:
            channel = await connection.channel()
            queue = await channel.get_queue(queue_name)
            with pytest.raises(SharingRefusedError, match="needs the stream"):
                await queue.consume(handle)
            assert not channel.is_closed
            assert not channel.adaptive_consumers
            await channel.get_queue(queue_name)  # a round trip: the channel works
            await asyncio.to_thread(
                broker.management.wait_for_queue,
                queue_name,
                lambda view: not view.consumers,
                "nobody consumes",
            )

    asyncio.run(program())
