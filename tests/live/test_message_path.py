"""How much of our code one message passes, from its delivery to pika to its ack on the wire."""

from __future__ import annotations

import inspect
import sys
from pathlib import Path
from types import FrameType
from typing import Any

import pika
import pika.channel
import pytest

import controlmq
from controlmq import wrap
from controlmq.clients.pika.blocking import AdaptiveBlockingChannel
from controlmq.controllers import OpenLoop
from tests.testbed import Broker
from tests.testbed.publishing import fill, message_body

OURS = str(Path(inspect.getfile(controlmq)).parent)
MESSAGES = 10
SPACING_SECONDS = 0.0005
PREFETCH = 3.0
MOST_FILES = 6
MOST_CALLS = 26
MOST_FILES_WITH_ID = 7
MOST_CALLS_WITH_ID = 33
"""The seventh file, ``handled.py``, remembers which messages with an id were handled."""

MOST_FILES_BOUNDED = 9
MOST_CALLS_BOUNDED = 52
"""The further three: ``hand_over_gate.py``, where the message waits for its token,
``delivery_tags.py``, where it counts as out only once it is handed over, and ``bucket.py``, of
which the message takes a token, and the ack that opens its slot again another."""

PLAIN = pika.BasicProperties()
WITH_ID = pika.BasicProperties(message_id="order 1")


class Profile:
    """Calls of our functions from a delivery to the next send, one list for each message."""

    def __init__(self) -> None:
        self.paths: list[list[tuple[str, str]]] = []
        self._calls: list[tuple[str, str]] | None = None
        """Of the message that is here and not acknowledged; None if there is none."""

    def __call__(self, frame: FrameType, event: str, argument: Any) -> None:
        code = frame.f_code
        if event != "call":
            return
        if code is AdaptiveBlockingChannel._on_consumer_message_delivery.__code__:
            self._calls = []
        if self._calls is None:
            return
        if code.co_filename.startswith(OURS):
            self._calls.append((code.co_filename, code.co_qualname))
        elif code is pika.channel.Channel._send_method.__code__:
            self.paths.append(self._calls)
            self._calls = None


def consume(connection: Any, queue_name: str, controlled: bool, **settings: Any) -> list[int]:
    """Start a consumer that acknowledges at once; the tags that it has handled."""
    if controlled:
        settings |= {"controller": OpenLoop([PREFETCH] * 9)}
    # A sample would be none of a message's path.
    channel = wrap(connection.channel(), prefetch=PREFETCH, interval=60, **settings)
    handled: list[int] = []

    def on_message(channel: Any, method: Any, properties: Any, body: bytes) -> None:
        channel.basic_ack(method.delivery_tag)
        handled.append(method.delivery_tag)

    tag = channel.basic_consume(queue_name, on_message)
    if controlled:
        # As after a sample of a busy consumer: its acks are spread.
        channel.adaptive_consumers[tag].plant.window.spacing = SPACING_SECONDS
    return handled


def paths(
    broker: Broker, connection: Any, queue_name: str, properties: Any, handled: list[int]
) -> list[list[tuple[str, str]]]:
    """The calls of messages that are published and handled one after the other."""
    profile = Profile()

    def make(number: int) -> tuple[bytes, pika.BasicProperties]:
        return message_body(number), properties

    for number in range(MESSAGES):
        fill(broker.parameters, queue_name, 1, first=number, make=make)
        sys.setprofile(profile)
        try:
            while len(handled) <= number:
                connection.process_data_events(time_limit=1)
        finally:
            sys.setprofile(None)
    assert len(profile.paths) == MESSAGES, "each message came and was acknowledged by itself"
    return profile.paths[1:]  # the first message is not like the others


def assert_few(paths: list[list[tuple[str, str]]], most_files: int, most_calls: int) -> None:
    for calls in paths:
        listed = "\n".join(f"{Path(file).name} {name}" for file, name in calls)
        assert len({file for file, _ in calls}) <= most_files, listed
        assert len(calls) <= most_calls, listed


@pytest.mark.parametrize("controlled", [False, True], ids=["fixed", "controlled"])
@pytest.mark.parametrize(
    ("properties", "most_files", "most_calls"),
    [(PLAIN, MOST_FILES, MOST_CALLS), (WITH_ID, MOST_FILES_WITH_ID, MOST_CALLS_WITH_ID)],
    ids=["without an id", "with an id"],
)
def test_a_message_passes_few_files_and_calls(
    broker: Broker,
    connection: Any,
    queue_name: str,
    controlled: bool,
    properties: pika.BasicProperties,
    most_files: int,
    most_calls: int,
) -> None:
    handled = consume(connection, queue_name, controlled)
    assert_few(paths(broker, connection, queue_name, properties, handled), most_files, most_calls)


def test_a_message_of_a_bounded_rate_passes_a_few_more_files_and_twice_the_calls(
    broker: Broker, connection: Any, queue_name: str
) -> None:
    handled = consume(connection, queue_name, False, at_most=1000)
    few = paths(broker, connection, queue_name, PLAIN, handled)
    assert_few(few, MOST_FILES_BOUNDED, MOST_CALLS_BOUNDED)
