"""The broker under the tests: whichever real RabbitMQ this machine can offer."""

from __future__ import annotations

import atexit
import contextlib
import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pika
import pika.exceptions

from tests.testbed.management import Management
from tests.testbed.proxy import Proxy

AMQP_URL = "CONTROLMQ_TEST_AMQP_URL"
MANAGEMENT_URL = "CONTROLMQ_TEST_MANAGEMENT_URL"
CHOSEN_BROKER = "CONTROLMQ_TEST_BROKER"
"""A version, for a private node of it, or ``container:`` and a version."""
CONTAINER = "container:"

QUORUM_QUEUE_KEPT = 5.0
"""Seconds after which a new quorum queue survives a kill, on a busy machine too.

Measured on RabbitMQ 3.10.8, one node: killed right after its first messages were confirmed, a
new quorum queue came back without a leader in 4 of 4 tries and answered a consume after a minute
with 541 (rabbitmq-server#10070 looks the same); 1 to 8 seconds old, 8 of 8 came back whole.
Classic queues killed as early came back whole.
"""

NOTHING_TO_START = (
    "No RabbitMQ to test against. Do one of these: "
    "`apt-get install rabbitmq-server` (a private node is started from it, the system service is "
    "left alone); start a Docker engine and `pip install testcontainers`; "
    f"or set {AMQP_URL}=amqp://user:password@host:5672/%2F "
    f"(and {MANAGEMENT_URL}=http://user:password@host:15672)."
)


class BrokerError(RuntimeError):
    """The broker could not be started, or cannot do what the test asks of it."""


class Broker:
    """A running RabbitMQ: where to connect, and its own view of queues and connections.

    ``url`` and ``parameters`` say the same, for those who take either. A broker given by
    URL belongs to someone else, so it can be used but not killed, stopped or restarted.
    """

    def __init__(self, url: str, management_url: str) -> None:
        self.url = url
        self.management = Management(management_url)

    @property
    def parameters(self) -> Any:
        """Fresh ``pika.URLParameters``; change them freely."""
        return pika.URLParameters(self.url)

    @property
    def address(self) -> tuple[str, int]:
        """Host and port of the AMQP listener."""
        parameters = self.parameters
        return parameters.host, parameters.port

    @cached_property
    def version(self) -> tuple[int, ...]:
        """The broker's version, as ``(4, 3, 6)``."""
        given: str = self.management.get("/overview")["rabbitmq_version"]
        return tuple(int(part) for part in given.split(".") if part.isdigit())

    def answers(self) -> bool:
        """Whether an AMQP connection can be opened now."""
        parameters = self.parameters
        parameters.socket_timeout = parameters.stack_timeout = 20
        with contextlib.suppress(pika.exceptions.AMQPError, OSError):
            # A plain connect first: pika logs a page of errors for a port that is closed.
            socket.create_connection(self.address, timeout=20).close()
            pika.BlockingConnection(parameters).close()
            return True
        return False

    def proxied(
        self, delay: float = 0.0, record: bool = False, stamps: Path | None = None
    ) -> Proxy:
        """A :class:`Proxy` to this broker that delays each direction by ``delay`` seconds."""
        return Proxy(self.address, delay, record, self.parameters, stamps)

    def kill(self) -> None:
        """End the broker as kill -9 does: no goodbye to anyone, nothing written any more.

        A quorum queue has to be :data:`QUORUM_QUEUE_KEPT` seconds old to survive it.
        """
        raise BrokerError(f"the broker in {AMQP_URL} is not ours to kill; use a disposable one.")

    def stop(self) -> None:
        """Shut the broker down in order; clients are told (``320 CONNECTION_FORCED``)."""
        raise BrokerError(f"the broker in {AMQP_URL} is not ours to stop; use a disposable one.")

    def restart(self) -> None:
        """Start again on the same data and ports, after :meth:`kill` or :meth:`stop`."""
        raise BrokerError(f"the broker in {AMQP_URL} is not ours to restart.")

    def control(self, script: str, *words: str) -> str:
        """What a script of the server, such as ``rabbitmqctl``, prints about this broker."""
        raise BrokerError(f"the broker in {AMQP_URL} is not ours to control; use a disposable one.")

    def close(self) -> None:
        """End the broker and remove its data. Closing twice is fine."""


@contextmanager
def start_broker(disposable: bool = False) -> Iterator[Broker]:
    """A broker for the length of a ``with`` block.

    The one in ``CONTROLMQ_TEST_AMQP_URL`` if given, else the one that ``CONTROLMQ_TEST_BROKER``
    names, else a container if a Docker engine answers, else a private node of the installed
    rabbitmq-server. With ``disposable`` it is never the one given by URL, so that it may be
    killed and restarted. If there is nothing to start, :class:`BrokerError` says what to install.
    """
    broker = _choose(disposable)
    atexit.register(broker.close)
    try:
        yield broker
    finally:
        broker.close()
        atexit.unregister(broker.close)


def _choose(disposable: bool) -> Broker:
    # Imported here: both modules build on Broker.
    from tests.testbed.container import ContainerBroker, docker_answers
    from tests.testbed.installation import installed, made_by, server_of
    from tests.testbed.node import NodeBroker

    url = os.environ.get(AMQP_URL)
    if url and not disposable:
        broker = Broker(url, os.environ.get(MANAGEMENT_URL) or _usual_management_url(url))
        wait_until_open(broker, deadline=60)
        return broker
    if chosen := os.environ.get(CHOSEN_BROKER):
        if chosen.startswith(CONTAINER):
            image = made_by("rabbitmq-image", chosen.removeprefix(CONTAINER))
            return ContainerBroker(image)
        return NodeBroker(server_of(chosen))
    if docker_answers():
        return ContainerBroker()
    installation = installed()
    if installation is None:
        raise BrokerError(NOTHING_TO_START)
    return NodeBroker(installation)


def _usual_management_url(amqp_url: str) -> str:
    parameters = pika.URLParameters(amqp_url)
    user = quote(parameters.credentials.username, safe="")
    password = quote(parameters.credentials.password, safe="")
    return f"http://{user}:{password}@{parameters.host}:15672"


def wait_until_open(broker: Broker, deadline: float) -> None:
    """Return once the broker answers; :class:`BrokerError` after ``deadline`` seconds."""
    until = time.monotonic() + deadline
    while not broker.answers():
        if time.monotonic() > until:
            raise BrokerError(f"no broker answers at {broker.address} in {deadline:g} s.")
        time.sleep(0.1)
