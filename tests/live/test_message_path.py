"""How much of our code one message passes, from its dispatch by pika to its ack on the wire."""

from __future__ import annotations

import inspect
import sys
from pathlib import Path
from types import FrameType
from typing import Any

import pika.channel
import pytest

import controlmq
from controlmq import wrap
from controlmq.controllers import OpenLoop
from tests.testbed import Broker
from tests.testbed.publishing import fill

OURS = str(Path(inspect.getfile(controlmq)).parent)
MESSAGES = 10
SPACING_SECONDS = 0.0005
MOST_FILES = 6
MOST_CALLS = 26


class Profile:
    """Calls of our functions while pika dispatches, one list for each message acknowledged."""

    def __init__(self) -> None:
        self.paths: list[list[tuple[str, str]]] = []
        self._calls: list[tuple[str, str]] = []
        self._dispatching: FrameType | None = None
        self._acknowledged = False

    def __call__(self, frame: FrameType, event: str, argument: Any) -> None:
        code = frame.f_code
        if event == "call":
            if code.co_name == "_dispatch_events" and self._dispatching is None:
                self._dispatching, self._calls, self._acknowledged = frame, [], False
            if self._dispatching is not None and code.co_filename.startswith(OURS):
                self._calls.append((code.co_filename, code.co_qualname))
            if code is pika.channel.Channel._send_method.__code__:
                self._acknowledged = True
        elif event == "return" and frame is self._dispatching:
            self._dispatching = None
            if self._acknowledged:
                self.paths.append(self._calls)


def consume(connection: Any, queue_name: str, prefetch: float, controlled: bool) -> list[int]:
    """Start a consumer that acknowledges at once; the tags that it has handled."""
    # A sample would be none of a message's path.
    settings: dict[str, Any] = {"prefetch": prefetch, "interval": 60}
    if controlled:
        settings |= {"controller": OpenLoop([prefetch] * 9)}
    channel = wrap(connection.channel(), **settings)
    handled: list[int] = []

    def on_message(channel: Any, method: Any, properties: Any, body: bytes) -> None:
        channel.basic_ack(method.delivery_tag)
        handled.append(method.delivery_tag)

    tag = channel.basic_consume(queue_name, on_message)
    if controlled:
        # As after a sample of a busy consumer: its acks are spread.
        channel.adaptive_consumers[tag].plant.window.spacing = SPACING_SECONDS
    return handled


@pytest.mark.parametrize("controlled", [False, True], ids=["fixed", "controlled"])
def test_a_message_passes_few_files_and_calls(
    broker: Broker, connection: Any, queue_name: str, controlled: bool
) -> None:
    handled = consume(connection, queue_name, 3.0, controlled)
    profile = Profile()
    for number in range(MESSAGES):
        fill(broker.parameters, queue_name, 1, first=number)
        sys.setprofile(profile)
        try:
            while len(handled) <= number:
                connection.process_data_events(time_limit=1)
        finally:
            sys.setprofile(None)
    assert len(profile.paths) == MESSAGES, "each message was dispatched and acknowledged by itself"
    for calls in profile.paths[1:]:  # the first message is not like the others
        listed = "\n".join(f"{Path(file).name} {name}" for file, name in calls)
        assert len({file for file, _ in calls}) <= MOST_FILES, listed
        assert len(calls) <= MOST_CALLS, listed
