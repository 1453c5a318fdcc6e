"""The window never holds more than it may, and every message can be accounted for."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controlmq.errors import InputError
from simulator import (
    Consumer,
    Duration,
    Link,
    Publishers,
    Queue,
    Scenario,
    SimulatedConsumer,
    Simulation,
)
from tests.simulator.scenarios import NOISY, ROSA, one_queue, with_prefetch


def durations(low: float, high: float) -> st.SearchStrategy[Duration]:
    means = st.floats(low, high)
    return st.one_of(
        means.map(Duration),
        means.map(lambda mean: Duration(mean, "exponential")),
        means.map(lambda mean: Duration(mean, "normal", mean / 5)),
        means.map(lambda mean: Duration(mean, "lognormal", mean * 2)),
    )


prefetches = st.floats(0.0, 40.0) | st.integers(0, 40).map(float)


@st.composite
def scenarios(draw: st.DrawFn) -> Scenario:
    queues = [
        Queue(
            f"queue {number}",
            draw(st.none() | st.integers(1, 200)),
            draw(st.sampled_from(["drop-head", "reject-publish"])),
        )
        for number in range(draw(st.integers(1, 3)))
    ]
    queue_names = st.sampled_from([queue.name for queue in queues])
    links = [
        Link(
            "link",
            draw(st.just(0.0) | st.floats(0.0001, 0.05)),
            draw(st.none() | durations(0.0001, 0.01)),
            draw(st.none() | st.floats(1e5, 1e8)),
        )
    ]
    publishers = [
        Publishers(
            f"group {number}",
            draw(queue_names),
            draw(durations(0.002, 0.1)),
            draw(st.integers(1, 7)),
            draw(st.integers(0, 4096)),
        )
        for number in range(draw(st.integers(1, 3)))
    ]
    consumers = [
        Consumer(
            f"consumer {number}",
            draw(queue_names),
            draw(durations(0.0001, 0.02)),
            draw(st.integers(1, 4)),
            draw(st.floats(0.0, 0.002)),
            draw(st.none() | st.just("link")),
            draw(prefetches),
        )
        for number in range(draw(st.integers(1, 4)))
    ]
    return Scenario("any", 0.3, publishers, queues, consumers, links)


@settings(max_examples=40)
@given(scenarios(), st.lists(prefetches, min_size=1, max_size=5), st.integers(0, 2**64))
def test_no_message_is_lost_or_made_and_no_window_overfilled(
    scenario: Scenario, levels: list[float], seed: int
) -> None:
    plant = SimulatedConsumer(scenario, seed=seed, consumer="consumer 0")
    row = plant.simulation._row("consumer 0")
    for level in levels:
        left = int(row["in_flight"])
        plant.actuate(level)
        sample = plant.observe()
        counts = plant.counts
        assert counts.published == counts.dropped + counts.queued + counts.delivered
        assert counts.delivered == counts.in_flight + counts.acknowledged
        assert plant.most_in_flight <= max(left, math.ceil(level))
        assert 0 <= sample.starved <= 1
        assert 0 <= sample.in_flight <= plant.most_in_flight + 1e-6
        for queue, line in zip(scenario.queues, plant.simulation.state.queues, strict=True):
            assert queue.max_length is None or line["length"] <= queue.max_length


@settings(max_examples=15)
@given(st.floats(0.1, 30.0))
def test_the_window_holds_its_prefetch_on_average(prefetch: float) -> None:
    plant = SimulatedConsumer(with_prefetch(ROSA, prefetch))
    plant.observe()
    before = plant.simulation.totals(plant.name)
    sample = plant.observe()
    after = plant.simulation.totals(plant.name)
    in_flight = (after.in_flight_time - before.in_flight_time) / sample.interval
    assert in_flight - sample.held == pytest.approx(prefetch, rel=0.005)


def test_lowering_the_window_lets_what_is_in_flight_finish() -> None:
    plant = SimulatedConsumer(with_prefetch(ROSA, 20))
    plant.observe()
    assert plant.counts.in_flight == 20
    plant.actuate(3)
    plant.observe()
    assert plant.most_in_flight == 20
    plant.observe()
    assert plant.most_in_flight == 3
    assert plant.counts.delivered == plant.counts.in_flight + plant.counts.acknowledged


def test_a_large_decrease_is_not_paid_for_twice() -> None:
    plant = SimulatedConsumer(with_prefetch(ROSA, 300))
    plant.observe()
    plant.actuate(5.5)
    plant.observe()
    assert plant.observe().rate == pytest.approx(440.0, rel=0.005)


def test_a_time_without_messages_is_not_made_up_for() -> None:
    plant = SimulatedConsumer(with_prefetch(ROSA, 5.25))
    plant.pause_publishers()
    plant.observe()
    plant.resume_publishers()
    assert plant.observe().rate == pytest.approx(420.0, rel=0.005)


def test_prefetch_0_stops_deliveries_without_starving() -> None:
    plant = SimulatedConsumer(ROSA)
    plant.observe()
    plant.actuate(0)
    plant.observe()
    sample = plant.observe()
    assert (sample.arrivals, sample.in_flight, sample.starved) == (0, 0.0, 0.0)


@pytest.mark.parametrize("prefetch", [-1, math.nan, math.inf, 65536, "5", None, True])
def test_an_impossible_prefetch_is_refused(prefetch: object) -> None:
    plant = SimulatedConsumer(ROSA)
    with pytest.raises(InputError, match="prefetch is"):
        plant.actuate(prefetch)  # type: ignore[arg-type]
    assert plant.prefetch == 1.0


def test_consumers_of_one_queue_take_turns() -> None:
    consumer = {"queue": "queue", "work": Duration(0.001), "prefetch": 10}
    scenario = Scenario(
        "turns",
        1.0,
        [Publishers("publisher", "queue", Duration(0.01))],
        [Queue("queue")],
        [Consumer("one", **consumer), Consumer("two", **consumer)],
    )
    simulation = Simulation(scenario)
    for step in range(1, 500):
        simulation.run_until(step * 0.01)
        arrivals = [simulation.totals(name).arrivals for name in ("one", "two")]
        assert 0 <= arrivals[0] - arrivals[1] <= 1


def test_messages_on_a_link_with_jitter_keep_their_order() -> None:
    simulation = Simulation(with_prefetch(NOISY, 22))
    row = simulation._row("consumer")
    for step in range(1, 200):
        simulation.run_until(step * 0.01)
        state = simulation.state
        for line in (row["down_line"], row["up_line"]):
            chain = state.lines[line]
            message, previous = chain["first"], 0.0
            for _ in range(chain["length"]):
                due = state.pool[message]["due"]
                assert due >= previous
                message, previous = state.pool[message]["next"], due


def test_a_queue_without_a_bound_keeps_everything() -> None:
    scenario = one_queue(Duration(0.00001), Duration(1.0), prefetch=1)
    simulation = Simulation(scenario)
    simulation.run_until(1.0)
    counts = simulation.counts
    assert counts.published == pytest.approx(100_000, abs=1)
    assert counts.queued == counts.published - counts.delivered


def test_a_slow_line_sends_one_message_after_the_other() -> None:
    scenario = one_queue(
        Duration(0.001),
        Duration(0.0),
        prefetch=100,
        message_size=1000,
        bytes_per_second=100_000,
    )
    simulation = Simulation(scenario)
    simulation.run_until(20.0)
    assert simulation.totals("consumer").arrivals == pytest.approx(20 * 100, abs=2)
