"""Twenty replications of every queue whose mean is known exactly: within 2 % and |z| below 4."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

from simulator import (
    Consumer,
    Duration,
    Meter,
    Metrics,
    Publishers,
    Queue,
    Scenario,
    Send,
    Simulation,
)
from tests.simulator.scenarios import one_queue
from tests.simulator.test_queueing_theory import closed_network_rate

pytestmark = pytest.mark.slow

REPLICATIONS = 20
SERVICE = 0.001


def replicated(
    scenario: Scenario, warm_up: float, duration: float, reading: Callable[[Metrics], float]
) -> list[float]:
    values = []
    for seed in range(REPLICATIONS):
        simulation = Simulation(scenario, seed)
        simulation.run_until(warm_up)
        meter = Meter(simulation)
        simulation.run_until(warm_up + duration)
        values.append(reading(meter.read()))
    return values


def assert_exact(values: list[float], exact: float) -> None:
    mean = float(np.mean(values))
    error = float(np.std(values, ddof=1)) / math.sqrt(len(values))
    assert mean == pytest.approx(exact, rel=0.02)
    assert abs(mean - exact) < 4 * error


def wait(metrics: Metrics) -> float:
    return metrics.queues["queue"].latency.mean


def poisson(load: float) -> Duration:
    return Duration(SERVICE / load, "exponential")


def erlang_c(servers: int, offered: float) -> float:
    """The probability that an arrival has to wait in an M/M/c queue."""
    busy = offered**servers / math.factorial(servers) * servers / (servers - offered)
    return busy / (busy + sum(offered**k / math.factorial(k) for k in range(servers)))


def test_m_m_1() -> None:
    load = 0.7
    scenario = one_queue(poisson(load), Duration(SERVICE, "exponential"), prefetch=1)
    assert_exact(replicated(scenario, 20, 300, wait), load * SERVICE / (1 - load))


def test_m_m_c() -> None:
    servers, offered = 4, 3.0
    work = Duration(SERVICE, "exponential")
    scenario = one_queue(poisson(offered), work, prefetch=servers, handlers=servers)
    exact = erlang_c(servers, offered) * SERVICE / (servers - offered)
    assert_exact(replicated(scenario, 5, 100, wait), exact)


@pytest.mark.parametrize(
    ("work", "squared_variation"),
    [(Duration(SERVICE), 0.0), (Duration(SERVICE, "lognormal", 1.5 * SERVICE), 2.25)],
    ids=["m_d_1", "m_g_1"],
)
def test_pollaczek_khinchine(work: Duration, squared_variation: float) -> None:
    load = 0.7 if squared_variation == 0 else 0.5
    scenario = one_queue(poisson(load), work, prefetch=1)
    exact = load * SERVICE * (1 + squared_variation) / (2 * (1 - load))
    assert_exact(replicated(scenario, 20, 400, wait), exact)


def test_m_m_c_k_losses() -> None:
    servers, places, offered = 3, 8, 3.3
    weights = [
        offered**k / math.factorial(k)
        if k <= servers
        else offered**k / (math.factorial(servers) * servers ** (k - servers))
        for k in range(places + 1)
    ]
    scenario = one_queue(
        poisson(offered),
        Duration(SERVICE, "exponential"),
        prefetch=servers,
        handlers=servers,
        max_length=places - servers,
        overflow="reject-publish",
    )

    def lost(metrics: Metrics) -> float:
        queue = metrics.queues["queue"]
        return queue.drop_rate / queue.publish_rate

    assert_exact(replicated(scenario, 5, 60, lost), weights[-1] / sum(weights))


def test_a_tandem_jackson_network() -> None:
    loads = {"first": 0.6, "second": 0.7}
    rate = loads["first"] / SERVICE
    second = Duration(loads["second"] / rate, "exponential")
    scenario = Scenario(
        "tandem",
        1.0,
        [Publishers("p", "first", Duration(1 / rate, "exponential"))],
        [Queue("first"), Queue("second")],
        [
            Consumer("a", "first", Duration(SERVICE, "exponential"), sends=[Send("second")]),
            Consumer("b", "second", second),
        ],
    )

    def waits(metrics: Metrics) -> float:
        return sum(metrics.queues[name].latency.mean for name in loads)

    exact = sum(load / (1 - load) * load / rate for load in loads.values())
    assert_exact(replicated(scenario, 20, 300, waits), exact)


@pytest.mark.parametrize("prefetch", range(1, 41))
def test_a_closed_window_over_a_delay_and_an_exponential_server(prefetch: int) -> None:
    scenario = one_queue(
        Duration(0.0005),
        Duration(SERVICE, "exponential"),
        prefetch=prefetch,
        round_trip=0.008,
        max_length=500,
    )

    def rate(metrics: Metrics) -> float:
        return metrics.consumers["consumer"].arrival_rate

    exact = closed_network_rate(prefetch, 0.008, SERVICE)
    assert_exact(replicated(scenario, 1, 20, rate), exact)
