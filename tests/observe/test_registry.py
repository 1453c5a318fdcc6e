"""The registry knows who runs, under bounded names, and what each sample said."""

from __future__ import annotations

import os
import threading
from dataclasses import replace

import pytest

from controlmq.controllers import controller_from
from controlmq.model import ArxModel
from controlmq.observe.registry import TIME_BOUNDS_SECONDS, Observed, Reading, Registry, Times
from controlmq.observe.registry import registry as of_this_process
from tests.observe.running import LIMITS, Running, failing


@pytest.fixture
def registry() -> Registry:
    return Registry()


def names(registry: Registry) -> list[tuple[str, str]]:
    return [(each.queue, each.name) for each in registry.running()]


def test_a_reading_says_what_the_sample_and_the_counts_say(registry: Registry) -> None:
    running = Running(registry)
    running.sample(40, rejected=3, redelivered=2)
    reading = running.sample(10)
    step = running.steps[-1]
    assert (reading.time, reading.rate) == (step.sample.time, step.sample.rate)
    assert (reading.measured_prefetch, reading.prefetch) == (step.sample.prefetch, step.prefetch)
    assert reading.goals == {"rate": 100.0}
    assert reading.received == reading.acknowledged + reading.refused == 50
    assert (reading.refused, reading.redelivered, reading.samples) == (3, 2, 2)
    assert (reading.law, reading.lanes, reading.limits) == ("pi", 1, (LIMITS.low, LIMITS.high))
    assert reading.gains == (0.001, 0.005, 0.0)


def test_a_law_beyond_its_range_has_the_limit_of_what_the_rate_follows(registry: Registry) -> None:
    model = ArxModel(a=0.0, b=10.0, c=0.0, interval=1.0, linear_range=(0.5, 3.0))
    running = Running(registry, controller=controller_from(model))
    running.plant.limits = None
    readings = [running.sample(30) for _ in range(10)]
    assert readings[0].at_limit is None
    assert readings[-1].limits == (0.1, 6.0)
    assert (readings[-1].prefetch, readings[-1].at_limit) == (6.0, "high")


def test_a_consumer_is_there_from_its_first_sample_until_it_ends(registry: Registry) -> None:
    running = Running(registry)
    assert names(registry) == []
    running.sample()
    assert names(registry) == [("orders", "orders")]
    running.running = False
    assert names(registry) == []


def test_of_two_consumers_with_one_name_the_second_gets_a_number_that_is_used_again(
    registry: Registry,
) -> None:
    first, second = Running(registry), Running(registry)
    other = Running(registry, name="invoices")
    for each in (first, second, other):
        each.sample()
    assert names(registry) == [
        ("orders", "invoices"),
        ("orders", "orders"),
        ("orders", "orders-2"),
    ]
    first.running = False
    Running(registry).sample()
    assert names(registry) == [
        ("orders", "invoices"),
        ("orders", "orders"),
        ("orders", "orders-2"),
    ]


def test_names_that_the_broker_makes_up_are_not_shown(registry: Registry) -> None:
    Running(registry, "amq.gen-JzTY20BRgKO-HjmUJj0wLg").sample()
    Running(registry, "amq.gen-h9Kxz7", name="mine").sample()
    assert names(registry) == [("amq.gen", "amq.gen"), ("amq.gen", "mine")]


def test_failures_are_counted(registry: Registry) -> None:
    def full(transition: object) -> None:
        raise OSError("no space left on device")

    running = Running(registry, controller=failing, record=full)
    for _ in range(3):
        reading = running.sample()
    assert (reading.controller_failures, reading.record_failures) == (3, 2)
    assert reading.law == "function"


def test_a_law_at_its_limit_and_one_that_is_frozen_are_seen(registry: Registry) -> None:
    running = Running(registry, controller=lambda sample, goal: LIMITS.high)
    assert running.sample().at_limit == "high"
    running.loop.controller = lambda sample, goal: LIMITS.low
    assert running.sample().at_limit == "low"
    idle = Running(registry, name="idle")
    idle.sample(1)
    reading = idle.sample(0)
    assert reading.starved > 0.5
    assert reading.frozen
    assert reading.at_limit is None


def test_under_the_kill_switch_there_is_no_goal(registry: Registry) -> None:
    running = Running(registry)
    running.switched_off = True
    reading = running.sample()
    assert (reading.switched_off, reading.goals, reading.law) == (True, {}, "fixed")


def test_another_controller_changes_the_number_of_the_law(registry: Registry) -> None:
    running = Running(registry)
    first, second = running.sample(), running.sample()
    running.loop.controller = failing
    assert first.law_number == second.law_number != running.sample().law_number


def test_times_add_up_whatever_the_bins() -> None:
    times = Times().with_sample(0.002, 10).with_sample(100.0, 2).with_sample(0.0, 3)
    times = times.with_sample(5.0, 0)
    assert sum(times.bins) == 15
    assert times.total_seconds == pytest.approx(0.02 + 200.0)
    assert times.bins[TIME_BOUNDS_SECONDS.index(0.0025)] == 10
    assert (times.bins[0], times.bins[-1]) == (3, 2)
    at_a_bound = Times().with_sample(TIME_BOUNDS_SECONDS[3], 1)
    assert at_a_bound.bins[3] == 1, "a bound belongs to the bin that it ends"


def test_a_listener_that_fails_stops_neither_the_consumer_nor_others(
    registry: Registry, caplog: pytest.LogCaptureFixture
) -> None:
    heard: list[Reading] = []

    def fails(observed: Observed, reading: Reading) -> None:
        raise RuntimeError("no")

    registry.listeners += [fails, lambda observed, reading: heard.append(reading)]
    running = Running(registry)
    assert [running.sample(), running.sample()] == heard
    assert [record.message for record in caplog.records] == [
        "an observer of the consumers failed; consuming goes on"
    ]


def test_readings_may_be_taken_while_consumers_come_and_go(registry: Registry) -> None:
    stop, errors = threading.Event(), list[BaseException]()

    def read() -> None:
        try:
            while not stop.is_set():
                assert all(each.last is not None for each in registry.running())
        except BaseException as error:
            errors.append(error)

    reader = threading.Thread(target=read)
    reader.start()
    for _ in range(200):
        running = Running(registry)
        running.sample(2)
        running.running = False
    stop.set()
    reader.join()
    assert errors == []


def test_a_forked_process_has_no_consumers_of_its_parent() -> None:
    running = Running(of_this_process)
    running.sample()
    child = os.fork()
    if child == 0:
        os._exit(len(of_this_process.running()))
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert running.last is not None
    running.running = False
    assert running not in [each.watched for each in of_this_process.running()]


def test_a_reading_does_not_change(registry: Registry) -> None:
    running = Running(registry)
    reading = running.sample()
    same = replace(reading)
    running.sample()
    assert reading == same
