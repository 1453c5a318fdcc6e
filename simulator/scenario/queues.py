"""Queues: how many messages they keep, in which order they deliver, what they drop."""

from __future__ import annotations

from dataclasses import dataclass

from controlmq.checks import above_zero, not_negative
from controlmq.errors import InputError
from simulator.scenario import checks

OVERFLOWS = ("drop-head", "reject-publish")
DISPATCHES = ("round-robin", "random")


@dataclass(frozen=True)
class Queue:
    """A queue that keeps at most ``max_length`` messages waiting; without it, any number.

    A full queue drops its oldest message ("drop-head") or refuses the new one ("reject-publish");
    a queue that refuses can grow beyond ``max_length`` only by what consumers put back. A message
    that waits longer than ``message_ttl`` seconds expires. With ``priorities`` levels, messages of
    a higher level are delivered first; a priority above the highest level counts as the highest.
    A message that came back more than ``delivery_limit`` times is taken out.

    With a ``visibility_timeout``, a delivered message that is not acknowledged within this number
    of seconds becomes visible again and is delivered once more; an acknowledgement that comes
    later has no effect. A queue that is ``in_order`` delivers a message only after every message
    published before it.

    Messages that are dropped from the head, expire or are rejected go to the
    ``dead_letter_exchange``, with ``dead_letter_routing_key`` or else their own routing key ("" is
    the exchange that delivers to the queue named by the key). Without an exchange they are
    discarded. A message that would return to a queue that dead-lettered it is discarded too,
    unless a consumer has rejected it since.

    ``dispatch`` chooses among consumers with room: "round-robin" takes the one that has waited
    longest since its last message, "random" takes any. If the queue is ``durable``, persistent
    messages are written to disk. A confirm waits for the write; a delivery waits for it only with
    ``write_before_delivery``.

    With a ``slowdown`` of, say, 0.001 the queue's work on a message takes twice as long while
    1000 messages wait in the queue or to enter it.
    """

    name: str
    max_length: int | None = None
    overflow: str = "drop-head"
    message_ttl: float | None = None
    priorities: int = 1
    delivery_limit: int | None = None
    dead_letter_exchange: str | None = None
    dead_letter_routing_key: str | None = None
    dispatch: str = "round-robin"
    durable: bool = True
    write_before_delivery: bool = False
    visibility_timeout: float | None = None
    in_order: bool = False
    slowdown: float = 0.0

    def __post_init__(self) -> None:
        checks.text("name", self.name)
        checks.unless_none(checks.whole, "max_length", self.max_length, 1, 2**31)
        checks.choice("overflow", self.overflow, OVERFLOWS)
        checks.unless_none(_seconds_above_zero, "message_ttl", self.message_ttl)
        checks.whole("priorities", self.priorities, 1, checks.MOST_PRIORITIES)
        checks.unless_none(checks.whole, "delivery_limit", self.delivery_limit, 0, 1_000_000)
        exchange, key = self.dead_letter_exchange, self.dead_letter_routing_key
        checks.unless_none(checks.any_text, "dead_letter_exchange", exchange)
        checks.unless_none(checks.any_text, "dead_letter_routing_key", key)
        if key is not None and exchange is None:
            raise InputError(
                "dead_letter_routing_key needs a dead_letter_exchange; "
                'give "" to name a queue with the key.'
            )
        checks.choice("dispatch", self.dispatch, DISPATCHES)
        checks.flag("durable", self.durable)
        checks.flag("write_before_delivery", self.write_before_delivery)
        checks.unless_none(_seconds_above_zero, "visibility_timeout", self.visibility_timeout)
        checks.flag("in_order", self.in_order)
        may_drop = self.max_length is not None or self.message_ttl is not None
        if self.in_order and (may_drop or self.priorities > 1):
            raise InputError(
                f"queue {self.name!r} is in_order and would wait forever for a message that it "
                "has dropped; leave out max_length, message_ttl and priorities."
            )
        not_negative("slowdown", self.slowdown)


def _seconds_above_zero(key: str, value: object) -> None:
    checks.seconds(key, above_zero(key, value))
