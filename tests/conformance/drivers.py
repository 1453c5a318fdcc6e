"""The clients under test: how each is run, which messages it takes, and what it promises."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import pika

from tests.faults.trial import Bench
from tests.testbed.publishing import MakeMessage, message_body

PROGRAM = "tests.conformance.program"


def plain_message(number: int) -> tuple[bytes, Any]:
    """A message whose body is its number, with an id."""
    return message_body(number), pika.BasicProperties(delivery_mode=2, message_id=f"m{number}")


def dramatiq_message(number: int) -> tuple[bytes, Any]:
    """A message for the actor ``handle``."""
    body = {
        "queue_name": "",  # the program puts the name of its queue there
        "actor_name": "handle",
        "args": [number],
        "kwargs": {},
        "options": {},
        "message_id": f"m{number}",
        "message_timestamp": 0,
    }
    return json.dumps(body).encode(), pika.BasicProperties(delivery_mode=2)


def taskiq_message(number: int) -> tuple[bytes, Any]:
    """A message for the task ``handle``."""
    body = {
        "task_id": f"m{number}",
        "task_name": "handle",
        "labels": {},
        "labels_types": {},
        "args": [number],
        "kwargs": {},
    }
    headers = {"task_id": f"m{number}", "task_name": "handle"}
    return json.dumps(body).encode(), pika.BasicProperties(delivery_mode=2, headers=headers)


@dataclass(frozen=True)
class Driver:
    """One client, as a program in a process of its own.

    ``run`` is ``module:function`` below ``tests.conformance.programs``; the function gets a
    :class:`tests.conformance.program.Program` and consumes until that says to stop.

    ``in_order``: handlers begin in the order of the queue. ``knows_handled``: after a reconnect of
    the same process, a message that was handled is not handled again.
    """

    name: str
    run: str
    make: MakeMessage = plain_message
    in_order: bool = True
    knows_handled: bool = False
    handlers: int = 4
    """Messages that it works on at once where handlers are what limits it."""
    says_handlers: bool = True
    """Whether the consumer has to be given that number."""
    further_queues: tuple[str, ...] = ()
    """What the client adds to the name of its queue for others that it declares."""

    def bench(self, **further: Any) -> Bench:
        """What a trial needs to know of it."""
        return Bench(PROGRAM, self.make, {"run": self.run, **further})


DRIVERS = (
    Driver("pika blocking", "pika_clients:run_blocking", handlers=1),
    Driver("pika select", "pika_clients:run_select", handlers=1),
    Driver("pika asyncio", "pika_clients:run_asyncio", handlers=1),
    Driver("aio-pika callbacks", "aio_pika_clients:run_callbacks", knows_handled=True),
    Driver("aio-pika iterator", "aio_pika_clients:run_iterator", handlers=1, knows_handled=True),
    Driver("Dramatiq", "dramatiq_client:run", dramatiq_message, in_order=False, knows_handled=True),
    Driver("FastStream", "faststream_client:run", in_order=False, knows_handled=True),
    Driver("taskiq", "taskiq_client:run", taskiq_message, knows_handled=True),
)

BY_NAME = {driver.name: driver for driver in DRIVERS}
