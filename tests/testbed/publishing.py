"""Queues of every kind, filled with numbered messages, and publishers that keep going.

Message ``n`` carries its number as text, padded with spaces: ``int(body)`` gives it back.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import pika
import pika.exceptions

from tests.testbed.management import DEADLINE, wait_until

PROGRAM = Path(__file__).with_name("publisher_process.py")

QueueKind = Literal["classic", "quorum", "single-active", "auto-delete", "stream"]

ARGUMENTS: dict[QueueKind, dict[str, object]] = {
    "classic": {},
    "quorum": {"x-queue-type": "quorum"},
    "single-active": {"x-single-active-consumer": True},
    "auto-delete": {},
    "stream": {"x-queue-type": "stream"},
}

DeclareQueue = Callable[[QueueKind], str]
"""Declares a queue of that kind and returns its name; the fixture ``queue`` is one."""

MakeMessage = Callable[[int], tuple[bytes, Any]]
"""Makes message number so-and-so: its body and its properties."""

UNCONFIRMED = 2000
"""Messages under way to the broker at once: enough to keep it busy, few enough for its memory."""


def message_body(number: int, size: int = 0) -> bytes:
    """The body of message ``number``, at least ``size`` bytes long."""
    return b"%d" % number + b" " * (size - len(str(number)))


def declare_queue(
    parameters: Any,
    kind: QueueKind = "classic",
    name: str | None = None,
    arguments: dict[str, object] | None = None,
) -> str:
    """Declare a durable queue, with a name of its own if none is given, and return the name.

    ``arguments`` are further ones.
    """
    name = name or f"{kind}-{uuid.uuid4().hex[:12]}"
    with connected(parameters) as connection:
        connection.channel().queue_declare(
            name,
            durable=True,
            auto_delete=kind == "auto-delete",
            arguments={**ARGUMENTS[kind], **(arguments or {})},
        )
    return name


def delete_queue(parameters: Any, name: str) -> None:
    """Delete a queue; one that is gone already is fine."""
    with connected(parameters) as connection:
        connection.channel().queue_delete(name)


@contextmanager
def declared_queue(
    parameters: Any, kind: QueueKind = "classic", arguments: dict[str, object] | None = None
) -> Iterator[str]:
    """A queue for the length of a ``with`` block; ``arguments`` are further ones."""
    name = declare_queue(parameters, kind, arguments=arguments)
    try:
        yield name
    finally:
        delete_queue(parameters, name)


@contextmanager
def connected(parameters: Any) -> Iterator[Any]:
    """A ``BlockingConnection`` for the length of a ``with`` block."""
    connection = pika.BlockingConnection(parameters)
    try:
        yield connection
    finally:
        with contextlib.suppress(pika.exceptions.AMQPError):
            connection.close()


def process_until(
    connection: Any, condition: Callable[[], object], what: str, deadline: float = DEADLINE
) -> None:
    """Have a ``BlockingConnection`` process its events until ``condition`` is true."""
    wait_until(
        lambda: connection.process_data_events(0.02) or condition(), what, deadline, pause=0.0
    )


def fill(
    parameters: Any,
    queue: str,
    count: int,
    first: int = 0,
    size: int = 0,
    make: MakeMessage | None = None,
) -> None:
    """Publish messages ``first`` to ``first + count - 1``, persistent, and await every confirm.

    ``size`` is the least length of a body in bytes; ``make`` makes other messages than the usual.
    """
    properties = pika.BasicProperties(delivery_mode=2)
    if count > 0:
        numbers = range(first, first + count)
        usual: MakeMessage = lambda number: (message_body(number, size), properties)  # noqa: E731
        _Filling(parameters, queue, numbers, make or usual).run()


class _Filling:
    """One :func:`fill`: confirms come while publishing, which a ``BlockingChannel`` cannot do."""

    def __init__(self, parameters: Any, queue: str, numbers: range, make: MakeMessage) -> None:
        self._queue = queue
        self._make = make
        self._count = len(numbers)
        # Delivery tags count from 1 on a channel that confirms.
        self._messages = enumerate(numbers, start=1)
        self._unconfirmed: dict[int, int] = {}
        self._published = 0
        self._failure: str | None = None
        self._connection = pika.SelectConnection(
            parameters,
            on_open_callback=lambda connection: connection.channel(on_open_callback=self._begin),
            on_open_error_callback=lambda connection, error: self._on_close(error),
            on_close_callback=lambda connection, reason: self._on_close(reason),
        )

    def run(self) -> None:
        self._connection.ioloop.start()
        confirmed = self._published - len(self._unconfirmed)
        if self._failure is not None or confirmed < self._count:
            raise RuntimeError(
                f"filling {self._queue} ended after {confirmed} of {self._count} messages: "
                f"{self._failure or self._reason}"
            )

    def _begin(self, channel: Any) -> None:
        self._channel = channel
        channel.add_on_return_callback(lambda *_: self._end("there is no such queue"))
        channel.confirm_delivery(self._on_confirm, callback=lambda frame: self._publish())

    def _publish(self) -> None:
        while len(self._unconfirmed) < UNCONFIRMED:
            tag, number = next(self._messages, (0, 0))
            if tag == 0:
                return
            body, properties = self._make(number)
            self._channel.basic_publish("", self._queue, body, properties, mandatory=True)
            self._unconfirmed[tag] = number
            self._published += 1

    def _on_confirm(self, frame: Any) -> None:
        confirm = frame.method
        if isinstance(confirm, pika.spec.Basic.Nack):
            return self._end("the broker refused a message")
        if confirm.multiple:
            # Tags were put in ascending, and a dict keeps that order.
            for tag in list(self._unconfirmed):
                if tag > confirm.delivery_tag:
                    break
                del self._unconfirmed[tag]
        else:
            del self._unconfirmed[confirm.delivery_tag]
        if len(self._unconfirmed) < UNCONFIRMED // 2:
            self._publish()
        if not self._unconfirmed:
            self._end(None)
        return None

    def _end(self, failure: str | None) -> None:
        self._failure = self._failure or failure
        if self._connection.is_open:
            self._connection.close()

    def _on_close(self, reason: object) -> None:
        self._reason = reason
        self._connection.ioloop.stop()


class Publisher:
    """A publisher in a process of its own, for as long as a ``with`` block.

    ``phases`` are pairs of seconds and messages/second, gone through again and again: a rate
    of 0 is a pause, a high one a burst. Messages are numbered from ``first``, persistent.
    """

    def __init__(
        self,
        url: str,
        queue: str,
        phases: Sequence[tuple[float, float]],
        first: int = 0,
        size: int = 0,
    ) -> None:
        if not any(seconds > 0 for seconds, _ in phases):
            raise ValueError(f"phases are {phases!r}; at least one has to last.")
        order = {"url": url, "queue": queue, "phases": phases, "first": first, "size": size}
        self._published: int | None = None
        self._process = subprocess.Popen(
            [sys.executable, str(PROGRAM), json.dumps(order)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
            text=True,
        )
        assert self._process.stdout is not None
        if self._process.stdout.readline() != "publishing\n":
            self._process.wait()
            raise RuntimeError("the publisher process ended before it published; see its output.")

    def stop(self) -> int:
        """Stop and return how many messages were published, all of them taken by the broker."""
        if self._published is None:
            # Closing its standard input asks the process to end.
            output, _ = self._process.communicate(timeout=120)
            if self._process.returncode != 0:
                raise RuntimeError("the publisher process failed; see its output.")
            self._published = int(output)
        return self._published

    def __enter__(self) -> Publisher:
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self.stop()
        finally:
            self._process.kill()
            self._process.wait()
