"""The clients under test: how each is run, which messages it takes, and what it promises."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

import pika

from tests.faults.trial import Bench
from tests.testbed.publishing import MakeMessage, message_body

PROGRAM = "tests.conformance.program"
CELERY_PROGRAM = "tests.conformance.celery_program"


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


def celery_message(number: int) -> tuple[bytes, Any]:
    """A message for the task ``handle``, in Celery's second protocol."""
    body = [[number], {}, {"callbacks": None, "errbacks": None, "chain": None, "chord": None}]
    properties = pika.BasicProperties(
        delivery_mode=2,
        content_type="application/json",
        content_encoding="utf-8",
        correlation_id=f"m{number}",
        headers={"lang": "py", "task": "handle", "id": f"m{number}", "retries": 0},
    )
    return json.dumps(body).encode(), properties


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
    reports_within: float = 0.0
    """Seconds in which a handler in another process says that it is done: until then it runs, as
    far as the client knows. Such a client has ``handlers`` of them, with one message each."""
    repeated_at_stop: int = 0
    """Messages that an orderly stop may run again by the client's own doing."""
    lost_at_kill: int = 0
    """Messages that a kill may lose by the client's own doing: acknowledged, and not done."""
    says_handlers: bool = True
    """Whether the consumer has to be given that number."""
    further_queues: tuple[str, ...] = ()
    """What the client adds to the name of its queue for others that it declares."""
    program: str = PROGRAM
    order: dict[str, Any] = field(default_factory=dict)
    """What its program needs to know in every trial."""

    def bench(self, **further: Any) -> Bench:
        """What a trial needs to know of it."""
        return Bench(self.program, self.make, {"run": self.run, **self.order, **further})


def celery_driver(
    pool: str, handlers: int = 4, in_order: bool = False, early: bool = False
) -> Driver:
    """Celery with one of its pools; ``early`` acks are its default, and late ones ours."""
    return Driver(
        f"Celery {pool}, early acks" if early else f"Celery {pool}",
        "celery_client:run",
        celery_message,
        in_order=in_order,
        knows_handled=True,
        handlers=handlers,
        reports_within=0.5 if pool == "prefork" else 0.0,
        # When it stops, the prefork pool forgets a task of each process that has not said yet that
        # it began, and the broker delivers that again, without a window too.
        repeated_at_stop=handlers if pool == "prefork" else 0,
        lost_at_kill=handlers if early else 0,
        says_handlers=False,
        program=CELERY_PROGRAM,
        order={"pool": pool, "handlers": handlers, "early": early},
    )


DRIVERS = (
    Driver("pika blocking", "pika_clients:run_blocking", handlers=1, knows_handled=True),
    Driver("pika select", "pika_clients:run_select", handlers=1, knows_handled=True),
    Driver("pika asyncio", "pika_clients:run_asyncio", handlers=1, knows_handled=True),
    Driver("aio-pika callbacks", "aio_pika_clients:run_callbacks", knows_handled=True),
    Driver("aio-pika iterator", "aio_pika_clients:run_iterator", handlers=1, knows_handled=True),
    celery_driver("prefork"),
    celery_driver("threads"),
    celery_driver("gevent"),
    celery_driver("eventlet"),
    celery_driver("solo", handlers=1, in_order=True),
    celery_driver("prefork", early=True),
    Driver(
        "Dramatiq",
        "dramatiq_client:run",
        dramatiq_message,
        in_order=False,
        knows_handled=True,
        says_handlers=False,  # they are the worker's threads
    ),
    Driver("FastStream", "faststream_client:run", in_order=False, knows_handled=True),
    Driver("taskiq", "taskiq_client:run", taskiq_message, knows_handled=True),
)

BY_NAME = {driver.name: driver for driver in DRIVERS}
