"""A user who may consume no more: the right was taken away, or a token has expired.

RabbitMQ looks a user's rights up when a channel asks for something, as it does for a further lane,
and closes a channel that may not have it. It looks them up again for a channel that has been idle
for a second, and where rights may expire once a minute.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import json
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import aio_pika
import pika
import pika.exceptions
import pytest

from controlmq.clients.aio_pika import adaptive
from controlmq.clients.pika.service import Service
from controlmq.clients.pika.wrap import wrap
from controlmq.clients.stopping import Stop
from controlmq.controllers import Limits
from tests.live.handled import assert_empty, left_in
from tests.testbed import Broker, wait_until
from tests.testbed.publishing import connected, declare_queue, fill, process_until

IDLE_SECONDS = 3.0
"""Seconds between two requests, so that the channel is idle in between."""


class Reader:
    """A user who may read queues, until that is taken away."""

    def __init__(self, broker: Broker) -> None:
        self._management = broker.management
        self._name = f"reader-{uuid.uuid4().hex[:12]}"
        self._management.put(f"/users/{self._name}", {"password": "secret", "tags": ""})
        self.may_read(True)
        login, _, place = broker.url.rpartition("@")
        scheme, _, _ = login.partition("://")
        self.url = f"{scheme}://{self._name}:secret@{place}"

    def may_read(self, may: bool) -> None:
        rights = {"configure": "^$", "write": "^$", "read": ".*" if may else "^$"}
        self._management.put(f"/permissions/%2F/{self._name}", rights)

    def remove(self) -> None:
        self._management.delete(f"/users/{self._name}")


@pytest.fixture
def reader(broker: Broker) -> Iterator[Reader]:
    reader = Reader(broker)
    yield reader
    reader.remove()


def test_a_refused_lane_closes_the_channel_as_in_pika(
    broker: Broker, queue_name: str, reader: Reader
) -> None:
    fill(broker.parameters, queue_name, 10)
    handled: list[int] = []

    def on_message(channel: Any, method: Any, properties: Any, body: bytes) -> None:
        handled.append(int(body))
        if int(body) < 5:
            channel.basic_ack(method.delivery_tag)

    with connected(pika.URLParameters(reader.url)) as connection:
        channel = wrap(connection.channel(), prefetch=3, window="lanes", interval=60)
        channel.basic_consume(queue_name, on_message, consumer_tag="mine")
        process_until(connection, lambda: len(handled) == 8, "every slot is filled")
        consumer = channel.adaptive_consumers["mine"]
        reader.may_read(False)

        def grow() -> None:
            consumer.prefetch += 1
            connection.call_later(IDLE_SECONDS, grow)

        connection.call_later(IDLE_SECONDS, grow)
        with pytest.raises(pika.exceptions.ChannelClosedByBroker, match=r"403.*refused"):
            channel.start_consuming()
        assert not consumer.running
        assert connection.is_open
    assert left_in(broker, queue_name) == list(range(5, 10))


def test_run_goes_on_with_lanes_once_the_right_is_back(
    broker: Broker, queue_name: str, reader: Reader, caplog: pytest.LogCaptureFixture
) -> None:
    fill(broker.parameters, queue_name, 50)
    handled, stop, wanted = Counter[int](), Stop(), [2.0]
    service = Service(
        [reader.url],
        queue_name,
        lambda body, properties: handled.update([int(body)]),
        stop=stop,
        workers=3,
        goal=100,
        controller=lambda sample, goal: wanted[0],
        limits=Limits(1, 50),
        prefetch=2,
        window="lanes",
        interval=0.1,
    )

    def grown_in_vain() -> bool:
        wanted[0] += 1
        return "403" in caplog.text

    thread = threading.Thread(target=service.run)
    thread.start()
    try:
        wait_until(lambda: len(handled) == 50, "all are handled")
        reader.may_read(False)
        wait_until(grown_in_vain, "a further lane is refused", pause=IDLE_SECONDS)
        wait_until(lambda: caplog.text.count("trying again") > 1, "so is every consumer")
        reader.may_read(True)
        fill(broker.parameters, queue_name, 50, first=50)
        wait_until(lambda: len(handled) == 100, "those after it are handled, too")
        wanted[0] += 5
        broker.management.wait_for_queue(
            queue_name, lambda view: len(view.consumers) > 1, "there is a further lane"
        )
    finally:
        stop.ask()
        thread.join()
    assert max(handled.values()) == 1
    assert_empty(broker, queue_name)
    assert "single subscription" not in caplog.text


def test_aio_pika_goes_on_once_the_right_is_back(
    broker: Broker, queue_name: str, reader: Reader, caplog: pytest.LogCaptureFixture
) -> None:
    fill(broker.parameters, queue_name, 50)
    handled = Counter[int]()

    async def handle(message: Any) -> None:
        handled.update([int(message.body)])
        await message.ack()

    async def until(condition: Callable[[], object], what: str, pause: float = 0.05) -> None:
        await asyncio.to_thread(wait_until, condition, what, pause=pause)

    async def program() -> None:
        kind = adaptive(prefetch=2, window="lanes", interval=60)
        connection = await aio_pika.connect_robust(
            reader.url, connection_class=kind, reconnect_interval=0.2
        )
        async with connection:
            channel = await connection.channel()
            queue = await channel.get_queue(queue_name)
            await queue.consume(handle, consumer_tag="mine")
            await until(lambda: len(handled) == 50, "all are handled")
            first = channel.adaptive_consumers["mine"]
            reader.may_read(False)

            def grown_in_vain() -> bool:
                first.prefetch += 1
                return not first.running

            await until(grown_in_vain, "a further lane is refused", pause=IDLE_SECONDS)
            await asyncio.to_thread(
                broker.management.wait_for_queue,
                queue_name,
                lambda view: not view.consumers,
                "so is every consumer",
            )
            reader.may_read(True)
            fill(broker.parameters, queue_name, 50, first=50)
            await until(lambda: len(handled) == 100, "those after it are handled, too")

    asyncio.run(program())
    assert max(handled.values()) == 1
    assert_empty(broker, queue_name)
    assert caplog.text.count("cannot consume") == 1


# Tokens

KEY = b"the key that tokens are signed by"
TOKEN_SECONDS = 6

USE_TOKENS = """\
application:set_env(rabbitmq_auth_backend_oauth2, resource_server_id, <<"rabbitmq">>),
application:set_env(rabbitmq_auth_backend_oauth2, key_config, [{default_key, <<"test">>},
    {signing_keys, #{<<"test">> => {map, #{<<"kty">> => <<"oct">>, <<"k">> => <<"%s">>}}}}]),
application:set_env(rabbit, auth_backends,
    [rabbit_auth_backend_oauth2, rabbit_auth_backend_internal]),
application:set_env(rabbit, channel_tick_interval, 200).
"""
"""The last makes the broker look rights up again after so many milliseconds."""


def encoded(part: bytes) -> str:
    return base64.urlsafe_b64encode(part).rstrip(b"=").decode()


def token(seconds: int) -> str:
    """A token (RFC 7519) with which every queue may be read, for so long."""
    claims = {
        "aud": ["rabbitmq"],
        "sub": "reader",
        "client_id": "reader",
        "exp": int(time.time()) + seconds,
        "scope": ["rabbitmq.read:*/*"],
    }
    header = {"alg": "HS256", "typ": "JWT", "kid": "test"}
    signed = ".".join(encoded(json.dumps(part).encode()) for part in (header, claims))
    return f"{signed}.{encoded(hmac.digest(KEY, signed.encode(), hashlib.sha256))}"


def test_an_expired_token_ends_the_channel_or_the_connection(disposable_broker: Broker) -> None:
    broker = disposable_broker
    broker.control("rabbitmq-plugins", "enable", "rabbitmq_auth_backend_oauth2")
    broker.control("rabbitmqctl", "eval", USE_TOKENS % encoded(KEY))
    queue = declare_queue(broker.parameters)
    fill(broker.parameters, queue, 20)
    parameters = broker.parameters
    parameters.credentials = pika.PlainCredentials("reader", token(TOKEN_SECONDS))
    tags: list[int] = []

    def on_message(channel: Any, method: Any, properties: Any, body: bytes) -> None:
        tags.append(method.delivery_tag)

    with connected(parameters) as connection:
        channel = wrap(connection.channel(), prefetch=2, window="lanes", interval=60)
        channel.basic_consume(queue, on_message, consumer_tag="mine")
        consumer = channel.adaptive_consumers["mine"]

        def grow() -> None:
            consumer.prefetch += 1
            connection.call_later(1, grow)

        grow()
        # The prefetch grew, so there are more lanes than one, up to then.
        ended, why = pika.exceptions.ChannelClosedByBroker, r"403.*refused"
        if broker.version >= (4, 3):
            ended, why = pika.exceptions.ConnectionClosedByBroker, r"320.*credential expired"
        with pytest.raises(ended, match=why):
            channel.start_consuming()
        assert len(tags) > 2
        assert not consumer.running
    with pytest.raises(pika.exceptions.ProbableAuthenticationError):
        pika.BlockingConnection(parameters)
    assert sorted(left_in(broker, queue)) == list(range(20))
