"""A live view of the consumers of this process: a page, its stream of samples, and their goals.

The page is one file without anything from elsewhere. It is served with what it shows:

- ``GET /stream``: server-sent events, first all that is known, then each sample as it is taken;
- ``GET /consumers``: the same as JSON, for programs such as ``controlmq top``;
- ``POST /goal``: another goal, where that was allowed at start and the token is right.
"""

from __future__ import annotations

import hmac
import json
import os
import secrets
import socket
import threading
import time
from collections import deque
from collections.abc import Iterator
from dataclasses import asdict, fields, replace
from http import HTTPStatus
from importlib import resources
from typing import Any

from controlmq.checks import above_zero
from controlmq.errors import InputError
from controlmq.observe.events import Event, events
from controlmq.observe.registry import Observed, Reading, Registry, registry
from controlmq.observe.serving import LOOPBACK, Answer, Request, Server, refusal, serve

DEFAULT_PORT = 15699

HISTORY_SECONDS = 600.0
"""Seconds of samples that a page is shown when it opens."""

MOST_SAMPLES = 1200
"""Samples of a consumer that are kept, where they are shorter than half a second."""

MOST_EVENTS = 200
"""Events of all consumers that are kept."""

MOST_NEWS = 1000
"""Samples that a slow reader may be behind before it is told everything again."""

MOST_STREAMS = 16
"""Pages open at once: each is a thread of this process."""

LOOK_EVERY_SECONDS = 1.0
"""Seconds between looks at which consumers run."""

QUIET_SECONDS = 10.0
"""Seconds after which a stream without news says that it lives."""

TOKEN_LENGTHS = range(16, 129)
"""Characters: fewer could be guessed, more are a mistake."""

NOT_SHOWN = {"handler_times", "buffer_times"}

SHOWN = tuple(field.name for field in fields(Reading) if field.name not in NOT_SHOWN)
"""What of a reading a page gets."""

HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'unsafe-inline'; style-src "
    "'unsafe-inline'; connect-src 'self'; img-src data:; base-uri 'none'; frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",
}


class Dashboard:
    """Remembers the last ten minutes of every consumer and tells them to all who ask.

    ``token`` is what a change of a goal needs; without one no goal is changed.
    """

    def __init__(self, consumers: Registry = registry, token: str | None = None) -> None:
        self._consumers = consumers
        self._token = token
        self._history: dict[tuple[str, str], deque[Reading]] = {}
        self._events: deque[tuple[tuple[str, str], Event]] = deque(maxlen=MOST_EVENTS)
        self._news: deque[tuple[int, dict[str, Any]]] = deque(maxlen=MOST_NEWS)
        self._number = 0
        self._changed = threading.Condition()
        self._streams = 0
        consumers.listeners.append(self._sampled)

    def close(self) -> None:
        """Listen no more."""
        self._consumers.listeners.remove(self._sampled)

    @property
    def routes(self) -> dict[tuple[str, str], Any]:
        """What answers which request."""
        return {
            ("GET", "/"): self._page,
            ("GET", "/stream"): self._stream,
            ("GET", "/consumers"): self._as_json,
            ("POST", "/goal"): self._change_goal,
        }

    def state(self) -> dict[str, Any]:
        """All that is known: consumers with their samples, the last events."""
        running = {(each.queue, each.name) for each in self._consumers.running()}
        with self._changed:
            histories = [(consumer, [*seen]) for consumer, seen in self._history.items()]
            recent = [*self._events]
        return {
            "process": {"host": socket.gethostname(), "pid": os.getpid()},
            "time": time.time(),
            "goals_may_change": self._token is not None,
            "consumers": [
                {
                    "queue": queue,
                    "consumer": name,
                    "running": (queue, name) in running,
                    "samples": [_shown(reading) for reading in seen],
                }
                for (queue, name), seen in sorted(histories)
            ],
            "events": [_told(consumer, event) for consumer, event in recent],
        }

    # In the thread of a consumer

    def _sampled(self, observed: Observed, reading: Reading) -> None:
        consumer = observed.queue, observed.name
        with self._changed:
            seen = self._history.setdefault(consumer, deque(maxlen=MOST_SAMPLES))
            found = events(seen[-1] if seen else None, reading)
            seen.append(reading)
            while seen[0].time < reading.time - HISTORY_SECONDS:
                seen.popleft()
            self._events.extend((consumer, event) for event in found)
            self._number += 1
            news = {
                "queue": consumer[0],
                "consumer": consumer[1],
                "sample": reading,
                "events": [_told(consumer, event) for event in found],
            }
            self._news.append((self._number, news))
            self._forget_old(reading.time)
            self._changed.notify_all()

    def _forget_old(self, now: float) -> None:
        """Drop consumers that have told nothing for as long as samples are kept."""
        for consumer, seen in [*self._history.items()]:
            if seen[-1].time < now - HISTORY_SECONDS:
                del self._history[consumer]

    # In the thread of a request

    def _page(self, request: Request) -> Answer:
        return Answer(page(), "text/html; charset=utf-8", headers=HEADERS)

    def _as_json(self, request: Request) -> Answer:
        return Answer(json.dumps(self.state()).encode())

    def _stream(self, request: Request) -> Answer:
        if self._streams >= MOST_STREAMS:
            return refusal(
                HTTPStatus.SERVICE_UNAVAILABLE,
                f"{MOST_STREAMS} pages are open already; close one of them.",
            )
        return Answer(self._messages(), "text/event-stream")

    def _messages(self) -> Iterator[bytes]:
        with self._changed:
            self._streams += 1
        try:
            yield b"retry: 1000\n\n"
            known = -1
            running: list[tuple[str, str]] = []
            quiet_since = time.monotonic()
            while True:
                with self._changed:
                    if self._number == known:
                        self._changed.wait(LOOK_EVERY_SECONDS)
                    number = self._number
                    behind = not self._news or self._news[0][0] > known + 1
                    news = [] if behind else [told for each, told in self._news if each > known]
                if known < 0 or (behind and number != known):
                    yield _message("all", self.state())
                for told in news:
                    yield _message("sample", told | {"sample": _shown(told["sample"])})
                known = number
                now_running = [(each.queue, each.name) for each in self._consumers.running()]
                if now_running != running:
                    running = now_running
                    yield _message("running", running)
                elif not news and time.monotonic() - quiet_since > QUIET_SECONDS:
                    yield b": still here\n\n"
                else:
                    continue
                quiet_since = time.monotonic()
        finally:
            with self._changed:
                self._streams -= 1

    def _change_goal(self, request: Request) -> Answer:
        if self._token is None:
            return refusal(
                HTTPStatus.FORBIDDEN,
                "goals cannot be changed here; allow it when the consumer starts.",
            )
        given = request.headers.get("Authorization", "").removeprefix("Bearer ")
        if not hmac.compare_digest(given.encode(), self._token.encode()):
            return refusal(
                HTTPStatus.UNAUTHORIZED, "the token is missing or wrong; the start printed it."
            )
        try:
            asked = json.loads(request.body)
            queue, name, goal = asked["queue"], asked["consumer"], asked["goal"]
        except (ValueError, KeyError, TypeError):
            return refusal(
                HTTPStatus.BAD_REQUEST, "give queue, consumer and goal as a JSON object."
            )
        for each in self._consumers.running():
            if (each.queue, each.name) == (queue, name):
                if each.last is None or "rate" not in each.last.goals:
                    return refusal(HTTPStatus.BAD_REQUEST, f"consumer {name!r} holds no rate.")
                try:
                    changed = replace(each.watched.goals, goal=above_zero("goal", goal))
                except InputError as error:
                    return refusal(HTTPStatus.BAD_REQUEST, str(error))
                each.next_goal = changed.goal
                return Answer(json.dumps({"goal": goal}).encode())
        return refusal(HTTPStatus.NOT_FOUND, f"no consumer {name!r} of queue {queue!r} runs here.")


def serve_dashboard(
    port: int = DEFAULT_PORT,
    host: str = LOOPBACK,
    *,
    allow_remote: bool = False,
    token: str | None = None,
) -> Server | None:
    """Serve a page that shows every adaptive consumer of this process while it runs.

    Port 0 takes any that is free; the ``url`` of what is returned tells which. A port that
    cannot be had is logged, and None is returned: a consumer does not stop for its page. Goals
    can be changed there only where a ``token`` is given, and by those who know it;
    :func:`new_token` makes one. Without ``allow_remote`` the host must be this machine.
    """
    if token is not None and len(token) not in TOKEN_LENGTHS:
        raise InputError(
            f"the token of the dashboard has {len(token)} characters; give {TOKEN_LENGTHS[0]} to "
            f"{TOKEN_LENGTHS[-1]}, or let 'controlmq.observe.dashboard.new_token' make one."
        )
    dashboard = Dashboard(token=token)
    server = serve("dashboard", dashboard.routes, host, port, allow_remote=allow_remote)
    if server is None:
        dashboard.close()
    else:
        server.on_close = dashboard.close
    return server


def new_token() -> str:
    """A token that nobody guesses."""
    return secrets.token_urlsafe(24)


def page() -> bytes:
    """The page, as it is installed."""
    return resources.files("controlmq.observe").joinpath("page.html").read_bytes()


def _shown(reading: Reading) -> dict[str, Any]:
    return {name: getattr(reading, name) for name in SHOWN}


def _told(consumer: tuple[str, str], event: Event) -> dict[str, Any]:
    return {"queue": consumer[0], "consumer": consumer[1], **asdict(event)}


def _message(kind: str, content: object) -> bytes:
    return f"event: {kind}\ndata: {json.dumps(content)}\n\n".encode()
