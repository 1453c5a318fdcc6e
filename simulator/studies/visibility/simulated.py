"""The two thread pools in simulation, delivering in any order or in the order sent."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from controlmq.checks import above_zero
from simulator.meter import Meter
from simulator.metrics import Metrics
from simulator.scenario.consumers import Consumer
from simulator.scenario.distributions import Duration
from simulator.scenario.messages import Send
from simulator.scenario.publishers import Publishers
from simulator.scenario.queues import Queue
from simulator.scenario.scenario import Scenario
from simulator.simulation import Simulation
from simulator.studies.visibility.analytic import TwoPools

VISIBILITY_TIMEOUT_SECONDS = 5.0
"""Fifty times the mean time of sending: hardly a message is sent twice because it was slow."""


@dataclass(frozen=True)
class Measured:
    """Means of several runs: seconds in the pools (``W``), and from the sender to the receiver.

    ``delivery`` includes the time that lost messages are invisible. ``error`` is the standard error
    of ``time``.
    """

    time: float
    error: float
    delivery: float


def scenario(
    pools: TwoPools, *, in_order: bool = False, timeout: float = VISIBILITY_TIMEOUT_SECONDS
) -> Scenario:
    """Senders, broker and receiver as queues; a pool's threads are the handlers of a consumer.

    The receiver takes no time. With ``in_order`` its queue restores the order.
    """
    lost = 1 - pools.arrives
    broker = Queue("broker", visibility_timeout=timeout)

    def pool(name: str, queue: str, to: str, threads: int, speed: float, loss: float) -> Consumer:
        return Consumer(
            name,
            queue,
            Duration(1 / speed, "exponential"),
            handlers=threads,
            prefetch=threads,
            sends=[Send(to, type=to)],
            failure=loss,
            on_failure="no-answer" if loss else "requeue",
        )

    return Scenario(
        "two pools",
        1.0,
        [Publishers("application", "senders", Duration(1 / pools.rate, "exponential"))],
        [Queue("senders"), broker, Queue("receiver", in_order=in_order)],
        [
            pool("senders", "senders", "broker", pools.sender_threads, pools.sender_speed, 0.0),
            pool("broker", "broker", "receiver", pools.broker_threads, pools.broker_speed, lost),
            Consumer("receiver", "receiver", Duration(0.0), acknowledge="automatic"),
        ],
    )


def measure(
    pools: TwoPools,
    seconds: float,
    seeds: Sequence[int],
    *,
    in_order: bool = False,
    timeout: float = VISIBILITY_TIMEOUT_SECONDS,
) -> Measured:
    """Measure one run for every seed, each after a tenth of the time to settle."""
    above_zero("seconds", seconds)
    runs = []
    for seed in seeds:
        simulation = Simulation(scenario(pools, in_order=in_order, timeout=timeout), seed)
        simulation.run_until(0.1 * seconds)
        meter = Meter(simulation)
        simulation.run_until(1.1 * seconds)
        runs.append(meter.read())
    times = [_time_in_pools(each) for each in runs]
    error = statistics.stdev(times) / len(times) ** 0.5 if len(times) > 1 else float("nan")
    delivery = statistics.fmean(each.chains["receiver"].mean for each in runs)
    return Measured(statistics.fmean(times), error, delivery)


def _time_in_pools(metrics: Metrics) -> float:
    """The time in both pools by Little's law."""
    held = (
        metrics.queues[name].mean_length + metrics.consumers[name].in_flight
        for name in ("senders", "broker")
    )
    return sum(held) / metrics.queues["senders"].publish_rate
