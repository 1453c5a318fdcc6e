"""A running system changes: from Python, by rules, and by several loops at once."""

from __future__ import annotations

from dataclasses import replace

import pytest

from controlmq.controllers import PI, Gains, Limits
from controlmq.errors import InputError
from controlmq.loop import Loop
from simulator import (
    Change,
    Consumer,
    Duration,
    Link,
    Meter,
    Publishers,
    Queue,
    Rule,
    Scenario,
    Simulation,
    parse_scenario,
    plants,
)
from tests.simulator.test_queues import conserved

BUSY = Scenario(
    "busy",
    1.0,
    [Publishers("p", "work", Duration(0.01))],
    [Queue("work")],
    [Consumer("worker", "work", Duration(0.025), prefetch=1)],
)


def test_a_consumer_that_joins_takes_its_share_and_leaves_without_losing_anything() -> None:
    simulation = Simulation(BUSY)
    simulation.run_until(10.0)
    assert simulation.counts.queued == pytest.approx(600, abs=2)
    assert simulation.add_consumer("worker") == "worker 2"
    assert simulation.add_consumer("worker 2", "third") == "third"
    meter = Meter(simulation)
    simulation.run_until(20.0)
    assert [meter.read().consumers[name].arrival_rate for name in ("third",)] == [
        pytest.approx(40, rel=0.02)
    ]
    assert simulation.counts.queued == pytest.approx(400, abs=5)
    simulation.remove_consumer("third")
    simulation.run_until(30.0)
    assert simulation.totals("third").arrivals == pytest.approx(400, abs=2)
    assert simulation.totals("third").finished == simulation.totals("third").arrivals
    assert simulation.active("worker") == ["worker", "worker 2"]
    assert conserved(simulation.counts)
    with pytest.raises(InputError, match="there is a 'third' already"):
        simulation.add_consumer("worker", "third")


def test_what_joins_leaves_the_draws_of_the_others_alone() -> None:
    consumer = replace(BUSY.consumers[0], work=Duration(0.025, "exponential"))
    plain, joined = (Simulation(replace(BUSY, consumers=[consumer])) for _ in range(2))
    joined.run_until(5.0)
    joined.add_publishers("p")
    for simulation in (plain, joined):
        simulation.run_until(100.0)
    assert plain.totals("worker") == joined.totals("worker")


def test_publishers_join_and_leave() -> None:
    simulation = Simulation(BUSY)
    simulation.run_until(10.0)
    assert simulation.add_publishers("p") == "p 2"
    simulation.run_until(20.0)
    simulation.remove_publishers("p")
    simulation.resume_publishers()
    simulation.run_until(30.0)
    assert simulation.active("p") == ["p 2"]
    assert simulation.counts.published == pytest.approx(1000 + 2000 + 1000, abs=3)


def scaling(**words: object) -> Rule:
    rule = {"metric": "length", "of": "work", "action": "add-consumer", "target": "worker"}
    return Rule(**{"name": "grow", **rule, **words})  # type: ignore[arg-type]


def test_a_rule_adds_consumers_until_the_queue_no_longer_grows() -> None:
    rules = [scaling(above=100, hold=2.0, at_most=5)]
    simulation = Simulation(replace(BUSY, rules=rules))
    simulation.run_until(300.0)
    # 100 messages/second need 2.5 workers of 40; the third drains what has piled up.
    assert len(simulation.active("worker")) in (3, 4)
    assert simulation.counts.queued <= 1


@pytest.mark.parametrize(
    ("hold", "takes", "joined"), [(0.0, 0.0, 2.0), (3.0, 0.0, 5.0), (3.0, 2.5, 7.5)]
)
def test_a_rule_waits_for_its_hold_time_and_a_change_takes_its_time(
    hold: float, takes: float, joined: float
) -> None:
    # 60 messages/second pile up: more than 100 at 2 s.
    rules = [scaling(above=100, hold=hold, takes=takes, at_most=2)]
    simulation = Simulation(replace(BUSY, rules=rules))
    simulation.run_until(joined - 0.01)
    assert simulation.active("worker") == ["worker"]
    simulation.run_until(joined)
    assert simulation.active("worker") == ["worker", "worker 2"]
    assert simulation.adaptations == [(joined, "grow")]


@pytest.mark.parametrize(
    ("words", "rate", "prefetch"),
    [
        # 40 messages/second are worked on at 25 ms each.
        ({"metric": "deliver-rate", "below": 50, "action": "set-service-time",
          "value": 0.02}, 50, 1),
        ({"metric": "growth", "above": 50, "action": "set-service-time", "value": 0.01}, 100, 1),
        ({"metric": "latency", "above": 1, "action": "set-publish-rate", "target": "p",
          "value": 0.1}, 10, 1),
        ({"metric": "publish-rate", "above": 99, "action": "set-prefetch", "value": 7}, 40, 7),
        ({"metric": "arrival-rate", "of": "worker", "below": 50, "action": "add-publishers",
          "target": "p", "at_most": 1}, 40, 1),
        ({"metric": "in-flight", "of": "worker", "above": 0.9, "action": "remove-consumer",
          "at_least": 0}, 0, 1),
        ({"metric": "utilisation", "of": "worker", "above": 0.9, "action": "remove-publishers",
          "target": "p", "at_least": 0, "hold": 10}, 0, 1),
        ({"metric": "buffer-time", "of": "worker", "above": 0.1, "action": "set-prefetch",
          "value": 9}, 40, 1),
    ],
    ids=lambda words: words["metric"] if isinstance(words, dict) else "",
)  # fmt: skip
def test_rules_read_any_metric_and_turn_any_knob(
    words: dict[str, object], rate: float, prefetch: float
) -> None:
    simulation = Simulation(replace(BUSY, rules=[scaling(**words)]))
    simulation.run_until(200.0)
    meter = Meter(simulation)
    simulation.run_until(300.0)
    metrics = meter.read().consumers["worker"]
    assert metrics.arrival_rate == pytest.approx(rate, rel=0.02)
    assert metrics.prefetch == prefetch


def test_rules_do_not_depend_on_where_a_run_is_cut() -> None:
    scenario = replace(BUSY, rules=[scaling(above=100, hold=2.0, at_most=5)])
    whole, pieces = Simulation(scenario), Simulation(scenario)
    whole.run_until(50.0)
    for step in range(1, 501):
        pieces.run_until(step * 0.1)
    assert whole.counts == pieces.counts
    assert whole.adaptations == pieces.adaptations


def test_a_rule_in_a_file() -> None:
    text = """
    name = "busy"
    sample_interval = 1.0
    publishers = [{ name = "p", queue = "work", every = 0.01 }]
    queues = [{ name = "work" }]
    consumers = [{ name = "worker", queue = "work", work = 0.025, prefetch = 1 }]
    [[rules]]
    name = "grow"
    metric = "length"
    of = "work"
    above = 100
    hold = 2
    action = "add-consumer"
    target = "worker"
    at_most = 5
    """
    assert parse_scenario(text) == replace(BUSY, rules=[scaling(above=100, hold=2, at_most=5)])
    for old, new, told in (
        ("above = 100", "", "needs either 'above' or 'below'"),
        ('of = "work"', 'of = "play"', "of of 'grow' is 'play'; give one of 'work'"),
        ('"add-consumer"', '"add"', "action is 'add'; give one of add-consumer"),
        ("at_most = 5", "value = 5", "'value' goes with set-prefetch"),
        ('metric = "length"', 'metric = "size"', "metric is 'size'; give one of length"),
    ):
        with pytest.raises(InputError, match=told):
            parse_scenario(text.replace(old, new))


def test_several_loops_drive_the_consumers_of_one_simulation() -> None:
    scenario = Scenario(
        "two loops",
        1.0,
        [Publishers("p", "work", Duration(0.0005))],
        [Queue("work", 5000)],
        [
            Consumer("near", "work", Duration(0.001), link="lan"),
            Consumer("far", "work", Duration(0.001), link="wan"),
        ],
        [Link("lan", 0.004), Link("wan", 0.019)],
    )
    both = plants(scenario)
    goals = {"near": 500.0, "far": 250.0}
    gains = {"near": Gains(kp=0.0, ki=0.0025), "far": Gains(kp=0.0, ki=0.01)}
    loops = {
        name: Loop(plant, PI(gains[name], Limits(0.1, 60)), goals[name])
        for name, plant in both.items()
    }
    steps = [{name: loop.step() for name, loop in loops.items()} for _ in range(40)]
    assert both["near"].simulation is both["far"].simulation
    for name, goal in goals.items():
        rates = [step[name].sample.rate for step in steps[-10:]]
        assert sum(rates) / 10 == pytest.approx(goal, rel=0.01)
    # Little's law for each: goal times 5 ms or 20 ms in flight.
    assert steps[-1]["near"].prefetch == pytest.approx(2.5, rel=0.05)
    assert steps[-1]["far"].prefetch == pytest.approx(5.0, rel=0.05)


def test_changes_over_time_are_only_about_time() -> None:
    with pytest.raises(InputError, match="at is -1"):
        Change(-1.0, 1.0)
