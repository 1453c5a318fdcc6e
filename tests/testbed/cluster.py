"""A RabbitMQ cluster of private nodes on loopback, whose members can be killed and cut off."""

from __future__ import annotations

import contextlib
import os
import subprocess
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager

from tests.testbed.broker import CHOSEN_BROKER, NOTHING_TO_START, BrokerError
from tests.testbed.installation import Installation, installed, server_of
from tests.testbed.management import VHOST, wait_until
from tests.testbed.node import Membership, NodeBroker, free_ports, listened_on

SIZE = 3
"""Nodes: the fewest of which one can fail."""

# The epmd of a cluster outlives its nodes; it ends with the pipe on standard input.
EPMD_GUARD = """\
"$0" -port "$1" -address 127.0.0.1 &
read -r _
kill -9 0
"""

SET_COOKIE = """\
lists:foreach(fun(N) -> erlang:set_cookie(N, '%s'), erlang:disconnect_node(N) end, [%s]).
"""
"""Erlang nodes refuse each other when one of them has the wrong cookie for the other."""

MOVE_LEADER = """\
{ok, Q} = rabbit_amqqueue:lookup(rabbit_misc:r(<<"/">>, queue, <<"%s">>)),
rabbit_quorum_queue:transfer_leadership(Q, '%s').
"""


class Cluster:
    """Three nodes with one set of queues."""

    def __init__(self, nodes: list[NodeBroker], cookie: str) -> None:
        self.nodes = nodes
        self._cookie = cookie
        self._disturbed: set[NodeBroker] = set()

    def leader(self, queue: str) -> NodeBroker:
        """The node that leads a quorum queue now, which may be after an election."""

        def named() -> str | None:
            running = {node.name for node in self.nodes if node.running}
            for node in self.nodes:
                # A node in the middle of an election or a start answers with errors.
                with contextlib.suppress(OSError):
                    found = node.management.get(f"/queues/{VHOST}/{queue}")
                    if found and found.get("leader") in running:
                        return str(found["leader"])
            return None

        name = wait_until(named, f"queue {queue} has a leader")
        return next(node for node in self.nodes if node.name == name)

    def move_leader(self, queue: str, node: NodeBroker) -> None:
        """Have this node lead a quorum queue; return when it does."""
        node.control("rabbitmqctl", "eval", MOVE_LEADER % (queue, node.name))
        wait_until(lambda: self.leader(queue) is node, f"{node.name} leads {queue}")

    def others(self, node: NodeBroker) -> list[NodeBroker]:
        """All nodes but this one."""
        return [each for each in self.nodes if each is not node]

    def cut_off(self, node: NodeBroker) -> None:
        """Separate the node from the others; its clients stay connected to it."""
        self._disturbed.add(node)
        self._set_cookie(node, "cut")
        others = self.others(node)
        wait_until(
            lambda: not any(node.name in running_nodes(other) for other in others),
            f"the others miss {node.name}",
        )

    def reconnect(self, node: NodeBroker) -> None:
        """Let the node and the others find each other again."""
        self._set_cookie(node, self._cookie)

    def drain(self, node: NodeBroker) -> None:
        """Put the node under maintenance: its leaders move, its clients are disconnected."""
        self._disturbed.add(node)
        node.control("rabbitmq-upgrade", "drain")

    def mend(self) -> None:
        """Start again what was stopped, cut off or drained; return when all is whole."""
        for node in self.nodes:
            if node in self._disturbed or not node.running:
                node.restart()
        self._disturbed.clear()
        self.wait_until_whole()

    def _set_cookie(self, node: NodeBroker, cookie: str) -> None:
        names = ", ".join(f"'{each.name}'" for each in self.others(node))
        node.control("rabbitmqctl", "eval", SET_COOKIE % (cookie, names))

    def wait_until_whole(self) -> None:
        """Return once every node runs and sees all the others."""

        names = {node.name for node in self.nodes}
        wait_until(
            lambda: all(running_nodes(node) == names for node in self.nodes),
            "every node sees all the others",
        )


def running_nodes(node: NodeBroker) -> set[str]:
    """Names of the nodes that run, as this one sees it; none while it cannot tell."""
    with contextlib.suppress(OSError):
        return {each["name"] for each in node.management.get("/nodes") if each["running"]}
    return set()


@contextmanager
def start_cluster() -> Iterator[Cluster]:
    """A cluster for the length of a ``with`` block, of the chosen or the installed version."""
    installation = _installation()
    (epmd,) = free_ports(1)
    key = uuid.uuid4().hex[:12]
    names = tuple(f"{key}-{number}@localhost" for number in range(1, SIZE + 1))
    memberships = [Membership(name, names, cookie=key, epmd=epmd) for name in names]
    with ExitStack() as stack:
        stack.enter_context(_epmd(installation, epmd))
        # Together: a node that starts waits for the others.
        with ThreadPoolExecutor(SIZE) as pool:
            starting = [pool.submit(NodeBroker, installation, each) for each in memberships]
        for started in starting:
            if started.exception() is None:
                stack.callback(started.result().close)
        cluster = Cluster([started.result() for started in starting], cookie=key)
        cluster.wait_until_whole()
        yield cluster


def _installation() -> Installation:
    if chosen := os.environ.get(CHOSEN_BROKER):
        return server_of(chosen)
    found = installed()
    if found is None:
        raise BrokerError(NOTHING_TO_START)
    return found


@contextmanager
def _epmd(installation: Installation, port: int) -> Iterator[None]:
    command = installation.command("/bin/sh", "-c", EPMD_GUARD, installation.epmd, str(port))
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True
    ) as process:
        wait_until(lambda: listened_on(port), f"epmd listens on {port}")
        yield
        assert process.stdin is not None
        process.stdin.close()
