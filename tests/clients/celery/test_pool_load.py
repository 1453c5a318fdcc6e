"""What the tasks of each queue take of a worker's pool."""

from __future__ import annotations

import pytest

from controlmq.clients.celery import pool_load
from controlmq.clients.celery.pool_load import PoolLoad


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
    waiting.gone()
    now = 3.0
    assert (waiting.totals().waiting, waiting.totals().waited) == (1.0, 0.0)
    assert waiting.totals().in_line == 0
