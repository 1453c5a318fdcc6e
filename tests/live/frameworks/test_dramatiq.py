"""Dramatiq on a real broker: what it does by itself, it still does with a window."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import dramatiq
import pytest
from dramatiq.middleware import TimeLimitExceeded
from dramatiq.worker import Worker

from controlmq.clients.dramatiq import AdaptiveRabbitmqBroker
from controlmq.errors import InputError
from tests.sharing.processes import most_in
from tests.testbed import Broker, wait_until
from tests.testbed.publishing import connected, delete_queue


class Bench:
    """A broker of Dramatiq with one queue, and a worker for it."""

    def __init__(self, url: str, **words: Any) -> None:
        self.queue = f"dramatiq-{uuid.uuid4().hex[:12]}"
        self.broker = AdaptiveRabbitmqBroker(url=url, **words)
        self.seen: list[Any] = []
        self._lock = threading.Lock()

    def actor(self, function: Callable[..., Any], **options: Any) -> Any:
        return dramatiq.actor(function, broker=self.broker, queue_name=self.queue, **options)

    def see(self, what: Any) -> None:
        with self._lock:
            self.seen.append(what)

    @contextmanager
    def worker(self, threads: int = 4) -> Iterator[Worker]:
        self.broker.emit_after("process_boot")  # as the command does, for time limits
        worker = Worker(self.broker, worker_threads=threads, worker_timeout=100)
        worker.start()
        try:
            yield worker
        finally:
            worker.stop()

    def counts(self) -> tuple[int, int, int]:
        """Messages that wait in the queue, in its delay queue and in its dead-letter queue."""
        found: tuple[int, int, int] = self.broker.get_queue_message_counts(self.queue)
        return found


@pytest.fixture
def bench(broker: Broker) -> Iterator[Callable[..., Bench]]:
    made: list[Bench] = []

    def make(**words: Any) -> Bench:
        made.append(Bench(broker.url, **words))
        return made[-1]

    yield make
    for each in made:
        each.broker.close()
        for suffix in ("", ".DQ", ".XQ"):
            delete_queue(broker.parameters, each.queue + suffix)


def test_retries_delays_and_dead_letters(bench: Callable[..., Bench]) -> None:
    mine = bench(interval=0.05)

    def fails(number: int) -> None:
        mine.see(number)
        raise ValueError("on purpose")

    failing = mine.actor(fails, max_retries=2, min_backoff=10, max_backoff=20)
    delayed = mine.actor(mine.see, actor_name="delayed")
    with mine.worker():
        failing.send(1)
        delayed.send_with_options(args=("later",), delay=300)
        wait_until(lambda: mine.seen.count(1) == 3, "the message was tried three times")
        wait_until(lambda: "later" in mine.seen, "the delayed message was handled")
        wait_until(lambda: mine.counts() == (0, 0, 1), "the failed message is a dead letter")
        assert mine.queue in mine.broker.adaptive_consumers
        assert f"{mine.queue}.DQ" not in mine.broker.adaptive_consumers, "delays stay plain"
    assert mine.seen.count(1) == 3


def test_a_time_limit_ends_a_message(bench: Callable[..., Bench]) -> None:
    mine = bench(at_most=1000)

    def slow() -> None:
        try:
            while True:
                time.sleep(0.01)
        except TimeLimitExceeded:
            mine.see("ended")
            raise

    actor = mine.actor(slow, time_limit=200, max_retries=0)
    with mine.worker():
        actor.send()
        wait_until(lambda: mine.seen == ["ended"], "its time is over")
        wait_until(lambda: mine.counts() == (0, 0, 1), "it is a dead letter")


def test_the_worker_takes_a_prefetch_from_any_thread_and_gives_back_what_it_held(
    broker: Broker, bench: Callable[..., Bench]
) -> None:
    mine = bench(prefetch=12, interval=0.05)
    actor = mine.actor(mine.see, actor_name="see")
    for number in range(300):
        actor.send(number)
    with mine.worker():
        wait_until(lambda: mine.queue in mine.broker.adaptive_consumers, "it consumes")
        consumer = mine.broker.adaptive_consumers[mine.queue]
        consumer.prefetch = 0.5
        wait_until(lambda: consumer.held > 3 or len(mine.seen) == 300, "acks are held")
    assert len(mine.seen) == len(set(mine.seen))
    wait_until(lambda: mine.counts()[0] == 300 - len(mine.seen), "all others are in the queue")


def test_messages_wait_for_threads_about_as_long_as_is_wanted(bench: Callable[..., Bench]) -> None:
    mine = bench(buffer_time=0.1, interval=0.2)
    actor = mine.actor(lambda number: time.sleep(0.01), actor_name="sleep")
    for number in range(4000):
        actor.send(number)
    with mine.worker(threads=2):
        wait_until(lambda: mine.queue in mine.broker.adaptive_consumers, "it consumes")
        consumer = mine.broker.adaptive_consumers[mine.queue]

        def held() -> bool:
            step = consumer.last
            return step is not None and 0.05 < step.sample.buffer_time < 0.2

        wait_until(held, "messages wait for about 0.1 s")
        assert consumer.last is not None
        assert consumer.last.sample.handlers == 2


def test_what_was_handled_is_not_run_again_after_a_lost_connection(
    broker: Broker, bench: Callable[..., Bench]
) -> None:
    mine = bench(prefetch=16)

    def work(number: int) -> None:
        time.sleep(0.01)
        mine.see(number)

    actor = mine.actor(work)
    for number in range(200):
        actor.send(number)
    with mine.worker(threads=2):
        wait_until(lambda: mine.queue in mine.broker.adaptive_consumers, "it consumes")
        first = mine.broker.adaptive_consumers[mine.queue]
        first.prefetch = 0.2
        wait_until(lambda: first.held > 5, "acks are held")
        names = wait_until(
            lambda: broker.management.connections_consuming(mine.queue), "the connection is seen"
        )
        for name in names:
            broker.management.close_connection(name)
        wait_until(
            lambda: mine.broker.adaptive_consumers[mine.queue] is not first, "it consumes again"
        )
        assert mine.broker.adaptive_consumers[mine.queue].prefetch == 0.2, "where it was"
        mine.broker.adaptive_consumers[mine.queue].prefetch = 20
        wait_until(lambda: set(mine.seen) == set(range(200)), "all are handled")
        wait_until(lambda: mine.counts()[0] == 0, "none is left")
    assert len(mine.seen) <= 200 + 2, "at most what was running came twice"


def test_a_bound_on_the_rate_goes_on_after_a_lost_connection(
    broker: Broker, bench: Callable[..., Bench]
) -> None:
    mine = bench(at_most="5/minute", burst=2)
    actor = mine.actor(mine.see, actor_name="see")
    for number in range(20):
        actor.send(number)
    since = time.monotonic()
    with mine.worker():
        wait_until(lambda: len(mine.seen) >= 2, "its burst is handled")
        names = wait_until(
            lambda: broker.management.connections_consuming(mine.queue), "the connection is seen"
        )
        for name in names:
            broker.management.close_connection(name)
        wait_until(
            lambda: set(broker.management.connections_consuming(mine.queue)) - set(names),
            "it consumes again",
        )
        time.sleep(1)
    assert len(mine.seen) <= 2 + (time.monotonic() - since) * 5 / 60


def test_a_message_with_an_old_id_that_another_consumer_gave_back_is_handled(
    broker: Broker, bench: Callable[..., Bench]
) -> None:
    mine = bench(prefetch=4)
    message = mine.actor(mine.see, actor_name="see").message("once")
    mine.broker.enqueue(message)
    with mine.worker():
        wait_until(lambda: mine.seen == ["once"], "it is handled")
    wait_until(lambda: mine.counts() == (0, 0, 0), "the queue is empty")
    mine.broker.enqueue(message)
    with connected(broker.parameters) as connection:
        channel = connection.channel()
        method = wait_until(lambda: channel.basic_get(mine.queue)[0], "it is there again")
        channel.basic_nack(method.delivery_tag, requeue=True)
    with mine.worker():
        wait_until(lambda: mine.seen == ["once", "once"], "it is handled again")


def test_two_workers_share_a_rate(bench: Callable[..., Bench]) -> None:
    one, other = (bench(at_most=100, shared="dramatiq") for _ in range(2))
    times: list[float] = []
    for each in (one, other):
        actor = each.actor(lambda number: times.append(time.monotonic()), actor_name="note")
        for number in range(200):
            actor.send(number)
    with one.worker(), other.worker():
        shares = [lambda each=each: each.broker.adaptive_consumers for each in (one, other)]
        wait_until(lambda: all(consumers() for consumers in shares), "both consume")
        both = [each.broker.adaptive_consumers[each.queue].shared for each in (one, other)]
        wait_until(lambda: min(shared.share for shared in both) > 40, "both have a share")
        assert sum(shared.share for shared in both) <= 100
        wait_until(lambda: len(times) == 400, "all are handled")
    assert most_in(sorted(times), 1.0) <= 105


def test_a_word_that_makes_no_sense_is_refused_before_anything_runs() -> None:
    with pytest.raises(InputError, match="at_most"):
        AdaptiveRabbitmqBroker(url="amqp://localhost", goal=5, at_most=3)
