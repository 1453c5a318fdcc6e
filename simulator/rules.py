"""Rules of a scenario: a metric, a threshold, how long it must hold, and what is done then."""

from __future__ import annotations

from dataclasses import dataclass

from controlmq.checks import above_zero, finite, not_negative
from controlmq.errors import InputError
from simulator import checks

QUEUE_METRICS = ("length", "growth", "latency", "publish-rate", "deliver-rate")
CONSUMER_METRICS = ("arrival-rate", "in-flight", "buffer-time", "utilisation")

CONSUMER_ACTIONS = ("add-consumer", "remove-consumer", "set-prefetch", "set-service-time")
PUBLISHER_ACTIONS = ("add-publishers", "remove-publishers", "set-publish-rate")
VALUE_ACTIONS = ("set-prefetch", "set-service-time", "set-publish-rate")


@dataclass(frozen=True)
class Rule:
    """``action`` is done to ``target`` once ``metric`` of ``of`` has held for ``hold`` seconds.

    The metric is looked at ``every`` so many seconds, over the time since the last look, and
    must be ``above`` or ``below`` a threshold. It is of a queue (``length`` in messages,
    ``growth``, ``publish-rate`` and ``deliver-rate`` in messages/second, ``latency`` as the
    mean in seconds) or of a consumer (``arrival-rate`` in messages/second, ``in-flight`` in
    messages, ``buffer-time`` as the mean in seconds, ``utilisation`` from 0 to 1).

    A change ``takes`` so many seconds to be in force; until then the rule rests, and then the
    time it must hold begins anew. Adding makes another consumer or group of publishers like
    the target, up to ``at_most`` with it; removing takes the youngest of these away, the
    target last and only down to ``at_least``. ``value`` is what a "set-" action sets.
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
        checks.choice("metric", self.metric, QUEUE_METRICS + CONSUMER_METRICS)
        checks.choice("action", self.action, CONSUMER_ACTIONS + PUBLISHER_ACTIONS)
        if (self.above is None) == (self.below is None):
            raise InputError(f"rule {self.name!r} needs either 'above' or 'below'.")
        finite("above" if self.below is None else "below", self.threshold)
        checks.seconds("hold", self.hold)
        checks.seconds("takes", self.takes)
        if above_zero("every", self.every) < 0.001:
            raise InputError(f"every is {self.every:g} seconds; give at least 0.001.")
        checks.seconds("every", self.every)
        if (self.value is not None) != (self.action in VALUE_ACTIONS):
            raise InputError(
                f"'value' goes with {', '.join(VALUE_ACTIONS)}; rule {self.name!r} is to "
                f"{self.action}."
            )
        if self.value is not None:
            not_negative("value", self.value)
        if self.at_most is not None:
            checks.whole("at_most", self.at_most, 1, 1_000_000)
            if self.action not in ("add-consumer", "add-publishers"):
                raise InputError(f"'at_most' is for adding; rule {self.name!r} does not.")
        checks.whole("at_least", self.at_least, 0, 1_000_000)

    @property
    def threshold(self) -> float:
        """The value the metric is compared with."""
        return self.above if self.above is not None else self.below  # type: ignore[return-value]

    def holds(self, value: float) -> bool:
        """Whether the metric is beyond the threshold."""
        return value > self.threshold if self.above is not None else value < self.threshold
