"""The broker: its queues, its links and what its work costs."""

from __future__ import annotations

from dataclasses import dataclass, fields

from controlmq.checks import above_zero, not_negative
from controlmq.errors import InputError
from simulator.scenario import checks
from simulator.scenario.distributions import Duration
from simulator.scenario.publishers import MOST_PRIORITIES

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
        checks.whole("priorities", self.priorities, 1, MOST_PRIORITIES)
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


@dataclass(frozen=True)
class Broker:
    """What the broker's work takes, in seconds, on ``cores`` that its processes share.

    Each connection that publishes and each queue is a process, which does one thing at a time.
    A connection spends ``publish`` on a message and ``copy`` on each queue it goes to; a queue
    spends ``enqueue``, ``deliver`` and ``acknowledge``, the last once for several messages
    acknowledged together. ``per_byte`` is added to publish and deliver. Processes that wait for
    a core take turns.

    The disk writes everything that waits for it at once: ``disk_write`` seconds and
    ``disk_per_byte`` more for each byte.

    A publisher stops when ``credit`` copies of its messages wait to be enqueued and goes on
    when ``more_credit_after`` of them are done (RabbitMQ's credit_flow_default_credit). All
    stop while the queues hold more than ``memory_limit`` bytes.
    """

    cores: int = 1
    publish: float = 0.0
    copy: float = 0.0
    enqueue: float = 0.0
    deliver: float = 0.0
    acknowledge: float = 0.0
    per_byte: float = 0.0
    disk_write: float = 0.0
    disk_per_byte: float = 0.0
    credit: int = 400
    more_credit_after: int = 200
    memory_limit: int | None = None

    def __post_init__(self) -> None:
        checks.whole("cores", self.cores, 1, 100_000)
        for field in fields(self):
            if field.type == "float":
                checks.seconds(field.name, not_negative(field.name, getattr(self, field.name)))
        checks.whole("credit", self.credit, 1, 1_000_000)
        checks.whole("more_credit_after", self.more_credit_after, 1, self.credit)
        if self.memory_limit is not None:
            checks.whole("memory_limit", self.memory_limit, 1, 2**60)
