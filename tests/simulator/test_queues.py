"""Queues: what stays, for how long, in which order, and where the rest goes."""

from __future__ import annotations

import pytest

from controlmq.errors import InputError
from simulator import (
    Consumer,
    Counts,
    Duration,
    Message,
    Meter,
    Publishers,
    Queue,
    Scenario,
    Simulation,
)


def conserved(counts: Counts) -> bool:
    kept = counts.queued + counts.delivered - counts.returned
    held = counts.acknowledged + counts.rejected + counts.returned
    held += counts.in_flight + counts.hidden
    return counts.published == counts.dropped + counts.expired + kept and counts.delivered == held


def column(simulation: Simulation, name: str) -> list[int]:
    return [int(value) for value in simulation.state.queues[name]]


def retrying(**consumer: object) -> Scenario:
    """Work that fails goes to a queue where it waits a second before it comes back."""
    return Scenario(
        "retry",
        1.0,
        [Publishers("p", "work", Duration(0.1))],
        [
            Queue("work", dead_letter_exchange="", dead_letter_routing_key="wait"),
            Queue("wait", message_ttl=1.0, dead_letter_exchange="", dead_letter_routing_key="work"),
        ],
        [Consumer("c", "work", Duration(0.01), **consumer)],  # type: ignore[arg-type]
    )


def test_what_waits_longer_than_its_time_expires() -> None:
    scenario = Scenario(
        "ttl",
        1.0,
        [Publishers("p", "queue", Duration(0.01))],
        [Queue("queue", message_ttl=0.5)],
        [Consumer("c", "queue", Duration(1.0), prefetch=1)],
    )
    simulation = Simulation(scenario)
    simulation.run_until(100.25)
    counts = simulation.counts
    assert counts.queued == pytest.approx(50, abs=1)
    assert counts.delivered == 100 + 1
    assert counts.expired == counts.published - counts.queued - counts.delivered
    meter = Meter(simulation)
    simulation.run_until(200.25)
    # What is served has waited just short of its time, and one service time in the consumer.
    assert meter.read().queues["queue"].latency.percentile(100) <= 0.52


def test_a_rejected_message_comes_back_by_the_dead_letters_until_it_succeeds() -> None:
    simulation = Simulation(retrying(failure=0.5, on_failure="reject", handlers=10, prefetch=10))
    simulation.run_until(1000.0)
    counts = simulation.counts
    assert conserved(counts)
    published = int(simulation.state.publishers["published"].sum())
    # Half of all attempts fail, so each message needs two on average, and none is lost.
    assert column(simulation, "published")[0] == pytest.approx(2 * published, rel=0.05)
    rejected, expired = column(simulation, "rejected")[0], column(simulation, "expired")[1]
    assert rejected == column(simulation, "published")[1]
    assert rejected - expired == simulation.state.queues["length"][1]
    assert counts.acknowledged + counts.queued + counts.in_flight == published


def test_dead_letters_that_nobody_rejects_do_not_go_in_circles() -> None:
    scenario = Scenario(
        "circle",
        1.0,
        [Publishers("p", "one", Duration(0.1))],
        [
            Queue("one", message_ttl=1.0, dead_letter_exchange="", dead_letter_routing_key="two"),
            Queue("two", message_ttl=1.0, dead_letter_exchange="", dead_letter_routing_key="one"),
        ],
        [Consumer("c", "one", Duration(0.01), prefetch=0)],
    )
    simulation = Simulation(scenario)
    simulation.run_until(100.0)
    assert column(simulation, "published") == [1000, 990]
    assert conserved(simulation.counts)


def test_a_full_queue_passes_its_oldest_on_to_the_dead_letters() -> None:
    scenario = Scenario(
        "overflow",
        1.0,
        [Publishers("p", "small", Duration(0.01))],
        [
            Queue("small", 10, dead_letter_exchange="", dead_letter_routing_key="large"),
            Queue("large"),
        ],
        [Consumer("c", "small", Duration(0.1))],
    )
    simulation = Simulation(scenario)
    simulation.run_until(10.0)
    assert column(simulation, "length") == [10, simulation.counts.dropped]
    assert column(simulation, "published")[1] == pytest.approx(1000 - 110, abs=3)
    assert conserved(simulation.counts)


@pytest.mark.parametrize("limit", [0, 3])
def test_a_message_comes_back_as_often_as_the_limit_allows(limit: int) -> None:
    scenario = Scenario(
        "limit",
        1.0,
        [Publishers("p", "queue", Duration(0.1))],
        [Queue("queue", delivery_limit=limit)],
        [Consumer("c", "queue", Duration(0.001), failure=1.0)],
    )
    simulation = Simulation(scenario)
    simulation.run_until(100.0)
    simulation.pause_publishers()
    simulation.run_until(101.0)
    counts = simulation.counts
    assert counts.delivered == (limit + 1) * counts.published
    assert (counts.returned, counts.rejected) == (limit * counts.published, counts.published)
    assert conserved(counts)


@pytest.mark.slow
def test_higher_priorities_go_first() -> None:
    messages = [
        Message("queue", "low", 0.8, priority=0),
        Message("queue", "high", 0.1, priority=1),
        Message("queue", "above all", 0.1, priority=9),
    ]
    scenario = Scenario(
        "priorities",
        1.0,
        [Publishers("p", every=Duration(0.00125, "exponential"), messages=messages)],
        [Queue("queue", priorities=2)],
        [Consumer("c", "queue", Duration(0.001, "exponential"))],
    )
    simulation = Simulation(scenario)
    meter = Meter(simulation)
    simulation.run_until(4000.0)
    types = meter.read().types
    # Cobham 1954, not preemptive: W0 / ((1 - s above) (1 - s above and own)), W0 = 0.8 ms.
    assert types["high"].mean == pytest.approx(0.0008 / 0.84, rel=0.02)
    assert types["above all"].mean == pytest.approx(types["high"].mean, rel=0.02)
    assert types["low"].mean == pytest.approx(0.0008 / (0.84 * 0.2), rel=0.03)


def test_random_dispatch_gives_every_ready_consumer_the_same_chance() -> None:
    names = [f"c{number}" for number in range(4)]
    scenario = Scenario(
        "random",
        1.0,
        [Publishers("p", "queue", Duration(0.01))],
        [Queue("queue", dispatch="random")],
        [Consumer(name, "queue", Duration(0.0001)) for name in names],
    )
    simulation = Simulation(scenario)
    simulation.run_until(400.0)
    for name in names:
        assert simulation.totals(name).arrivals == pytest.approx(10_000, abs=350)


def test_round_robin_is_in_the_order_in_which_consumers_became_ready() -> None:
    scenario = Scenario(
        "turns",
        1.0,
        [Publishers("p", "queue", Duration(1.0))],
        [Queue("queue")],
        [Consumer("slow", "queue", Duration(2.5)), Consumer("fast", "queue", Duration(0.1))],
    )
    simulation = Simulation(scenario)
    turns = []
    for second in range(1, 13):
        before = simulation.totals("slow").arrivals
        simulation.run_until(float(second))
        turns.append("slow" if simulation.totals("slow").arrivals > before else "fast")
    # Slow is away for two messages each time, and then stands in line behind fast.
    assert turns == ["slow", "fast", "fast", "fast"] * 3


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ({"message_ttl": 0}, "message_ttl is 0; give a number above 0"),
        ({"priorities": 256}, "priorities is 256"),
        ({"delivery_limit": -1}, "delivery_limit is -1"),
        ({"dead_letter_routing_key": "x"}, "dead_letter_routing_key needs a dead_letter_exchange"),
        ({"dispatch": "fair"}, "dispatch is 'fair'; give one of round-robin, random"),
        ({"durable": 1}, "durable is 1; give true or false"),
    ],
)
def test_impossible_queues_are_refused(words: dict[str, object], told: str) -> None:
    with pytest.raises(InputError, match=told):
        Queue("queue", **words)  # type: ignore[arg-type]
