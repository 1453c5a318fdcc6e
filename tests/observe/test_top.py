"""``controlmq top``: what it draws fits the terminal, and the terminal is left as it was."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator

import pytest

from controlmq.cli.main import main
from controlmq.cli.top import FIRST_SCREEN, OTHER_SCREEN
from controlmq.observe.dashboard import Dashboard
from controlmq.observe.registry import Registry
from controlmq.observe.serving import LOOPBACK, Server, serve
from controlmq.observe.top import Process, frame, url_of
from tests.observe.running import LIMITS, Running

DEADLINE = 60.0
"""Seconds for the command to start and draw, on a busy machine."""


@pytest.fixture
def registry() -> Registry:
    return Registry()


@pytest.fixture
def server(registry: Registry) -> Iterator[Server]:
    server = serve("dashboard", Dashboard(registry).routes, LOOPBACK, 0, allow_remote=False)
    assert server is not None
    yield server
    server.close()


def consumers(registry: Registry, samples: int = 30) -> Dashboard:
    """Three that hold, sit at a limit and run dry."""
    view = Dashboard(registry)
    start = time.time() - samples
    holding = Running(registry, "orders", start=start)
    limited = Running(
        registry, "a-queue-with-a-rather-long-name", controller=lambda *_: LIMITS.high, start=start
    )
    dry = Running(registry, "mail", "mail in the evening", start=start)
    for number in range(samples):
        holding.sample(90 + number % 20)
        limited.sample(40)
        dry.sample(0 if number > samples / 2 else 10)
    return view


@pytest.mark.parametrize(("width", "height"), [(80, 24), (200, 60), (40, 10), (20, 3)])
def test_a_screen_is_never_larger_than_the_terminal(
    registry: Registry, width: int, height: int
) -> None:
    view = consumers(registry)
    seen = [Process("15699", view.state()), Process("9", None, "connection refused")]
    lines = frame(seen, width, height, time.time())
    assert len(lines) <= height
    assert max(map(len, lines)) <= width


def test_a_screen_says_what_matters_however_narrow(registry: Registry) -> None:
    view = consumers(registry)
    text = "\n".join(frame([Process("", view.state())], 80, 24, time.time()))
    for word in ("rate/s", "goal", "prefetch", "held", "holding", "at high limit", "dry, frozen"):
        assert word in text
    assert "█" in text
    assert "the queue ran dry" in text
    wide = "\n".join(frame([Process("", view.state())], 200, 60, time.time()))
    for word in ("a-queue-with-a-rather-long-name", "0.5-20", "received", "law", "handler"):
        assert word in wide


def test_a_process_that_does_not_answer_is_one_line(registry: Registry) -> None:
    view = consumers(registry)
    seen = [Process("", view.state()), Process("10.1.2.3:9", None, "timed out")]
    assert "10.1.2.3:9 does not answer: timed out" in frame(seen, 80, 24, time.time())


def test_a_silent_consumer_and_one_that_ended_are_seen(registry: Registry) -> None:
    view = consumers(registry)
    later = "\n".join(frame([Process("", view.state())], 80, 24, time.time() + 60))
    assert "silent 6" in later
    for each in registry.running():
        each.watched.running = False  # type: ignore[misc]
    assert "ended" in "\n".join(frame([Process("", view.state())], 80, 24, time.time()))


def test_addresses() -> None:
    assert url_of("") == "http://127.0.0.1:15699"
    assert url_of("9000") == "http://127.0.0.1:9000"
    assert url_of("shop:9000") == "http://shop:9000"
    assert url_of("http://shop:9000/") == "http://shop:9000"


def test_without_a_terminal_one_screen_or_json_is_printed(
    registry: Registry, server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    Running(registry, "orders").sample()
    assert main(["top", str(server.port)]) == 0
    assert "orders" in capsys.readouterr().out
    assert main(["top", server.url, "--json"]) == 0
    (told,) = json.loads(capsys.readouterr().out)
    assert told["consumers"][0]["samples"][0]["rate"] == 50


def test_no_dashboard_is_one_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["top", "1"]) == 2
    assert capsys.readouterr().err == (
        "controlmq: no dashboard answers at 127.0.0.1:1 (connection refused); start a consumer "
        "with --dashboard, or give the address of one.\n"
    )
    assert main(["top", "1", "--every", "0"]) == 2
    assert "give seconds above 0" in capsys.readouterr().err


class Terminal:
    """A terminal in which the command runs."""

    def __init__(self, words: list[str], columns: int, rows: int) -> None:
        self._own, other = pty.openpty()
        fcntl.ioctl(other, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        self.before = termios.tcgetattr(other)
        self._other = other
        self.seen = ""
        self.process = subprocess.Popen(
            [sys.executable, "-m", "controlmq.cli.main", *words],
            stdin=other,
            stdout=other,
            stderr=other,
            start_new_session=True,
            env=os.environ | {"PYTHONIOENCODING": "utf-8", "TERM": "xterm"},
        )

    def until(self, text: str) -> None:
        end = time.monotonic() + DEADLINE
        while text not in self.seen:
            assert time.monotonic() < end, self.seen
            self._read(0.2)

    def ended(self) -> int:
        code = self.process.wait(timeout=DEADLINE)
        while self._read(0.0):
            pass
        return code

    def _read(self, patience: float) -> bool:
        ready, _, _ = select.select([self._own], [], [], patience)
        if ready:
            self.seen += os.read(self._own, 1 << 16).decode(errors="replace")
        return bool(ready)

    @property
    def after(self) -> object:
        return termios.tcgetattr(self._other)

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self._own)
        os.close(self._other)


@pytest.mark.parametrize(("columns", "rows"), [(80, 24), (200, 60)])
@pytest.mark.parametrize("ends", [signal.SIGINT, signal.SIGTERM], ids=["Ctrl-C", "SIGTERM"])
def test_the_terminal_is_left_as_it_was(
    registry: Registry, server: Server, columns: int, rows: int, ends: signal.Signals
) -> None:
    running = Running(registry, "orders", start=time.time() - 5)
    for _ in range(5):
        running.sample(90)
    terminal = Terminal(["top", str(server.port), "--every", "0.1"], columns, rows)
    try:
        terminal.until("\x1b[J")
        assert terminal.seen.startswith(OTHER_SCREEN)
        running.sample(70)
        terminal.until("70.0")
        terminal.process.send_signal(ends)
        assert terminal.ended() == 0
        assert terminal.seen.endswith(FIRST_SCREEN)
        assert "Traceback" not in terminal.seen
        assert terminal.after == terminal.before
        longest = max(
            len(line) for line in terminal.seen.partition("\x1b[H")[2].split("\x1b[K")[:3]
        )
        assert longest <= columns + 2
    finally:
        terminal.close()
