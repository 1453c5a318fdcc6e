"""A service without its connection: what it does when it is to stop, and how long that may take."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from pika.exceptions import AMQPError

from controlmq.clients.health import Health
from controlmq.clients.pika.dispatching import LAST_ANSWERS_SECONDS, Dispatcher
from controlmq.clients.pika.service import Service, UnfinishedError
from controlmq.clients.stopping import Stop
from controlmq.clients.workers import Job
from tests.testbed import wait_until


class LosingService(Service):
    """Loses its connection while a handler is at work, and is asked to stop before the next."""

    def __init__(self, handler: Callable[[bytes, Any], object], **settings: Any) -> None:
        super().__init__(["amqp://localhost"], "orders", handler, prefetch=1, **settings)
        self.begun = threading.Event()

    def _connect(self) -> Any:
        return None

    def _consume(self, connection: Any) -> None:
        self._consumer = SimpleNamespace(plant=SimpleNamespace(pending=None))  # type: ignore[assignment]
        job = Job(SimpleNamespace(is_open=False), None, None, b"")
        self._dispatcher._out.add(job)
        self._dispatcher._workers.submit(job)
        assert self.begun.wait(60)
        self._dispatcher.forget()
        raise AMQPError("lost")

    def _wait(self, why: str) -> None:
        self.stop.ask()


@pytest.fixture
def stopping() -> Iterator[threading.Event]:
    """Lets handlers finish, at the end of the test at the latest."""
    event = threading.Event()
    yield event
    event.set()


def test_a_stop_without_a_connection_waits_for_handlers_at_work(stopping: threading.Event) -> None:
    health = Health()
    finished: list[bytes] = []

    def handle(body: bytes, properties: Any) -> None:
        service.begun.set()
        stopping.wait(60)
        finished.append(body)

    def let_it_finish() -> None:
        wait_until(lambda: health.trouble() == "stopping", "it waits for its handlers")
        stopping.set()

    service = LosingService(handle, health=health, grace=60)
    other = threading.Thread(target=let_it_finish, daemon=True)
    other.start()
    service.run()
    assert finished == [b""]


def test_a_stop_without_a_connection_waits_no_longer_than_the_grace(
    stopping: threading.Event,
) -> None:
    def handle(body: bytes, properties: Any) -> None:
        service.begun.set()
        stopping.wait(60)

    service = LosingService(handle, grace=0)
    with pytest.raises(UnfinishedError, match="1 of the handlers were still at work after 0 s"):
        service.run()


class Channel:
    """A channel whose consumer is asked to stop while it waits for a handler."""

    is_open = True
    consumer_tags = ("mine",)

    def __init__(self, stop: Stop) -> None:
        self.given_back: list[int] = []
        self.connection = SimpleNamespace(process_data_events=lambda _: stop.ask())

    def stop_consuming(self) -> None:
        self.consumer_tags = ()

    def give_back_due(self) -> None:
        pass

    def basic_nack(self, tag: int, requeue: bool) -> None:
        self.given_back.append(tag)


def test_what_waits_behind_a_message_of_a_lost_connection_goes_back(
    stopping: threading.Event,
) -> None:
    begun = threading.Event()

    def handle(body: bytes, properties: Any) -> None:
        begun.set()
        stopping.wait(60)

    stop = Stop()
    dispatcher = Dispatcher(handle, stop, Health(), grace=60)
    dispatcher._workers.submit(Job(SimpleNamespace(is_open=False), None, None, b""))
    assert begun.wait(60)
    channel = Channel(stop)
    dispatcher(channel, SimpleNamespace(delivery_tag=7), None, b"")
    dispatcher.drain(channel)
    assert channel.given_back == [7]
    dispatcher.end()


class Loop:
    """The loop inside a blocking connection, with a clock that a test moves."""

    def __init__(self) -> None:
        self.timers: list[Callable[[], None]] = []
        self.ended_by: Exception | None = None
        self.ioloop = SimpleNamespace(call_later=lambda delay, call: self.timers.append(call))

    def _terminate_stream(self, error: Exception) -> None:
        self.ended_by = error

    def go_round(self) -> None:
        timers, self.timers = self.timers, []
        for timer in timers:
            timer()


def test_a_broker_that_does_not_answer_bounds_a_stop_from_the_first_moment_on() -> None:
    stop, loop = Stop(), Loop()
    dispatcher = Dispatcher(lambda body, properties: None, stop, Health(), grace=3)
    dispatcher.bound_stop(SimpleNamespace(_impl=loop))
    loop.go_round()
    stop.ask()
    assert stop.since is not None
    loop.go_round()
    assert loop.ended_by is None
    stop.since -= 3 + LAST_ANSWERS_SECONDS
    loop.go_round()
    assert str(loop.ended_by) == "the broker did not answer within 8 s"
    assert loop.timers == []
    dispatcher.end()
