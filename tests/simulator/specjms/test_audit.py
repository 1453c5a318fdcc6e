"""What the audit finds, and the largest BASE that passes it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import pytest

from simulator import Duration, Publishers, Simulation
from simulator.studies.specjms import (
    Deployment,
    Phases,
    Run,
    Workload,
    audit,
    horizontal,
    largest_base,
    passes,
    run,
    vertical,
    workload,
)
from simulator.studies.specjms.build import ASSUMED_BROKER
from tests.simulator.specjms.published import SHORT


def test_a_healthy_run_passes_the_audit(healthy: Run) -> None:
    assert [finding for finding in audit(healthy) if not finding.passed] == []
    assert passes(healthy)
    rules = {finding.rule for finding in audit(healthy)}
    assert rules == {
        *("empty at start", "input rate", "message count", "pacing", "delivery time"),
        "all received",
    }


def test_the_horizontal_topology_passes_too() -> None:
    done = run(workload(horizontal(10), SHORT))
    assert [finding for finding in audit(done) if not finding.passed] == []


def with_rates(workload: Workload, factors: Mapping[int, float]) -> Workload:
    """The same workload with drivers of some interactions off their rate."""
    by_name = {
        name: factor
        for interaction, factor in factors.items()
        for name in workload.drivers[interaction]
    }
    publishers = [
        replace(group, every=replace(group.every, mean=group.every.mean / by_name[group.name]))
        if group.name in by_name
        else group
        for group in workload.scenario.publishers
    ]
    return replace(workload, scenario=replace(workload.scenario, publishers=publishers))


def off_rate(healthy: Workload) -> Run:
    return run(with_rates(healthy, {3: 1.06}))


def lost_message(healthy: Workload) -> Run:
    queues = [
        replace(queue, message_ttl=1e-6) if queue.name == "SM1.inventoryInfo" else queue
        for queue in healthy.scenario.queues
    ]
    slow = [
        replace(each, prefetch=1.0, work=Duration(0.2))
        if each.queue == "SM1.inventoryInfo"
        else each
        for each in healthy.scenario.consumers
    ]
    scenario = replace(healthy.scenario, queues=queues, consumers=slow)
    return run(replace(healthy, scenario=scenario))


def missed_subscriber(healthy: Workload) -> Run:
    bindings = [
        each
        for each in healthy.scenario.bindings
        if (each.exchange, each.queue) != ("priceUpdate", "SM7.priceUpdate")
    ]
    return run(replace(healthy, scenario=replace(healthy.scenario, bindings=bindings)))


def slow_destination(healthy: Workload) -> Run:
    slow = [
        replace(each, work=Duration(1.0)) if each.queue == "HQ1.statInfoSM" else each
        for each in healthy.scenario.consumers
    ]
    return run(replace(healthy, scenario=replace(healthy.scenario, consumers=slow)))


def late_drivers(_: Workload) -> Run:
    # A commit that waits for a disk of 0.4 s is slower than one interval of a busy driver.
    slow = Deployment(broker=replace(ASSUMED_BROKER, disk_write=0.4))
    return run(workload(vertical(45), SHORT, slow))


def not_empty(healthy: Workload) -> Run:
    early = Publishers("early", "SM1.orderConf", Duration(0.5), persistent=True)
    scenario = replace(healthy.scenario, publishers=[*healthy.scenario.publishers, early])
    simulation = Simulation(scenario)
    simulation.set_prefetch("SM1.orderConf", 0.0)
    simulation.run_until(1.0)
    return run(healthy, simulation=simulation)


@pytest.mark.parametrize(
    ("broken", "rule", "subject"),
    [
        (off_rate, "input rate", "interaction 3"),
        (lost_message, "all received", "SM1.inventoryInfo"),
        (missed_subscriber, "all received", "SM7.priceUpdate"),
        (slow_destination, "delivery time", "HQ1.statInfoSM"),
        (late_drivers, "pacing", "interaction 4"),
        (not_empty, "empty at start", "SM1.orderConf"),
    ],
)
def test_the_audit_names_the_rule_that_is_broken(
    broken: Callable[[Workload], Run], rule: str, subject: str
) -> None:
    done = broken(workload(vertical(45), SHORT))
    failed = {(finding.rule, finding.subject) for finding in audit(done) if not finding.passed}
    assert (rule, subject) in failed
    if broken in (off_rate, missed_subscriber):
        assert {found_rule for found_rule, _ in failed} <= {rule, "message count"}
    assert not passes(done)


def test_the_search_finds_where_the_broker_saturates() -> None:
    # Only sales statistics: what one message costs the only core is known.
    broker = replace(ASSUMED_BROKER, cores=1)

    def run_at(base: int) -> Run:
        topology = replace(vertical(base), rates=(0, 0, 0, 0, vertical(base).rates[4], 0, 0))
        return run(workload(topology, Phases(1.0, 5.0, 5.0), Deployment(broker=broker)))

    trials = list(largest_base(run_at, start=64, precision=0.05))
    best = max(trial.base for trial in trials if trial.passed)
    costs = broker.publish + broker.copy + broker.enqueue + broker.deliver + broker.acknowledge
    costs += 2 * broker.per_byte * 5266
    assert best * 5.77200577 * costs == pytest.approx(1.0, abs=0.15)
    assert min(trial.base for trial in trials if not trial.passed) <= 1.06 * best
