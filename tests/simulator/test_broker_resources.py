"""The broker's cores, disk and memory: what they cost, and whom they stop."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from controlmq.errors import InputError
from simulator import (
    Binding,
    Broker,
    Consumer,
    Duration,
    Exchange,
    Link,
    Meter,
    Metrics,
    Publishers,
    Queue,
    Scenario,
    Simulation,
)
from tests.simulator.test_queues import conserved


def measured(scenario: Scenario, until: float = 100.0) -> tuple[Simulation, Metrics]:
    simulation = Simulation(scenario)
    meter = Meter(simulation)
    simulation.run_until(until)
    assert conserved(simulation.counts)
    return simulation, meter.read()


def one_queue(broker: Broker, every: Duration, **words: object) -> Scenario:
    consumer = {"prefetch": 1000, "work": Duration(0.0), **words}
    return Scenario(
        "costs",
        1.0,
        [Publishers("p", "queue", every, message_size=1000)],
        [Queue("queue")],
        [Consumer("c", "queue", **consumer)],  # type: ignore[arg-type]
        broker=broker,
    )


def test_every_step_of_a_message_costs_what_the_broker_says() -> None:
    broker = Broker(1, publish=1e-3, copy=2e-3, enqueue=3e-3, deliver=4e-3, per_byte=1e-6)
    simulation, metrics = measured(one_queue(broker, Duration(0.1)))
    # 1000 bytes in and out.
    assert metrics.queues["queue"].latency.mean == pytest.approx(0.012)
    assert metrics.broker.core_utilisation == pytest.approx(0.12, rel=0.01)
    assert simulation.counts.acknowledged == simulation.counts.delivered


@pytest.mark.slow
def test_one_core_is_a_queue_with_one_server() -> None:
    # Publishing alone costs: Poisson arrivals, a constant service, Pollaczek-Khinchine.
    broker = Broker(1, publish=0.008, credit=1_000_000, more_credit_after=1)
    _, metrics = measured(one_queue(broker, Duration(0.01, "exponential")), 20_000.0)
    wait = 0.8 * 0.008 / (2 * (1 - 0.8))
    assert metrics.queues["queue"].latency.mean == pytest.approx(0.008 + wait, rel=0.02)


@pytest.mark.parametrize(("queues", "cores", "rate"), [(1, 4, 100), (4, 2, 200), (4, 4, 400)])
def test_a_queue_is_one_process_and_several_share_the_cores(
    queues: int, cores: int, rate: float
) -> None:
    names = [f"q{number}" for number in range(queues)]
    scenario = Scenario(
        "processes",
        1.0,
        [Publishers(f"to {name}", name, Duration(0.002)) for name in names],
        [Queue(name) for name in names],
        [Consumer(f"of {name}", name, Duration(0.0), prefetch=100) for name in names],
        broker=Broker(cores, enqueue=0.004, deliver=0.006),
    )
    simulation, metrics = measured(scenario)
    # 10 ms of its queue's process, of which there are `queues` on `cores`.
    assert simulation.counts.delivered / 100 == pytest.approx(rate, rel=0.02)
    assert metrics.broker.core_utilisation == pytest.approx(min(queues / cores, 1.0), rel=0.01)
    shares = [metrics.queues[name].deliver_rate for name in names]
    assert shares == pytest.approx([rate / queues] * queues, rel=0.02)


@pytest.mark.parametrize("copies", [1, 2, 5, 10])
def test_fan_out_costs_time_for_every_copy(copies: int) -> None:
    names = [f"q{number}" for number in range(copies)]
    scenario = Scenario(
        "fan-out",
        1.0,
        [Publishers("p", every=Duration(0.1), exchange="x")],
        [Queue(name) for name in names],
        [Consumer(f"of {name}", name, Duration(0.0)) for name in names],
        exchanges=[Exchange("x", "fanout")],
        bindings=[Binding("x", name) for name in names],
        broker=Broker(100, publish=0.001, copy=0.002, enqueue=0.003),
    )
    _, metrics = measured(scenario)
    # One event and n notifications by the connection, then the queues, each by itself.
    assert metrics.types["p"].mean == pytest.approx(0.004 + 0.002 * copies)


def test_one_acknowledgement_for_several_messages_costs_the_broker_once() -> None:
    broker = Broker(1, acknowledge=0.001)
    batch = {"prefetch": 20, "ack_batch": 10}
    _, each = measured(one_queue(broker, Duration(0.01), **batch))
    _, together = measured(one_queue(broker, Duration(0.01), ack_multiple=True, **batch))
    assert each.broker.core_utilisation == pytest.approx(0.1, rel=0.02)
    assert together.broker.core_utilisation == pytest.approx(0.01, rel=0.02)


def persistent(queue: Queue, **words: object) -> Scenario:
    group = {"every": Duration(0.01), "persistent": True, "confirms": 1000, **words}
    return Scenario(
        "disk",
        1.0,
        [Publishers("p", "queue", message_size=1000, **group)],  # type: ignore[arg-type]
        [queue],
        [Consumer("c", "queue", Duration(0.0), prefetch=10)],
        broker=Broker(4, disk_write=0.004, disk_per_byte=1e-6),
    )


def test_a_confirm_waits_for_the_disk_and_the_delivery_does_not() -> None:
    _, metrics = measured(persistent(Queue("queue")))
    assert metrics.publishers["p"].confirm_time == pytest.approx(0.005)
    assert metrics.queues["queue"].latency.mean == pytest.approx(0.0)
    assert metrics.broker.disk_utilisation == pytest.approx(0.5, rel=0.01)


def test_a_queue_may_write_before_it_delivers() -> None:
    _, metrics = measured(persistent(Queue("queue", write_before_delivery=True)))
    assert metrics.queues["queue"].latency.mean == pytest.approx(0.005)
    assert metrics.publishers["p"].confirm_time == pytest.approx(0.005)


@pytest.mark.parametrize("words", [{"queue": Queue("queue", durable=False)}, {"persistent": False}])
def test_only_persistent_messages_in_durable_queues_are_written(words: dict[str, object]) -> None:
    queue = words.pop("queue", Queue("queue"))
    _, metrics = measured(persistent(queue, **words))  # type: ignore[arg-type]
    assert metrics.broker.disk_utilisation == 0
    assert metrics.publishers["p"].confirm_time == pytest.approx(0.0)


def test_the_disk_writes_all_that_waits_at_once() -> None:
    # 1000 messages/second; a write of n takes 4 ms + n ms, so n = 4 / (1 - 1) would never end;
    # with 0.5 ms a message it settles at 8 messages in 8 ms.
    scenario = persistent(Queue("queue"), every=Duration(0.001))
    scenario = Scenario(
        **{
            **{key: getattr(scenario, key) for key in scenario.__dataclass_fields__},
            "broker": Broker(4, disk_write=0.004, disk_per_byte=0.5e-6),
        }
    )
    _, metrics = measured(scenario)
    assert metrics.publishers["p"].confirm_rate == pytest.approx(1000, rel=0.01)
    # Half a write to wait on average, then a write.
    assert metrics.publishers["p"].confirm_time == pytest.approx(0.012, rel=0.1)


def test_credit_stops_a_publisher_that_the_broker_cannot_follow() -> None:
    broker = Broker(1, enqueue=0.002, credit=400, more_credit_after=200)
    simulation, metrics = measured(one_queue(broker, Duration(0.001)))
    publisher = metrics.publishers["p"]
    assert publisher.publish_rate == pytest.approx(500, rel=0.02)
    # It sends 400 in 0.4 s, of which 200 are left; then 200 are worked off in turn.
    assert publisher.blocked == pytest.approx(0.5, rel=0.03)
    waiting = int(simulation.state.publishers[0]["waiting"])
    assert 200 <= waiting <= 400


def test_memory_stops_all_publishers_until_consumers_have_made_room() -> None:
    scenario = Scenario(
        "memory",
        1.0,
        [
            Publishers("fast", "queue", Duration(0.001), message_size=1000),
            Publishers("slow", "other", Duration(0.105)),
        ],
        [Queue("queue"), Queue("other")],
        [
            Consumer("c", "queue", Duration(0.01), prefetch=10),
            Consumer("d", "other", Duration(0.0)),
        ],
        broker=Broker(4, memory_limit=100_000),
    )
    simulation, metrics = measured(scenario)
    assert metrics.broker.memory == pytest.approx(100_000, abs=2000)
    # Every 10 ms an acknowledgement makes room for one message. The fast one is ready 1 ms later
    # and waits for 9; the slow one is ready in the middle between two and waits for 5.
    assert metrics.publishers["fast"].publish_rate == pytest.approx(100, rel=0.03)
    assert metrics.publishers["fast"].blocked == pytest.approx(0.9, rel=0.01)
    assert metrics.publishers["slow"].publish_rate == pytest.approx(1 / 0.11, rel=0.03)
    assert metrics.publishers["slow"].blocked == pytest.approx(0.005 / 0.11, rel=0.03)
    assert simulation.counts.in_flight == 10


def test_publishers_that_memory_stops_have_equal_shares() -> None:
    names = ("first", "second", "third")
    scenario = Scenario(
        "turns",
        1.0,
        [Publishers(name, "queue", Duration(0.001), message_size=1000) for name in names],
        [Queue("queue")],
        [Consumer("c", "queue", Duration(0.01), prefetch=10)],
        broker=Broker(4, memory_limit=100_000),
    )
    _, metrics = measured(scenario)
    assert metrics.broker.memory <= 103_000
    for name in names:
        assert metrics.publishers[name].publish_rate == pytest.approx(100 / 3, rel=0.03)
        # Each waits for three acknowledgements but for the 1 ms until it is ready.
        assert metrics.publishers[name].blocked == pytest.approx(29 / 30, rel=0.01)


def test_what_stops_a_publisher_next_does_not_end_the_time_it_is_blocked() -> None:
    # Its first message uses all credit for 10 s, and then all memory for ever.
    broker = Broker(1, enqueue=10.0, credit=1, more_credit_after=1, memory_limit=500)
    simulation, metrics = measured(one_queue(broker, Duration(0.01), prefetch=0), 20.0)
    assert simulation.counts.queued == 1
    assert metrics.publishers["p"].blocked == pytest.approx(1.0, abs=0.002)


def test_a_publisher_that_does_not_want_to_send_is_not_blocked() -> None:
    simulation = Simulation(one_queue(Broker(1, memory_limit=10_000), Duration(0.001), prefetch=0))
    meter, blocked = Meter(simulation), []
    changes: list[Callable[[], None]] = [
        simulation.pause_publishers,
        simulation.resume_publishers,
        lambda: simulation.set_prefetch("c", 1000),
        lambda: simulation.set_prefetch("c", 0),
        lambda: simulation.remove_publishers("p"),
        simulation.resume_publishers,
    ]
    for step, change in enumerate(changes, 1):
        simulation.run_until(step * 10.0)
        blocked.append(meter.read().publishers["p"].blocked)
        change()
    simulation.run_until(80.0)
    blocked.append(meter.read().publishers["p"].blocked)
    assert blocked == pytest.approx([1.0, 0.0, 1.0, 0.0, 1.0, 0.0, 0.0], abs=0.002)
    # Stopped twice, and what it held did not become late again when it resumed.
    assert simulation.state.publishers["late"].tolist() == [2]


def test_calibration_lines_through_message_sizes_give_the_published_predictions() -> None:
    """Schmid 2020: latency at low load is 1.402349 ms + 6.861179 ns a byte."""
    predicted = {
        240: 1.403994,
        2347: 1.4179,
        2627: 1.4202,
        384: 1.4051,
        1966: 1.4157,
        2126: 1.4169,
        1027: 1.4097,
    }
    for size, milliseconds in predicted.items():
        scenario = Scenario(
            "schmid",
            1.0,
            [Publishers("p", "queue", Duration(1 / 1.53920154), message_size=size)],
            [Queue("queue")],
            [Consumer("c", "queue", Duration(0.0))],
            broker=Broker(8, publish=1.402349e-3, per_byte=6.861179e-9 / 2),
        )
        _, metrics = measured(scenario)
        assert metrics.types["p"].mean * 1000 == pytest.approx(milliseconds, rel=0.001)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ({"cores": 0}, "cores is 0"),
        ({"publish": -1}, "publish is -1; give 0 or more"),
        ({"deliver": "slow"}, "deliver is 'slow'; give a number"),
        ({"credit": 10, "more_credit_after": 20}, "more_credit_after is 20; .* from 1 to 10"),
        ({"memory_limit": 0}, "memory_limit is 0"),
    ],
)
def test_impossible_brokers_are_refused(words: dict[str, object], told: str) -> None:
    with pytest.raises(InputError, match=told):
        Broker(**words)  # type: ignore[arg-type]


def test_a_link_delays_and_spaces_what_a_publisher_sends() -> None:
    scenario = Scenario(
        "link",
        1.0,
        [Publishers("p", "queue", Duration(0.001), message_size=2000, link="thin")],
        [Queue("queue")],
        [Consumer("c", "queue", Duration(0.0), prefetch=100)],
        [Link("thin", 0.02, bytes_per_second=1e6)],
    )
    simulation = Simulation(scenario)
    simulation.run_until(10.0)
    assert simulation.counts.published == pytest.approx(500 * (10 - 0.01), abs=2)
