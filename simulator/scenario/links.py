"""Links: the network between a client and the broker."""

from __future__ import annotations

from dataclasses import dataclass

from controlmq.checks import above_zero
from controlmq.errors import InputError
from simulator.scenario import checks
from simulator.scenario.distributions import Duration


@dataclass(frozen=True)
class Link:
    """The network between clients and the broker; each client has its own connection on it.

    ``round_trip`` is in seconds, half of it in each direction. ``jitter`` is added in each
    direction and does not change the order of messages. A message occupies its connection for its
    size divided by ``bytes_per_second``; if that is not given, for no time.
    """

    name: str
    round_trip: float = 0.0
    jitter: Duration | None = None
    bytes_per_second: float | None = None

    def __post_init__(self) -> None:
        checks.text("name", self.name)
        checks.seconds("round_trip", self.round_trip)
        checks.unless_none(checks.duration, "jitter", self.jitter)
        speed = self.bytes_per_second
        if speed is not None and above_zero("bytes_per_second", speed) < 1:
            raise InputError(f"bytes_per_second is {speed:g}; give 1 or more.")
