"""A real browser without a window: Chromium, spoken to through its DevTools pipe."""

from __future__ import annotations

import base64
import fcntl
import itertools
import json
import os
import select
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ANSWER_DEADLINE = 60.0
"""Seconds for the browser to answer, on a busy machine."""


class Browser:
    """One page of a browser."""

    def __init__(self, write: int, read: int) -> None:
        self._write, self._read = write, read
        self._numbers = itertools.count(1)
        self._received = b""
        self._session: str | None = None
        target = self.do("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.do("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        self.do("Page.enable")

    def do(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Carry out a command of the DevTools protocol."""
        number = next(self._numbers)
        command: dict[str, Any] = {"id": number, "method": method, "params": parameters}
        if self._session is not None:
            command["sessionId"] = self._session
        sent = json.dumps(command).encode() + b"\0"
        while sent:
            sent = sent[os.write(self._write, sent) :]
        while True:
            answer = self._next()
            if answer.get("id") == number:
                assert "error" not in answer, answer["error"]
                return dict(answer["result"])

    def open(self, url: str) -> None:
        """Go to a page, and return when it is there."""
        self.do("Page.navigate", url=url)
        self.until("document.readyState === 'complete' && location.href !== 'about:blank'")

    def value(self, expression: str) -> Any:
        """What an expression of JavaScript is worth there; a promise is awaited."""
        answer = self.do(
            "Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True
        )
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def until(self, expression: str, deadline: float = ANSWER_DEADLINE) -> Any:
        """The value of an expression, once it is true."""
        end = time.monotonic() + deadline
        while not (value := self.value(expression)):
            assert time.monotonic() < end, f"never true: {expression}"
            time.sleep(0.05)
        return value

    def show_as(self, width: int, height: int, scheme: str) -> None:
        """Be a screen of this size whose user wants a ``light`` or a ``dark`` page."""
        self.do(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=width < 600,
        )
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self.do("Emulation.setEmulatedMedia", features=features)

    def screenshot(self, path: Path) -> None:
        """Keep what the whole page looks like."""
        shot = self.do("Page.captureScreenshot", captureBeyondViewport=True)
        path.write_bytes(base64.b64decode(shot["data"]))

    def _next(self) -> dict[str, Any]:
        end = time.monotonic() + ANSWER_DEADLINE
        while b"\0" not in self._received:
            ready, _, _ = select.select([self._read], [], [], max(0.0, end - time.monotonic()))
            assert ready, "the browser does not answer"
            part = os.read(self._read, 1 << 16)
            assert part, "the browser has ended"
            self._received += part
        message, _, self._received = self._received.partition(b"\0")
        return dict(json.loads(message))


@contextmanager
def browser() -> Iterator[Browser]:
    """A browser for the length of a ``with`` block."""
    found = shutil.which("chromium")
    assert found, "chromium is not installed; run: tools/need chromium"
    # The browser reads commands from descriptor 3 and writes answers to descriptor 4.
    commands_out, commands_in = os.pipe()
    answers_out, answers_in = os.pipe()
    spare = [fcntl.fcntl(each, fcntl.F_DUPFD_CLOEXEC, 10) for each in (commands_out, answers_in)]

    def connect() -> None:
        os.dup2(spare[0], 3)
        os.dup2(spare[1], 4)

    with tempfile.TemporaryDirectory(prefix="controlmq-browser-") as folder:
        process = subprocess.Popen(
            [
                *(
                    found,
                    "--headless=new",
                    "--remote-debugging-pipe",
                    "--no-sandbox",
                    "--disable-gpu",
                ),
                *("--disable-dev-shm-usage", "--no-first-run", "--hide-scrollbars"),
                *("--disable-background-networking", "--disable-component-update"),
                *("--enable-precise-memory-info", "--js-flags=--expose-gc"),
                f"--user-data-dir={folder}",
            ],
            preexec_fn=connect,
            close_fds=False,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        for each in (commands_out, answers_in, *spare):
            os.close(each)
        try:
            yield Browser(commands_in, answers_out)
        finally:
            process.kill()
            process.wait()
            os.close(commands_in)
            os.close(answers_out)
            _removable(Path(folder))


def _removable(folder: Path, tries: int = 100) -> None:
    """Wait until what the browser started has stopped writing to its folder."""
    for _ in range(tries):
        shutil.rmtree(folder, ignore_errors=True)
        if not folder.exists():
            folder.mkdir()
            return
        time.sleep(0.05)
