"""What is not acknowledged in time is delivered again; two pools behave as Li's model says."""

from __future__ import annotations

from dataclasses import replace

import pytest

from controlmq.errors import InputError
from simulator import Consumer, Duration, Link, Publishers, Queue, Scenario, Simulation
from simulator.studies.visibility import TwoPools, measure, scenario
from tests.known.two_pools import seconds

# Li, Cui and Ma 2015, recomputed: threads in both pools, seconds for q = 0.99 and q = 0.88.
PUBLISHED = {
    4: (0.31238, 0.41238),
    5: (0.22647, 0.25228),
    6: (0.20816, 0.22453),
    7: (0.20306, 0.21689),
    8: (0.20158, 0.21460),
    9: (0.20116, 0.21391),
    10: (0.20105, 0.21371),
}


def pools(threads: int, arrives: float) -> TwoPools:
    return TwoPools(30.3, threads, threads, arrives=arrives)


@pytest.mark.parametrize("threads", PUBLISHED)
def test_the_analytic_time_is_the_published_one(threads: int) -> None:
    for arrives, time in zip((0.99, 0.88), PUBLISHED[threads], strict=True):
        assert pools(threads, arrives).time == pytest.approx(time, abs=5.1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("threads", PUBLISHED)
@pytest.mark.parametrize(("arrives", "column"), [(0.99, 0), (0.88, 1)])
def test_the_simulation_takes_the_published_time(threads: int, arrives: float, column: int) -> None:
    plan = pools(threads, arrives)
    found = measure(plan, seconds(plan), range(20))
    assert found.error < 0.005 * found.time
    assert found.time == pytest.approx(PUBLISHED[threads][column], rel=0.01)


def test_keeping_the_order_costs_time() -> None:
    loose = measure(pools(6, 0.99), 500.0, range(3))
    ordered = measure(pools(6, 0.99), 500.0, range(3), in_order=True)
    assert ordered.time == pytest.approx(loose.time)  # the pools do the same
    assert ordered.delivery > 1.2 * loose.delivery


def test_more_broker_threads_help_more_than_more_senders() -> None:
    less = TwoPools(30.3, 5, 5, arrives=0.88)
    assert replace(less, broker_threads=6).time < replace(less, sender_threads=6).time < less.time


@pytest.mark.parametrize("lost", [0.0, 0.3, 0.9])
def test_nothing_is_lost_however_often_sending_fails(lost: float) -> None:
    slow = TwoPools(2.0, 10, 10, arrives=1 - lost)
    simulation = Simulation(scenario(slow, in_order=True), seed=4)
    simulation.run_until(200.0)
    simulation.pause_publishers()
    simulation.run_until(3000.0)
    published = int(simulation.state.publishers["published"].sum())
    queues = simulation.state.queues
    assert queues["acknowledged"].tolist() == [published] * 3
    assert simulation.counts.hidden == simulation.counts.queued == simulation.counts.in_flight == 0


def one_message(work: float, timeout: float, **words: object) -> Simulation:
    """A consumer that takes ``work`` seconds, and one message at 1 s."""
    return Simulation(
        Scenario(
            "one",
            1.0,
            [Publishers("p", "q", Duration(distribution="replay", values=[1.0, 1e5]))],
            [Queue("q", visibility_timeout=timeout, **words)],  # type: ignore[arg-type]
            [Consumer("c", "q", Duration(work), prefetch=2.0, handlers=2, link="way")],
            [Link("way", 0.2)],
        )
    )


def test_an_answer_in_time_ends_it() -> None:
    simulation = one_message(work=1.0, timeout=3.0)
    simulation.run_until(10.0)
    assert (simulation.counts.delivered, simulation.counts.acknowledged) == (1, 1)
    assert simulation.state.lines["length"].sum() == simulation.state.pool.size  # all rows free


def test_a_slow_consumer_gets_the_message_again_and_again() -> None:
    simulation = one_message(work=4.0, timeout=3.0)
    simulation.run_until(4.5)
    # Delivered at 1.0 and, visible again, at 4.0: the first answer comes at 5.2, too late.
    assert (simulation.counts.delivered, simulation.counts.returned) == (2, 1)
    assert (simulation.counts.in_flight, simulation.counts.hidden) == (2, -1)
    simulation.run_until(6.0)
    assert (simulation.counts.acknowledged, simulation.counts.in_flight) == (0, 1)
    assert simulation.counts.hidden == 0


def test_a_delivery_limit_ends_the_rounds() -> None:
    simulation = one_message(work=4.0, timeout=3.0, delivery_limit=1)
    simulation.run_until(20.0)
    counts = simulation.counts
    assert (counts.delivered, counts.returned, counts.rejected) == (2, 1, 1)
    assert counts.delivered == counts.acknowledged + counts.rejected + counts.returned


def test_a_wide_window_has_rows_for_all_it_hides() -> None:
    """More twins are made at one instant than the run had rows to start with."""
    base = one_message(1.0, 50.0).scenario
    publishers = [Publishers("p", "q", Duration(0.001))]
    consumers = [replace(base.consumers[0], prefetch=0.0)]
    simulation = Simulation(replace(base, publishers=publishers, consumers=consumers))
    simulation.run_until(5.0)
    simulation.set_prefetch("c", 60_000.0)
    simulation.run_until(5.001)
    counts = simulation.counts
    assert counts.queued == 0
    assert counts.published == counts.delivered >= 5000


def test_what_would_never_come_back_is_refused() -> None:
    base = one_message(1.0, 3.0).scenario
    silent = [replace(base.consumers[0], failure=0.1, on_failure="no-answer")]
    with pytest.raises(InputError, match="visibility_timeout"):
        replace(base, queues=[Queue("q")], consumers=silent)
    with pytest.raises(InputError, match="would wait forever"):
        Queue("q", in_order=True, max_length=5)
    with pytest.raises(InputError, match="one kind of message"):
        replace(
            base,
            queues=[Queue("q", in_order=True)],
            publishers=[*base.publishers, Publishers("p2", "q", Duration(1.0))],
        )
    with pytest.raises(InputError, match="never settle"):
        _ = TwoPools(30.3, 3, 3).time
