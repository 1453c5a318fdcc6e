"""A private RabbitMQ node from an installed rabbitmq-server, beside any system service."""

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

from tests.testbed.broker import Broker, BrokerError, opens
from tests.testbed.management import wait_until

START_DEADLINE = 120.0
"""Seconds for a node to accept connections: about 8 on an idle machine, 2 cores shared."""

START_ATTEMPTS = 3
"""Somebody else may take a port between finding it free and the node listening on it."""

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
"$EPMD" -port "$ERL_EPMD_PORT" -address 127.0.0.1 &
{ "$SERVER"; kill -9 0; } &
read -r _
rm -rf "${FOLDER:?}"
kill -9 0
"""


def installed_server() -> Path | None:
    """The newest installed ``rabbitmq-server`` script, if any.

    The command of that name in ``PATH`` is a wrapper that switches to the user ``rabbitmq``.
    """
    scripts = Path("/usr/lib/rabbitmq/lib").glob("rabbitmq_server-*/sbin/rabbitmq-server")
    return max(scripts, key=_version, default=None)


def _version(script: Path) -> list[int]:
    digits = script.parent.parent.name.removeprefix("rabbitmq_server-").split(".")
    return [int(part) for part in digits if part.isdigit()]


@dataclass(frozen=True)
class Ports:
    """The four ports of a node, all on loopback."""

    amqp: int
    management: int
    distribution: int
    epmd: int

    def wait_until_refused(self) -> None:
        """Return once nobody listens: a killed process is gone a moment after the signal."""
        wait_until(lambda: not any(map(_listened_on, astuple(self))), f"{self} are closed")


class NodeBroker(Broker):
    """A node of our own in a temporary folder. Any number of them run at once."""

    def __init__(self, server: Path) -> None:
        epmd = shutil.which("epmd")
        if epmd is None:
            raise BrokerError(f"{server} is there but Erlang's `epmd` is not in PATH.")
        self._server, self._epmd = server, epmd
        self._folder = Path(tempfile.mkdtemp(prefix="controlmq-broker-"))
        self._group: subprocess.Popen[bytes] | None = None
        try:
            self._start_onfree_ports()
        except BaseException:
            self.close()
            raise
        super().__init__(
            f"amqp://guest:guest@127.0.0.1:{self._ports.amqp}/%2F",
            f"http://guest:guest@127.0.0.1:{self._ports.management}",
        )

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

    def _start_onfree_ports(self) -> None:
        for attempt in range(1, START_ATTEMPTS + 1):
            self._ports = Ports(*free_ports(4))
            self._configure()
            try:
                return self._start()
            except BrokerError:
                if attempt == START_ATTEMPTS:
                    raise
        raise AssertionError("unreachable")

    def _configure(self) -> None:
        self._path("rabbitmq.conf").write_text(
            CONFIGURATION.format(management=self._ports.management)
        )
        self._path("advanced.config").write_text(ADVANCED_CONFIGURATION)
        self._path("plugins").write_text("[rabbitmq_management].\n")

    def _start(self) -> None:
        self._path("pid").unlink(missing_ok=True)
        with self._path("output").open("wb") as output:
            self._group = subprocess.Popen(
                ["/bin/sh", "-c", GUARD],
                env=self._environment(),
                cwd=self._folder,
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self._wait_until_ready(self._group)

    def _wait_until_ready(self, group: subprocess.Popen[bytes]) -> None:
        parameters = Broker(f"amqp://127.0.0.1:{self._ports.amqp}/%2F", "").parameters
        until = time.monotonic() + START_DEADLINE
        # The AMQP listener is the last to start: management answers by then.
        while not opens(parameters):
            if group.poll() is None and time.monotonic() < until:
                time.sleep(0.1)
                continue
            self.kill()
            end = self._path("output").read_text(errors="replace")[-3000:]
            raise BrokerError(f"{self._server} did not start on {self._ports}:\n{end}")

    def _environment(self) -> dict[str, str]:
        """Everything the node would otherwise take from, or leave in, the system's places."""
        inherited = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
        return inherited | {
            "SERVER": str(self._server),
            "EPMD": self._epmd,
            "FOLDER": str(self._folder),
            "HOME": str(self._folder),
            "ERL_EPMD_PORT": str(self._ports.epmd),
            "ERL_EPMD_ADDRESS": "127.0.0.1",
            "RABBITMQ_NODENAME": f"{self._folder.name}@localhost",
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


def _listened_on(port: int) -> bool:
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
