"""RabbitMQ in a container, where a Docker engine answers."""

from __future__ import annotations

from typing import Any

from tests.testbed.broker import Broker, BrokerError, wait_until_open
from tests.testbed.management import wait_until
from tests.testbed.node import free_ports

IMAGE = "rabbitmq:4.1-management"
"""The one that is pulled where no version was chosen."""

AMQP, MANAGEMENT = 5672, 15672
"""Ports inside the container."""

AS_THE_SERVER = 'PATH="/usr/lib/rabbitmq/bin:$PATH" exec "$0" "$@"'
"""Debian's scripts of that name in ``PATH`` switch users. Other images have no such folder."""

START_DEADLINE = 120.0
"""Seconds for the broker in a started container to accept connections."""


def docker_answers() -> bool:
    """Whether testcontainers is installed and has a Docker engine to talk to."""
    try:
        from testcontainers.core.docker_client import DockerClient
    except ImportError:
        return False
    try:
        return bool(DockerClient(timeout=5).client.ping())
    except Exception:
        # No socket, no rights, no route, no context: whichever it is, there is no engine to use.
        return False


class ContainerBroker(Broker):
    """A broker in a container of its own, removed at the end (by testcontainers' reaper if
    we do not get to it).

    The host ports are fixed at the start: Docker would pick others at each restart.
    """

    def __init__(self, image: str = IMAGE) -> None:
        amqp, management = free_ports(2)
        self._container = _container(image).with_bind_ports(AMQP, amqp)
        self._container.with_bind_ports(MANAGEMENT, management)
        # As for a private node: counts that a test can wait for.
        self._container.with_env(
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS",
            "-rabbit collect_statistics_interval 500 -rabbit quorum_tick_interval 500",
        )
        self._container.start()
        host = self._container.get_container_host_ip()
        super().__init__(
            f"amqp://guest:guest@{host}:{amqp}/%2F", f"http://guest:guest@{host}:{management}"
        )
        self._wait_until_ready()

    def kill(self) -> None:
        """``docker kill``: SIGKILL to the broker; its files stay."""
        self._container.get_wrapped_container().kill()

    def stop(self) -> None:
        """``docker stop``: an orderly shutdown; its files stay."""
        self._container.get_wrapped_container().stop(timeout=30)

    def restart(self) -> None:
        """``docker start`` of the same container."""
        container = self._container.get_wrapped_container()
        container.reload()
        if container.status == "running":
            container.kill()
        container.start()
        self._wait_until_ready()

    def control(self, script: str, *words: str) -> str:
        """``docker exec``, as the user that the server runs as."""
        container = self._container.get_wrapped_container()
        code, output = container.exec_run(["/bin/sh", "-c", AS_THE_SERVER, script, *words])
        if code != 0:
            raise BrokerError(f"{script} {' '.join(words)}: {output.decode()}")
        return str(output.decode())

    def _wait_until_ready(self) -> None:
        wait_until_open(self, START_DEADLINE)
        wait_until(self.management.answers, "the HTTP API answers", START_DEADLINE)

    def close(self) -> None:
        """Remove the container and its volumes."""
        self._container.stop()


def _container(image: str) -> Any:
    # Moved in testcontainers 4.14; the old place warns.
    try:
        from testcontainers.community.rabbitmq import RabbitMqContainer
    except ImportError:
        from testcontainers.rabbitmq import RabbitMqContainer
    return RabbitMqContainer(image)
