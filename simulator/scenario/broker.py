"""The broker: how many cores and which disk it has, and what its work costs."""

from __future__ import annotations

from dataclasses import dataclass, fields

from controlmq.checks import not_negative
from simulator.scenario import checks


@dataclass(frozen=True)
class Broker:
    """Seconds that each kind of work takes the broker, on ``cores`` that its processes share.

    Each connection that publishes and each queue is a process, which does one thing at a time.
    A connection spends ``publish`` on a message and ``copy`` on each queue it goes to. A queue
    spends ``enqueue``, ``deliver`` and ``acknowledge`` on a message; messages acknowledged
    together cost ``acknowledge`` once. ``per_byte`` is added to publish and deliver. Processes
    that wait for a core take turns.

    The disk writes everything that waits for it in one write, which takes ``disk_write`` seconds
    and ``disk_per_byte`` more for each byte.

    A publisher stops when ``credit`` copies of its messages wait to be enqueued, and continues
    when ``more_credit_after`` of them are enqueued (RabbitMQ's credit_flow_default_credit). All
    publishers stop while the queues hold more than ``memory_limit`` bytes.
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
        checks.unless_none(checks.whole, "memory_limit", self.memory_limit, 1, 2**60)
