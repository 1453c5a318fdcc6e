"""Tasks that were handled before a connection was lost."""

from __future__ import annotations

import celery

from controlmq.clients.celery.handled_tasks import HandledTasks, TaskKey, task_key
from controlmq.clients.handled import MOST_REMEMBERED, REDELIVERY_SECONDS, REMEMBERED_SECONDS

FIRST = TaskKey("a", 0)


def test_what_was_acknowledged_before_a_loss_is_known_once() -> None:
    tasks = HandledTasks(longest_hold=10.0)
    tasks.acknowledged(FIRST, 0.0)
    assert not tasks.has(FIRST, 1.0), "nothing was lost yet"
    tasks.connection_lost(2.0)
    assert not tasks.has(TaskKey("a", 1), 3.0), "a retry is another message"
    assert tasks.has(FIRST, 3.0)
    assert not tasks.has(FIRST, 3.0), "a later message with the same id runs"


def test_a_task_is_known_however_late_celery_notices_the_loss() -> None:
    conf = celery.Celery().conf
    # py-amqp gives up after two heartbeats. Celery looks that often for what came, and for the end.
    noticed = (
        2 * conf.broker_heartbeat + 2 * conf.broker_heartbeat / conf.broker_heartbeat_checkrate
    )
    tasks = HandledTasks(longest_hold=0.0)
    tasks.acknowledged(FIRST, 0.0)
    tasks.acknowledged(TaskKey("b", 0), noticed - 1.0)
    tasks.connection_lost(noticed)
    assert tasks.has(FIRST, noticed + 1.0)


def test_what_ended_after_the_loss_is_known_too() -> None:
    tasks = HandledTasks(longest_hold=10.0)
    tasks.connection_lost(0.0)
    tasks.acknowledged_too_late(FIRST, 1.0)
    assert tasks.has(FIRST, 2.0)


def test_old_tasks_are_forgotten() -> None:
    tasks = HandledTasks(longest_hold=10.0)
    tasks.acknowledged(FIRST, 0.0)
    later = TaskKey("b", 0)
    tasks.acknowledged(later, REMEMBERED_SECONDS + 11.0)
    tasks.connection_lost(REMEMBERED_SECONDS + 12.0)
    assert not tasks.has(FIRST, REMEMBERED_SECONDS + 13.0)
    assert not tasks.has(later, REMEMBERED_SECONDS + 13.0 + REDELIVERY_SECONDS)


def test_there_is_a_bound_on_what_is_remembered() -> None:
    tasks = HandledTasks(longest_hold=10.0)
    for number in range(MOST_REMEMBERED + 1):
        tasks.acknowledged(TaskKey(str(number), 0), 0.0)
    tasks.connection_lost(0.0)
    assert not tasks.has(TaskKey("0", 0), 1.0)
    assert tasks.has(TaskKey("1", 0), 1.0)


def test_a_task_that_is_acknowledged_again_is_among_the_last() -> None:
    tasks = HandledTasks(longest_hold=10.0)
    tasks.acknowledged(FIRST, 0.0)
    for number in range(MOST_REMEMBERED - 1):
        tasks.acknowledged(TaskKey(str(number), 0), 0.0)
    tasks.acknowledged(FIRST, 0.0)
    tasks.acknowledged(TaskKey("b", 0), 0.0)
    tasks.connection_lost(0.0)
    assert tasks.has(FIRST, 1.0)
    assert not tasks.has(TaskKey("0", 0), 1.0)


def test_a_message_without_an_id_has_no_key() -> None:
    assert task_key({}, b"") is None
    assert task_key({"id": ["a"], "task": "mail"}, b"") is None
    assert task_key({"id": "", "task": "mail"}, b"") is None


def test_a_retry_or_another_task_with_the_same_id_is_another_message() -> None:
    first = task_key({"id": "a", "task": "mail", "retries": None}, b"[1]")
    assert first == task_key({"id": "a", "task": "mail", "retries": 0}, "[1]")
    assert first != task_key({"id": "a", "task": "mail", "retries": 1}, b"[1]")
    assert first != task_key({"id": "a", "task": "mail"}, b"[2]")
    # As Task.replace sends it: with the id of the task whose place it takes.
    assert first != task_key({"id": "a", "task": "print"}, b"[1]")
