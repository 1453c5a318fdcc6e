"""Consumers: when they acknowledge, how they fail, crash and change, and what they pass on."""

from __future__ import annotations

import pytest

from controlmq.errors import InputError
from simulator import (
    Change,
    Consumer,
    Duration,
    Link,
    Meter,
    Publishers,
    Queue,
    Scenario,
    Send,
    Simulation,
)
from tests.simulator.test_queues import conserved


def overloaded(**consumer: object) -> Simulation:
    """Twice as many messages as the consumer can take, over a link of 10 ms each way."""
    words = {"work": Duration(0.01), "link": "link", "prefetch": 10, **consumer}
    scenario = Scenario(
        "overloaded",
        1.0,
        [Publishers("p", "queue", Duration(0.005))],
        [Queue("queue")],
        [Consumer("c", "queue", **words)],  # type: ignore[arg-type]
        [Link("link", 0.02)],
    )
    return Simulation(scenario)


def test_acknowledged_on_receipt_the_queue_empties_into_the_consumer() -> None:
    simulation = overloaded(acknowledge="on-receipt")
    simulation.run_until(100.0)
    counts, totals = simulation.counts, simulation.totals("c")
    # The window is free after one round trip, 500 messages/second: nothing stays in the queue,
    # and what the business logic cannot take waits with the consumer.
    assert counts.queued <= 1
    assert counts.in_flight <= 10
    assert counts.delivered - totals.arrivals == pytest.approx(10_000, rel=0.01)
    assert conserved(counts)


def test_acknowledged_after_processing_the_queue_grows() -> None:
    simulation = overloaded()
    simulation.run_until(100.0)
    counts = simulation.counts
    assert counts.in_flight == 10
    assert counts.queued == pytest.approx(10_000, rel=0.01)
    assert simulation.totals("c").arrivals == pytest.approx(10_000, rel=0.01)


def test_a_message_is_delivered_only_after_an_acknowledgement_has_come_back() -> None:
    simulation = overloaded(prefetch=1)
    simulation.run_until(100.0)
    # One at a time: 10 ms there, 10 ms of work, 10 ms back.
    assert simulation.counts.delivered == pytest.approx(100 / 0.03, abs=2)


def test_without_acknowledgements_the_prefetch_counts_for_nothing() -> None:
    simulation = overloaded(acknowledge="automatic", prefetch=1)
    simulation.run_until(100.0)
    counts = simulation.counts
    assert (counts.queued, counts.in_flight) == (0, 0)
    assert counts.acknowledged == counts.delivered == counts.published


@pytest.mark.parametrize("multiple", [False, True])
def test_a_batch_is_acknowledged_at_once(multiple: bool) -> None:
    simulation = overloaded(ack_batch=5, ack_multiple=multiple)
    seen = set()
    for step in range(1, 4000):
        simulation.run_until(step * 0.0025)
        seen.add(simulation.counts.acknowledged % 5)
    assert seen == {0}
    # Windows of 5: the second is worked on while the first is under way, 50 ms and 20 ms.
    assert simulation.totals("c").arrivals == pytest.approx(1000, rel=0.03)


@pytest.mark.parametrize(("prefetch", "batch"), [(7, 5), (5, 5), (4, 4), (2.5, 2), (0.5, 1)])
def test_a_batch_is_never_larger_than_the_prefetch_in_force(prefetch: float, batch: int) -> None:
    simulation = overloaded(ack_batch=5, link=None)
    simulation.run_until(1.0)
    simulation.set_prefetch("c", prefetch)
    simulation.run_until(2.0)
    before, batches = simulation.totals("c").acks_given, set()
    for step in range(1, 1001):
        simulation.run_until(2.0 + step * 0.0025)
        after = simulation.totals("c").acks_given
        batches.add(after - before)
        before = after
    assert max(batches) == batch


def test_a_smaller_prefetch_does_not_leave_a_consumer_waiting_for_its_batch() -> None:
    simulation = overloaded(ack_batch=5)
    while simulation.counts.published < 4:
        simulation.run_until(simulation.now + 0.001)
    simulation.pause_publishers()
    simulation.run_until(2.0)
    # Four are finished and wait for a fifth, which a prefetch of 3 keeps away.
    assert simulation.totals("c").finished == simulation.counts.in_flight == 4
    simulation.set_prefetch("c", 3)
    simulation.resume_publishers()
    simulation.run_until(3.0)
    assert simulation.totals("c").finished > 50
    assert conserved(simulation.counts)


def test_a_removed_consumer_answers_for_all_it_has_finished() -> None:
    simulation = overloaded(ack_batch=7)
    simulation.run_until(10.0)
    simulation.remove_consumer("c")
    simulation.run_until(20.0)
    counts = simulation.counts
    assert counts.in_flight == 0
    assert counts.acknowledged == counts.delivered == simulation.totals("c").finished
    assert conserved(counts)


def test_a_failed_message_is_delivered_again_until_it_succeeds() -> None:
    simulation = overloaded(work=Duration(0.001), failure=0.25)
    simulation.run_until(200.0)
    counts = simulation.counts
    assert counts.delivered / counts.acknowledged == pytest.approx(1 / 0.75, rel=0.01)
    assert counts.returned == pytest.approx(counts.delivered * 0.25, rel=0.03)
    assert conserved(counts)


def test_a_crash_loses_no_message_that_was_not_acknowledged() -> None:
    simulation = overloaded(
        work=Duration(0.002),
        handlers=2,
        crash_every=Duration(1.0, "exponential"),
        restart=Duration(0.1, "exponential"),
    )
    meter = Meter(simulation)
    for step in range(1, 2000):
        simulation.run_until(step * 0.1)
        assert conserved(simulation.counts)
        assert simulation.counts.in_flight <= 10
    consumer = meter.read().consumers["c"]
    assert consumer.crashes == pytest.approx(200 / 1.11, rel=0.2)
    assert consumer.lost == 0
    assert simulation.counts.returned > consumer.crashes
    simulation.pause_publishers()
    simulation.run_until(230.0)
    assert simulation.counts.acknowledged == simulation.counts.published


def test_what_was_acknowledged_before_a_crash_is_lost_with_it() -> None:
    simulation = overloaded(
        acknowledge="on-receipt", crash_every=Duration(1.0), restart=Duration(0.5)
    )
    meter = Meter(simulation)
    simulation.run_until(100.0)
    lost = meter.read().consumers["c"].lost
    totals = simulation.totals("c")
    assert lost > 1000
    waiting = simulation.counts.delivered - totals.finished - lost
    assert 0 <= waiting <= 2 * 400


def test_messages_come_back_in_the_order_in_which_they_were() -> None:
    simulation = overloaded(prefetch=8, crash_every=Duration(1.0), restart=Duration(0.1))
    simulation.run_until(1.05)
    state = simulation.state
    line = state.lines[int(state.queues[0]["line"])]
    message, published = int(line["first"]), []
    for _ in range(int(line["length"])):
        published.append(float(state.pool[message]["published"]))
        message = int(state.pool[message]["next"])
    assert simulation.counts.returned == 8
    assert published == sorted(published)


def test_work_follows_its_schedule() -> None:
    schedule = [Change(10.0, 2.0), Change(20.0, 4.0, over=10.0)]
    simulation = overloaded(work_schedule=schedule, prefetch=20)
    meter = Meter(simulation)
    rates = []
    for time in (10.0, 20.0, 30.0, 40.0):
        simulation.run_until(time)
        rates.append(meter.read().consumers["c"].arrival_rate)
    # On the ramp from factor 2 to 4 the rate is 100 / f(t): ln(2) / 2 of 100 on average.
    assert rates == pytest.approx([100, 50, 34.66, 25], rel=0.02)


def test_a_finished_message_leads_to_others() -> None:
    scenario = Scenario(
        "passing on",
        1.0,
        [Publishers("p", "orders", Duration(0.01))],
        [Queue("orders"), Queue("invoices"), Queue("audits")],
        [
            Consumer(
                "shop",
                "orders",
                Duration(0.001),
                link="link",
                sends=[
                    Send("invoices", type="invoice", size=1000),
                    Send("audits", type="audit", probability=0.25),
                    Send("audits", on="p", type="copy"),
                ],
            ),
            Consumer("books", "invoices", Duration(0.001)),
        ],
        [Link("link", 0.004, bytes_per_second=1e6)],
    )
    simulation = Simulation(scenario)
    meter = Meter(simulation)
    simulation.run_until(100.0)
    metrics = meter.read()
    assert metrics.queues["invoices"].publish_rate == pytest.approx(100, rel=0.01)
    assert metrics.queues["audits"].publish_rate == pytest.approx(125, rel=0.02)
    # Half a round trip and 1000 bytes at 1 MB/s.
    assert metrics.types["invoice"].mean == pytest.approx(0.003, rel=0.001)
    assert conserved(simulation.counts)


@pytest.mark.slow
def test_messages_in_a_circle_without_time_are_noticed() -> None:
    scenario = Scenario(
        "circle",
        1.0,
        [Publishers("p", "queue", Duration(1.0))],
        [Queue("queue")],
        [Consumer("c", "queue", Duration(0.0), sends=[Send("queue")])],
    )
    with pytest.raises(InputError, match="time stands still"):
        Simulation(scenario).run_until(10.0)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ({"acknowledge": "late"}, "acknowledge is 'late'; give one of after-processing"),
        ({"ack_batch": 0}, "ack_batch is 0; give a whole number from 1"),
        ({"ack_multiple": True, "handlers": 2}, "give handlers = 1"),
        ({"ack_batch": 2, "prefetch": 4, "acknowledge": "on-receipt"}, "after-processing"),
        ({"failure": 1.5}, "failure is 1.5; give a probability"),
        ({"failure": 0.5, "acknowledge": "automatic"}, "cannot be put back"),
        ({"on_failure": "retry"}, "on_failure is 'retry'; give one of requeue, reject"),
        ({"crash_every": Duration(1.0)}, "give both or neither"),
        ({"work_schedule": [Change(2.0, 1.0), Change(1.0, 1.0)]}, "give them in order"),
        ({"sends": "all"}, "sends is 'all'; give a list of Send"),
    ],
)
def test_impossible_consumers_are_refused(words: dict[str, object], told: str) -> None:
    with pytest.raises(InputError, match=told):
        Consumer("c", "queue", Duration(0.01), **words)  # type: ignore[arg-type]


def test_acknowledged_on_receipt_a_window_smaller_than_the_round_trip_lets_the_queue_grow() -> None:
    simulation = overloaded(acknowledge="on-receipt", prefetch=1)
    for step in range(1, 4_001):
        simulation.run_until(step * 0.005)
        counts = simulation.counts
        assert counts.delivered - counts.acknowledged == counts.in_flight <= 1
    # One a round trip of 20 ms, however long the work: 200 messages/second come and 50 go.
    assert counts.delivered == pytest.approx(20 / 0.02, abs=2)
    assert counts.queued == pytest.approx(3_000, rel=0.01)
    # The handler is done before the next message comes: nothing waits with the consumer.
    assert counts.delivered - simulation.totals("c").finished <= 1


@pytest.mark.parametrize("prefetch", [1, 5])
def test_equal_consumers_are_delivered_to_in_turns(prefetch: int) -> None:
    scenario = Scenario(
        "turns",
        1.0,
        [Publishers("p", "queue", Duration(1.0))],
        [Queue("queue")],
        [Consumer(name, "queue", Duration(0.5), prefetch=prefetch) for name in ("a", "b")],
    )
    simulation = Simulation(scenario)
    for second in range(1, 21):
        simulation.run_until(float(second))
        arrivals = [simulation.totals(name).arrivals for name in ("a", "b")]
        assert arrivals == [(second + 1) // 2, second // 2]
