"""What the tasks of each queue take of a worker's pool."""

from __future__ import annotations

import sys
import threading

import pytest

from controlmq.clients.celery import pool_load
from controlmq.clients.celery.pool_load import PoolLoad, QueueLoad


def test_tasks_of_all_queues_start_in_the_order_in_which_they_came(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = 0.0
    monkeypatch.setattr(pool_load, "clock", lambda: now)
    pool = PoolLoad(lambda: 2)
    first, second = pool.queue(), pool.queue()
    for queue in (first, second, second, first):
        queue.come()
    now = 5.0
    first.gone()
    now = 7.0
    second.gone()
    now = 8.0
    second.gone()
    first.gone()
    of_first, of_second = first.totals(), second.totals()
    assert (of_first.ran, of_first.ended, of_first.waited) == (5.0 + 1.0, 2, 7.0)
    assert (of_second.ran, of_second.ended, of_second.waited) == (7.0 + 3.0, 2, 5.0)
    assert (of_first.running, of_first.waiting, of_first.in_line) == (6.0, 7.0, 0)


def test_a_task_that_is_put_aside_waits_no_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr(pool_load, "clock", lambda: now)
    pool = PoolLoad(lambda: 1)
    running, waiting = pool.queue(), pool.queue()
    running.come()
    waiting.come()
    now = 1.0
    waiting.put_aside()
    now = 3.0
    assert (waiting.totals().waiting, waiting.totals().waited) == (1.0, 0.0)
    assert waiting.totals().in_line == 0


@pytest.mark.parametrize("processes", [1, 2], ids=["all busy", "one free"])
def test_tasks_that_are_put_aside_end_none_of_those_that_run(
    monkeypatch: pytest.MonkeyPatch, processes: int
) -> None:
    now = 0.0
    monkeypatch.setattr(pool_load, "clock", lambda: now)
    load = PoolLoad(lambda: processes).queue()
    load.come()
    for second in range(60):
        now = float(second)
        load.come()
        load.put_aside()
    assert (load.totals().ran, load.totals().ended, load.totals().waited) == (0.0, 0, 0.0)
    now = 60.0
    load.gone()
    done = load.totals()
    assert (done.ran, done.ended, done.running, done.in_line) == (60.0, 1, 60.0, 0)


def test_a_task_put_aside_leaves_its_process_to_the_next_one() -> None:
    pool = PoolLoad(lambda: 1)
    first, second = pool.queue(), pool.queue()
    first.come()
    second.come()
    first.put_aside()
    assert (second.totals().in_line, len(second.running_since)) == (0, 1)


def test_tasks_of_a_lost_connection_count_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr(pool_load, "clock", lambda: now)
    pool = PoolLoad(lambda: 1)
    lost = pool.queue()
    lost.come()
    lost.come()
    pool.forget_all()
    load = pool.queue()
    for _ in range(2):
        load.come()
    for answer in (lost.come, lost.put_aside, lost.gone):
        answer()
        assert [each for each, _ in pool.waiting] == [load]
    now = 2.0
    load.gone()
    load.gone()
    assert (load.totals().ran, load.totals().ended, load.totals().waited) == (2.0, 2, 2.0)


def test_a_task_of_a_lost_connection_ends_while_the_next_one_brings_others() -> None:
    pool = PoolLoad(lambda: 4)
    failed: list[BaseException] = []
    ended = threading.Event()

    def end_tasks(loads: list[QueueLoad]) -> None:
        try:
            while not ended.is_set():
                for load in loads:
                    load.gone()
                    load.put_aside()
        except BaseException as error:
            failed.append(error)

    usual = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        threads = []
        for _ in range(20):
            loads = [pool.queue() for _ in range(2)]
            for load in loads:
                for _ in range(100):
                    load.come()
            # The old connection's tasks end in a thread, while this one goes on with the next.
            threads.append(threading.Thread(target=end_tasks, args=(loads,)))
            threads[-1].start()
            pool.forget_all()
            for _ in range(2):
                load = pool.queue()
                for _ in range(100):
                    load.come()
                for _ in range(100):
                    load.gone()
                assert (load.totals().ended, load.totals().in_line) == (100, 0)
                assert not load.running_since
        assert not pool.waiting
    finally:
        ended.set()
        for thread in threads:
            thread.join()
        sys.setswitchinterval(usual)
    assert failed == []
