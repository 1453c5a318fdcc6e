"""A pool of threads that tells waiting apart from working."""

from __future__ import annotations

import threading

import pytest

from controlmq import InputError, WorkerPool
from controlmq.clients import pool as pool_module
from controlmq.clients.settings import Settings


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


@pytest.mark.parametrize("handlers", [0, -1, 2.5, 8.0, True, "8", [4]])
def test_a_number_of_handlers_is_a_whole_one(handlers: object) -> None:
    with pytest.raises(InputError, match=r"handlers is .*; give how many"):
        Settings(handlers=handlers)  # type: ignore[arg-type]


def test_handlers_are_a_number_or_a_pool() -> None:
    with WorkerPool(2) as pool:
        assert Settings(handlers=pool).handlers is pool
    assert Settings(handlers=8).handlers == 8
