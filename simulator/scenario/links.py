"""Links: the network between a client and the broker."""

from __future__ import annotations

from dataclasses import dataclass

from controlmq.checks import above_zero
from controlmq.errors import InputError
from simulator.scenario import checks
from simulator.scenario.distributions import Duration


@dataclass(frozen=True)
class Link:
    """A way to the broker; each client has a connection of its own on it.

    ``round_trip`` is in seconds, half of it each way. ``jitter`` is added to each way, without
    changing the order of messages. A message takes its size over ``bytes_per_second`` to send,
    one after the other; without it, no time.
    """

    name: str
    round_trip: float = 0.0
    jitter: Duration | None = None
    bytes_per_second: float | None = None

    def __post_init__(self) -> None:
        checks.text("name", self.name)
        checks.seconds("round_trip", self.round_trip)
        if self.jitter is not None:
            checks.duration("jitter", self.jitter)
        if (
            self.bytes_per_second is not None
            and above_zero("bytes_per_second", self.bytes_per_second) < 1
        ):
            raise InputError(f"bytes_per_second is {self.bytes_per_second:g}; give 1 or more.")
