"""A service: what it does without its connection, and what becomes of messages that fail."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from pika.exceptions import AMQPError

from controlmq.clients.health import Health
from controlmq.clients.pika import dispatching, service
from controlmq.clients.pika.dispatching import (
    KEEPS_COMING_BACK_DELIVERIES,
    LAST_ANSWERS_SECONDS,
    LEAST_SECONDS_OF_ALL_TRIES,
    MOST_TRIES,
    Dispatcher,
    Failures,
)
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
    dispatcher.drain(channel, "stopping")
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


class Answers:
    """A channel that notes what becomes of a message, and whose timers fire at once."""

    is_open = True
    consumer_tags = ("mine",)

    def __init__(self) -> None:
        self.given: list[str] = []
        self.parked = 0
        self.connection = SimpleNamespace(
            call_later=lambda delay, call: call(), process_data_events=lambda _: None
        )

    def give_back_due(self) -> None:
        pass

    def park(self, tag: int) -> None:
        self.parked += 1

    def unpark(self, tag: int) -> None:
        self.parked -= 1

    def basic_ack(self, tag: int) -> None:
        self.given.append("ack")

    def basic_nack(self, tag: int, requeue: bool) -> None:
        self.given.append("back")

    def basic_reject(self, tag: int, requeue: bool) -> None:
        self.given.append("rejected")


def failing() -> Dispatcher:
    """Gives back what fails, and its handler fails with everything."""

    def handle(body: bytes, properties: Any) -> None:
        raise ValueError(body)

    return Dispatcher(handle, Stop(), Health(), on_error="requeue", grace=60)


def answer_to(
    dispatcher: Dispatcher,
    body: bytes,
    *,
    redelivered: bool,
    message_id: str | None = None,
    count: int = 0,
) -> str:
    """What becomes of a message whose handler fails."""
    channel = Answers()
    headers = {"x-delivery-count": count} if count else None
    properties = SimpleNamespace(message_id=message_id, headers=headers)
    method = SimpleNamespace(delivery_tag=1, redelivered=redelivered)
    dispatcher(channel, method, properties, body)
    (given,) = channel.given
    assert channel.parked == 0
    return given


@pytest.fixture
def time(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time, which passes only where a test says so."""
    now = [0.0]
    monkeypatch.setattr(dispatching, "clock", lambda: now[0])
    return now


@pytest.mark.parametrize("message_id", [None, "order-7"])
def test_a_message_is_rejected_when_it_has_failed_too_often(
    message_id: str | None, time: list[float]
) -> None:
    dispatcher = failing()
    answers = []
    for number in range(MOST_TRIES):
        answers.append(answer_to(dispatcher, b"7", redelivered=number > 0, message_id=message_id))
        time[0] += 1 + LEAST_SECONDS_OF_ALL_TRIES / MOST_TRIES
    assert answers == ["back"] * (MOST_TRIES - 1) + ["rejected"]


def test_messages_without_an_id_and_with_the_same_body_are_not_rejected_together(
    time: list[float],
) -> None:
    dispatcher = failing()
    for attempt in range(3):
        time[0] += 1
        answers = [answer_to(dispatcher, b"7", redelivered=attempt > 0) for _ in range(20)]
        assert answers == ["back"] * 20


def test_what_a_quorum_queue_counts_bounds_how_often_a_message_has_failed(
    time: list[float],
) -> None:
    dispatcher = failing()
    time[0] = 10 * LEAST_SECONDS_OF_ALL_TRIES
    for attempt in range(MOST_TRIES - 1):
        answers = {
            answer_to(dispatcher, b"7", redelivered=attempt > 0, count=attempt) for _ in range(20)
        }
        assert answers == {"back"}
    assert answer_to(dispatcher, b"7", redelivered=True, count=MOST_TRIES - 1) == "rejected"


@pytest.mark.parametrize("message_id", [None, "order-7"])
def test_what_was_handled_or_rejected_counts_from_the_start_when_it_fails_again(
    message_id: str | None, time: list[float]
) -> None:
    answers = iter([ValueError()] * 5 + [None] + [ValueError()] * MOST_TRIES * 2)

    def handle(body: bytes, properties: Any) -> None:
        error = next(answers)
        if error is not None:
            raise error

    dispatcher = Dispatcher(handle, Stop(), Health(), on_error="requeue", grace=60)
    given = []
    for _ in range(5 + 1 + 2 * MOST_TRIES):
        given.append(answer_to(dispatcher, b"7", redelivered=True, message_id=message_id))
        time[0] += 1 + LEAST_SECONDS_OF_ALL_TRIES / MOST_TRIES
    in_vain = ["back"] * (MOST_TRIES - 1) + ["rejected"]
    assert given == ["back"] * 5 + ["ack"] + in_vain * 2
    assert not dispatcher._failures._failed


def test_the_log_says_which_try_has_failed(caplog: pytest.LogCaptureFixture) -> None:
    dispatcher = failing()
    for number in range(MOST_TRIES):
        answer_to(dispatcher, b"7", redelivered=number > 0, message_id="order-7")
    said = [record.getMessage() for record in caplog.records]
    assert all(f"try {number + 1} of {MOST_TRIES}" in each for number, each in enumerate(said))
    assert "dead-letter exchange" in said[-1]


def test_pauses_grow_with_the_tries_of_each_message() -> None:
    failures = Failures()

    def failed(message_id: str, *, redelivered: bool) -> tuple[int, float]:
        properties = SimpleNamespace(message_id=message_id, headers=None)
        method = SimpleNamespace(redelivered=redelivered)
        return failures.add(Job(None, method, properties, b""), 0.0)

    one = [failed("one", redelivered=number > 0)[1] for number in range(8)]
    limits = [1, 2, 4, 8, 16, 30, 30, 30]
    assert all(limit / 2 <= pause <= limit for pause, limit in zip(one, limits, strict=True))
    tries, pause = failed("another", redelivered=True)
    assert (tries, pause <= 1) == (1, True)


@pytest.mark.parametrize("message_id", [None, "order-7"])
def test_a_message_that_was_delivered_before_and_never_failed_is_not_rejected(
    message_id: str | None,
) -> None:
    dispatcher = failing()
    assert answer_to(dispatcher, b"8", redelivered=False) == "back"
    # As after a lost connection, or a stop of the consumer before.
    assert answer_to(dispatcher, b"7", redelivered=True, message_id=message_id, count=3) == "back"


def test_a_further_message_with_the_same_body_is_not_rejected() -> None:
    dispatcher = failing()
    assert [answer_to(dispatcher, b"7", redelivered=False) for _ in range(2)] == ["back"] * 2


def test_a_message_that_keeps_coming_back_is_rejected_in_a_process_that_has_not_seen_it() -> None:
    count = KEEPS_COMING_BACK_DELIVERIES
    assert answer_to(failing(), b"7", redelivered=True, count=count - 1) == "back"
    assert answer_to(failing(), b"7", redelivered=True, count=count) == "rejected"


class KeptChannel:
    """A channel that consumes until its consumer is cancelled, while timers fire."""

    is_open = True

    def __init__(self, connection: Connection) -> None:
        self.consumer_tags = ["mine"]
        self.connection = connection

    def start_consuming(self) -> None:
        while self.consumer_tags:
            self.connection.go_round()

    def stop_consuming(self) -> None:
        self.consumer_tags.clear()
        self.connection.events.append("consumer cancelled")

    def close(self) -> None:
        self.connection.events.append("channel closed")


class Connection(Loop):
    def __init__(self, events: list[str]) -> None:
        super().__init__()
        self.events, self.is_open, self._impl = events, True, self
        self.rounds = 0

    def go_round(self) -> None:
        super().go_round()
        self.rounds += 1

    def call_later(self, delay: float, call: Callable[[], None]) -> None:
        self.timers.append(call)

    def close(self) -> None:
        self.events.append("connection closed")


class KeepingService(Service):
    """In the fifth round the broker keeps messages of the first consumer; the tenth is the last."""

    def __init__(self, **settings: Any) -> None:
        self.events: list[str] = []
        super().__init__(["amqp://localhost"], "orders", lambda body, properties: None, **settings)

    def _connect(self) -> Any:
        return Connection(self.events)

    def _subscribe(self, connection: Any) -> Any:
        first = self._consumer is None
        plant = SimpleNamespace(stuck=False, pending=None)
        self._consumer = SimpleNamespace(plant=plant)  # type: ignore[assignment]
        self.events.append("subscribed")

        def happen() -> None:
            if first and connection.rounds == 5:
                plant.stuck = True
            if connection.rounds == 10:
                self.stop.ask()
            connection.call_later(0, happen)

        happen()
        return KeptChannel(connection)

    def _wait(self, why: str) -> None:
        self.events.append(why)


@pytest.fixture
def any_queue(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service, "check_queue", lambda connection, queue: 0)


@pytest.mark.usefixtures("any_queue")
def test_a_service_connects_again_where_the_broker_keeps_messages() -> None:
    keeping = KeepingService()
    keeping.run()
    once = ["subscribed", "consumer cancelled", "channel closed"]
    why = "the broker keeps messages of the consumer until its channel is closed"
    assert keeping.events == [*once, "connection closed", why, *once, "connection closed"]


@pytest.mark.usefixtures("any_queue")
def test_a_service_that_must_not_connect_again_goes_on() -> None:
    keeping = KeepingService(reconnect=False)
    keeping.run()
    once = ["subscribed", "consumer cancelled", "channel closed"]
    assert keeping.events == [*once, "connection closed"]
