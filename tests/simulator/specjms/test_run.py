"""The workload in simulation."""

from __future__ import annotations

import pytest

from simulator.specjms import (
    TYPES,
    Deployment,
    Phases,
    Run,
    Topology,
    passes,
    report,
    run,
    vertical,
    workload,
)
from tests.simulator.specjms.published import BASE_TIMES_SECONDS, SHORT, VERTICAL_COUNTS


def test_a_run_has_the_published_counts_within_one_percent(healthy: Run) -> None:
    for interaction, counts in VERTICAL_COUNTS.items():
        wanted = [count * 300 * 45 / BASE_TIMES_SECONDS for count in counts]
        assert list(healthy.counted(interaction)) == pytest.approx(wanted, rel=0.01)


def test_a_run_has_the_published_shares_within_one_percent(healthy: Run) -> None:
    total = sum(healthy.received.values())
    for group, share in {"a": 14.19, "b": 5.99, "c": 39.09, "d": 40.74}.items():
        counted = sum(healthy.received[each.name] for each in TYPES if each.group == group)
        assert 100 * counted / total == pytest.approx(share, rel=0.01)


def test_an_interaction_takes_as_long_as_its_messages_one_after_the_other(healthy: Run) -> None:
    def delivery(name: str) -> float:
        times = [each for queue, each in healthy.deliveries.items() if queue.endswith(f".{name}")]
        return sum(each.mean * each.count for each in times) / sum(each.count for each in times)

    hops = [delivery(name) for name in ("order", "shipDep", "shipInfo", "shipConf")]
    work = 3 * Deployment().work
    assert healthy.completions[1].mean == pytest.approx(sum(hops) + work, rel=0.02)
    assert healthy.completions[4].mean == pytest.approx(delivery("inventoryInfo"))


def test_the_report_has_every_part(healthy: Run) -> None:
    found = report(healthy)
    assert found["passed"]
    assert [row["interaction"] for row in found["interactions"]] == [1, 2, 3, 4, 5, 6, 7]
    assert len(found["destinations"]) == len(healthy.workload.queues)
    assert {row["verdict"] for row in found["audit"]} == {"PASS"}


@pytest.mark.slow
def test_exponential_pacing_has_the_counts_on_average() -> None:
    runs = [
        run(workload(vertical(45), Phases(5.0, 100.0, 10.0), pacing="exponential"), seed=seed)
        for seed in range(5)
    ]
    for interaction in range(1, 8):
        wanted = 500 * vertical(45).starts[interaction - 1]
        started = sum(each.started[interaction] for each in runs)
        assert abs(started - wanted) < 4 * wanted**0.5


def test_a_freeform_topology_may_leave_interactions_out() -> None:
    topology = Topology("only orders", 3, 1, 1, 1, 1, 1.0, (2.0, 0, 0, 0, 0, 0, 0))
    done = run(workload(topology, SHORT))
    assert done.interactions == [1]
    assert passes(done)
    assert done.started[1] == pytest.approx(120, abs=3)
