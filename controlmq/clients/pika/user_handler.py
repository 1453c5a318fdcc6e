"""Running a user's handler for every message: inline, or in a pool of threads."""

from __future__ import annotations

import importlib
import sys
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pika

from controlmq.errors import ControlmqError, InputError

Handler = Callable[[bytes, pika.BasicProperties], object]
"""What a user writes: takes a message's body and properties, returns when it is handled."""


def load_handler(name: str) -> Handler:
    """The function that ``module:function`` names; the current folder is searched too."""
    module_name, _, function = name.partition(":")
    if not module_name or not function:
        raise InputError(f"the handler {name!r} has no function; give module:function.")
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        found: Any = importlib.import_module(module_name)
        for part in function.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError) as error:
        raise InputError(f"cannot load the handler {name!r}: {error}.") from None
    if not callable(found):
        raise InputError(f"the handler {name!r} is not a function but a {type(found).__name__}.")
    handler: Handler = found
    return handler


def work_of(seconds: float) -> Handler:
    """A handler that waits this long for each message and drops it."""

    def work(body: bytes, properties: pika.BasicProperties) -> None:
        time.sleep(seconds)

    return work


class Handling:
    """Hands each message to the handler and acknowledges it once that returns.

    With ``workers`` above 1 handlers run in that many threads, and the window bounds how many
    messages they have at once. A handler that raises stops the consumer: its message, and
    those not handled yet, go back to the queue, and ``error`` says what happened.
    """

    def __init__(self, channel: Any, handler: Handler, workers: int = 1) -> None:
        self.error: ControlmqError | None = None
        self._channel = channel
        self._handler = handler
        self._pool = ThreadPoolExecutor(workers) if workers > 1 else None

    def __call__(self, channel: Any, method: Any, properties: Any, body: bytes) -> None:
        """pika's callback."""
        if self.error is not None:
            return
        if self._pool is None:
            self._settle(method.delivery_tag, self._handle(body, properties))
            return
        future = self._pool.submit(self._handle, body, properties)
        future.add_done_callback(partial(self._done, method.delivery_tag))

    def _handle(self, body: bytes, properties: Any) -> ControlmqError | None:
        try:
            self._handler(body, properties)
        except Exception as error:
            return ControlmqError(
                f"the handler raised {type(error).__name__}: {error}; its message went back to "
                "the queue."
            )
        return None

    def _done(self, tag: int, future: Future[ControlmqError | None]) -> None:
        if not future.cancelled():
            settle = partial(self._settle, tag, future.result())
            self._channel.connection.add_callback_threadsafe(settle)

    def _settle(self, tag: int, error: ControlmqError | None) -> None:
        if not self._channel.is_open:
            return
        if error is None:
            self._channel.basic_ack(tag)
        else:
            self.error = self.error or error
            self._channel.basic_nack(tag, requeue=True)
            self._channel.stop_consuming()

    def __enter__(self) -> Handling:
        return self

    def __exit__(self, *error: object) -> None:
        """Wait for the handlers that run, so that their messages are acknowledged."""
        if self._pool is not None:
            self._pool.shutdown(wait=True, cancel_futures=True)
            if self._channel.connection.is_open:
                self._channel.connection.process_data_events(0)
