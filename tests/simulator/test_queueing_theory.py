"""The engine agrees with what queueing theory knows exactly."""

from __future__ import annotations

import math

import numpy as np
import pytest

from simulator import Duration, Simulation
from simulator.engine.draws import SOURCE, draw, source, standard_normal
from simulator.engine.simulation_state import SimulationState
from tests.simulator.scenarios import one_queue


def closed_network_rate(window: int, delay: float, service: float) -> float:
    """Exact mean value analysis: ``window`` messages, a delay and one exponential server."""
    queued = 0.0
    for messages in range(1, window + 1):
        response = service * (1 + queued)
        rate = messages / (delay + response)
        queued = rate * response
    return rate


@pytest.mark.parametrize("prefetch", [1, 3, 8, 20])
def test_a_full_window_and_an_exponential_handler_follow_mean_value_analysis(
    prefetch: int,
) -> None:
    scenario = one_queue(
        Duration(0.0005),
        Duration(0.001, "exponential"),
        prefetch=prefetch,
        round_trip=0.008,
        max_length=1000,
    )
    simulation = Simulation(scenario)
    simulation.run_until(600.0)
    rate = simulation.totals("consumer").arrivals / 600.0
    assert rate == pytest.approx(closed_network_rate(prefetch, 0.008, 0.001), rel=0.005)


@pytest.mark.parametrize(
    "load", [0.3, *(pytest.param(load, marks=pytest.mark.slow) for load in (0.6, 0.8))]
)
def test_an_open_window_is_an_m_m_1_queue(load: float) -> None:
    service = 0.001
    scenario = one_queue(
        Duration(service / load, "exponential"), Duration(service, "exponential"), prefetch=65535
    )
    simulation = Simulation(scenario, seed=5)
    simulation.run_until(3000.0)
    totals = simulation.totals("consumer")
    in_system = totals.in_flight_time / 3000.0
    assert in_system == pytest.approx(load / (1 - load), rel=0.03)
    wait = totals.buffer_time / totals.arrivals
    assert wait == pytest.approx(load * service / (1 - load), rel=0.03)


@pytest.mark.slow
def test_several_handlers_are_an_m_m_c_queue() -> None:
    handlers, offered = 4, 3.2  # Erlang C
    busy = offered**handlers / math.factorial(handlers) / (1 - offered / handlers)
    waits = busy / (busy + sum(offered**k / math.factorial(k) for k in range(handlers)))
    expected = offered + waits * offered / (handlers - offered)
    scenario = one_queue(
        Duration(0.001 / offered, "exponential"),
        Duration(0.001, "exponential"),
        prefetch=65535,
        handlers=handlers,
    )
    simulation = Simulation(scenario)
    simulation.run_until(1000.0)
    assert simulation.totals("consumer").in_flight_time / 1000.0 == pytest.approx(
        expected, rel=0.03
    )


@pytest.mark.parametrize("overflow", ["drop-head", "reject-publish"])
def test_a_bounded_queue_loses_what_the_consumer_cannot_take(overflow: str) -> None:
    # Prefetch 1 and no link: one message in service, up to 4 waiting, an M/M/1/5 queue.
    load, places = 1.25, 5
    lost = (1 - load) * load**places / (1 - load ** (places + 1))
    scenario = one_queue(
        Duration(0.001 / load, "exponential"),
        Duration(0.001, "exponential"),
        prefetch=1,
        max_length=places - 1,
        overflow=overflow,
    )
    simulation = Simulation(scenario)
    simulation.run_until(1000.0)
    counts = simulation.counts
    assert counts.dropped / counts.published == pytest.approx(lost, rel=0.02)


@pytest.mark.parametrize(
    "duration",
    [
        Duration(0.002),
        Duration(0.002, "exponential"),
        Duration(0.002, "normal", 0.0004),
        Duration(0.002, "lognormal", 0.003),
    ],
    ids=lambda duration: duration.distribution,
)
def test_draws_have_the_distribution_they_are_named_for(duration: Duration) -> None:
    from scipy import stats

    state = SimulationState(sources=np.array([source(duration, 1, "test")], SOURCE))
    draws = np.array([draw(state, 0) for _ in range(20_000)])
    mean, sd = duration.mean, duration.sd
    if duration.distribution == "deterministic":
        assert set(draws) == {mean}
        return
    if duration.distribution == "exponential":
        law = stats.expon(scale=mean)
    elif duration.distribution == "normal":
        law = stats.norm(mean, sd)
    else:
        sigma = math.sqrt(math.log(1 + (sd / mean) ** 2))
        law = stats.lognorm(sigma, scale=mean * math.exp(-(sigma**2) / 2))
    assert stats.kstest(draws, law.cdf).pvalue > 0.01
    # Neighbours in a stream know nothing of each other.
    assert abs(stats.spearmanr(draws[:-1], draws[1:]).statistic) < 0.03


def test_the_normal_quantile_is_exact_into_the_far_tails() -> None:
    from scipy import stats

    shares = np.concatenate([np.linspace(0.001, 0.999, 999), 10.0 ** -np.arange(3, 17)])
    quantiles = [standard_normal(float(share)) for share in shares]
    np.testing.assert_allclose(quantiles, stats.norm.ppf(shares), rtol=1e-14, atol=1e-15)
