"""A Celery worker in a process of its own, and what its tasks noted."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from tests.testbed.celery_app.shop import WAITS, make_app
from tests.testbed.management import DEADLINE, wait_until

APP = Path(__file__).with_name("celery_app")
ROOT = Path(__file__).parents[2]

CONFIRMED = {"confirm_publish": True}
"""Options of a connection that waits for the broker to confirm each message. A quorum queue may
lose the last messages of a channel that publishes without confirms and is closed at once."""

OTHER_PYTHON = "CONTROLMQ_TEST_CELERY_PYTHON"
"""The variable that names an interpreter with another version of Celery."""


class Done(NamedTuple):
    """One run of a task: its number, and when it began and ended, in seconds since 1970."""

    number: int
    begun: float
    ended: float


class Over(NamedTuple):
    """Slots granted or messages in flight, whichever is more, and what was allowed."""

    most: int
    bound: int


class Worker:
    """One worker of the app in ``celery_app``.

    ``shop`` is what the app is made with, ``adapt`` included: None there leaves Celery as it is.
    ``python`` is the interpreter of an environment with the Celery to run; else the one that a
    variable names, else this one.
    """

    def __init__(
        self,
        folder: Path,
        url: str,
        queues: Sequence[str],
        *,
        pool: str = "prefork",
        concurrency: int = 2,
        arguments: Sequence[str] = (),
        python: str | None = None,
        name: str = "one",
        **shop: Any,
    ) -> None:
        self.name = f"{name}@{os.getpid()}.{time.monotonic_ns()}"
        self.folder = folder
        self._notes = folder / f"{name}.notes"
        self._notes.touch()
        self._log = folder / f"{name}.log"
        self.shop = {"url": url, "queues": list(queues), **shop}
        self.app = make_app(
            **{**self.shop, "adapt": None, "plan": (), "joins": ""},
            broker_transport_options=CONFIRMED,
        )
        variables = {
            **os.environ,
            "SHOP": json.dumps({**self.shop, "notes": str(self._notes)}),
            "PYTHONPATH": str(ROOT),
        }
        python = python or os.environ.get(OTHER_PYTHON) or sys.executable
        words = [python, "-m", "celery", "--workdir", str(APP), "-A", "shop", "worker"]
        words += ["--pool", pool, "--concurrency", str(concurrency), "--hostname", self.name]
        words += ["--loglevel", "INFO", *arguments]
        with open(self._log, "w") as log:
            self.process = subprocess.Popen(
                words, env=variables, cwd=folder, stdout=log, stderr=subprocess.STDOUT
            )

    def wait_until_ready(self) -> None:
        """Wait until it consumes."""
        self.wait(lambda: " ready." in self.log, "the worker is ready")

    def wait_until_waiting(self) -> None:
        """Wait until a worker that is to join later has nothing left to do but that."""
        self.wait(lambda: WAITS in self.log, "the worker waits")

    def wait(self, condition: Any, what: str, deadline: float = DEADLINE) -> None:
        """Wait for a condition; a worker that ended shows what it printed."""

        def holds() -> bool:
            if condition():
                return True
            assert self.process.poll() is None, f"the worker has ended:\n{self.log[-3000:]}"
            return False

        wait_until(holds, what, deadline)

    @property
    def log(self) -> str:
        """All that it printed."""
        return self._log.read_text(errors="replace")

    def _noted(self, kind: str) -> list[list[str]]:
        lines = self._notes.read_text().splitlines()
        return [words[1:] for words in map(str.split, lines) if words[0] == kind]

    @property
    def done(self) -> list[Done]:
        """The runs that have ended, in this order."""
        return [Done(int(a), float(b), float(c)) for a, b, c in self._noted("done")]

    @property
    def begun(self) -> list[int]:
        """Numbers of the tasks that have begun, in this order."""
        return [int(words[0]) for words in self._noted("begun")]

    @property
    def twice(self) -> dict[int, int]:
        """Numbers of the tasks that have begun more than once, and how often."""
        return {number: times for number, times in Counter(self.begun).items() if times > 1}

    @property
    def redelivered(self) -> list[int]:
        """Numbers of the tasks that the broker delivered again."""
        return [int(words[0]) for words in self._noted("begun") if words[2] == "1"]

    @property
    def over(self) -> list[Over]:
        """Moments at which there was more than was asked for."""
        return [Over(max(int(a), int(b)), int(c)) for a, b, c in self._noted("over")]

    @property
    def changed(self) -> bool:
        """Whether all changes have been made."""
        return bool(self._noted("changed"))

    def publish(
        self, numbers: Sequence[int], seconds: float = 0.0, queue: str | None = None, **options: Any
    ) -> None:
        """Send tasks to a queue, by default the first."""
        queue = queue or self.shop["queues"][0]
        with self.app.connection_for_write() as connection, connection.channel() as channel:
            producer = self.app.amqp.Producer(channel, auto_declare=False)
            for number in numbers:
                self.app.send_task(
                    "shop.work",
                    (number, seconds),
                    producer=producer,
                    queue=queue,
                    **options,
                )

    def stats(self) -> dict[str, Any]:
        """What ``celery inspect stats`` says of this worker."""
        found: dict[str, Any] = {}

        def answered() -> bool:
            asked = self.app.control.inspect([self.name], timeout=2.0)
            found.update((asked.stats() or {}).get(self.name, {}))
            return bool(found)

        self.wait(answered, "the worker says what it does")
        return found

    def stop(self, by: signal.Signals = signal.SIGTERM) -> int:
        """End it; returns its exit code."""
        if self.process.poll() is None:
            self.process.send_signal(by)
        return self.process.wait(DEADLINE)

    def close(self) -> None:
        """End it in any case."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGQUIT)  # does not wait for tasks
            try:
                self.process.wait(10)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        self.app.close()


@contextmanager
def celery_worker(*args: Any, **kwargs: Any) -> Iterator[Worker]:
    """A worker that is ready, or waits to join; it is ended afterwards."""
    worker = Worker(*args, **kwargs)
    try:
        if kwargs.get("joins"):
            worker.wait_until_waiting()
        else:
            worker.wait_until_ready()
        yield worker
    finally:
        worker.close()
