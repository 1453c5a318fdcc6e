"""Faults of a cluster, and a quorum queue to have them under."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any

from tests.testbed.cluster import Cluster
from tests.testbed.management import wait_until
from tests.testbed.node import NodeBroker
from tests.testbed.publishing import connected, fill

DISCONNECTED_TIMEOUT_MS = 1000

LEADER_DEADLINE = 150.0
"""Seconds for the election of a leader."""


def quorum_queue(leader: NodeBroker, count: int) -> str:
    """A quorum queue on all nodes of a cluster that this one leads, with ``count`` messages."""
    name = f"quorum-{uuid.uuid4().hex[:12]}"
    arguments: dict[str, Any] = {"x-queue-type": "quorum"}
    arguments["x-queue-leader-locator"] = "client-local"
    # RabbitMQ 4.3 keeps what is in flight at a node that vanishes for a minute; older ones do not.
    arguments["x-consumer-disconnected-timeout"] = DISCONNECTED_TIMEOUT_MS
    with connected(leader.parameters) as connection:
        connection.channel().queue_declare(name, durable=True, arguments=arguments)
    fill(leader.parameters, name, count)
    return name


def fill_after_fault(node: NodeBroker, queue: str, first: int, count: int) -> None:
    """Publish more once the queue takes messages again: without a leader it refuses them."""

    def takes_one() -> bool:
        try:
            fill(node.parameters, queue, 1, first=first)
        except RuntimeError:
            return False
        return True

    wait_until(takes_one, f"{queue} has a leader again", LEADER_DEADLINE)
    fill(node.parameters, queue, count - 1, first=first + 1)


Fault = Callable[[Cluster, NodeBroker, NodeBroker], None]
"""What happens to a cluster, given the leader and the node that the consumers are connected to."""


def leader_killed(cluster: Cluster, leader: NodeBroker, connected_to: NodeBroker) -> None:
    leader.kill()


def leader_stopped(cluster: Cluster, leader: NodeBroker, connected_to: NodeBroker) -> None:
    leader.stop()


def leader_drained(cluster: Cluster, leader: NodeBroker, connected_to: NodeBroker) -> None:
    cluster.drain(leader)


def follower_cut_off(cluster: Cluster, leader: NodeBroker, connected_to: NodeBroker) -> None:
    follower = cluster.others(leader)[0]
    cluster.cut_off(follower)
    cluster.reconnect(follower)


def connections_closed(cluster: Cluster, leader: NodeBroker, connected_to: NodeBroker) -> None:
    connected_to.control("rabbitmqctl", "close_all_connections", "moved")
