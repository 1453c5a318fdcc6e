"""Stopping: nothing is delivered to a lane that is about to go, and nothing acknowledged is lost.

A message that goes back to a quorum queue counts as one more delivery, and is gone at the limit of
its queue. Where every slot is filled, so that nothing is on its way, a stop adds at most one.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from controlmq.clients.pika.wrap import wrap
from tests.live.processes import Notes, command, ended, running, wait_for
from tests.testbed import Broker
from tests.testbed.publishing import connected, declared_queue, fill

SLOTS = (5, 10, 15, 20)
"""The prefetch as it grows: each step is one more lane."""

STOPS = 3
COUNT = 100


@pytest.fixture
def limited_queue(broker: Broker) -> Iterator[str]:
    """A quorum queue that drops a message when it has gone back ``STOPS + 1`` times."""
    with declared_queue(broker.parameters, "quorum", {"x-delivery-limit": STOPS}) as name:
        yield name


def delivery_count(properties: Any) -> int:
    return int((properties.headers or {}).get("x-delivery-count") or 0)


def wait_until_full(broker: Broker, queue: str) -> None:
    broker.management.wait_for_queue(
        queue, lambda view: view.messages_unacknowledged == SLOTS[-1], "every slot is filled"
    )


def handle_the_rest(broker: Broker, queue: str) -> list[int]:
    """The numbers of all messages that are left."""
    numbers = []
    with connected(broker.parameters) as connection:
        channel = connection.channel()
        broker.management.wait_for_queue(
            queue, lambda view: view.messages_unacknowledged == 0, "all went back"
        )
        while (got := channel.basic_get(queue))[0] is not None:
            numbers.append(int(got[2]))
            channel.basic_ack(got[0].delivery_tag)
    return numbers


def by_stop_consuming(channel: Any) -> None:
    channel.stop_consuming()


def by_basic_cancel(channel: Any) -> None:
    channel.basic_cancel("mine")


def by_closing_the_channel(channel: Any) -> None:
    channel.close()


def by_closing_the_connection(channel: Any) -> None:
    channel.connection.close()


class Growing:
    """Takes messages and answers none until there are four lanes; then it answers all of them."""

    def __init__(self, stops: int) -> None:
        self.handled: list[int] = []
        self._stops = stops
        self._unanswered: list[int] = []

    def take(self, channel: Any, method: Any, properties: Any, body: bytes) -> bool:
        """Whether the window has grown, so that this message is one too many."""
        assert delivery_count(properties) <= self._stops
        if len(self.handled) == SLOTS[-1]:
            return True
        self.handled.append(int(body))
        self._unanswered.append(method.delivery_tag)
        taken = len(self.handled)
        if taken == SLOTS[-1]:
            for tag in self._unanswered:
                channel.basic_ack(tag)
        elif taken in SLOTS:
            channel.adaptive_consumers["mine"].prefetch = SLOTS[SLOTS.index(taken) + 1]
        return False


@pytest.mark.parametrize(
    "stop",
    [by_stop_consuming, by_basic_cancel, by_closing_the_channel, by_closing_the_connection],
    ids=lambda way: way.__name__,
)
def test_a_stop_adds_one_delivery_at_most(
    broker: Broker, limited_queue: str, stop: Callable[[Any], None]
) -> None:
    fill(broker.parameters, limited_queue, COUNT)
    handled: list[int] = []
    for stops in range(STOPS):
        growing = Growing(stops)

        def on_message(
            channel: Any, method: Any, properties: Any, body: bytes, growing: Growing = growing
        ) -> None:
            if growing.take(channel, method, properties, body):
                wait_until_full(broker, limited_queue)
                stop(channel)
                if channel.is_open:
                    channel.basic_nack(method.delivery_tag)

        with connected(broker.parameters) as connection:
            channel = wrap(connection.channel(), prefetch=SLOTS[0], window="lanes", interval=60)
            channel.basic_consume(limited_queue, on_message, consumer_tag="mine")
            channel.start_consuming()
        handled += growing.handled
    handled += handle_the_rest(broker, limited_queue)
    assert sorted(handled) == list(range(COUNT))


def test_the_end_of_a_consume_loop_adds_one_delivery_at_most(
    broker: Broker, limited_queue: str
) -> None:
    fill(broker.parameters, limited_queue, COUNT)
    handled: list[int] = []
    for stops in range(STOPS):
        growing = Growing(stops)
        with connected(broker.parameters) as connection:
            channel = wrap(connection.channel(), prefetch=SLOTS[0], window="lanes", interval=60)
            for method, properties, body in channel.consume(limited_queue, consumer_tag="mine"):
                if growing.take(channel, method, properties, body):
                    break
            wait_until_full(broker, limited_queue)
            channel.cancel()
            channel.basic_nack(method.delivery_tag)
        handled += growing.handled
    handled += handle_the_rest(broker, limited_queue)
    assert sorted(handled) == list(range(COUNT))


@pytest.mark.parametrize(
    ("workers", "slots"), [("1", (40,)), ("4", (10, 20, 30, 40))], ids=["one lane", "four lanes"]
)
def test_a_service_that_is_stopped_and_started_again_and_again_drops_nothing(
    broker: Broker, limited_queue: str, tmp_path: Path, workers: str, slots: tuple[int, ...]
) -> None:
    fill(broker.parameters, limited_queue, COUNT)
    notes, go, switch = Notes(tmp_path), tmp_path / "go", tmp_path / "off"
    handler = notes.handler("while not (folder / 'go').exists(): time.sleep(0.01)")
    words = ["run", "--queue", limited_queue, "--goal", "1000", "--interval", "0.1"]
    words += ["--window", "lanes", "--workers", workers, "--handler", handler]

    def is_full(prefetch: int, lanes: int) -> bool:
        view = broker.management.queue(limited_queue)
        if view is None:
            return False
        return (view.messages_unacknowledged, len(view.consumers)) == (prefetch, lanes)

    for _ in range(STOPS):
        go.unlink(missing_ok=True)
        switch.write_text(str(slots[0]))
        process = command(*words, url=broker.url, cwd=tmp_path, CONTROLMQ_OFF_FILE=str(switch))
        with running(process):
            for lanes, prefetch in enumerate(slots, start=1):
                # The kill switch moves the prefetch to what the test wants.
                switch.write_text(str(prefetch))
                wait_for(process, lambda: is_full(prefetch, lanes), "every slot is filled")  # noqa: B023
            process.send_signal(signal.SIGINT)
            broker.management.wait_for_queue(
                limited_queue, lambda view: not view.consumers, "its lanes are cancelled"
            )
            go.touch()
            code, errors = ended(process)
        assert code == 0, errors
        assert sorted(notes.handled) == sorted(notes.begun)
    assert len(notes.handled) == STOPS * int(workers)
    assert sorted(notes.handled + handle_the_rest(broker, limited_queue)) == list(range(COUNT))
