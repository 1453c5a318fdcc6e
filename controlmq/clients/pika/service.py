"""A consumer as a service: connects, connects again, handles messages, drains when it stops."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from pika.exceptions import (
    AMQPError,
    ChannelClosedByBroker,
    ConnectionClosedByBroker,
    ConsumerCancelled,
)

from controlmq.clients.backoff import Backoff
from controlmq.clients.controlled_consumer import ControlledConsumer
from controlmq.clients.controllers import words_after
from controlmq.clients.health import Health
from controlmq.clients.pika.connecting import (
    RefusedError,
    UnreachableError,
    check_queue,
    connect,
    reason,
    url_parameters,
)
from controlmq.clients.pika.dispatching import (
    SERVE_EVERY_SECONDS,
    Dispatcher,
    GraceOverError,
    OnError,
)
from controlmq.clients.pika.user_handler import Handler
from controlmq.clients.pika.wrap import wrap
from controlmq.clients.settings import settings_from
from controlmq.clients.stopping import Stop
from controlmq.errors import ControlmqError, InputError
from controlmq.urls import shown

log = logging.getLogger("controlmq")

RECONNECT_PAUSES_SECONDS = 0.2, 30.0
"""The first and the longest pause before the URLs are tried again."""

STEADY_AFTER_SECONDS = 10.0
"""Seconds for which a connection has lasted when pauses start from the first one again."""

DEFAULT_GRACE_SECONDS = 30.0

CANCELLED = "the broker cancelled the consumer"
KEEPS = "the broker keeps messages of the consumer until its channel is closed"
"""Why a connection that works is closed."""

TOO_MANY_CONSUMERS_CODE = 530
"""With what a broker closes the connection of a channel that asks for one consumer too many. One
that the user has no right to, perhaps no longer, is answered by 403, and lanes are not to blame."""


class UnfinishedError(ControlmqError):
    """It has stopped with messages unacknowledged, which are delivered again."""


class Service:
    """Consumes ``queue`` on the first of ``urls`` that answers, until a stop is asked for.

    A connection that is lost is made again, with growing pauses, at the next of the URLs; the
    prefetch, the goal and the controller with its memory go on where they were. Only the first
    time a broker must answer at once. Where the broker keeps messages of a lane, the service closes
    its connection and makes it again in the same way.

    ``handler`` is called with the body and the properties of a message, in one of ``workers``
    threads; ``on_error`` says what follows if it raises (:data:`~controlmq.clients.pika.
    dispatching.OnError`). When stopping, handlers at work get ``grace`` seconds to finish.
    ``health`` is told how it is. ``settings`` are those of :func:`controlmq.wrap`.
    """

    def __init__(
        self,
        urls: Sequence[str],
        queue: str,
        handler: Handler,
        *,
        stop: Stop | None = None,
        workers: int = 1,
        on_error: OnError = "stop",
        grace: float = DEFAULT_GRACE_SECONDS,
        reconnect: bool = True,
        health: Health | None = None,
        **settings: Any,
    ) -> None:
        if not urls:
            raise InputError("there is no URL to connect to; give at least one.")
        for url in urls:
            url_parameters(url)
        self.stop = stop or Stop()
        self._urls = list(urls)
        self._queue = queue
        self._settings = {"handlers": workers} | settings
        settings_from(**self._settings)  # refuses mistakes before there is a connection
        self._reconnect = reconnect
        self._health = health or Health()
        self._dispatcher = Dispatcher(
            handler,
            self.stop,
            self._health,
            workers=workers,
            on_error=on_error,
            grace=grace,
        )
        self._pause = Backoff(*RECONNECT_PAUSES_SECONDS)
        self._channel: Any = None
        """The one that was wrapped last."""
        self._consumer: ControlledConsumer | None = None
        """The one that consumes now or did so last."""

    def run(self) -> None:
        """Consume until stopped. What ends it otherwise is raised, as a ``ControlmqError``."""
        try:
            while not self.stop.wanted:
                self._consume_until_lost()
            self._dispatcher.finish()
        except GraceOverError as over:
            raise self._dispatcher.failure or UnfinishedError(str(over)) from None
        except ControlmqError:
            with suppress(GraceOverError):
                self._dispatcher.finish()
            raise
        finally:
            self._dispatcher.end()
            self._health.close()
        if self._dispatcher.failure is not None:
            raise self._dispatcher.failure

    def _consume_until_lost(self) -> None:
        try:
            connection = self._connect()
        except (UnreachableError, RefusedError) as error:
            if self._consumer is None:
                raise
            self._wait(str(error).rstrip("."))
            return
        began = time.monotonic()
        try:
            self._consume(connection)
        except GraceOverError as over:
            if self.stop.wanted:
                raise self._dispatcher.failure or UnfinishedError(str(over)) from None
            self._wait(str(over).rstrip("."))
        except (AMQPError, OSError) as error:
            if time.monotonic() > began + STEADY_AFTER_SECONDS:
                self._pause.reset()
            self._keep_to_one_if_refused(error)
            self._lost(error)

    def _connect(self) -> Any:
        """A connection to the first URL that answers; the next call begins with the one after."""
        failures: list[ControlmqError] = []
        for _ in range(len(self._urls)):
            url = self._urls[0]
            self._urls.append(self._urls.pop(0))
            try:
                connection = connect(url)
            except (UnreachableError, RefusedError) as error:
                failures.append(error)
                if self.stop.wanted:
                    break  # each attempt may take long
            else:
                if self._consumer is not None:
                    log.warning("connected again, to %s", shown(url))
                return connection
        refused = any(isinstance(each, RefusedError) for each in failures)
        sentence = "; ".join(str(each).rstrip(".") for each in failures) + "."
        raise RefusedError(sentence) if refused else UnreachableError(sentence)

    def _consume(self, connection: Any) -> None:
        """Consume until stopped; raise when the connection is lost or the consumer is cancelled."""
        try:
            self._dispatcher.bound_stop(connection)
            if self.stop.wanted:
                return  # connecting may have taken long
            if self._consumer is None:
                check_queue(connection, self._queue)
            self._dispatcher.settle_lost()
            channel = self._subscribe(connection)

            def look() -> None:
                self._dispatcher.look(channel, self._why_again())
                connection.call_later(SERVE_EVERY_SECONDS, look)

            look()
            channel.start_consuming()
            why = self._why_again() or CANCELLED
            self._dispatcher.drain(channel, why)
            channel.close()
            if not self.stop.wanted:
                raise ConsumerCancelled(why)
        finally:
            self._dispatcher.forget()
            # One that a second Ctrl-C has interrupted may wait for ever when it is closed.
            if connection.is_open and not isinstance(sys.exception(), KeyboardInterrupt):
                with suppress(AMQPError, OSError):
                    connection.close()

    def _why_again(self) -> str | None:
        """Why to close a connection that works and connect again; None if there is no reason."""
        stuck = self._consumer is not None and self._consumer.plant.stuck
        return KEEPS if stuck and self._reconnect else None

    def _subscribe(self, connection: Any) -> Any:
        """A wrapped channel that consumes, from the second time on from where the last one was."""
        last, settings = self._consumer, self._settings
        if last is not None and last.adapts:
            settings = words_after(last, settings) | {"prefetch": None}
        channel = wrap(connection.channel(), go_on_from=self._channel, **settings)
        self._channel = channel
        tag = channel.basic_consume(self._queue, self._dispatcher)
        self._consumer = channel.adaptive_consumers[tag]
        return channel

    def _keep_to_one_if_refused(self, error: Exception) -> None:
        """If it was a further lane that the broker refused, ask for none from now on.

        AMQP has no other answer to a consumer too many than to close the connection. Every growth
        of the window would end like that.
        """
        by_broker = isinstance(error, ConnectionClosedByBroker)
        if self._consumer is None or not by_broker or self._settings.get("window") == "single":
            return
        asked = self._consumer.plant.pending
        further = asked is not None and asked.tag != self._consumer.tag
        if further and error.reply_code == TOO_MANY_CONSUMERS_CODE:  # type: ignore[attr-defined]
            self._settings["window"] = "single"
            log.warning(
                "queue %s: the broker allows no further consumer on the channel, so the window is "
                "a single subscription from now on; allow more, or run with --window single",
                self._queue,
            )

    def _lost(self, error: Exception) -> None:
        """A connection has ended: wait before another attempt, unless there is to be none."""
        why = reason(error)
        if self._consumer is None:
            refused = isinstance(error, ChannelClosedByBroker)
            kind = RefusedError if refused else UnreachableError
            raise kind(f"cannot consume {self._queue!r}: {why}.") from None
        if self.stop.wanted:
            raise self._dispatcher.failure or UnfinishedError(
                f"the connection was lost while stopping: {why}; messages that were not "
                "acknowledged are delivered again."
            ) from None
        if not self._reconnect:
            raise ControlmqError(
                f"lost the broker: {why}; messages in flight went back to their queue, start again."
            ) from None
        self._wait(why)

    def _wait(self, why: str) -> None:
        """Pause before another attempt."""
        pause = self._pause.pause()
        self._health.failed(why)
        log.warning("not consuming %s: %s; trying again in %.1f s", self._queue, why, pause)
        until = time.monotonic() + pause
        while time.monotonic() < until and not self.stop.wanted:
            time.sleep(min(pause, SERVE_EVERY_SECONDS))
