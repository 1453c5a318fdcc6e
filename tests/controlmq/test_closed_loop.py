"""Controllers on the simulated consumer: winding up, and not."""

from __future__ import annotations

import dataclasses

import pytest

from controlmq import PI, Gains, Limits, Loop
from simulator import Scenario, SimulatedConsumer, load_scenario

GOAL = 400.0


def overshoot_after_a_pause(scenario: Scenario) -> float:
    """Percent of the goal by which the rate overshoots once publishers are back."""
    queues = [dataclasses.replace(queue, max_length=1000) for queue in scenario.queues]
    plant = SimulatedConsumer(dataclasses.replace(scenario, queues=queues), seed=4)
    loop = Loop(plant, PI(Gains(-0.0045, 0.0045), Limits(0.1, 22.2)), GOAL)
    list(loop.run(40))
    plant.pause_publishers()
    list(loop.run(60))
    plant.resume_publishers()
    rates = [step.sample.rate for step in loop.run(40)]
    return 100 * (max(rates) - GOAL) / GOAL


@pytest.mark.parametrize("name", ["rosa", "rosa-noisy"])
@pytest.mark.parametrize("interval", [1.0, 10.0])
def test_a_dry_queue_does_not_wind_the_law_up(name: str, interval: float) -> None:
    scenario = dataclasses.replace(load_scenario(name), sample_interval=interval)
    assert overshoot_after_a_pause(scenario) <= 10


def test_without_the_freeze_it_would(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("controlmq.controllers.rate_law.frozen", lambda sample, goal: False)
    assert overshoot_after_a_pause(load_scenario("rosa")) > 300
