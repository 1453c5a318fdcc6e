"""Queues: how much they keep, in which order they deliver, and what becomes of the rest."""

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

    A full queue drops its oldest message ("drop-head") or the new one ("reject-publish"); only
    what consumers put back can make the latter longer. A message that waits longer than
    ``message_ttl`` seconds expires. Of ``priorities`` levels the highest goes first; messages
    above the highest count as it. A message that came back more than ``delivery_limit`` times
    is taken out.

    With a ``visibility_timeout`` a delivered message that is not acknowledged within so many
    seconds becomes visible again and is delivered once more; its consumer's answer is then too
    late. A queue ``in_order`` delivers no message before the one published before it has come.

    What is dropped from the head, has expired or was rejected goes, with its own routing key
    or ``dead_letter_routing_key``, to ``dead_letter_exchange`` ("" brings it to the queue of
    that name); without it, it is discarded. A message that would return to a queue it was
    dead-lettered from, and that no consumer has rejected since, is discarded too.

    ``dispatch`` chooses among consumers with room: "round-robin" takes the one that has waited
    longest since its last message, "random" any. Persistent messages are written to disk if
    the queue is ``durable``; a confirm waits for that, and the delivery only with
    ``write_before_delivery``.

    With a ``slowdown`` of, say, 0.001 the queue's work on a message takes twice as long while
    1000 wait in it or to enter it.
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
        if self.max_length is not None:
            checks.whole("max_length", self.max_length, 1, 2**31)
        checks.choice("overflow", self.overflow, OVERFLOWS)
        if self.message_ttl is not None:
            checks.seconds("message_ttl", above_zero("message_ttl", self.message_ttl))
        checks.whole("priorities", self.priorities, 1, checks.MOST_PRIORITIES)
        if self.delivery_limit is not None:
            checks.whole("delivery_limit", self.delivery_limit, 0, 1_000_000)
        if self.dead_letter_exchange is not None:
            checks.any_text("dead_letter_exchange", self.dead_letter_exchange)
        if self.dead_letter_routing_key is not None:
            checks.any_text("dead_letter_routing_key", self.dead_letter_routing_key)
            if self.dead_letter_exchange is None:
                raise InputError(
                    "dead_letter_routing_key needs a dead_letter_exchange; "
                    'give "" to name a queue with the key.'
                )
        checks.choice("dispatch", self.dispatch, DISPATCHES)
        checks.flag("durable", self.durable)
        checks.flag("write_before_delivery", self.write_before_delivery)
        if self.visibility_timeout is not None:
            above_zero("visibility_timeout", self.visibility_timeout)
            checks.seconds("visibility_timeout", self.visibility_timeout)
        checks.flag("in_order", self.in_order)
        if self.in_order and (self.max_length, self.message_ttl, self.priorities) != (
            None,
            None,
            1,
        ):
            raise InputError(
                f"queue {self.name!r} is in_order and would wait for ever for a message that it "
                "has dropped; leave out max_length, message_ttl and priorities."
            )
        not_negative("slowdown", self.slowdown)
