"""Threads that call a user's handler, while the thread of the connection goes on serving it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import Any


@dataclass(eq=False)
class Job:
    """One message for the handler. ``channel`` and ``method`` are where it came from.

    Once it is ``done``, ``error`` is what the handler raised, or None.
    """

    channel: Any
    method: Any
    properties: Any
    body: bytes
    done: bool = False
    error: BaseException | None = None


class Workers:
    """``count`` threads with one queue of jobs; ``on_done`` is called in the thread of a worker.

    The threads are daemons: a handler that never returns does not keep the process alive.
    """

    def __init__(
        self, handler: Callable[[bytes, Any], object], count: int, on_done: Callable[[Job], None]
    ) -> None:
        self.count = count
        self._handler = handler
        self._on_done = on_done
        self._jobs: SimpleQueue[Job | None] = SimpleQueue()
        for number in range(count):
            threading.Thread(target=self._work, name=f"handler-{number}", daemon=True).start()

    def submit(self, job: Job) -> None:
        """Have the next free worker call the handler with a message."""
        self._jobs.put(job)

    def take_back(self) -> list[Job]:
        """The jobs that no worker has begun, which none will begin now."""
        jobs: list[Job] = []
        while True:
            try:
                job = self._jobs.get_nowait()
            except Empty:
                return jobs
            if job is not None:
                jobs.append(job)

    def end(self) -> None:
        """Let every thread end once its handler has returned."""
        for _ in range(self.count):
            self._jobs.put(None)

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            try:
                self._handler(job.body, job.properties)
            except BaseException as error:
                # SystemExit too: it would end this thread alone, and its message would stay out.
                job.error = error
            job.done = True
            self._on_done(job)
