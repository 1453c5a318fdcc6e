"""A pool of threads that tells waiting apart from working."""

from __future__ import annotations

import asyncio
import threading
from contextvars import copy_context

import pytest

from controlmq import InputError, WorkerPool
from controlmq.clients import pool as pool_module
from controlmq.clients.celery.pool_load import PoolLoad, QueueLoad
from controlmq.clients.settings import Settings
from controlmq.consumer.handler_pool import PoolTotals
from controlmq.consumer.pool_sensors import PoolSensors


class Clock:
    """A clock that stands still until it is moved."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_waiting_and_running_are_added_up_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    monkeypatch.setattr(pool_module, "clock", clock)
    started, go_on = threading.Semaphore(0), threading.Semaphore(0)

    def handle() -> None:
        started.release()
        assert go_on.acquire(timeout=10)

    with WorkerPool(2) as pool:
        futures = [pool.submit(handle) for _ in range(3)]
        for _ in range(2):
            assert started.acquire(timeout=10)
        clock.now = 1.0  # two run, one waits
        go_on.release()
        assert started.acquire(timeout=10)
        clock.now = 3.0  # the third runs beside one of the first two
        go_on.release(2)
        for future in futures:
            future.result(timeout=10)
    assert pool.totals().running == pytest.approx(2 * 1.0 + 2 * 2.0)
    assert pool.totals().waiting == pytest.approx(1.0)
    assert pool.size == 2


def test_what_is_cancelled_waits_no_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    monkeypatch.setattr(pool_module, "clock", clock)
    go_on = threading.Event()
    with WorkerPool(1) as pool:
        pool.submit(go_on.wait, 10)
        waiting = pool.submit(print)
        clock.now = 1.0
        assert waiting.cancel()
        before = pool.totals().waiting
        clock.now = 2.0
        assert pool.totals().waiting == before
        go_on.set()


class Started:
    """Work that a test ends when it likes."""

    def __init__(self, pool: WorkerPool) -> None:
        self._begun, self._go_on = threading.Event(), threading.Event()
        self._future = pool.submit(self._work)

    def _work(self) -> None:
        self._begun.set()
        assert self._go_on.wait(10)

    def begin(self) -> None:
        assert self._begun.wait(10)

    def end(self) -> None:
        self._go_on.set()
        self._future.result(10)


def test_consumers_that_share_a_pool_each_sense_their_own_messages(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = Clock()
    monkeypatch.setattr(pool_module, "clock", clock)
    with WorkerPool(2) as pool:
        quick, slow = (PoolSensors(0.0, 10.0, pool.part()) for _ in range(2))
        works = []
        for sensors in (quick, slow, quick, slow):  # two run, and one of each waits
            sensors.released(1, 0, 0.0)
            sensors.delivered(0.0, 0)
            works.append(Started(pool))
            sensors.active_at, sensors.in_call = 0.0, False
            if len(works) <= 2:
                works[-1].begin()
        for now, sensors, ends, begins in (
            (1.0, quick, 0, 2),
            (2.0, quick, 2, 3),
            (4.0, slow, 1, None),
            (5.0, slow, 3, None),
        ):
            clock.now = now
            works[ends].end()
            if begins is not None:
                works[begins].begin()
            sensors.reopened(now)
        clock.now = 10.0
        of_quick, of_slow = quick.close(10.0, 2.0), slow.close(10.0, 2.0)
    assert (of_quick.arrivals, of_slow.arrivals) == (2, 2)
    assert of_quick.handler_time == pytest.approx(1.0)
    assert of_quick.buffer_time == pytest.approx(0.5)  # of 0 and 1 seconds
    assert of_slow.handler_time == pytest.approx(3.5)  # of 4 and 3 seconds
    assert of_slow.buffer_time == pytest.approx(1.0)  # of 0 and 2 seconds
    # Of 20 seconds of threads, the other consumer had 7 and 2.
    assert of_quick.busy == pytest.approx(2.0 / 13.0)
    assert of_slow.busy == pytest.approx(7.0 / 18.0)


def test_a_task_submits_for_the_consumer_in_whose_callback_it_was_made() -> None:
    async def program(pool: WorkerPool) -> list[int]:
        first, second = pool.part(), pool.part()
        works = []

        async def handle() -> None:
            works.append(Started(pool))

        async with asyncio.TaskGroup() as tasks:
            for part in (first, second, first):
                part.calling()
                tasks.create_task(handle())
        for work in works:
            work.end()
        return [each.totals().ended for each in (first, second)]

    with WorkerPool(3) as pool:
        assert copy_context().run(asyncio.run, program(pool)) == [2, 1]


def test_what_is_submitted_outside_of_callbacks_is_of_the_consumer_there_is() -> None:
    with WorkerPool(1) as pool:
        part = pool.part()
        copy_context().run(Started, pool).end()
        assert part.totals().ended == 1


def test_every_consumer_has_its_own_part_of_a_shared_pool() -> None:
    with WorkerPool(1) as pool:
        settings = Settings(handlers=pool)
        first, second = (settings.shape(None, None).handlers for _ in range(2))
        assert first is not second


@pytest.mark.parametrize("handlers", [0, -1, 2.5, 8.0, True, "8", [4]])
def test_a_number_of_handlers_is_a_whole_one(handlers: object) -> None:
    with pytest.raises(InputError, match=r"handlers is .*; give how many"):
        Settings(handlers=handlers)  # type: ignore[arg-type]


class OnlyParts:
    """A pool of the user's that has nothing but parts for consumers."""

    def __init__(self) -> None:
        self.pool = PoolLoad(lambda: 2)

    def part(self) -> QueueLoad:
        return self.pool.queue()


class WithoutCalling:
    """A pool of the user's as they had to be before consumers shared any."""

    size = 2

    def totals(self) -> PoolTotals:
        return OnlyParts().part().totals()


def test_handlers_are_a_number_or_a_pool() -> None:
    with WorkerPool(2) as pool:
        assert Settings(handlers=pool).handlers is pool
        assert Settings(handlers=pool.part())
    assert Settings(handlers=8).handlers == 8
    assert isinstance(Settings(handlers=OnlyParts()).shape(None, None).handlers, QueueLoad)


def test_a_pool_that_cannot_be_told_of_a_message_is_refused_at_once() -> None:
    with pytest.raises(InputError, match=r"handlers is .*; give how many"):
        Settings(handlers=WithoutCalling())  # type: ignore[arg-type]
