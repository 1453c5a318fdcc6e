"""The scenario as a plan for live clients, and their notes as a run."""

from __future__ import annotations

import numpy as np
import pytest

from controlmq.errors import InputError
from controlmq.experiments.live_specjms import plan_of
from simulator import Duration
from simulator.studies.specjms import Phases, Topology, audit, vertical, workload
from simulator.studies.specjms.message_types import BYTES_PER_KILOBYTE, SIZES_IN_A_CYCLE
from simulator.studies.specjms.observed import Observed, observed_run
from tests.simulator.specjms.published import SHORT


@pytest.mark.parametrize("pacing", ["deterministic", "exponential"])
def test_a_live_driver_starts_when_the_simulated_one_does(pacing: str) -> None:
    phases = Phases(warm_up=100.0, measurement=1000.0, drain=1.0)
    times = list(phases.times(Duration(0.05, pacing), "any"))
    assert times == sorted(times)
    assert times[-1] < phases.end
    # The rate ramps up: in the first half of the warm-up it does a quarter of what it does then.
    counts = [sum(low <= time < high for time in times) for low, high in ((0, 50), (0, 100))]
    measured = sum(time >= phases.warm_up for time in times)
    off = 1 if pacing == "deterministic" else 5 * 20_000**0.5
    assert counts == pytest.approx([250, 1000], abs=off)
    assert measured == pytest.approx(20_000, abs=off)


def test_a_plan_for_live_clients_has_everything_the_scenario_has() -> None:
    built = workload(vertical(45), SHORT)
    plan = plan_of(built, seed=3)
    scenario = built.scenario
    assert set(plan.queues) == {queue.name for queue in scenario.queues}
    assert {name for name, durable in plan.queues.items() if not durable} == {
        f"SM{number}.{type_}"
        for number in range(1, 11)
        for type_ in ("productAnnouncement", "creditCardHL")
    }
    assert sorted(plan.processes) == ["DC", "HQ", "SM", "SP"]
    locations = [each for group in plan.processes.values() for each in group]
    assert len(locations) == 10 + 2 + 5 + 2
    receivers = {each.queue: each for location in locations for each in location.receivers}
    assert set(receivers) == set(built.queues)
    assert not receivers["HQ1.statInfoSM"].after_answers
    answers = receivers["DC1.order"].answers["order@SM1"]
    assert [(each.type, each.confirmed) for each in answers] == [
        ("orderConf", True),
        ("statInfoOrderDC", False),
        ("shipDep@SM1", True),
    ]
    assert sum(answers[0].sizes) == pytest.approx(
        SIZES_IN_A_CYCLE * BYTES_PER_KILOBYTE * 2.63, rel=0.01
    )
    starts = sum(built.topology.starts) * (SHORT.measurement + SHORT.warm_up / 2)
    assert sum(plan.planned.values()) == pytest.approx(starts, rel=0.05)
    assert plan_of(built, seed=3).planned == plan.planned
    assert list(plan_of(built, together=True).processes) == ["all"]


def test_hundreds_of_supermarkets_can_be_told_at_once() -> None:
    to_all = (0, 0, 6.0, 0, 0, 6.0, 6.0)
    plan = plan_of(workload(Topology("many shops", 500, 1, 1, 1, 1, 1.0, to_all), SHORT))
    assert len(plan.queues) == 3 * 500


def test_names_that_amqp_cannot_carry_are_refused() -> None:
    many = Topology("many offers", 1, 1, 200, 1, 1, 1.0, (0, 1.0, 0, 0, 0, 0, 0))
    with pytest.raises(InputError, match="255 bytes"):
        plan_of(workload(many, SHORT))


def test_what_live_clients_note_is_counted_by_the_same_rules() -> None:
    """Notes by hand: one shop orders every second and is sent everything but one shipInfo."""
    orders = Topology("orders", 1, 1, 1, 1, 1, 1.0, (1.0, 0, 0, 0, 0, 0, 0))
    built = workload(orders, Phases(warm_up=1.0, measurement=20.0, drain=1.0))
    times = [1.5 + second for second in range(20)]
    sent = {place: times for places in built.queues.values() for place in places}
    received = {
        (queue, type_): np.array([(at, at - 0.5, at + 0.002) for at in times])
        for queue, places in built.queues.items()
        for type_, _ in places
    }
    received["SM1.shipInfo", "shipInfo"] = received["SM1.shipInfo", "shipInfo"][1:]
    noted = Observed(
        {"SM1 order@SM1": times}, {"SM1 order@SM1": times[:3]}, sent, received, {"DC1.order": 1}
    )
    done = observed_run(built, noted)
    assert done.started == {1: 20}
    assert done.late == {1: pytest.approx(0.15)}
    assert done.counted(1) == (120, 119)
    assert done.deliveries["DC1.order"].mean == pytest.approx(0.002)
    assert done.deliveries["DC1.order"].p50 == pytest.approx(0.002, rel=0.02)
    assert done.completions[1].mean == pytest.approx(0.502)
    failed = {(each.rule, each.subject) for each in audit(done) if not each.passed}
    assert failed == {("empty at start", "DC1.order"), ("all received", "SM1.shipInfo")}
