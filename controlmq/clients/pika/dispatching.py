"""Messages between a channel and the workers that handle them: answered, given back, drained.

Everything here runs in the thread of the connection. Handlers never do, so that heartbeats and
acks go on however long a handler takes.
"""

from __future__ import annotations

import logging
import time
from collections import OrderedDict
from collections.abc import Hashable
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Any, Literal, get_args

from pika.exceptions import AMQPError

from controlmq.checks import not_negative
from controlmq.clients.backoff import Backoff
from controlmq.clients.channel_runner import clock
from controlmq.clients.handled import BROKER_HEADERS, MOST_REMEMBERED, key_of
from controlmq.clients.health import Health
from controlmq.clients.pika import private
from controlmq.clients.pika.user_handler import Handler
from controlmq.clients.stopping import Stop
from controlmq.clients.workers import Job, Workers
from controlmq.errors import ControlmqError, InputError

log = logging.getLogger("controlmq")

OnError = Literal["stop", "requeue", "reject"]
"""What a handler that raises means: stop the service; give the message back, and reject it if it
fails here too often or keeps coming back; or reject it at once. A rejected message goes to the
dead-letter exchange of its queue, and is dropped where there is none."""

SERVE_EVERY_SECONDS = 0.1
"""Seconds between looks at the connection, and at whether to stop, while nothing else happens."""

LAST_ANSWERS_SECONDS = 5.0
"""Seconds beyond the grace for the broker to answer when the consumers and the connection end."""

REQUEUE_PAUSES_SECONDS = 1.0, 30.0
"""The first and the longest pause before a failed message is given back."""

MOST_TRIES = 10
"""Failures here after which a message is rejected. With the pauses between them that takes two
minutes or so, and what is behind a handler is seldom away for longer; a message that can never be
handled must not come back for good."""

LEAST_SECONDS_OF_ALL_TRIES = 75.0
"""Seconds that the pauses between so many tries of one message take at least. Several messages
without an id and with the same body share a count, which grows faster."""

KEEPS_COMING_BACK_DELIVERIES = 10
"""Deliveries before this one, by the count of a quorum queue, from which on a message that fails is
rejected wherever it failed before. From RabbitMQ 4 on the queue itself rejects it after 20."""


class HandlerError(ControlmqError):
    """A handler raised, and the user wants to stop then."""


class GraceOverError(Exception):
    """Handlers are still at work when the time for them to finish is over."""


class Dispatcher:
    """Hands each message to the workers and acknowledges it once its handler has returned.

    With one worker the next message is handed over when the one before is handled, as if the
    handler ran inline. With several, the window bounds how many they have at once.
    """

    def __init__(
        self,
        handler: Handler,
        stop: Stop,
        health: Health,
        *,
        workers: int = 1,
        on_error: OnError = "stop",
        grace: float,
    ) -> None:
        if on_error not in get_args(OnError):
            raise InputError(f"on_error is {on_error!r}; give 'stop', 'requeue' or 'reject'.")
        self._grace = not_negative("grace", grace)
        self.failure: HandlerError | None = None
        self._out: set[Job] = set()
        """Messages that workers have."""
        self._abandoned: set[Job] = set()
        """Messages that workers still had when their connection was lost."""
        self._come_again: dict[Job, Job] = {}
        """Of these, the ones that the broker has delivered again meanwhile: the new delivery, which
        gets the answer of the handler that is at work."""
        self._stop = stop
        self._health = health
        self._on_error = on_error
        self._finished: SimpleQueue[Job] = SimpleQueue()
        self._going_back: list[Job] = []
        """Messages for the queue: those that failed, and those that nobody has begun."""
        self._parked: Job | None = None
        """One of them that has no slot while it waits: a single message that can never be handled
        stops no other, and where all fail, because something is down, few are tried."""
        self._failures = Failures()
        self._failing = False
        self._workers = Workers(handler, workers, self._on_done)

    def bound_stop(self, connection: Any) -> None:
        """Bound the time that a stop waits for a broker that does not answer."""
        most = self._grace + LAST_ANSWERS_SECONDS

        def why() -> str | None:
            since = self._stop.since
            over = since is not None and time.monotonic() > since + most
            return f"the broker did not answer within {most:g} s" if over else None

        private.give_up_when(connection, why, SERVE_EVERY_SECONDS)

    def __call__(self, channel: Any, method: Any, properties: Any, body: bytes) -> None:
        """Take a message from pika."""
        self._health.beat()
        job = Job(channel, method, properties, body)
        if self._stop.wanted:
            self._going_back.append(job)
            channel.stop_consuming()
            return
        self._out.add(job)
        if not self._is_at_work(job):
            self._workers.submit(job)
        if self._workers.count == 1:
            self._wait_for(job)

    def _is_at_work(self, job: Job) -> bool:
        """Whether a worker has this message already, from a connection that was lost."""
        if not (self._abandoned and job.method.redelivered):
            return False
        key = key_of(job.properties, job.body)
        if key is None:
            return False
        for before in self._abandoned - self._come_again.keys():
            if key_of(before.properties, before.body) == key:
                self._come_again[before] = job
                if before.done:  # it may not have known where to tell that
                    job.channel.connection.call_later(0, self._settle_finished)
                return True
        return False

    def look(self, channel: Any, trouble: str | None = None) -> None:
        """Report that all is well, or cancel the consumers: because of ``trouble``, or to stop."""
        if channel.is_open and channel.consumer_tags:
            self._health.beat()
            trouble = "stopping" if self._stop.wanted else trouble
            if trouble is not None:
                self._health.failed(trouble)
                channel.stop_consuming()

    def drain(self, channel: Any, trouble: str) -> None:
        """Let handlers at work finish and give back messages not begun, once no consumer is left.

        ``trouble`` says why none is, unless a stop was asked for. :class:`GraceOverError` if
        handlers take longer than ``grace`` seconds.
        """
        began = time.monotonic()
        self._health.failed("stopping" if self._stop.wanted else trouble)
        self._take_back()
        self._give_back()
        while self._out:
            self._check_grace(began)
            channel.connection.process_data_events(SERVE_EVERY_SECONDS)
            self._settle_finished()
            self._give_back()

    def forget(self) -> None:
        """Forget all messages: the connection is lost, and the broker has put them back."""
        never_begun = self._workers.take_back()
        self._abandoned = self._at_work().difference(never_begun)
        self._come_again.clear()
        self._out.clear()
        self._going_back.clear()
        self._parked = None

    def settle_lost(self) -> None:
        """Before another connection: handlers that have ended without theirs count as answered."""
        self._settle_finished()

    def finish(self) -> None:
        """Wait for handlers that are still at work though their connection is gone.

        :class:`GraceOverError` if they take longer than ``grace`` seconds.
        """
        began = time.monotonic()
        self._health.failed("stopping")
        while any(not job.done for job in self._abandoned):
            self._check_grace(began)
            time.sleep(SERVE_EVERY_SECONDS)

    def end(self) -> None:
        """Let the workers go."""
        self._workers.end()

    # With the workers

    def _on_done(self, job: Job) -> None:
        """Tell the connection's thread that a job is done, unless it waits for that anyway."""
        self._finished.put(job)
        if self._workers.count > 1:
            with suppress(AMQPError):  # the connection is gone, and the message with it
                channel = self._come_again.get(job, job).channel
                channel.connection.add_callback_threadsafe(self._settle_finished)

    def _wait_for(self, job: Job) -> None:
        """Serve the connection until a message is handled; pika dispatches nothing meanwhile."""
        while job in self._out:
            try:
                finished = self._finished.get(timeout=SERVE_EVERY_SECONDS)
            except Empty:
                self.look(job.channel)
                if self._stop.wanted:
                    self._take_back()
                    if job not in self._out:
                        return  # the worker is busy with a message of a connection that is lost
                self._check_grace()
                job.channel.connection.process_data_events(0)
                if job.channel.is_open:
                    job.channel.give_back_due()
            else:
                self._settle(finished)

    def _check_grace(self, began: float | None = None) -> None:
        """Stopping, or what began then, must not take longer than is allowed."""
        since = self._stop.since or began
        at_work = len(self._at_work())
        if at_work and since is not None and time.monotonic() > since + self._grace:
            raise GraceOverError(
                f"{at_work} of the handlers were still at work after {self._grace:g} s of grace; "
                "their messages are delivered again."
            )

    def _at_work(self) -> set[Job]:
        """Messages that workers have, each once."""
        all_out = self._out.union(self._abandoned).difference(self._come_again.values())
        return {job for job in all_out if not job.done}

    def _settle_finished(self) -> None:
        with suppress(Empty):
            while True:
                self._settle(self._finished.get_nowait())

    def _take_back(self) -> None:
        """Take back what no worker has begun, so that it goes back to the queue."""
        for job in self._workers.take_back():
            self._out.discard(job)
            self._going_back.append(job)

    # Answers to the broker

    def _settle(self, job: Job) -> None:
        self._out.discard(job)
        self._abandoned.discard(job)
        again = self._come_again.pop(job, None)
        if again is not None:
            again.done, again.error = True, job.error
            self._settle(again)
            return
        if job.error is None:
            self._failures.end_of(job)
        if not job.channel.is_open:
            # The broker has put it back already; its next delivery need not be handled.
            if job.error is None:
                with suppress(AMQPError):
                    job.channel.basic_ack(job.method.delivery_tag)
            return
        if job.error is None:
            self._failing = False
            job.channel.basic_ack(job.method.delivery_tag)
        elif self._on_error == "stop":
            self._stop_for(job)
        elif self._on_error == "requeue":
            self._try_again(job)
        else:
            self._reject(job)

    def _reject(self, job: Job, why: str = "") -> None:
        self._failures.end_of(job)
        self._log(job, f"{why}it goes to the dead-letter exchange, or is dropped if there is none")
        job.channel.basic_reject(job.method.delivery_tag, requeue=False)

    def _stop_for(self, job: Job) -> None:
        """Stop because a handler raised; its message goes back after the cancel.

        Before that, a lane that is still open would get it."""
        self._going_back.append(job)
        self._stop.ask()
        if self.failure is None:
            self.failure = HandlerError(
                f"the handler raised {_said(job)}; its message went back to the queue."
            )
        self.look(job.channel)

    def _try_again(self, job: Job) -> None:
        """Give it back after a pause, unless it has failed too often or keeps coming back.

        That it was delivered before says neither: so is every message in flight when a connection
        is lost, and what goes back when a consumer stops.
        """
        tries, pause = self._failures.add(job, clock())
        count = (job.properties.headers or {}).get("x-delivery-count", 0)
        if tries >= MOST_TRIES:
            self._reject(job, f"that was try {tries} of {MOST_TRIES}, and ")
        elif job.method.redelivered and count >= KEEPS_COMING_BACK_DELIVERIES:
            self._reject(job, f"it was delivered {count} times before, and ")
        else:
            self._log(job, f"it goes back in {pause:.1f} s: try {tries} of {MOST_TRIES}")
            self._requeue_later(job, pause)

    def _requeue_later(self, job: Job, pause: float) -> None:
        self._going_back.append(job)
        if not self._stop.wanted:
            if self._parked is None:
                self._parked = job
                job.channel.park(job.method.delivery_tag)
            job.channel.connection.call_later(pause, lambda: self._requeue(job))

    def _requeue(self, job: Job) -> None:
        if job in self._going_back:
            self._going_back.remove(job)
            parked = job is self._parked
            if parked:
                self._parked = None
            if job.channel.is_open:
                if parked:
                    job.channel.unpark(job.method.delivery_tag)
                job.channel.basic_nack(job.method.delivery_tag, requeue=True)

    def _give_back(self) -> None:
        for job in list(self._going_back):
            self._requeue(job)

    def _log(self, job: Job, outcome: str) -> None:
        """Log a failure; of several in a row only the first has its traceback."""
        log.error(
            "the handler failed with message %d (%s); %s",
            job.method.delivery_tag,
            _said(job),
            outcome,
            exc_info=None if self._failing else job.error,
        )
        self._failing = True


class Failures:
    """How often messages have failed here, and for how long each then pauses.

    A message is known by its id or, where it has none, by its body, which others may have too.
    """

    def __init__(self) -> None:
        self._failed: OrderedDict[Hashable, tuple[int, float, Backoff]] = OrderedDict()

    def add(self, job: Job, now: float) -> tuple[int, float]:
        """A message has failed: how often by now, and seconds to wait before it is tried again.

        One that was never delivered before is another with the same key. Of too many the one that
        failed longest ago is forgotten.
        """
        key = _identity(job)
        known = self._failed.pop(key, None) if job.method.redelivered else None
        times, since, pauses = known or (0, now, Backoff(*REQUEUE_PAUSES_SECONDS))
        times += 1
        self._failed[key] = times, since, pauses
        if len(self._failed) > MOST_REMEMBERED:
            self._failed.popitem(last=False)
        if isinstance(key, int):  # others may have the same body
            times = min(times, _most_failures_of_one(job, now - since))
        return times, pauses.pause()

    def end_of(self, job: Job) -> None:
        """A message was handled or rejected, and does not come back."""
        if self._failed:
            self._failed.pop(_identity(job), None)


def _most_failures_of_one(job: Job, seconds: float) -> int:
    """How often one message may have failed of those that have its body and no id.

    By its deliveries, where the broker counts them, or else by the ``seconds`` for which they fail.
    """
    counts = [
        each for name, each in (job.properties.headers or {}).items() if name in BROKER_HEADERS
    ]
    if counts:
        return 1 + int(max(counts))
    return MOST_TRIES if seconds >= LEAST_SECONDS_OF_ALL_TRIES else MOST_TRIES - 1


def _identity(job: Job) -> Hashable:
    """What tells a message apart from others that fail: its id or, where it has none, its body."""
    return key_of(job.properties, job.body) or hash(job.body)


def _said(job: Job) -> str:
    return f"{type(job.error).__name__}: {job.error}"
