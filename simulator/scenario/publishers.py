"""Publishers: how many there are, how often they send, what and where to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from controlmq.errors import InputError
from simulator.scenario import checks
from simulator.scenario.changes import Change, check_changes
from simulator.scenario.distributions import Duration, Size
from simulator.scenario.messages import Message

SHORTEST_PUBLISH_INTERVAL_SECONDS = 1e-6
"""One publisher sends at most a million messages a second, so that simulated time advances."""


@dataclass(frozen=True)
class Publishers:
    """``count`` equal publishers that send messages to a queue or through an exchange.

    ``every`` is the time between two messages of one publisher. Each publisher begins at a random
    point of its cycle; with replayed intervals, each begins with the first of them. Messages have
    ``message_size`` bytes and go to ``queue``, or with ``routing_key`` to ``exchange``;
    ``messages`` lists several kinds instead. ``confirms`` is how many messages of one publisher
    may wait for the broker's confirm. ``link`` names the link to the broker, on which each
    publisher has a connection. ``schedule`` changes the rate while the scenario runs: ramps,
    bursts, pauses.
    """

    name: str
    queue: str | None = None
    every: Duration = None  # type: ignore[assignment] # required, but follows an optional one
    count: int = 1
    message_size: int | Size = 0
    exchange: str | None = None
    routing_key: str = ""
    messages: Sequence[Message] = ()
    persistent: bool = False
    confirms: int | None = None
    link: str | None = None
    schedule: Sequence[Change] = ()

    def __post_init__(self) -> None:
        checks.text("name", self.name)
        if self.every is None:
            raise InputError("'every' is missing; give it a value.")
        checks.duration("every", self.every)
        if self.every.mean < SHORTEST_PUBLISH_INTERVAL_SECONDS:
            raise InputError(
                f"every has a mean of {self.every.mean:g} seconds; "
                f"give at least {SHORTEST_PUBLISH_INTERVAL_SECONDS:g}."
            )
        checks.whole("count", self.count, 1, 1_000_000)
        checks.size("message_size", self.message_size)
        checks.any_text("routing_key", self.routing_key)
        checks.flag("persistent", self.persistent)
        checks.unless_none(checks.whole, "confirms", self.confirms, 1, 1_000_000)
        checks.unless_none(checks.text, "link", self.link)
        check_changes(self, "schedule")
        self._check_destination()

    def _check_destination(self) -> None:
        if (self.queue is None) == (self.exchange is None) and not (
            self.messages and self.queue is None
        ):
            raise InputError("give either 'queue' or 'exchange' as the destination.")
        checks.unless_none(checks.text, "queue", self.queue)
        checks.unless_none(checks.text, "exchange", self.exchange)
        messages = checks.entities(self, "messages", Message)
        if not messages:
            return
        if self.queue is not None or self.routing_key or self.message_size or self.persistent:
            raise InputError(
                "'messages' have their own destination, size and persistence; "
                "leave out queue, routing_key, message_size and persistent."
            )
        total = sum(message.probability for message in messages)
        if abs(total - 1) > 1e-9:
            raise InputError(f"the probabilities of its messages add up to {total:g}; give 1.")

    @property
    def kinds(self) -> Sequence[Message]:
        """The kinds of messages it sends, whichever keys describe them."""
        if self.messages:
            return self.messages
        key = self.routing_key if self.queue is None else self.queue
        return (Message(key, self.name, size=self.message_size, persistent=self.persistent),)
