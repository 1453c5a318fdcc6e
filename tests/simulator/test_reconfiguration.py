"""A running system changes: from Python, by rules, and by several loops at once."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

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
    SimulatedConsumer,
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
    assert simulation.active_publishers("p") == ["p 2"]
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
    assert simulation.changes_by_rules == [(joined, "grow")]


def test_a_rule_by_latency_waits_and_takes_its_time_too() -> None:
    # Of 100 messages/second 40 are worked on: who is handed over at t has waited 0.6 t. The mean
    # of the third second is 1.5 s.
    rules = [scaling(metric="latency", above=1.2, hold=2.0, takes=2.5, at_most=2)]
    simulation = Simulation(replace(BUSY, rules=rules))
    simulation.run_until(30.0)
    assert simulation.active("worker") == ["worker", "worker 2"]
    assert simulation.changes_by_rules == [(7.5, "grow")]


@pytest.mark.parametrize(("metric", "below"), [("length", 5.0), ("latency", 0.1)])
@pytest.mark.parametrize(("takes", "left"), [(0.0, 4.0), (2.5, 6.5)])
def test_a_consumer_is_at_work_until_its_removal_is_in_force(
    metric: str, below: float, takes: float, left: float
) -> None:
    words = {"name": "shrink", "action": "remove-consumer", "hold": 3.0, "takes": takes}
    rules = [scaling(metric=metric, below=below, **words)]
    publishers = [Publishers("p", "work", Duration(0.04))]
    simulation = Simulation(replace(BUSY, publishers=publishers, rules=rules))
    simulation.add_consumer("worker")
    simulation.run_until(left - 0.01)
    assert simulation.active("worker") == ["worker", "worker 2"]
    # 25 messages/second, in turns.
    assert simulation.totals("worker 2").arrivals == pytest.approx(12.5 * left, abs=2)
    simulation.run_until(30.0)
    assert simulation.totals("worker 2").arrivals == pytest.approx(12.5 * left, abs=2)
    assert simulation.active("worker") == ["worker"]
    assert simulation.changes_by_rules == [(left, "shrink")]
    assert conserved(simulation.counts)


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
        ({"metric": "response-time", "of": "worker", "above": 0.024, "action": "set-prefetch",
          "value": 9}, 40, 9),
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


def test_the_response_time_is_buffer_work_and_overhead() -> None:
    # 8 in flight without a way to go: each waits for the 7 before it, and is worked on.
    consumer = replace(BUSY.consumers[0], work=Duration(0.02), overhead=0.005, prefetch=8)
    for above, acts in ((0.199, True), (0.201, False)):
        words = {"metric": "response-time", "of": "worker", "above": above, "hold": 10.0}
        rules = [scaling(**words, action="set-service-time", value=0.001)]
        simulation = Simulation(replace(BUSY, consumers=[consumer], rules=rules))
        simulation.run_until(30.0)
        assert bool(simulation.changes_by_rules) == acts


@pytest.mark.parametrize(
    ("metric", "of", "value", "within"),
    [
        # 50 messages/second of 1000 bytes come, 40 are worked on and half of these come back.
        ("memory", "work", 300_000, 0.1),
        ("acknowledge-rate", "work", 20, 0.2),
        ("redeliver-rate", "work", 20, 0.2),
        # Each waits 20 ms for the confirm of the one before, and wanted to wait 10 ms.
        ("blocked", "p", 0.5, 0.02),
    ],
)
def test_what_a_rule_reads_is_what_happened(
    metric: str, of: str, value: float, within: float
) -> None:
    every = Duration(0.01)
    publishers = [Publishers("p", "work", every, message_size=1000, confirms=1, link="far")]
    consumers = [replace(BUSY.consumers[0], failure=0.5)]
    scenario = replace(BUSY, publishers=publishers, consumers=consumers, links=[Link("far", 0.02)])
    for above, acts in ((value * (1 - within), True), (value * (1 + within), False)):
        rules = [scaling(metric=metric, of=of, above=above, every=10.0)]
        simulation = Simulation(replace(scenario, rules=rules))
        simulation.run_until(10.0)
        assert bool(simulation.changes_by_rules) == acts


def test_an_entity_of_each_kind_may_have_the_same_name() -> None:
    same = {"of": "orders", "target": "orders"}
    more = {"metric": "in-flight", "action": "add-publishers", "above": 0.5, "at_most": 2}
    fewer = {"metric": "growth", "action": "remove-publishers", "above": 150}
    rules = [
        scaling(above=100, at_most=3, **same),
        scaling(name="more", **more, **same),
        scaling(name="fewer", **fewer, **same),
    ]
    scenario = Scenario(
        "orders",
        1.0,
        [Publishers("orders", "orders", Duration(0.01))],
        [Queue("orders")],
        [Consumer("orders", "orders", Duration(0.025), prefetch=1)],
        rules=rules,
    )
    simulation = Simulation(scenario)
    simulation.run_until(1.5)
    assert simulation.active("orders") == ["orders"]
    assert simulation.active_publishers("orders") == ["orders", "orders 2"]
    simulation.run_until(20.0)
    assert simulation.active("orders") == ["orders", "orders 2", "orders 3"]
    # With two groups 200 messages/second come and 40 go: the rule takes the second away again.
    assert (2.0, "fewer") in simulation.changes_by_rules


def test_who_joins_gets_a_name_that_is_free() -> None:
    second = replace(BUSY.consumers[0], name="worker 2")
    rules = [scaling(above=10, at_most=3)]
    publishers = [Publishers("p", "work", Duration(0.005))]
    consumers = [BUSY.consumers[0], second]
    simulation = Simulation(replace(BUSY, publishers=publishers, consumers=consumers, rules=rules))
    simulation.run_until(30.0)
    assert simulation.active("worker") == ["worker", "worker 3", "worker 4"]
    assert simulation.active("worker 2") == ["worker 2"]
    assert simulation.active("worker 4") == simulation.active("worker")
    with pytest.raises(InputError, match="there is no consumer 'p'; give one of 'worker'"):
        simulation.active("p")


@pytest.mark.parametrize(
    ("action", "value", "told"),
    [
        ("set-prefetch", 70_000, "set-prefetch is 70000; AMQP allows at most 65535"),
        ("set-prefetch", -1, "set-prefetch is -1; give 0 or more"),
        ("set-service-time", 0, "set-service-time is 0; give a number above 0"),
        ("set-service-time", 1e7, "set-service-time is 1e[+]07 seconds; give at most 1e[+]06"),
        ("set-publish-rate", 0, "set-publish-rate is 0; give 0.001 to"),
        ("set-publish-rate", 20_000, "set-publish-rate is 20000; give 0.001 to 10000"),
        ("set-prefetch", "many", "set-prefetch is 'many'; give a number"),
    ],
)
def test_a_rule_that_could_not_act_is_refused_with_the_scenario(
    action: str, value: object, told: str
) -> None:
    target = "p" if action == "set-publish-rate" else "worker"
    with pytest.raises(InputError, match=f"value of rule 'grow' to {told}"):
        replace(BUSY, rules=[scaling(above=1, action=action, target=target, value=value)])


def test_a_rule_cannot_stretch_work_that_takes_no_time() -> None:
    consumers = [replace(BUSY.consumers[0], work=Duration(0.0))]
    rules = [scaling(above=1, action="set-service-time", value=0.01)]
    with pytest.raises(InputError, match="the work of 'worker' takes no time"):
        replace(BUSY, consumers=consumers, rules=rules)


def test_rules_do_not_depend_on_where_a_run_is_cut() -> None:
    scenario = replace(BUSY, rules=[scaling(above=100, hold=2.0, at_most=5)])
    whole, pieces = Simulation(scenario), Simulation(scenario)
    whole.run_until(50.0)
    for step in range(1, 501):
        pieces.run_until(step * 0.1)
    assert whole.counts == pieces.counts
    assert whole.changes_by_rules == pieces.changes_by_rules


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
    # Goal times 5 ms or 20 ms is 2.5 or 5 messages at once: of the slots beyond the first, three
    # quarters are spread over that time.
    assert steps[-1]["near"].prefetch == pytest.approx(1 + (2.5 - 1) / 0.75, rel=0.05)
    assert steps[-1]["far"].prefetch == pytest.approx(1 + (5.0 - 1) / 0.75, rel=0.05)


def test_who_joined_while_it_ran_is_driven_beside_the_others() -> None:
    publishers = [Publishers("p", "work", Duration(0.0005))]
    consumers = [Consumer("worker", "work", Duration(0.001), link="lan", prefetch=1.5)]
    links = [Link("lan", 0.004)]
    scenario = replace(BUSY, publishers=publishers, consumers=consumers, links=links)
    first = SimulatedConsumer(scenario)
    loops = [Loop(first, PI(Gains(kp=0.0, ki=0.0025), Limits(0.1, 60)), 500.0)]
    for _ in range(20):
        loops[0].step()
    simulation = first.simulation
    simulation.run_until(20.25)
    joined = simulation.add_consumer("worker")
    second = SimulatedConsumer(scenario, consumer=joined, simulation=simulation)
    assert second.prefetch == 1.5
    loops.append(Loop(second, PI(Gains(kp=0.0, ki=0.0025), Limits(0.1, 60)), 400.0))
    steps = [[loop.step() for loop in loops] for _ in range(40)]
    # Each keeps its own clock.
    assert [step.sample.time for step in steps[0]] == [21.0, 21.25]
    assert [step.sample.number for step in steps[0]] == [21, 1]
    assert {step.sample.interval for turn in steps for step in turn} == {1.0}
    for number, goal in enumerate((500.0, 400.0)):
        rates = [turn[number].sample.rate for turn in steps[-10:]]
        assert sum(rates) / 10 == pytest.approx(goal, rel=0.01)
        # Goal times 5 ms at once; three quarters of the slots beyond the first are spread.
        spread = 1 + (goal * 0.005 - 1) / 0.75
        assert steps[-1][number].prefetch == pytest.approx(spread, rel=0.05)


def test_a_simulation_run_past_a_sample_makes_it_longer() -> None:
    plant = SimulatedConsumer(BUSY)
    plant.simulation.run_until(10.0)
    late, next_ = plant.observe(), plant.observe()
    assert (late.time, late.interval, next_.time, next_.interval) == (10.0, 10.0, 11.0, 1.0)
    assert late.rate == pytest.approx(40, rel=0.02)
    assert next_.rate == pytest.approx(40, abs=1)


def test_a_prefetch_set_elsewhere_is_that_of_the_sample() -> None:
    plant = SimulatedConsumer(BUSY)
    plant.simulation.set_prefetch("worker", 3)
    assert plant.prefetch == 3
    assert plant.observe().prefetch == 3


def test_the_code_of_the_page_runs() -> None:
    page = Path(__file__).parents[2] / "docs" / "simulator.md"
    section = page.read_text(encoding="utf-8").split("## While it runs")[1]
    code, told = section.split("```python\n")[1].split("```", 1)
    told = re.findall(r"`(\[.*?\])`", told)[0]
    printed: list[str] = []
    names = {"__name__": "page", "print": lambda value: printed.append(str(value))}
    exec(compile(code, str(page), "exec"), names)
    assert printed == [told]


def test_changes_over_time_are_only_about_time() -> None:
    with pytest.raises(InputError, match="at is -1"):
        Change(-1.0, 1.0)
