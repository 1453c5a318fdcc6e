"""The workload in simulation."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from simulator.studies.specjms import (
    Deployment,
    MessageType,
    Phases,
    Run,
    Topology,
    horizontal,
    passes,
    report,
    run,
    vertical,
    workload,
)
from tests.simulator.specjms.published import (
    BASE_TIMES_SECONDS,
    GROUP_SHARES,
    HORIZONTAL_RATES,
    INTERACTION_SHARES,
    SHORT,
    VERTICAL_COUNTS,
    VERTICAL_RATES,
)
from tests.simulator.specjms.weighed import Weighed, percent, weighed


def test_a_run_has_the_published_counts_within_one_percent(healthy: Run) -> None:
    for interaction, counts in VERTICAL_COUNTS.items():
        wanted = [count * 300 * 45 / BASE_TIMES_SECONDS for count in counts]
        assert list(healthy.counted(interaction)) == pytest.approx(wanted, rel=0.01)


def test_a_run_has_the_published_rates_within_one_percent(healthy: Run) -> None:
    assert_rates(healthy, [45 * rate for rate in VERTICAL_RATES], (10, 2, 1, 10, 10, 1, 1))


def assert_rates(done: Run, rates: Sequence[float], locations: Sequence[int]) -> None:
    started = [done.started[number] / done.seconds for number in done.interactions]
    wanted = [rate * number for rate, number in zip(rates, locations, strict=True)]
    assert started == pytest.approx(wanted, rel=0.01)


def near(found: tuple[float, ...], printed: tuple[float, ...]) -> bool:
    """Within 1 % of shares that are printed with two digits after the point."""
    return all(
        abs(share - wanted) <= 0.01 * wanted + 0.005
        for share, wanted in zip(found, printed, strict=True)
    )


def test_a_run_has_the_published_shares_within_one_percent(vertically: Weighed) -> None:
    done = vertically.run
    messages, kilobytes = GROUP_SHARES["vertical"]
    assert near(percent(done.received, group), messages)
    assert near(percent(vertically.received, group), kilobytes)
    (sent, received), (sent_kilobytes, received_kilobytes) = INTERACTION_SHARES
    assert near(percent(done.sent, interaction), sent)
    assert near(percent(done.received, interaction), received)
    assert near(percent(vertically.sent, interaction), sent_kilobytes)
    assert near(percent(vertically.received, interaction), received_kilobytes)


def group(type_: MessageType) -> str:
    return type_.group


def interaction(type_: MessageType) -> int:
    return type_.interaction


@pytest.mark.slow
def test_a_horizontal_run_has_the_published_rates_and_shares_within_one_percent() -> None:
    found = weighed(workload(horizontal(45)), seed=1)
    assert_rates(found.run, HORIZONTAL_RATES, (45, 9, 1, 45, 45, 1, 1))
    messages, kilobytes = GROUP_SHARES["horizontal"]
    assert near(percent(found.run.received, group), messages)
    assert near(percent(found.received, group), kilobytes)


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
