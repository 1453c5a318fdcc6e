"""A small HTTP server in a thread: on this machine unless told otherwise, for its own pages."""

from __future__ import annotations

import ipaddress
import logging
import socket
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from email.message import Message
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

from controlmq.errors import InputError

log = logging.getLogger("controlmq")

LOOPBACK = "127.0.0.1"

LARGEST_BODY_BYTES = 10_000
"""Bytes that the body of a request may have; a goal takes a few."""

CLOSING_SECONDS = 0.05
"""The longest that closing waits for the thread of a server, which wakes up this often."""

IDLE_SECONDS = 30.0
"""Seconds after which a connection that asks for nothing is closed."""


@dataclass(frozen=True)
class Request:
    """What was asked for."""

    headers: Message
    body: bytes = b""


@dataclass(frozen=True)
class Answer:
    """What is answered: a body at once, or parts of it as they come."""

    body: bytes | Iterator[bytes]
    kind: str = "application/json"
    status: HTTPStatus = HTTPStatus.OK
    headers: Mapping[str, str] = field(default_factory=dict)


Routes = Mapping[tuple[str, str], Callable[[Request], Answer]]
"""What answers which method and path."""


class Server:
    """A server that runs until it is closed, or until the process ends."""

    def __init__(self, server: ThreadingHTTPServer, host: str) -> None:
        self._server = server
        self.port: int = server.server_address[1]
        shown = f"[{host}]" if ":" in host else host
        self.url = f"http://{shown}:{self.port}"
        self.on_close: Callable[[], None] = lambda: None
        self._thread = threading.Thread(
            target=server.serve_forever,
            args=(CLOSING_SECONDS,),
            name="controlmq-http",
            daemon=True,
        )
        self._thread.start()

    def close(self) -> None:
        """Stop serving, and free the port."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
        self.on_close()


def serve(what: str, routes: Routes, host: str, port: int, *, allow_remote: bool) -> Server | None:
    """Serve ``routes``; None, after a line in the log, where the port cannot be had."""
    check_address(what, host, port, allow_remote)

    class Handling(_Handling):
        pass

    Handling.routes = routes
    Handling.local_only = not allow_remote
    try:
        server = _server_on(host, port, Handling)
    except OSError as error:
        reason = error.strerror or str(error)
        log.error(
            "the %s cannot be served on %s port %d (%s); consuming goes on without it, give "
            "another port",
            *(what, host, port, reason.lower()),
        )
        return None
    return Server(server, host)


def check_address(what: str, host: str, port: int, allow_remote: bool) -> None:
    """Refuse a port that does not exist, and hosts beyond this machine unless that was asked."""
    if isinstance(port, bool) or not isinstance(port, int) or not 0 <= port <= 65535:
        raise InputError(f"the port of the {what} is {port!r}; give 0 to 65535, 0 for any.")
    if not allow_remote and not is_local(host):
        raise InputError(
            f"the {what} would be served on {host}, where other machines can read it; give "
            f"{LOOPBACK}, or allow it with --allow-remote (in Python: allow_remote=True)."
        )


def is_local(host: str) -> bool:
    """Whether only programs on this machine reach ``host``."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


class _Threading(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def handle_error(self, request: object, client_address: object) -> None:
        """Readers that leave are not worth a line."""
        if not isinstance(sys.exception(), OSError):
            log.exception("a request for the state of the consumers failed; consuming goes on")


class _Threading6(_Threading):
    address_family = socket.AF_INET6


def _server_on(host: str, port: int, handling: type[_Handling]) -> ThreadingHTTPServer:
    kind = _Threading6 if ":" in host else _Threading
    return kind((host, port), handling)


class _Handling(BaseHTTPRequestHandler):
    """Checks who asks, finds the route, writes the answer."""

    routes: Routes
    local_only: bool
    protocol_version = "HTTP/1.1"
    timeout = IDLE_SECONDS

    def do_GET(self) -> None:
        """Answer a GET."""
        self._answer("GET")

    def do_POST(self) -> None:
        """Answer a POST."""
        self._answer("POST")

    def _answer(self, method: str) -> None:
        try:
            self._write(self._routed(method))
        except OSError:
            self.close_connection = True  # the reader has left

    def _routed(self, method: str) -> Answer:
        length = int(self.headers.get("Content-Length") or 0)
        if length > LARGEST_BODY_BYTES:
            self.close_connection = True
            return refusal(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "the request is too long.")
        body = self.rfile.read(length) if length else b""
        if not self._own_origin():
            return refusal(
                HTTPStatus.FORBIDDEN, "this is served to its own pages, not to another site's."
            )
        path = urlsplit(self.path).path
        route = self.routes.get((method, path))
        if route is not None:
            return route(Request(self.headers, body))
        if any(path == known for _, known in self.routes):
            return refusal(HTTPStatus.METHOD_NOT_ALLOWED, f"{path} does not take {method}.")
        paths = ", ".join(sorted(known for _, known in self.routes))
        return refusal(HTTPStatus.NOT_FOUND, f"{path} is not served here; there is {paths}.")

    def _own_origin(self) -> bool:
        """Whether no page of another site asks, also not one that renamed itself to this host."""
        host = self.headers.get("Host", "")
        origin = self.headers.get("Origin")
        if origin is not None and origin != f"http://{host}":
            return False
        if self.headers.get("Sec-Fetch-Site", "none") not in ("none", "same-origin"):
            return False
        return not self.local_only or is_local(urlsplit(f"//{host}").hostname or "")

    def _write(self, answer: Answer) -> None:
        self.send_response(answer.status)
        self.send_header("Content-Type", answer.kind)
        self.send_header("Cache-Control", "no-store")
        self.send_header("X-Content-Type-Options", "nosniff")
        for name, value in answer.headers.items():
            self.send_header(name, value)
        if isinstance(answer.body, bytes):
            self.send_header("Content-Length", str(len(answer.body)))
            self.end_headers()
            self.wfile.write(answer.body)
            return
        self.close_connection = True
        self.send_header("Connection", "close")
        self.end_headers()
        for part in answer.body:
            self.wfile.write(part)
            self.wfile.flush()

    def log_message(self, format: str, *words: object) -> None:
        """Requests are not logged: a consumer's log is the consumer's."""


def refusal(status: HTTPStatus, sentence: str) -> Answer:
    """One sentence that says why not."""
    return Answer(f"{sentence}\n".encode(), "text/plain; charset=utf-8", status)
