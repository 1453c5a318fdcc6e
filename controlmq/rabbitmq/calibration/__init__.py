"""Calibration: what a broker and a client cost, measured from the client over AMQP alone."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable
from typing import TypeVar

from controlmq.rabbitmq.calibration.experiments import COPIES, TURNS, WORKS, Experiments
from controlmq.rabbitmq.calibration.figures import Calibration, Line
from controlmq.rabbitmq.calibration.queues import temporary_queues

__all__ = ["SECONDS", "STEPS", "Calibration", "Line", "calibrate"]

SECONDS = 60.0
"""How long a calibration takes, about, unless told otherwise."""

STEPS = 6 + TURNS * (2 * len(WORKS) + len(COPIES))
"""How often a calibration says that it has come further."""

Value = TypeVar("Value")


def calibrate(
    url: str,
    seconds: float = SECONDS,
    progress: Callable[[str], None] = lambda what: None,
) -> Calibration:
    """Measure the broker at ``url``; ``progress`` hears what has been measured.

    Queues of its own are used and deleted afterwards, whatever happens.
    """
    with temporary_queues(url) as queues:
        experiments = Experiments(url, queues, seconds / SECONDS)

        def done(what: str, value: Value) -> Value:
            progress(what)
            return value

        def each(what: str, values: Iterable[Value]) -> list[Value]:
            return [done(what, value) for value in values]

        call = done("round trip", experiments.round_trip())
        publish, publish_cpu = done("publishing", experiments.publishing())
        deliver, deliver_cpu = done("deliveries", experiments.delivering())
        acknowledge = done("acknowledgements", experiments.acknowledging())
        windows = each("windows", experiments.windows())
        cycles = [(work, handled.spells()) for prefetch, work, handled in windows if prefetch == 1]
        busy = [(work, handled.spells()) for prefetch, work, handled in windows if prefetch > 1]
        latencies = each("latency", experiments.latencies())
        return Calibration(
            call=call,
            publish=publish,
            publish_cpu=publish_cpu,
            deliver=deliver,
            deliver_cpu=deliver_cpu,
            acknowledge=acknowledge,
            busy=_line(busy),
            cycle=_line(cycles),
            latency=_line((float(copies), values) for copies, values in latencies),
            confirm=done("confirms", experiments.confirms(persistent=False)),
            persistent_confirm=done("persistence", experiments.confirms(persistent=True)),
        )


def _line(values: Iterable[tuple[float, list[float]]]) -> Line:
    """A line through the median of all values at the same place."""
    at: dict[float, list[float]] = {}
    for x, ys in values:
        at.setdefault(x, []).extend(ys)
    return Line.through((x, statistics.median(ys)) for x, ys in sorted(at.items()))
