"""A calibration as a scenario: the figures measured at a client become the simulator's words.

With prefetch 1 one message goes round: the broker delivers it, the link brings it, the handler
works, the link brings its acknowledgement back. What a busy consumer takes beyond its work is
its overhead; what is left of the round after work, overhead, delivery and acknowledgement is
the link's.

A message to ``n`` queues costs its publisher's connection ``publish + n * copy`` and each queue
``enqueue`` and ``deliver``. On one core the copy in the middle reaches its handler after
``publish + n * (copy + enqueue) + (n + 1) / 2 * deliver``, so the slope of the median latency
over ``n`` is ``copy + enqueue + deliver / 2``; where routing ends and the queue begins cannot
be seen from outside, and each gets half. The rest of the latency is on the two links. Latency
rises at low rates because idle processes take longer to wake up, and under load because waiting
shifts the median; so the publisher's link holds for one rate, work and prefetch.
"""

from __future__ import annotations

from textwrap import fill
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from controlmq.measure.calibration import Calibration
    from simulator import Broker, Consumer, Link, Scenario

TYPICAL_WORK_SECONDS = 0.001
"""Work for a message at which the broker's part of a round is computed."""

MOST_LOAD_SHARE = 0.5
"""Share of the time that a consumer works. Beyond it more work adds only waiting to the median
latency, and the simulation has that anyway."""

PUBLISHED_PER_CONSUMED = 1.25
"""Messages published for each that the consumer can take, so that its window is the limit."""

LONGEST_QUEUE_MESSAGES = 10_000
"""Messages that wait in the queue at most while more is published than consumed."""

PUBLISHING_LINK, CONSUMING_LINK = "publishing", "consuming"
"""The names of the two links."""


def broker_of(found: Calibration, cores: int = 1) -> Broker:
    """The broker's costs.

    No cost is larger than the total that contains it: measured alone, the slower of client and
    broker counts, and together they work at the same time.
    """
    from simulator import Broker

    waiting = max(found.cycle(TYPICAL_WORK_SECONDS) - found.busy(TYPICAL_WORK_SECONDS), 0.0)
    deliver = min(found.deliver.base, 2 * found.latency.slope, waiting)
    each_copy = max(found.latency.slope - deliver / 2, 0.0)
    return Broker(
        cores=cores,
        publish=max(found.publish.base - each_copy, 0.0),
        copy=each_copy / 2,
        enqueue=each_copy / 2,
        deliver=deliver,
        acknowledge=min(found.acknowledge, waiting - deliver),
        per_byte=(found.publish.slope + found.deliver.slope) / 2,
        disk_write=max(found.persistent_confirm.base - found.confirm.base, 0.0),
        disk_per_byte=max(found.persistent_confirm.slope - found.confirm.slope, 0.0),
    )


def latency_of(found: Calibration, work: float, prefetch: float, rate: float) -> float:
    """The median latency at this rate (messages/second) of a consumer with this work (seconds).

    Both curves are straight in between; the share that a load adds is taken to grow with it.
    A message waits while another is handled; with prefetch 1 for a whole round trip.
    """
    from controlmq.measure.calibration import LOADED_SHARE

    lowest = found.loaded_latency_at.points[0][0]
    known = max(rate, lowest)
    added = found.loaded_latency_at(known) / found.latency_at(known) - 1
    taken = work if prefetch >= 2 else max(found.cycle(work) - found.busy(0.0), work)
    load = min(rate * taken, MOST_LOAD_SHARE)
    return found.latency_at(rate) * (1 + added * load / LOADED_SHARE)


def links_of(found: Calibration, work: float, latency: float | None = None) -> list[Link]:
    """The links of a publisher and of a consumer with this work (seconds).

    The publisher's link has what is left of the median ``latency`` (seconds) after the broker
    and the consumer's link. Without one it is the latency of the messages that were copied,
    which were sent at even intervals.
    """
    from simulator import Link

    if latency is None:
        latency = found.latency(1)
    broker = broker_of(found)
    at_broker = broker.deliver + broker.acknowledge
    consuming = max(found.cycle(work) - found.busy(work) - at_broker, 0.0)
    published = broker.publish + broker.copy + broker.enqueue + broker.deliver
    publishing = max(2 * (latency - published - consuming / 2), 0.0)
    return [Link(PUBLISHING_LINK, publishing), Link(CONSUMING_LINK, consuming)]


def consumer_of(
    found: Calibration, queue: str, work: float, prefetch: float, name: str = "consumer"
) -> Consumer:
    """A consumer as the calibration found it, with this work."""
    from simulator import Consumer, Duration

    return Consumer(
        name,
        queue,
        Duration(work),
        overhead=max(found.busy(work) - work, 0.0),
        link=CONSUMING_LINK,
        prefetch=prefetch,
    )


def scenario_of(
    found: Calibration,
    *,
    work: float,
    prefetch: float,
    rate: float | None = None,
    size: int = 256,
    cores: int = 1,
) -> Scenario:
    """One publisher, one queue and one consumer on the measured broker.

    Without a ``rate`` more is published than the consumer can take, so that its window is
    always the limit; the queue then drops what is too old.
    """
    from simulator import Duration, Publishers, Queue, Scenario

    sent = PUBLISHED_PER_CONSUMED / found.busy(work) if rate is None else rate
    every = Duration(1 / sent, "exponential")
    latency = None if rate is None else latency_of(found, work, prefetch, rate)
    publishers = Publishers("publisher", "queue", every, message_size=size, link=PUBLISHING_LINK)
    return Scenario(
        "calibrated",
        1.0,
        [publishers],
        [Queue("queue", max_length=LONGEST_QUEUE_MESSAGES if rate is None else None)],
        [consumer_of(found, "queue", work, prefetch)],
        links_of(found, work, latency),
        broker=broker_of(found, cores),
    )


def comment_of(found: Calibration) -> str:
    """What was measured, for people who read the file."""

    def us(seconds: float) -> str:
        return f"{1e6 * seconds:.1f} us"

    publish, deliver, confirm = found.publish, found.deliver, found.persistent_confirm
    lowest, highest = found.latency_at.points[0], found.latency_at.points[-1]
    return fill(
        f"Measured from the client; see docs/simulator.md. A call and its answer took "
        f"{us(found.call)}. One connection published a message in {us(publish.base)} and "
        f"{1e9 * publish.slope:.2f} ns a byte, {us(found.publish_cpu.base)} of it this client's "
        f"CPU, and received one in {us(deliver.base)} and {1e9 * deliver.slope:.2f} ns a byte, "
        f"{us(found.deliver_cpu.base)} of it this client's CPU. Acknowledging each added "
        f"{us(found.acknowledge)}. A busy consumer took {us(found.busy.base)} + "
        f"{found.busy.slope:.4f} * work for a message, with prefetch 1 {us(found.cycle.base)} + "
        f"{found.cycle.slope:.4f} * work. From publisher to handler it was "
        f"{us(found.latency.base)} + {us(found.latency.slope)} for each queue that got a copy, "
        f"in the median; to one queue at {lowest[0]:g} messages a second {us(lowest[1])}, at "
        f"{highest[0]:g} {us(highest[1])}. A confirm came after {us(found.confirm.base)}, "
        f"for a persistent message after {us(confirm.base)}.",
        width=96,
    )
