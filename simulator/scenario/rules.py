"""Rules of a scenario: when a metric has passed a threshold for some time, change something."""

from __future__ import annotations

from dataclasses import dataclass

from controlmq.checks import above_zero, finite, prefetch_count
from controlmq.errors import InputError
from simulator.scenario import checks
from simulator.scenario.consumers import Consumer
from simulator.scenario.distributions import LONGEST_SECONDS
from simulator.scenario.knobs import fastest, rate_factor, service_time, stretch
from simulator.scenario.publishers import SHORTEST_PUBLISH_INTERVAL_SECONDS, Publishers

METRICS = {
    "queues": (
        "length",
        "growth",
        "memory",
        "latency",
        "publish-rate",
        "deliver-rate",
        "acknowledge-rate",
        "redeliver-rate",
    ),
    "consumers": ("arrival-rate", "in-flight", "buffer-time", "response-time", "utilisation"),
    "publishers": ("blocked",),
}
"""The metrics that rules can watch, by kind of entity; each belongs to one kind only."""

CONSUMER_ACTIONS = ("add-consumer", "remove-consumer", "set-prefetch", "set-service-time")
PUBLISHER_ACTIONS = ("add-publishers", "remove-publishers", "set-publish-rate")
VALUE_ACTIONS = ("set-prefetch", "set-service-time", "set-publish-rate")


@dataclass(frozen=True)
class Rule:
    """Does ``action`` to ``target`` once the condition has held for ``hold`` seconds.

    The condition is that ``metric`` of the entity ``of`` is ``above`` or ``below`` a threshold. It
    is evaluated every ``every`` seconds, over the time since the last evaluation. The metric is
    one of a queue (``length`` in messages,
    ``memory`` in bytes, ``growth``, ``publish-rate``, ``deliver-rate``, ``acknowledge-rate`` and
    ``redeliver-rate`` in messages/second, ``latency`` as the mean in seconds), of a consumer
    (``arrival-rate`` in messages/second, ``in-flight`` in messages, ``buffer-time`` and
    ``response-time`` as the mean in seconds, ``utilisation`` from 0 to 1) or of a group of
    publishers (``blocked``, the share of time from 0 to 1). The response time is the time from
    when a message reaches the consumer until its handler is done with it: in the buffer, work and
    overhead.

    ``action`` is "add-consumer", "remove-consumer", "set-prefetch" or "set-service-time" for a
    consumer, "add-publishers", "remove-publishers" or "set-publish-rate" for publishers.

    A change takes effect ``takes`` seconds later. Until then the rule is not evaluated; after that
    the condition must hold for ``hold`` seconds again. Adding creates another consumer or group of
    publishers like the target, until there are ``at_most`` of them. Removing takes the newest of
    these away, the target last, until there are ``at_least``. ``value`` is what a "set-" action
    sets: a prefetch, a mean work time in seconds, or a factor of the scenario's rate.
    """

    name: str
    metric: str
    of: str
    action: str
    target: str
    above: float | None = None
    below: float | None = None
    hold: float = 0.0
    every: float = 1.0
    takes: float = 0.0
    value: float | None = None
    at_most: int | None = None
    at_least: int = 1

    def __post_init__(self) -> None:
        for key in ("name", "of", "target"):
            checks.text(key, getattr(self, key))
        checks.choice("metric", self.metric, [name for names in METRICS.values() for name in names])
        checks.choice("action", self.action, CONSUMER_ACTIONS + PUBLISHER_ACTIONS)
        if (self.above is None) == (self.below is None):
            raise InputError(f"rule {self.name!r} needs either 'above' or 'below'.")
        finite("above" if self.below is None else "below", self.threshold)
        checks.seconds("hold", self.hold)
        checks.seconds("takes", self.takes)
        if above_zero("every", self.every) < 0.001:
            raise InputError(f"every is {self.every:g} seconds; give at least 0.001.")
        checks.seconds("every", self.every)
        self._check_value()
        if self.at_most is not None:
            checks.whole("at_most", self.at_most, 1, 1_000_000)
            if self.action not in ("add-consumer", "add-publishers"):
                raise InputError(f"'at_most' is for adding; rule {self.name!r} adds nothing.")
        checks.whole("at_least", self.at_least, 0, 1_000_000)

    def _check_value(self) -> None:
        if (self.value is not None) != (self.action in VALUE_ACTIONS):
            raise InputError(
                f"'value' goes with {', '.join(VALUE_ACTIONS)}; "
                f"the action of rule {self.name!r} is {self.action}."
            )
        key = f"value of rule {self.name!r} to {self.action}"
        if self.action == "set-prefetch":
            prefetch_count(key, self.value)
        elif self.action == "set-service-time":
            service_time(key, self.value)
        elif self.action == "set-publish-rate":
            rate_factor(key, self.value, LONGEST_SECONDS / SHORTEST_PUBLISH_INTERVAL_SECONDS)

    def check_target(self, target: Consumer | Publishers) -> None:
        """Refuse a value that the target cannot be set to, before a run fails on it."""
        key = f"value of rule {self.name!r} to {self.action}"
        if self.action == "set-service-time" and isinstance(target, Consumer):
            stretch(target, service_time(key, self.value))
        if self.action == "set-publish-rate" and isinstance(target, Publishers):
            rate_factor(key, self.value, fastest(target))

    @property
    def measures(self) -> str:
        """The kind of entity whose metric it watches: "queues", "consumers" or "publishers"."""
        return next(kind for kind, names in METRICS.items() if self.metric in names)

    @property
    def threshold(self) -> float:
        """The value the metric is compared with."""
        return self.above if self.above is not None else self.below  # type: ignore[return-value]

    def holds(self, value: float) -> bool:
        """Whether a value of the metric is beyond the threshold."""
        return value > self.threshold if self.above is not None else value < self.threshold
