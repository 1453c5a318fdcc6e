"""Claims about the test bed itself, on the real broker: other tests stand on them."""

from __future__ import annotations

import contextlib
import math
import socket
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pika
import pika.exceptions
import pytest

from tests.testbed import Broker, BrokerError, Proxy, installation, start_broker, wait_until
from tests.testbed.broker import AMQP_URL, CHOSEN_BROKER, QUORUM_QUEUE_KEPT
from tests.testbed.proxy import ROUND_TRIP
from tests.testbed.proxy_process import EARLY
from tests.testbed.publishing import (
    DeclareQueue,
    Publisher,
    QueueKind,
    connected,
    declare_queue,
    declared_queue,
    fill,
    process_until,
)
from tests.testbed.wire import CONSUME, Qos, amqp_methods, deliveries, qos_calls, stamped


def take(parameters: Any, queue: str, count: int) -> list[int]:
    """Consume and acknowledge ``count`` messages; their numbers in the order they came."""
    numbers: list[int] = []
    with connected(parameters) as connection:
        channel = connection.channel()
        channel.basic_qos(prefetch_count=200)
        for method, _, body in channel.consume(queue, inactivity_timeout=60):
            assert method is not None, f"{len(numbers)} of {count} messages, then none for 60 s"
            numbers.append(int(body))
            channel.basic_ack(method.delivery_tag)
            if len(numbers) == count:
                break
        channel.cancel()
    return numbers


def round_trips(parameters: Any) -> Iterator[float]:
    """Seconds of a method and its answer, again and again."""
    with connected(parameters) as connection:
        channel = connection.channel()
        while True:
            start = time.perf_counter()
            channel.basic_qos(prefetch_count=1)
            yield time.perf_counter() - start


# The broker


def test_a_started_broker_answers_on_both_its_interfaces(broker: Broker) -> None:
    with connected(broker.parameters) as connection:
        assert connection.is_open
    assert broker.management.get("/overview")["rabbitmq_version"]


def test_two_brokers_run_at_once_share_nothing_and_stop_alone(
    broker: Broker, disposable_broker: Broker
) -> None:
    assert broker.address != disposable_broker.address
    with declared_queue(broker.parameters) as name:
        broker.management.wait_for_queue(name)
        assert disposable_broker.management.get(f"/queues/%2F/{name}") is None

    told = pika.BlockingConnection(disposable_broker.parameters)
    with connected(broker.parameters) as untouched:
        disposable_broker.stop()
        with pytest.raises(pika.exceptions.ConnectionClosedByBroker, match="CONNECTION_FORCED"):
            told.process_data_events(time_limit=60)
        untouched.process_data_events(time_limit=0)
        assert untouched.is_open


def test_a_killed_broker_restarted_keeps_persistent_messages(disposable_broker: Broker) -> None:
    classic = declare_queue(disposable_broker.parameters, "classic")
    quorum = declare_queue(disposable_broker.parameters, "quorum")
    for queue in (classic, quorum):
        fill(disposable_broker.parameters, queue, 500)
    connection = pika.BlockingConnection(disposable_broker.parameters)

    time.sleep(QUORUM_QUEUE_KEPT)
    disposable_broker.kill()
    with pytest.raises(pika.exceptions.AMQPConnectionError):
        connection.process_data_events(time_limit=60)
    with pytest.raises(pika.exceptions.AMQPConnectionError):
        pika.BlockingConnection(disposable_broker.parameters)

    disposable_broker.restart()
    for queue in (classic, quorum):
        assert take(disposable_broker.parameters, queue, 500) == list(range(500))


def test_a_broker_given_by_url_is_used_and_never_killed(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(AMQP_URL, broker.url)
    with start_broker() as given:
        assert given.url == broker.url
        for action in (given.kill, given.stop, given.restart):
            with pytest.raises(BrokerError, match="not ours"):
                action()
    with connected(broker.parameters) as connection:
        assert connection.is_open


def test_without_any_broker_the_error_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv(AMQP_URL, raising=False)
    monkeypatch.setattr("tests.testbed.container.docker_answers", lambda: False)
    monkeypatch.delenv(CHOSEN_BROKER, raising=False)
    monkeypatch.setattr("tests.testbed.installation.installed", lambda: None)
    with pytest.raises(BrokerError, match="apt-get install rabbitmq-server"):
        start_broker().__enter__()


@pytest.mark.parametrize(("version", "installed"), [("3.10", True), ("3.1", False), ("4.3", False)])
def test_a_version_that_is_installed_is_not_made_again(
    version: str, installed: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    folder = tmp_path / "made"
    for root, number in ((tmp_path / "machine", "3.10.8"), (folder, "9.9.9")):
        (root / installation.SERVERS / f"rabbitmq_server-{number}" / "sbin").mkdir(parents=True)
    scripts = installation._scripts
    machine = tmp_path / "machine"
    monkeypatch.setattr(
        installation, "_scripts", lambda root: scripts(machine if root == Path("/") else root)
    )
    monkeypatch.setattr(installation, "made_by", lambda tool, version: str(folder))
    monkeypatch.setattr("shutil.which", lambda name: "/usr/bin/epmd")
    assert (installation.server_of(version).root == Path("/")) == installed


# Its own view


def test_management_shows_the_unacked_messages_of_a_consumer(
    broker: Broker, queue_name: str
) -> None:
    fill(broker.parameters, queue_name, 20)
    with connected(broker.parameters) as connection:
        channel = connection.channel()
        channel.basic_qos(prefetch_count=5)
        channel.basic_consume(queue_name, lambda *_: None, consumer_tag="five")
        connection.process_data_events(time_limit=0.1)
        seen = broker.management.wait_for_queue(
            queue_name,
            lambda queue: queue.messages_unacknowledged == 5 and len(queue.consumers) == 1,
            "5 messages are unacknowledged",
        )
    assert seen.messages_ready == 15
    assert (seen.consumers[0].tag, seen.consumers[0].prefetch) == ("five", 5)


def test_the_broker_closes_a_connection_when_management_says_so(
    broker: Broker, queue_name: str
) -> None:
    with connected(broker.parameters) as connection:
        connection.channel().basic_consume(queue_name, lambda *_: None)
        [name] = wait_until(
            lambda: broker.management.connections_consuming(queue_name), "the consumer shows up"
        )
        broker.management.close_connection(name, reason="enough")
        with pytest.raises(pika.exceptions.ConnectionClosedByBroker, match="enough"):
            connection.process_data_events(time_limit=60)


def test_a_deleted_queue_cancels_its_consumer(broker: Broker, queue_name: str) -> None:
    cancelled: list[object] = []
    with connected(broker.parameters) as connection:
        channel = connection.channel()
        channel.add_on_cancel_callback(cancelled.append)
        channel.basic_consume(queue_name, lambda *_: None)
        broker.management.delete_queue(queue_name)
        wait_until(
            lambda: connection.process_data_events(time_limit=0.1) or cancelled, "it is cancelled"
        )


# Queues and publishers


@pytest.mark.parametrize("kind", ["classic", "quorum", "single-active", "auto-delete"])
def test_a_filled_queue_holds_every_number_once(
    broker: Broker, queue: DeclareQueue, kind: QueueKind
) -> None:
    name = queue(kind)
    fill(broker.parameters, name, 5000, first=100, size=64)
    assert take(broker.parameters, name, 5000) == list(range(100, 5100))


def test_a_filled_stream_can_be_read_from_its_start(broker: Broker, queue: DeclareQueue) -> None:
    name = queue("stream")
    fill(broker.parameters, name, 300)
    numbers: list[int] = []
    with connected(broker.parameters) as connection:
        channel = connection.channel()
        channel.basic_qos(prefetch_count=1000)
        channel.basic_consume(
            name,
            lambda channel, method, properties, body: numbers.append(int(body)),
            arguments={"x-stream-offset": "first"},
        )
        wait_until(
            lambda: connection.process_data_events(time_limit=0.1) or len(numbers) == 300,
            "all 300 are read",
        )
    assert numbers == list(range(300))


def test_filling_a_queue_that_is_not_there_fails(broker: Broker) -> None:
    with pytest.raises(RuntimeError, match="no such queue"):
        fill(broker.parameters, "never-declared", 3)


def test_a_publisher_bursts_pauses_and_tells_how_many(broker: Broker, queue_name: str) -> None:
    with Publisher(broker.url, queue_name, [(0.2, 500), (0.3, 0)], first=7) as publisher:
        broker.management.wait_for_queue(
            queue_name, lambda queue: queue.messages_ready > 100, "a second burst came"
        )
        published = publisher.stop()
    assert take(broker.parameters, queue_name, published) == list(range(7, 7 + published))


# The network


def test_the_proxy_adds_its_round_trip(proxy: Proxy) -> None:
    # The lower bound is the claim: nothing arrives early. A busy machine may add any time, so
    # all that can be said upwards is that the delay is counted once per direction in the best of
    # very many.
    best = math.inf
    for taken, seconds in enumerate(round_trips(proxy.parameters)):
        assert seconds >= ROUND_TRIP - 2 * EARLY
        best = min(best, seconds)
        if taken >= 60 and best < 2 * ROUND_TRIP:
            break
        assert taken < 3000


def test_delay_does_not_limit_throughput(broker: Broker, queue_name: str) -> None:
    # Without pipelining, 200 ms per chunk of at most 64 KiB would take at least 40 s.
    with broker.proxied(delay=0.2) as proxy:
        start = time.monotonic()
        fill(proxy.parameters, queue_name, 800, size=16_384)
        assert time.monotonic() - start < 40
    assert take(broker.parameters, queue_name, 800) == list(range(800))


def test_a_changed_delay_holds_for_open_connections(proxy: Proxy) -> None:
    with connected(proxy.parameters) as connection:
        channel = connection.channel()
        proxy.set_delay(0.1)
        start = time.monotonic()
        channel.basic_qos(prefetch_count=1)
        assert time.monotonic() - start >= 0.2 - 2 * EARLY


def test_cut_resets_open_connections_and_accepts_new_ones(proxy: Proxy) -> None:
    connection = pika.BlockingConnection(proxy.parameters)
    assert proxy.connections() == 1
    proxy.cut()
    assert proxy.connections() == 0
    with pytest.raises(pika.exceptions.AMQPConnectionError):
        connection.process_data_events(time_limit=60)
    with connected(proxy.parameters) as again:
        assert again.is_open


def test_a_stalled_network_delivers_nothing_and_then_everything(
    broker: Broker, proxy: Proxy, queue_name: str
) -> None:
    numbers: list[int] = []
    with connected(proxy.parameters) as connection:
        channel = connection.channel()
        channel.basic_consume(
            queue_name, lambda channel, method, properties, body: numbers.append(int(body))
        )
        proxy.stall()
        fill(broker.parameters, queue_name, 1000)
        connection.process_data_events(time_limit=0.5)
        assert numbers == []
        proxy.resume()
        wait_until(
            lambda: connection.process_data_events(time_limit=0.1) or len(numbers) == 1000,
            "all 1000 arrive",
        )
    assert numbers == list(range(1000))


def test_an_orderly_close_passes_through_the_proxy(proxy: Proxy) -> None:
    connection = pika.BlockingConnection(proxy.parameters)
    connection.close()
    wait_until(lambda: proxy.connections() == 0, "both sides have closed")


def test_a_throttled_proxy_passes_what_was_allowed_and_no_more() -> None:
    with receiver() as (address, received), Proxy(address) as proxy:
        proxy.throttle(100_000)
        start = time.monotonic()
        with socket.create_connection(("127.0.0.1", proxy.port)) as client:
            client.sendall(b"x" * 50_000)
            wait_until(lambda: len(received) == 50_000, "all has arrived")
            assert time.monotonic() - start >= 0.48
            proxy.throttle(None)
            client.sendall(b"x" * 5_000_000)
            wait_until(lambda: len(received) == 5_050_000, "all has arrived")
            # At the old rate it would have taken 50 s.
            assert time.monotonic() - start < 50


def test_a_target_that_refuses_resets_the_client() -> None:
    # A port that no kernel gives away, and where nobody listens.
    with (
        Proxy(("127.0.0.1", 1)) as proxy,
        socket.create_connection(("127.0.0.1", proxy.port)) as client,
    ):
        client.settimeout(60)
        with pytest.raises(ConnectionResetError):
            client.recv(1)


@contextmanager
def receiver() -> Iterator[tuple[tuple[str, int], bytearray]]:
    """A server that takes one connection and keeps what it receives."""
    received = bytearray()
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def receive() -> None:
            connection, _ = listener.accept()
            # The proxy resets what is open when it ends.
            with connection, contextlib.suppress(ConnectionResetError):
                while data := connection.recv(1 << 16):
                    received.extend(data)

        threading.Thread(target=receive, daemon=True).start()
        yield listener.getsockname(), received


# The wire


def test_the_recording_shows_every_prefetch_a_client_asked_for(
    broker: Broker, queue_name: str
) -> None:
    with broker.proxied(record=True) as proxy:
        with connected(proxy.parameters) as connection:
            channel = connection.channel()
            channel.basic_qos(prefetch_count=5)
            channel.basic_consume(queue_name, lambda *_: None)
            channel.basic_qos(prefetch_count=20, global_qos=True)
        with connected(proxy.parameters):
            pass
        first, second = proxy.recorded()
    assert qos_calls(first) == [Qos(0, 5, False), Qos(0, 20, True)]
    assert CONSUME in [method[:2] for method in amqp_methods(first)]
    assert qos_calls(second) == []


def test_stamps_tell_which_messages_a_client_got_and_when(
    broker: Broker, queue_name: str, tmp_path: Path
) -> None:
    fill(broker.parameters, queue_name, 3, size=200_000)  # several frames each
    got: list[float] = []
    with (
        broker.proxied(delay=0.05, stamps=tmp_path) as proxy,
        connected(proxy.parameters) as connection,
    ):
        began = time.monotonic()
        channel = connection.channel()
        channel.basic_consume(queue_name, lambda *_: got.append(time.monotonic()), auto_ack=True)
        process_until(connection, lambda: len(got) == 3, "all have come")
    (chunks,) = stamped(tmp_path)
    found = list(deliveries(chunks))
    assert [int(each.body) for each in found] == [0, 1, 2]
    assert {each.routing_key for each in found} == {queue_name}
    for each, when in zip(found, got, strict=True):
        assert began + 0.05 <= each.when <= when


def test_the_parser_leaves_out_an_unfinished_frame_and_refuses_garbage() -> None:
    qos = struct.pack(">BHIHHIHBB", 1, 1, 11, 60, 10, 0, 7, 0, 0xCE)
    heartbeat = b"\x08\x00\x00\x00\x00\x00\x00\xce"
    sent = b"AMQP\x00\x00\x09\x01" + heartbeat + qos
    assert qos_calls(sent) == [Qos(0, 7, False)]
    assert amqp_methods(sent[:-1]) == []
    with pytest.raises(ValueError, match="not the end of an AMQP frame"):
        amqp_methods(sent[:-1] + b"\x00")
