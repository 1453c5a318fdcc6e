"""A network between client and broker: delay, cut, stall and throttle, on one machine."""

from __future__ import annotations

import base64
import contextlib
import json
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pika

ROUND_TRIP = 0.011
"""Seconds, as between two hosts. With 1 ms of work per message it gives prefetch authority over
the rate up to about 12 messages; on loopback it has almost none."""

PROGRAM = Path(__file__).with_name("proxy_process.py")


class Proxy:
    """A TCP proxy that delays each direction by ``delay`` seconds and slows nothing else.

    It runs in a process of its own, so it takes no time from the consumer under test, and
    ends with it. Every method returns once the proxy has done what was asked.

    With ``record`` it keeps what clients send, for :meth:`recorded`. In the folder ``stamps`` it
    writes down what the broker sends and when that was passed on, for
    :func:`tests.testbed.wire.stamped`. ``parameters`` are the broker's (guest at the target by
    default); ``proxy.parameters`` are those with the proxy's address.
    """

    def __init__(
        self,
        target: tuple[str, int],
        delay: float = 0.0,
        record: bool = False,
        parameters: Any = None,
        stamps: Path | None = None,
    ) -> None:
        self._parameters = parameters
        self._lock = threading.Lock()
        # -I and -S: nothing but the standard library, and half the start time.
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", str(PROGRAM)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
            text=True,
        )
        try:
            host, port = target
            folder = None if stamps is None else str(stamps)
            answer = self._ask("listen", host=host, port=port, record=record, stamps=folder)
            self.port = int(answer)
            self.set_delay(delay)
        except BaseException:
            self.close()
            raise

    @property
    def parameters(self) -> Any:
        """Fresh pika parameters for a connection through the proxy; change them freely."""
        if self._parameters is None:
            return pika.ConnectionParameters("127.0.0.1", self.port)
        given = self._parameters
        return pika.ConnectionParameters(
            "127.0.0.1", self.port, given.virtual_host, given.credentials
        )

    def set_delay(self, seconds: float) -> None:
        """Delay what arrives from now on by ``seconds`` in each direction."""
        self._ask("set_delay", seconds=seconds)

    def cut(self) -> None:
        """Reset every connection on both sides. New ones are accepted."""
        self._ask("cut")

    def stall(self) -> None:
        """Forward nothing from now on. Connections stay open; nothing is lost."""
        self._ask("stall")

    def resume(self) -> None:
        """Forward again, beginning with what was kept."""
        self._ask("resume")

    def throttle(self, bytes_per_second: float | None) -> None:
        """Limit each direction of each connection; None lifts the limit."""
        self._ask("throttle", bytes_per_second=bytes_per_second)

    def connections(self) -> int:
        """How many client connections are open."""
        return int(self._ask("connections"))

    def recorded(self) -> list[bytes]:
        """What each client sent so far, one entry a connection, in the order they came."""
        return [base64.b64decode(sent) for sent in self._ask("recorded")]

    def close(self) -> None:
        """Reset every connection and end the process. Closing twice is fine."""
        with self._lock:
            if self._process.stdin is not None:
                with contextlib.suppress(BrokenPipeError):
                    self._process.stdin.close()
            try:
                self._process.wait(timeout=5)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
            if self._process.stdout is not None:
                self._process.stdout.close()

    def __enter__(self) -> Proxy:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _ask(self, command: str, **arguments: object) -> Any:
        with self._lock:
            assert self._process.stdin is not None
            assert self._process.stdout is not None
            self._process.stdin.write(json.dumps([command, arguments]) + "\n")
            self._process.stdin.flush()
            answer = self._process.stdout.readline()
        if not answer:
            raise RuntimeError(f"the proxy process ended while asked to {command}.")
        return json.loads(answer)


def proxied(url: str, proxy: Proxy) -> str:
    """The same URL by way of the proxy."""
    credentials, _, address = url.removeprefix("amqp://").rpartition("@")
    _, _, path = address.partition("/")
    return f"amqp://{credentials}@127.0.0.1:{proxy.port}/{path}"
