"""Consumers: how they receive, work, acknowledge, fail and pass on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from controlmq.checks import MOST_PREFETCH, prefetch_count
from controlmq.errors import InputError
from controlmq.goals import Goals
from simulator.scenario import checks
from simulator.scenario.changes import Change, check_changes
from simulator.scenario.distributions import Duration
from simulator.scenario.messages import Send

ACKNOWLEDGEMENTS = ("after-processing", "on-receipt", "automatic")
FAILURES = ("requeue", "reject", "no-answer")


@dataclass(frozen=True)
class Consumer:
    """A consumer of a queue: ``handlers`` threads that each work on one message at a time.

    A message costs its handler ``work`` (the business logic) and then ``overhead`` seconds (the
    client) before it is acknowledged. ``link`` names the link to the broker; without one, messages
    take no time in either direction. ``prefetch`` is the prefetch at the start. While a controller
    drives it, a consumer with ``spread_acks`` keeps the acks that open slots apart, as a live one
    does.

    ``acknowledge`` is when messages are acknowledged: "after-processing", "on-receipt" (before a
    handler has the message) or "automatic" (the broker forgets a message once it is sent, and the
    prefetch has no effect). With ``ack_batch`` the consumer acknowledges once it has finished this
    number of messages, or as many as the prefetch allows if that is less; a consumer that was
    removed does not wait. With ``ack_multiple`` one acknowledgement covers the whole batch.

    With probability ``failure`` the work fails. Then ``on_failure`` puts the message back
    ("requeue") or gives it up ("reject"); with "no-answer" the broker gets no answer, and the
    queue's visibility timeout makes the message visible again. After ``crash_every`` the consumer
    loses all messages it holds, and it restarts ``restart`` after the broker has noticed.
    ``work_schedule`` changes the work while the scenario runs. ``sends`` are published whenever
    a message is finished without failing. ``resource`` names what the work needs a server of.
    With ``goals`` it adapts its prefetch; goals without any word ask for the least prefetch.
    """

    name: str
    queue: str
    work: Duration
    handlers: int = 1
    overhead: float = 0.0
    link: str | None = None
    prefetch: float = 1.0
    acknowledge: str = "after-processing"
    ack_batch: int = 1
    ack_multiple: bool = False
    failure: float = 0.0
    on_failure: str = "requeue"
    crash_every: Duration | None = None
    restart: Duration | None = None
    work_schedule: Sequence[Change] = ()
    sends: Sequence[Send] = ()
    spread_acks: bool = True
    resource: str | None = None
    goals: Goals | None = None

    def __post_init__(self) -> None:
        checks.text("name", self.name)
        checks.text("queue", self.queue)
        checks.duration("work", self.work)
        checks.whole("handlers", self.handlers, 1, 100_000)
        checks.seconds("overhead", self.overhead)
        checks.unless_none(checks.text, "link", self.link)
        prefetch_count("prefetch", self.prefetch)
        checks.flag("spread_acks", self.spread_acks)
        self._check_acknowledgements()
        checks.share("failure", self.failure)
        checks.choice("on_failure", self.on_failure, FAILURES)
        if self.failure and self.acknowledge != "after-processing":
            raise InputError(
                f"failure is {self.failure:g}, but a message acknowledged {self.acknowledge} "
                "cannot be put back; acknowledge after-processing."
            )
        if (self.crash_every is None) != (self.restart is None):
            raise InputError("crash_every and restart go together; give both or neither.")
        checks.unless_none(checks.duration, "crash_every", self.crash_every)
        checks.unless_none(checks.duration, "restart", self.restart)
        if self.crash_every is not None and self.crash_every.mean < 0.001:
            raise InputError("crash_every has a mean below 0.001 seconds; give more.")
        checks.unless_none(checks.text, "resource", self.resource)
        if self.goals is not None and not isinstance(self.goals, Goals):
            raise InputError(f"goals is {self.goals!r}; give Goals.")
        if self.goals is not None:
            self.check_adapts()
        if self.resource is not None and self.crash_every is not None:
            raise InputError(
                "a consumer that crashes cannot hold a resource; leave one of them out."
            )
        check_changes(self, "work_schedule")
        checks.entities(self, "sends", Send)

    def check_adapts(self) -> None:
        """Refuse to adapt it where nothing can be adapted."""
        if self.acknowledge == "automatic":
            raise InputError(
                "a consumer that acknowledges automatically has no prefetch to adapt; leave its "
                "goals out."
            )

    def _check_acknowledgements(self) -> None:
        checks.choice("acknowledge", self.acknowledge, ACKNOWLEDGEMENTS)
        checks.whole("ack_batch", self.ack_batch, 1, MOST_PREFETCH)
        checks.flag("ack_multiple", self.ack_multiple)
        if self.ack_batch == 1 and not self.ack_multiple:
            return
        if self.acknowledge != "after-processing":
            raise InputError(
                "ack_batch and ack_multiple are for messages acknowledged after-processing."
            )
        if self.ack_multiple and self.handlers > 1:
            raise InputError(
                "ack_multiple covers all messages before one, and several handlers finish "
                "out of order; give handlers = 1 or leave it out."
            )
