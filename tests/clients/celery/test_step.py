"""What the step of a worker notes of its tasks."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

from controlmq.clients.celery.channel import AdaptiveChannel, Note
from controlmq.clients.celery.handled_tasks import HandledTasks, TaskKey
from controlmq.clients.celery.step import _noting_acks
from controlmq.clients.channel_runner import clock

TASK = TaskKey("mail", 0)


class Message:
    """A message of Celery's, whose ack never reaches the channel."""

    delivery_tag = 7

    def __init__(self, channel: Any) -> None:
        self.channel = channel

    def ack_log_error(self) -> None:
        raise AssertionError


def channel_with_task(handled: HandledTasks) -> AdaptiveChannel:
    channel: Any = AdaptiveChannel.__new__(AdaptiveChannel)
    channel.window_lock = threading.RLock()
    channel.worker = SimpleNamespace(handled=handled)
    channel.runner = SimpleNamespace(stopped=False)
    channel.connection = object()
    channel._notes = {Message.delivery_tag: Note(TASK, True, None)}
    adaptive: AdaptiveChannel = channel
    return adaptive


def test_a_task_is_not_run_again_whose_ack_an_event_loop_has_dropped() -> None:
    handled = HandledTasks(longest_hold=10.0)
    message = Message(channel_with_task(handled))
    dropped: list[Any] = []
    _noting_acks(dropped.append)(message.ack_log_error)
    assert dropped == [message.ack_log_error]
    handled.connection_lost(clock())
    assert handled.has(TASK, clock())
