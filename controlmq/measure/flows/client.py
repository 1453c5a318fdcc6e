"""The locations of one process, on one connection and in one thread of pika's event loop.

Each location has a channel to receive on and one or two to publish on. They share the connection:
one thread reads one socket after another in any case, and more of them would only add calls to
the system. Nothing waits for the broker: confirms and acknowledgements follow when they can, so
that a message is handed over as soon as it is here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

import pika
from pika.adapters.select_connection import IOLoop

from controlmq.clients.pika.connecting import url_parameters
from controlmq.measure.flows.notes import Notes, clock
from controlmq.measure.flows.plan import Driver, Location, Outgoing, Plan, Receiver
from controlmq.measure.flows.sending import STAMP, Outlet, Sender, nothing
from controlmq.urls import shown

LATE_AFTER_SECONDS = 0.01
"""A driver that sends this long after its time counts as late."""


class Client:
    """Runs its locations by commands from a pipe, and answers there.

    It sends "ready" when all locations have subscribed. "start" gives the time to start at;
    it answers "count" with the messages sent and received, and "stop" with its notes.
    """

    def __init__(self, url: str, plan: Plan, locations: Sequence[Location], pipe: Any) -> None:
        self.plan, self.locations, self.pipe = plan, locations, pipe
        self.notes = Notes()
        self.blocked = False
        self._where = shown(url)
        self._failure: str | None = None
        self._stopping = False
        self._outstanding = 1
        self._desks: list[_Desk] = []
        self.loop = IOLoop()
        self.connection = pika.SelectConnection(
            url_parameters(url),
            on_open_callback=self._opened,
            on_open_error_callback=self._closed,
            on_close_callback=self._closed,
            custom_ioloop=self.loop,
        )

    def run(self) -> None:
        """Run until "stop", or until the pipe is closed or the broker lost."""
        self.loop.add_handler(self.pipe.fileno(), self._commanded, IOLoop.READ)
        self.loop.start()
        with suppress(OSError):  # the other end may be closed
            if self._failure is None:
                self.pipe.send(("notes", self.notes))
            else:
                self.pipe.send(("failed", self._failure))

    def expect(self) -> None:
        """One more answer of the broker is needed before all are ready."""
        self._outstanding += 1

    def arrived(self) -> None:
        """One of these answers has arrived."""
        self._outstanding -= 1
        if self._outstanding == 0:
            self.pipe.send(("ready", None))

    def channel_closed(self, _: Any, reason: Exception) -> None:
        """A channel that closes before the end is a failure."""
        if not self._stopping:
            self._fail(reason)

    def _opened(self, connection: Any) -> None:
        connection.add_on_connection_blocked_callback(lambda *_: self._block(True))
        connection.add_on_connection_unblocked_callback(lambda *_: self._block(False))
        self._desks = [_Desk(self, location) for location in self.locations]
        self.arrived()

    def _block(self, blocked: bool) -> None:
        self.blocked = blocked
        if not blocked:
            for desk in self._desks:
                desk.go_on()

    def _closed(self, _: Any, reason: Any) -> None:
        if self._stopping:
            self.loop.stop()
        else:
            self._fail(reason)

    def _fail(self, reason: Any) -> None:
        self._failure = f"lost {self._where}: {str(reason) or type(reason).__name__}"
        self.loop.stop()

    def _commanded(self, *_: Any) -> None:
        try:
            word, value = self.pipe.recv()
        except (EOFError, OSError):
            word, value = "stop", None
        if word == "start":
            self.notes.began = value
            for desk in self._desks:
                desk.start(value)
        elif word == "count":
            self.pipe.send(("counts", self.notes.counts()))
        else:
            self._stopping = True
            self.loop.remove_handler(self.pipe.fileno())
            if self.connection.is_open:
                self.connection.close()
            else:
                self.loop.stop()  # pika cannot close what is not open yet


class _Desk:
    """A location's channels, its drivers and what it does with each message."""

    def __init__(self, client: Client, location: Location) -> None:
        self.client, self.location = client, location
        self._senders: dict[bool, Sender] = {}
        self._drivers = [
            _Driver(client, each, self._outlet(each.message)) for each in location.drivers
        ]
        self._answers = {
            receiver.queue: {
                type_: [self._outlet(message) for message in messages]
                for type_, messages in receiver.answers.items()
            }
            for receiver in location.receivers
        }
        if location.receivers:
            client.expect()
            client.connection.channel(on_open_callback=self._subscribe)

    def start(self, began: float) -> None:
        """The run begins."""
        for driver in self._drivers:
            driver.start(began)

    def go_on(self) -> None:
        """The broker takes messages again."""
        for driver in self._drivers:
            driver.go_on()

    def _outlet(self, message: Outgoing) -> Outlet:
        client, confirmed = self.client, message.confirmed
        if confirmed not in self._senders:
            client.expect()
            self._senders[confirmed] = Sender(
                client.connection, confirmed, client.arrived, client.channel_closed
            )
        return Outlet(message, client.plan, self._senders[confirmed], client.notes)

    def _subscribe(self, channel: Any) -> None:
        channel.add_on_close_callback(self.client.channel_closed)
        for receiver in self.location.receivers:
            # pika keeps calls in order; each qos is for the consumer that follows.
            channel.basic_qos(prefetch_count=receiver.prefetch)
            self.client.expect()
            channel.basic_consume(
                self.client.plan.name(receiver.queue),
                partial(self._receive, receiver, self._answers[receiver.queue]),
                callback=lambda _: self.client.arrived(),
            )
        self.client.arrived()

    def _receive(
        self,
        receiver: Receiver,
        answers: dict[str, list[Outlet]],
        channel: Any,
        method: Any,
        properties: Any,
        body: bytes,
    ) -> None:
        now = clock()
        sent, origin = STAMP.unpack_from(body)
        self.client.notes.received[receiver.queue, properties.type].extend((sent, origin, now))
        outlets = answers.get(properties.type, [])
        acknowledge = partial(channel.basic_ack, method.delivery_tag)
        if not receiver.after_answers:
            acknowledge()
            _send_all(outlets, origin)
        elif outlets:
            _send_all(outlets, origin, _After(len(outlets), acknowledge))
        else:
            acknowledge()


def _send_all(outlets: Iterable[Outlet], origin: float, then: Callable[[], None] = nothing) -> None:
    """Send answers, all stamped with this moment: handing them over is part of their latency."""
    now = clock()
    for outlet in outlets:
        outlet.send(now, origin, then)


class _After:
    """Calls a function once, after the last of several expected calls."""

    def __init__(self, times: int, does: Any) -> None:
        self._left, self._does = times, does

    def __call__(self) -> None:
        self._left -= 1
        if self._left == 0:
            self._does()


class _Driver:
    """Sends at its times, or as soon as nothing prevents it any more."""

    def __init__(self, client: Client, driver: Driver, outlet: Outlet) -> None:
        self.client, self.outlet = client, outlet
        self._times = iter(driver.times)
        self._starts = client.notes.starts[driver.name]
        self._late = client.notes.late[driver.name]
        self._began = 0.0
        self._due: float | None = None
        self._held = False
        self._unconfirmed = False

    def start(self, began: float) -> None:
        """Wait for the first time to send."""
        self._began = began
        self._wait_for_next()

    def go_on(self) -> None:
        """Send what had to wait, if anything had."""
        if self._held:
            self._try()

    def _wait_for_next(self) -> None:
        self._due = next(self._times, None)
        if self._due is not None:
            wait = self._began + self._due - clock()
            self.client.loop.call_later(max(wait, 0.0), self._try)

    def _try(self) -> None:
        assert self._due is not None
        if self._unconfirmed or self.client.blocked:
            self._held = True
            return
        self._unconfirmed = self.outlet.sender.confirmed
        now = clock()
        self.outlet.send(now, now, self._confirmed)
        self._starts.append(now)
        if self._held or now - self._began - self._due > LATE_AFTER_SECONDS:
            self._late.append(now)
        self._held = False
        self._wait_for_next()

    def _confirmed(self) -> None:
        self._unconfirmed = False
        self.go_on()
