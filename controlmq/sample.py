"""What a consumer measures in one interval."""

from __future__ import annotations

from dataclasses import dataclass

from controlmq.checks import above_zero

STARVED_TOLERANCE_SHARE = 0.02
"""Share of an interval without messages at which the window still counts as the limit.

A starved share lowers the measured rate by about as much, so 2 % stays below the
sample-to-sample noise of a consumer.
"""


@dataclass(frozen=True, slots=True)
class Sample:
    """One closed interval of a running consumer.

    ``time`` is the end of the interval (seconds on the plant's clock) and ``interval``
    its length in seconds. ``prefetch`` was in force during it, ``arrivals`` messages were
    handed to the business logic: where it is known how many handlers there are, each of them when
    a handler took it. ``starved`` is the share of the interval, 0 to 1, in
    which the window had room but the queue nothing to fill it with. A live consumer that runs
    its handler in the client's own thread cannot tell while it does, so the time of the handler
    does not count there; in a simulation it does.

    ``in_flight`` is the mean number of messages that the consumer had and had not acknowledged,
    each from its arrival to when its ack is sent. What is under way in either direction is in
    flight to the broker, too; a consumer cannot tell it from a slot that the queue has nothing
    for. ``held`` are those of them whose acknowledgement the window kept back. ``handler_time``
    and ``buffer_time`` are mean seconds per message, from its hand-over to the handler's ack and
    waiting for the hand-over, 0 when nothing was handled. The handler time is that of the messages
    handled in the interval and the buffer time that of the arrivals, all of it, although they may
    have come before the interval.

    ``handlers`` is the number of handlers, given or seen, and ``busy`` the share of them that ran,
    0 to 1, on average over the interval, 1 where that is not known; of a
    :class:`~controlmq.clients.pool.WorkerPool` those that ran for other consumers do not count.
    ``turnaround`` is the mean in seconds from the release of a slot to its next message, without
    waiting for the queue or for a handler; the last one known where no such message came, 0 before
    the first. A live consumer knows none below a millisecond, which then is part of
    ``buffer_time``. So the slots in use are ``rate * (turnaround + buffer_time + handler_time)``,
    held ones apart.

    Where a token bucket bounds the rate, ``gated`` is the mean number of messages that waited for
    it, which is part of ``buffer_time``, and ``unused`` the share of its tokens, 0 to 1, that
    neither an ack nor a message was waiting for; 1 without a bucket.
    """

    number: int
    time: float
    interval: float
    prefetch: float
    arrivals: int
    starved: float = 0.0
    in_flight: float = 0.0
    handler_time: float = 0.0
    buffer_time: float = 0.0
    held: float = 0.0
    handlers: int = 1
    busy: float = 1.0
    turnaround: float = 0.0
    gated: float = 0.0
    unused: float = 1.0

    def __post_init__(self) -> None:
        above_zero("sample interval", self.interval)

    @property
    def rate(self) -> float:
        """Arrival rate ``y`` in messages/second."""
        return self.arrivals / self.interval

    @property
    def window_limited(self) -> bool:
        """Whether the window, not an empty queue, set the rate."""
        return self.starved <= STARVED_TOLERANCE_SHARE
