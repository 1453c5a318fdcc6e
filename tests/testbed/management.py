"""The broker's own view, through its HTTP API: what AMQP does not tell a client."""

from __future__ import annotations

import base64
import contextlib
import json
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar
from urllib.parse import quote, unquote, urlsplit

T = TypeVar("T")

VHOST = quote("/", safe="")


DEADLINE = 60.0
"""Seconds to wait for what comes within one or two: a machine may be busy with other tests."""

ANSWER = 60.0
"""Seconds for an answer of the HTTP API, on a busy machine too."""


def wait_until(
    condition: Callable[[], T], what: str, deadline: float = DEADLINE, pause: float = 0.05
) -> T:
    """The first true value of ``condition``, or AssertionError after ``deadline`` seconds.

    ``what`` completes the sentence "waited 60 s until ...". There are ``pause`` seconds between
    two looks.
    """
    until = time.monotonic() + deadline
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > until:
            raise AssertionError(f"waited {deadline:g} s until {what}; the last look: {value!r}")
        time.sleep(pause)


@dataclass(frozen=True)
class ConsumerView:
    """One consumer as the broker sees it. ``prefetch`` 0 means no limit."""

    tag: str
    prefetch: int
    active: bool


@dataclass(frozen=True)
class QueueView:
    """One queue as the broker saw it at most half a second ago."""

    messages_ready: int
    messages_unacknowledged: int
    consumers: tuple[ConsumerView, ...]

    @property
    def prefetch(self) -> int:
        """Sum of the windows of all consumers."""
        return sum(consumer.prefetch for consumer in self.consumers)


class Management:
    """Client of the management plugin at ``http://user:password@host:port``."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self.url = url
        self._base = f"{parts.scheme}://{parts.hostname}:{parts.port}/api"
        login = f"{unquote(parts.username or '')}:{unquote(parts.password or '')}"
        self._authorization = "Basic " + base64.b64encode(login.encode()).decode()

    def answers(self) -> bool:
        """Whether the HTTP API works now: RabbitMQ 4.3 opens its AMQP port a moment before."""
        with contextlib.suppress(OSError):
            return bool(self.get("/overview"))
        return False

    def queue(self, name: str) -> QueueView | None:
        """The queue, or None while the broker has no such queue (or no counts of it yet)."""
        found = self.get(f"/queues/{VHOST}/{quote(name, safe='')}")
        if found is None or "messages_ready" not in found:
            return None
        return QueueView(
            messages_ready=found["messages_ready"],
            messages_unacknowledged=found["messages_unacknowledged"],
            consumers=tuple(
                ConsumerView(
                    tag=consumer["consumer_tag"],
                    prefetch=consumer["prefetch_count"],
                    active=consumer.get("active", True),
                )
                for consumer in found.get("consumer_details", ())
            ),
        )

    def wait_for_queue(
        self,
        name: str,
        condition: Callable[[QueueView], bool] = lambda queue: True,
        what: str = "it has counts",
        deadline: float = DEADLINE,
    ) -> QueueView:
        """The queue once ``condition`` holds for it."""

        seen: list[QueueView | None] = [None]

        def holds() -> bool:
            seen[0] = self.queue(name)
            return seen[0] is not None and condition(seen[0])

        try:
            wait_until(holds, f"queue {name}: {what}", deadline)
        except AssertionError as error:
            raise AssertionError(f"{error}; seen: {seen[0]}") from None
        assert seen[0] is not None
        return seen[0]

    def delete_queue(self, name: str) -> None:
        """Delete the queue under its consumers, which get a ``basic.cancel``."""
        self.delete(f"/queues/{VHOST}/{quote(name, safe='')}")

    def connections(self) -> list[str]:
        """Names of the open connections. A new one shows up within a second."""
        return [connection["name"] for connection in self.get("/connections") or ()]

    def connections_consuming(self, queue: str) -> list[str]:
        """Names of the connections with a consumer on ``queue``."""
        found = self.get(f"/queues/{VHOST}/{quote(queue, safe='')}") or {}
        channels = [each["channel_details"] for each in found.get("consumer_details", ())]
        # An empty list stands for details that the broker does not have yet.
        return sorted({channel["connection_name"] for channel in channels if channel})

    def close_connection(self, name: str, reason: str = "closed by the test") -> None:
        """Have the broker close a connection (``320 CONNECTION_FORCED`` with ``reason``)."""
        self.delete(f"/connections/{quote(name, safe='')}", {"X-Reason": reason})

    def get(self, path: str) -> Any:
        """The JSON at ``/api`` + ``path``, or None for 404."""
        return self._request("GET", path)

    def delete(self, path: str, headers: dict[str, str] | None = None) -> None:
        """DELETE ``/api`` + ``path``; what is not there need not be deleted."""
        self._request("DELETE", path, headers)

    def put(self, path: str, given: dict[str, str]) -> None:
        """PUT JSON to ``/api`` + ``path``."""
        self._request("PUT", path, {"Content-Type": "application/json"}, json.dumps(given))

    def _request(
        self, method: str, path: str, headers: dict[str, str] | None = None, body: str = ""
    ) -> Any:
        request = urllib.request.Request(
            self._base + path,
            data=body.encode() or None,
            method=method,
            headers={"Authorization": self._authorization, **(headers or {})},
        )
        try:
            with urllib.request.urlopen(request, timeout=ANSWER) as answer:
                answered = answer.read()
        except urllib.error.HTTPError as error:
            if error.code == 404:
                return None
            raise
        return json.loads(answered) if answered else None
