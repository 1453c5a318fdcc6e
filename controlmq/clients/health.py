"""Whether a service is consuming now, told to those who watch it by a file and a port.

It is healthy while it is connected and subscribed and its thread goes round: it calls ``beat``
many times a second, however long a handler takes.
"""

from __future__ import annotations

import logging
import threading
import time
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from controlmq.errors import InputError

log = logging.getLogger("controlmq")

STALE_AFTER_SECONDS = 10.0
"""Seconds without a beat after which the thread of the connection counts as stuck."""

TOUCH_EVERY_SECONDS = 1.0

HEALTHY = b"ok\n"
"""What the file holds."""

HOST = "127.0.0.1"
"""The port is for probes on the same machine; it answers nobody else."""


class Health:
    """Says whether a service is consuming.

    ``file`` exists while it is healthy and is written again every second, so that its age shows
    a process that was killed or hangs. ``port`` on 127.0.0.1 answers any GET with 200 or 503 and
    one line that says why.
    """

    def __init__(self, file: str | Path | None = None, port: int | None = None) -> None:
        self._file = Path(file) if file is not None else None
        self._touched = 0.0
        self._file_failed = False
        self._beaten = 0.0
        self._trouble: str | None = "not connected yet"
        if self._file is not None:
            _check(self._file)
        self._server = _listening(self, port) if port is not None else None

    def beat(self) -> None:
        """Connected, subscribed, and going round."""
        self._beaten = now = time.monotonic()
        self._trouble = None
        if self._file is not None and now - self._touched >= TOUCH_EVERY_SECONDS:
            self._touched = now
            self._write(self._file)

    def failed(self, trouble: str) -> None:
        """Not consuming, and why."""
        self._trouble = trouble
        self._touched = 0.0
        if self._file is not None:
            with suppress(OSError):
                self._file.unlink(missing_ok=True)

    def trouble(self) -> str | None:
        """Why it is not healthy; None while it is."""
        if self._trouble is not None:
            return self._trouble
        silent = time.monotonic() - self._beaten
        if silent > STALE_AFTER_SECONDS:
            return f"the connection's thread has been stuck for {silent:.0f} s"
        return None

    def close(self) -> None:
        """Remove the file and free the port."""
        self.failed("stopped")
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()

    def _write(self, file: Path) -> None:
        """Write the file; an error, such as a full disk, must not stop the consumer."""
        try:
            file.write_bytes(HEALTHY)
        except OSError as error:
            if not self._file_failed:
                log.error("cannot write the health file: %s; consuming goes on", error)
            self._file_failed = True
        else:
            self._file_failed = False


def _check(file: Path) -> None:
    """Refuse a file that is somebody else's or cannot be written, before anything is consumed.

    One of a process that was killed is removed; it is empty if that was just writing it.
    """
    try:
        if file.exists() and not file.is_dir() and not _is_ours(file):
            raise InputError(
                f"the health file cannot be {file}: it is there and holds something else, which "
                "would be lost; give a path for a file of its own."
            )
        file.write_bytes(b"")
        file.unlink()
    except OSError as error:
        raise InputError(f"the health file cannot be {file}: {error.strerror}.") from None


def _is_ours(file: Path) -> bool:
    if not file.is_file():
        return False  # a device, say, from which reading might not return
    with file.open("rb") as opened:
        return opened.read(len(HEALTHY) + 1) in (HEALTHY, b"")


def _listening(health: Health, port: int) -> ThreadingHTTPServer:
    """A server that answers from a thread of its own."""

    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            trouble = health.trouble()
            body = f"{'ok' if trouble is None else trouble}\n".encode()
            self.send_response(200 if trouble is None else 503)
            self.send_header("Content-Type", "text/plain; charset=utf-8")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            """Log nothing: probes come all the time."""

    try:
        server = ThreadingHTTPServer((HOST, port), Answer)
    except (OSError, OverflowError) as error:
        raise InputError(
            f"the health port cannot be {port}: {error}; give one that is free, up to 65535."
        ) from None
    threading.Thread(target=server.serve_forever, name="health", daemon=True).start()
    return server
