"""Resources behind handlers: who waits for a server, and what becomes of the handler time."""

from __future__ import annotations

import math

import pytest

from controlmq.errors import InputError
from simulator import (
    Consumer,
    Duration,
    Publishers,
    Queue,
    Resource,
    Scenario,
    SimulatedConsumer,
    Simulation,
    parse_scenario,
)
from simulator.scenario.toml_text import scenario_text


def behind(
    servers: int, handlers: int, every: float, work: Duration, others: float | None = None
) -> Scenario:
    """A consumer that works at a resource, perhaps with another one beside it."""
    names = ["ours"] + (["others"] if others else [])
    return Scenario(
        "behind",
        1.0,
        [
            Publishers(name, name, Duration(time, "exponential"))
            for name, time in zip(names, (every, others), strict=False)
            if time is not None
        ],
        [Queue(name) for name in names],
        [
            Consumer(name, name, work, handlers=handlers, prefetch=10_000, resource="database")
            for name in names
        ],
        resources=[Resource("database", servers)],
    )


def erlang_c(servers: int, load: float) -> float:
    """The probability that an arrival waits in M/M/c."""
    terms = [load**k / math.factorial(k) for k in range(servers)]
    last = load**servers / math.factorial(servers) * servers / (servers - load)
    return last / (sum(terms) + last)


def test_handlers_wait_for_servers_as_in_m_m_c() -> None:
    """8 servers at 75 % with a handler for everyone: the mean wait is Erlang's."""
    work, servers, load = 0.01, 8, 6.0
    simulation = Simulation(
        behind(servers, 500, work / load, Duration(work, "exponential")), seed=3
    )
    simulation.run_until(600)
    wait = erlang_c(servers, load) * work / (servers - load)
    times = simulation.handler_times("ours")
    assert times.count == simulation.totals("ours").finished
    assert times.mean == pytest.approx(work + wait, rel=0.03)


def test_what_others_take_slows_handlers_down() -> None:
    """Two consumers at half of the servers each wait as one at all of them does."""
    work, servers, load = 0.01, 8, 6.0
    scenario = behind(servers, 500, 2 * work / load, Duration(work, "exponential"), 2 * work / load)
    simulation = Simulation(scenario, seed=4)
    simulation.run_until(600)
    wait = erlang_c(servers, load) * work / (servers - load)
    for name in ("ours", "others"):
        assert simulation.handler_times(name).mean == pytest.approx(work + wait, rel=0.05)


def test_a_handler_that_waits_is_busy() -> None:
    """Four handlers at one server are busy all the time, and each has four times the work."""
    plant = SimulatedConsumer(behind(1, 4, 0.001, Duration(0.01)), seed=1)
    plant.observe()
    seen = plant.observe()
    assert seen.busy == pytest.approx(1.0, abs=0.001)
    assert seen.handler_time == pytest.approx(0.04, rel=0.01)
    assert seen.rate == pytest.approx(100.0, rel=0.01)


def test_the_number_of_handlers_may_change_while_it_runs() -> None:
    scenario = Scenario(
        "pool",
        1.0,
        [Publishers("many", "work", Duration(0.0005))],
        [Queue("work", max_length=1000)],
        [Consumer("pool", "work", Duration(0.01), handlers=8, prefetch=20)],
    )
    plant = SimulatedConsumer(scenario, seed=1)
    rates = []
    for handlers in (2, 8, 2):
        plant.simulation.set_handlers("pool", handlers)
        plant.observe()
        seen = plant.observe()
        assert seen.handlers == handlers
        assert seen.busy == pytest.approx(1.0, abs=0.001)
        rates.append(seen.rate)
    assert rates == pytest.approx([200, 800, 200], rel=0.01)
    with pytest.raises(InputError, match="handlers is 9; give a whole number from 1 to 8"):
        plant.simulation.set_handlers("pool", 9)


def test_a_scenario_file_has_the_same_words() -> None:
    scenario = behind(8, 32, 0.01, Duration(0.01), 0.02)
    assert parse_scenario(scenario_text(scenario)) == scenario


def test_a_resource_must_be_there_and_crashes_go_without_one() -> None:
    queue, many = [Queue("q")], [Publishers("many", "q", Duration(1.0))]
    lost = Consumer("c", "q", Duration(1.0), resource="ghost")
    with pytest.raises(InputError, match="resource of 'c' is 'ghost'"):
        Scenario("s", 1.0, many, queue, [lost])
    with pytest.raises(InputError, match="a consumer that crashes cannot hold a resource"):
        Consumer(
            "c", "q", Duration(1.0), resource="r", crash_every=Duration(9.0), restart=Duration(1.0)
        )
