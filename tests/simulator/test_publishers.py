"""Publishers: how often, what, and when they have to wait."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from controlmq.errors import InputError
from simulator import (
    Broker,
    Change,
    Consumer,
    Duration,
    Link,
    Message,
    Meter,
    Publishers,
    Queue,
    Scenario,
    Simulation,
    Size,
    load_scenario,
)
from simulator.scenario.checks import LARGEST_MESSAGE_BYTES


def published_by(
    group: Publishers, queue: Queue | None = None, broker: Broker | None = None
) -> Simulation:
    scenario = Scenario(
        "publishers",
        1.0,
        [group],
        [queue or Queue("queue")],
        [Consumer("c", "queue", Duration(0.0), prefetch=1000)],
        [Link("link", 0.02, bytes_per_second=1e6)],
        broker=broker,
    )
    return Simulation(scenario)


def test_a_schedule_ramps_bursts_and_pauses_exactly() -> None:
    schedule = [
        Change(10.0, 3.0, over=10.0),
        Change(30.0, 10.0),
        Change(31.0, 0.0),
        Change(40.0, 1.0),
    ]
    simulation = published_by(Publishers("p", "queue", Duration(0.01), schedule=schedule))
    counts = []
    for time in (10.0, 20.0, 30.0, 31.0, 40.0, 50.0):
        before = simulation.counts.published
        simulation.run_until(time)
        counts.append(simulation.counts.published - before)
    assert counts == pytest.approx([1000, 2000, 3000, 1000, 0, 1000], abs=2)


def test_an_exponential_publisher_on_a_ramp_is_a_poisson_process_of_that_rate() -> None:
    schedule = [Change(0.0, 10.0, over=1000.0)]
    group = Publishers("p", "queue", Duration(0.1, "exponential"), schedule=schedule)
    counts = []
    for seed in range(20):
        simulation = published_by(group)
        simulation = Simulation(simulation.scenario, seed)
        simulation.run_until(500.0)
        counts.append(simulation.counts.published)
    # The integral of 10 (1 + 9 t / 1000) over 500 s.
    assert sum(counts) / 20 == pytest.approx(16_250, abs=4 * (16_250 / 20) ** 0.5)


def test_a_rate_set_from_outside_multiplies_the_schedule() -> None:
    group = Publishers("p", "queue", Duration(0.01), schedule=[Change(5.0, 2.0)])
    simulation = published_by(group)
    simulation.run_until(2.0)
    simulation.set_publish_rate(3.0, "p")
    simulation.run_until(10.0)
    assert simulation.counts.published == pytest.approx(200 + 900 + 3000, abs=2)
    with pytest.raises(InputError, match="there are no publishers 'q'; give one of 'p'"):
        simulation.pause_publishers("q")


def test_a_trace_is_replayed_from_its_first_value_and_again_after_its_last() -> None:
    replay = Duration(distribution="replay", values=[0.5, 0.25, 0.25])
    simulation = published_by(Publishers("p", "queue", replay))
    times = []
    for step in range(1, 41):
        simulation.run_until(step * 0.05)
        if simulation.counts.published > len(times):
            times.append(round(step * 0.05, 2))
    assert times == [0.5, 0.75, 1.0, 1.5, 1.75, 2.0]


def test_a_trace_can_be_a_file_beside_the_scenario(tmp_path: Path) -> None:
    (tmp_path / "every.csv").write_text("0.5,first\n0.25,second\n\n0.25,third\n")
    words = """
    name = "replay"
    sample_interval = 1.0
    [[publishers]]
    name = "p"
    queue = "queue"
    every = { file = "every.csv" }
    [[queues]]
    name = "queue"
    [[consumers]]
    name = "c"
    queue = "queue"
    work = 0.0
    """
    path = tmp_path / "replay.toml"
    path.write_text(words)
    assert load_scenario(path).publishers[0].every.values == (0.5, 0.25, 0.25)
    path.write_text(words.replace("every.csv", "none.csv"))
    with pytest.raises(InputError, match=r"every: cannot read numbers from 'none.csv'"):
        load_scenario(path)


def test_sizes_are_drawn_and_take_their_time_on_the_link() -> None:
    size = Size(2000.0, "exponential")
    group = Publishers("p", "queue", Duration(0.1), link="link", message_size=size)
    simulation = published_by(group)
    meter = Meter(simulation)
    simulation.run_until(2000.0)
    latency = meter.read().queues["queue"].latency
    # 10 ms on the way and 2 ms to send on average; 100 ms apart, so that none waits for another.
    assert latency.mean == pytest.approx(0.012, rel=0.01)
    assert latency.p50 == pytest.approx(0.01 + 0.002 * 0.693, rel=0.02)


def test_no_drawn_size_is_above_what_a_broker_accepts() -> None:
    size = Size(float(LARGEST_MESSAGE_BYTES), "exponential")
    simulation = published_by(Publishers("p", "queue", Duration(0.01), message_size=size))
    simulation.set_prefetch("c", 0)
    simulation.run_until(100.0)
    held = Meter(simulation).read().queues["queue"]
    assert simulation.state.pool["size"].min() >= 0
    assert simulation.state.pool["size"].max() == LARGEST_MESSAGE_BYTES
    # The mean of an exponential value cut off at its mean.
    expected = LARGEST_MESSAGE_BYTES * (1 - math.exp(-1))
    assert held.memory / held.length == pytest.approx(expected, rel=0.02)


def test_a_type_may_have_a_few_sizes() -> None:
    messages = [
        Message("queue", "order", 0.95, 1740),
        Message("queue", "order", 0.04, 7100),
        Message("queue", "order", 0.01, 41010),
    ]
    simulation = published_by(Publishers("p", every=Duration(0.01), messages=messages))
    simulation.set_prefetch("c", 0)
    simulation.run_until(1000.0)
    held = Meter(simulation).read().queues["queue"]
    assert held.memory / held.length == pytest.approx(2347, rel=0.03)


@pytest.mark.parametrize("window", [1, 5])
def test_a_publisher_waits_for_its_confirms(window: int) -> None:
    group = Publishers("p", "queue", Duration(0.001), link="link", confirms=window)
    simulation = published_by(group)
    meter = Meter(simulation)
    simulation.run_until(100.0)
    metrics = meter.read().publishers["p"]
    # A window per round trip of 20 ms; of that it is blocked when it has sent its window.
    assert metrics.publish_rate == pytest.approx(window / 0.02, rel=0.01)
    assert metrics.confirm_time == pytest.approx(0.02, rel=0.01)
    assert metrics.blocked == pytest.approx(1 - window * 0.001 / 0.02, rel=0.02)


def test_a_refused_message_is_confirmed_as_refused() -> None:
    group = Publishers("p", "queue", Duration(0.01), confirms=10)
    simulation = published_by(group, Queue("queue", 5, "reject-publish"))
    simulation.set_prefetch("c", 0)
    meter = Meter(simulation)
    simulation.run_until(100.0)
    metrics = meter.read().publishers["p"]
    assert simulation.counts.published - simulation.counts.dropped == 5
    assert metrics.refuse_rate == pytest.approx(100, rel=0.01)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ({}, "give either 'queue' or 'exchange'"),
        ({"queue": "a", "exchange": "b"}, "give either 'queue' or 'exchange'"),
        ({"queue": "a", "messages": [Message("a")]}, "leave out queue"),
        ({"queue": "a", "confirms": 0}, "confirms is 0"),
        ({"queue": "a", "message_size": -1}, "message_size is -1"),
        ({"queue": "a", "message_size": Size(1e12)}, "give at most 536870912"),
        (
            {"queue": "a", "message_size": Size(distribution="replay", values=[0.0, 6e8])},
            "message_size has a value of 6e\\+08 bytes; give at most 536870912",
        ),
    ],
)
def test_impossible_publishers_are_refused(words: dict[str, object], told: str) -> None:
    with pytest.raises(InputError, match=told):
        Publishers("p", every=Duration(1.0), **words)  # type: ignore[arg-type]
