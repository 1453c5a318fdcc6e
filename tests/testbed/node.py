"""A private RabbitMQ node of our own, beside any system service."""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from dataclasses import astuple, dataclass
from pathlib import Path

from tests.testbed.broker import Broker, BrokerError
from tests.testbed.installation import Installation
from tests.testbed.management import wait_until

START_DEADLINE = 240.0
"""Seconds for a node to accept connections: about 8 on an idle machine, 2 cores shared. One that is
slow is waited for: to start it again would only take longer."""

START_ATTEMPTS = 3
"""Somebody else may take a port between finding it free and the node listening on it: the node
then ends."""

PORTS = range(20000, 32000)
"""Below the ports a kernel gives to clients (32768 up on Linux), so that no passing client
takes the port of a killed node, and none that retries it connects to itself."""

CONFIGURATION = """\
management.tcp.ip = 127.0.0.1
management.tcp.port = {management}
# Milliseconds; 5000 would let a test look at counts that are seconds old.
collect_statistics_interval = 500
# Tests are about consumers: no alarm may block a publisher.
disk_free_limit.absolute = 1MB
vm_memory_high_watermark.relative = 0.9
log.file.level = info
"""

ADVANCED_CONFIGURATION = """\
[{rabbit, [{quorum_tick_interval, 500}]},
 {rabbitmq_management, [{sample_retention_policies,
   [{global, [{60, 1}]}, {basic, [{60, 1}]}, {detailed, [{60, 1}]}]}]}].
"""
"""What rabbitmq.conf has no name for, and what also keeps counts old: quorum queues report in
milliseconds of their own, and the HTTP API shows samples kept this many seconds apart."""

# One process group holds epmd, the node and this shell. It ends as a whole when the node ends,
# and when the pipe on standard input closes: that is when we end, however we end. Only then is
# there nobody left to remove the folder.
GUARD = """\
cd "$FOLDER"
[ -z "$EPMD" ] || "$EPMD" -port "$ERL_EPMD_PORT" -address 127.0.0.1 &
{ "$SERVER"; kill -9 0; } &
read -r _
rm -rf "${FOLDER:?}"
kill -9 0
"""


class NodeEndedError(BrokerError):
    """A node ended before it accepted connections."""


@dataclass(frozen=True)
class Membership:
    """What a node has to know to join the others of its cluster."""

    name: str
    names: tuple[str, ...]
    cookie: str
    epmd: int
    """The port of an epmd that outlives the node."""


@dataclass(frozen=True)
class Ports:
    """The ports that a node and its own epmd listen on, all on loopback."""

    amqp: int
    management: int
    distribution: int
    epmd: int | None
    """None for a member of a cluster, whose epmd is not its own."""

    def wait_until_refused(self) -> None:
        """Return once nobody listens: a killed process is gone a moment after the signal."""
        ports = [port for port in astuple(self) if port is not None]
        wait_until(lambda: not any(map(listened_on, ports)), f"{self} are closed")


class NodeBroker(Broker):
    """A node of our own in a temporary folder. Any number of them run at once."""

    def __init__(self, installation: Installation, membership: Membership | None = None) -> None:
        self._installation = installation
        self._membership = membership
        self._folder = Path(
            tempfile.mkdtemp(prefix="controlmq-broker-", dir=installation.temporary_folder)
        )
        self.name = membership.name if membership else f"{self._folder.name}@localhost"
        self._group: subprocess.Popen[bytes] | None = None
        try:
            self._start_on_free_ports()
        except BaseException:
            self.close()
            raise

    def kill(self) -> None:
        """SIGKILL to the node and its epmd; returns when they are gone."""
        if self._group is None:
            return
        if self._group.poll() is None:
            os.killpg(self._group.pid, signal.SIGKILL)
            self._group.wait()
        self._ports.wait_until_refused()
        if self._group.stdin is not None:
            self._group.stdin.close()
        self._group = None

    def stop(self) -> None:
        """SIGTERM to the node, which shuts down in order, then :meth:`kill` of the rest."""
        if self._group is None:
            return
        with contextlib.suppress(ProcessLookupError, FileNotFoundError, ValueError):
            os.kill(int(self._path("pid").read_text()), signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._group.wait(timeout=30)
        self.kill()

    def restart(self) -> None:
        """Start again on the same folder and ports; a running node is killed first."""
        self.kill()
        self._start()

    def close(self) -> None:
        """Kill the node and remove its folder."""
        self.kill()
        shutil.rmtree(self._folder, ignore_errors=True)

    @property
    def running(self) -> bool:
        """Whether the node's processes are there."""
        return self._group is not None and self._group.poll() is None

    def control(self, script: str, *words: str) -> str:
        """What a script of the server prints about this node."""
        command = self._installation.command(
            str(self._installation.scripts / script), "--node", self.name, *words
        )
        done = subprocess.run(command, env=self._environment(), capture_output=True, text=True)
        if done.returncode != 0:
            raise BrokerError(f"{script} {' '.join(words)}: {done.stdout}{done.stderr}")
        return done.stdout

    def _start_on_free_ports(self) -> None:
        for attempt in range(1, START_ATTEMPTS + 1):
            amqp, management, distribution, epmd = free_ports(4)
            own_epmd = None if self._membership else epmd
            self._ports = Ports(amqp, management, distribution, own_epmd)
            super().__init__(
                f"amqp://guest:guest@127.0.0.1:{amqp}/%2F",
                f"http://guest:guest@127.0.0.1:{management}",
            )
            self._configure()
            try:
                return self._start()
            except NodeEndedError:
                if attempt == START_ATTEMPTS:
                    raise
        raise AssertionError("unreachable")

    def _configure(self) -> None:
        configuration = CONFIGURATION.format(management=self._ports.management)
        if self._membership:
            configuration += "cluster_formation.peer_discovery_backend = classic_config\n"
            for number, name in enumerate(self._membership.names, start=1):
                configuration += f"cluster_formation.classic_config.nodes.{number} = {name}\n"
            cookie = self._path(".erlang.cookie")
            cookie.unlink(missing_ok=True)
            cookie.write_text(self._membership.cookie)
            cookie.chmod(0o400)
        self._path("rabbitmq.conf").write_text(configuration)
        self._path("advanced.config").write_text(ADVANCED_CONFIGURATION)
        self._path("plugins").write_text("[rabbitmq_management].\n")

    def _start(self) -> None:
        self._path("pid").unlink(missing_ok=True)
        with self._path("output").open("wb") as output:
            self._group = subprocess.Popen(
                self._installation.command("/bin/sh", "-c", GUARD),
                env=self._environment(),
                cwd=self._folder,
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self._wait_until_ready(self._group)

    def _wait_until_ready(self, group: subprocess.Popen[bytes]) -> None:
        until = time.monotonic() + START_DEADLINE
        while not (self.answers() and self.management.answers()):
            if group.poll() is None and time.monotonic() < until:
                time.sleep(0.1)
                continue
            kind = BrokerError if group.poll() is None else NodeEndedError
            self.kill()
            end = self._path("output").read_text(errors="replace")[-3000:]
            raise kind(f"{self._installation} did not start on {self._ports}:\n{end}")

    def _environment(self) -> dict[str, str]:
        """Everything the node would otherwise take from, or leave in, the system's places."""
        inherited = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
        return inherited | {
            "SERVER": str(self._installation.scripts / "rabbitmq-server"),
            "EPMD": "" if self._membership else self._installation.epmd,
            "FOLDER": str(self._folder),
            "HOME": str(self._folder),
            "ERL_EPMD_PORT": str(self._membership.epmd if self._membership else self._ports.epmd),
            "ERL_EPMD_ADDRESS": "127.0.0.1",
            # Every minute RabbitMQ runs another Erlang, which would start an epmd if none answers:
            # one that outlives the group of a node that is killed at that moment.
            "ERL_AFLAGS": "-start_epmd false",
            "RABBITMQ_NODENAME": self.name,
            "RABBITMQ_NODE_IP_ADDRESS": "127.0.0.1",
            "RABBITMQ_NODE_PORT": str(self._ports.amqp),
            "RABBITMQ_DIST_PORT": str(self._ports.distribution),
            "RABBITMQ_MNESIA_BASE": str(self._path("data")),
            "RABBITMQ_LOG_BASE": str(self._path("log")),
            "RABBITMQ_PID_FILE": str(self._path("pid")),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(self._path("plugins")),
            "RABBITMQ_CONFIG_FILE": str(self._path("rabbitmq.conf")),
            "RABBITMQ_ADVANCED_CONFIG_FILE": str(self._path("advanced.config")),
            "RABBITMQ_CONF_ENV_FILE": str(self._path("rabbitmq-env.conf")),
            # Two schedulers that sleep when idle leave the cores to the consumer under test.
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": (
                "+S 2:2 +sbwt none +sbwtdcpu none +sbwtdio none"
                " -kernel inet_dist_use_interface {127,0,0,1}"
            ),
        }

    def _path(self, name: str) -> Path:
        return self._folder / name


def listened_on(port: int) -> bool:
    """Whether a process on this machine accepts connections on this port."""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def free_ports(count: int) -> list[int]:
    """Ports on loopback that nobody listens on now."""
    found: list[int] = []
    for port in random.SystemRandom().sample(PORTS, k=len(PORTS)):
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            found.append(port)
        if len(found) == count:
            return found
    raise BrokerError(f"no {count} free ports in {PORTS}.")
