"""What a calibration measured becomes a scenario that does what was measured."""

from __future__ import annotations

from dataclasses import replace

import pytest

from controlmq.experiments.calibrated_scenario import (
    PUBLISHING_LINK,
    broker_of,
    comment_of,
    consumer_of,
    latency_of,
    links_of,
    scenario_of,
)
from controlmq.measure.calibration import LOADED_SHARE, Calibration, Curve, Line
from simulator import (
    Binding,
    Duration,
    Exchange,
    Meter,
    Publishers,
    Queue,
    Scenario,
    Simulation,
    parse_scenario,
)
from simulator.scenario.toml_text import scenario_text

FOUND = Calibration(
    call=0.0005,
    publish=Line(60e-6, 2e-9),
    publish_cpu=Line(50e-6, 1e-9),
    deliver=Line(40e-6, 4e-9),
    deliver_cpu=Line(30e-6, 1e-9),
    acknowledge=20e-6,
    busy=Line(150e-6, 1.02),
    cycle=Line(2e-3, 1.01),
    latency=Line(1e-3, 50e-6),
    latency_at=Curve([(1.0, 3e-3), (10.0, 2e-3), (100.0, 1e-3)]),
    loaded_latency_at=Curve([(10.0, 2e-3), (100.0, 1.2e-3)]),
    confirm=Line(0.6e-3, 1e-9),
    persistent_confirm=Line(2.6e-3, 3e-9),
)


def simulated(scenario: Scenario) -> Meter:
    simulation = Simulation(scenario)
    simulation.run_until(5.0)
    meter = Meter(simulation)
    simulation.run_until(25.0)
    return meter


def test_a_line_goes_through_points_on_it() -> None:
    line = Line.through([(0.0, 2.0), (1.0, 5.0), (10.0, 32.0)])
    assert line.base == pytest.approx(2.0)
    assert line.slope == pytest.approx(3.0)


def test_a_line_has_no_negative_part() -> None:
    falling = Line.through([(0.0, 2.0), (1.0, 1.0)])
    assert falling.slope == 0
    assert 1 < falling.base < 2
    steep = Line.through([(1.0, 1.0), (2.0, 3.0)])
    assert steep.base == 0
    assert 1 < steep.slope < 1.5


@pytest.mark.parametrize("work", [0.001, 0.003])
def test_the_simulated_consumer_takes_what_was_measured(work: float) -> None:
    waiting = simulated(scenario_of(FOUND, work=work, prefetch=1)).read()
    # Publishers share the broker's core, which a cycle feels a little.
    assert 1 / waiting.consumers["consumer"].arrival_rate == pytest.approx(
        FOUND.cycle(work), rel=0.01
    )
    busy = simulated(scenario_of(FOUND, work=work, prefetch=40)).read()
    assert 1 / busy.consumers["consumer"].arrival_rate == pytest.approx(FOUND.busy(work), rel=0.002)


def test_a_curve_is_straight_over_the_logarithm_and_level_beyond_its_ends() -> None:
    curve = Curve([(1.0, 5.0), (100.0, 3.0), (200.0, 0.0)])
    assert [curve(x) for x in (0.1, 1.0, 100.0, 200.0, 1e4)] == [5.0, 5.0, 3.0, 0.0, 0.0]
    assert curve(10.0) == pytest.approx(4.0)
    assert curve(100.0 * 2**0.5) == pytest.approx(1.5)
    assert Curve([(7.0, 2.0)])(1.0) == 2.0


@pytest.mark.parametrize("rate", [5.0, 20.0, 150.0])
def test_the_simulated_latency_is_the_one_measured_at_this_rate(rate: float) -> None:
    scenario = scenario_of(FOUND, work=0.001, prefetch=10, rate=rate, size=0)
    apart = replace(scenario.publishers[0], every=Duration(1 / rate))
    latency = simulated(replace(scenario, publishers=[apart])).read().queues["queue"].latency
    assert latency.mean == pytest.approx(latency_of(FOUND, 0.001, 10, rate), rel=1e-6)


def test_a_load_adds_its_share_to_the_latency() -> None:
    assert latency_of(FOUND, 0.0, 2, 100.0) == FOUND.latency_at(100.0)
    assert latency_of(FOUND, LOADED_SHARE / 100.0, 2, 100.0) == pytest.approx(1.2e-3)
    assert latency_of(FOUND, LOADED_SHARE / 200.0, 2, 100.0) == pytest.approx(1.1e-3)
    assert latency_of(FOUND, 0.001, 2, 5.0) == FOUND.latency_at(5.0)


def test_with_prefetch_1_the_next_message_waits_for_a_whole_round() -> None:
    rate = 100.0
    work = 0.0005
    round_beyond_overhead = FOUND.cycle(work) - FOUND.busy(0.0)
    assert round_beyond_overhead > 4 * work
    assert latency_of(FOUND, work, 1, rate) == latency_of(FOUND, round_beyond_overhead, 2, rate)


@pytest.mark.parametrize("copies", [1, 3, 9])
def test_the_simulated_copy_in_the_middle_is_as_late_as_measured(copies: int) -> None:
    names = [f"queue {number}" for number in range(copies)]
    scenario = Scenario(
        "copies",
        1.0,
        [Publishers("publisher", every=Duration(0.05), exchange="all", link=PUBLISHING_LINK)],
        [Queue(name) for name in names],
        [consumer_of(FOUND, name, 0.0, 100, f"of {name}") for name in names],
        links_of(FOUND, 0.0),
        [Exchange("all", "fanout")],
        [Binding("all", name) for name in names],
        broker_of(FOUND),
    )
    latency = simulated(scenario).read().types["publisher"]
    assert latency.mean == pytest.approx(FOUND.latency(copies), rel=1e-6)


def test_a_persistent_confirm_takes_as_much_longer_as_measured() -> None:
    scenario = scenario_of(FOUND, work=0.001, prefetch=10, rate=20.0, size=0)
    times = []
    for persistent in (False, True):
        apart = replace(
            scenario.publishers[0], every=Duration(0.05), persistent=persistent, confirms=10
        )
        metrics = simulated(replace(scenario, publishers=[apart])).read()
        times.append(metrics.publishers["publisher"].confirm_time)
    assert times[1] - times[0] == pytest.approx(0.002, rel=1e-6)


def test_figures_that_contradict_each_other_still_give_a_scenario() -> None:
    odd = replace(
        FOUND, cycle=Line(0.0, 1.0), latency=Line(0.0, 1e-6), persistent_confirm=Line(0.0, 0.0)
    )
    scenario = scenario_of(odd, work=0.001, prefetch=1)
    assert [link.round_trip for link in scenario.links] == [0, 0]


def test_the_written_scenario_is_the_same_when_read() -> None:
    scenario = scenario_of(FOUND, work=0.001, prefetch=10)
    text = scenario_text(scenario, comment_of(FOUND))
    assert parse_scenario(text) == scenario
    assert max(map(len, text.splitlines())) <= 100
