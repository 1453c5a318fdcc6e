"""A consumer that was given a file follows it when it is written again."""

from __future__ import annotations

import dataclasses
import logging
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from controlmq.clients.channel_runner import Runner
from controlmq.clients.controlled_consumer import ControlledConsumer
from controlmq.clients.controllers import Controllers
from controlmq.clients.settings import Settings, settings_from
from controlmq.controllers import PI, Limits
from controlmq.controllers.resolve import default_tuning, resolve
from controlmq.goals import GoalsByQueue
from controlmq.model import ArxModel
from controlmq.replacing import write_atomically

MODEL = ArxModel(a=0.1, b=70.0, c=0.0, interval=1.0, linear_range=(0.5, 9.0))
STEEPER = dataclasses.replace(MODEL, b=140.0, linear_range=(0.5, 6.0))
GOAL = 210.0


def consumer_of(
    controller: Path | str,
    prefetch: float | None,
    model: Path | ArxModel | None = None,
    limits: Limits | None = None,
) -> ControlledConsumer:
    """A consumer on a queue of the test's own."""
    given = resolve(controller, model=model, limits=limits)
    settings = Settings(goals=GoalsByQueue({"goal": GOAL}), controller=given, limits=limits)
    nowhere: Any = None  # nothing is sent
    return ControlledConsumer("mine", "orders", settings, given.make(), prefetch, Runner(nowhere))


class Running:
    """A consumer whose clock is turned by hand."""

    def __init__(self, controller: Path | str, **given: Any) -> None:
        self.consumer = consumer_of(controller, 3.0, **given)

    def step(self, rate: float = GOAL) -> float:
        """One interval at this rate; the prefetch that follows."""
        plant = self.consumer.plant
        plant.sensors.arrivals = round(rate)
        plant.now += 1.0
        self.consumer.turn()
        return self.consumer.prefetch

    @property
    def controller(self) -> Any:
        return self.consumer.loop.controller


@pytest.fixture
def path(tmp_path: Path) -> Path:
    file = tmp_path / "model.json"
    write_atomically(file, MODEL.to_json())
    return file


def test_a_new_model_changes_the_gains_without_a_bump(path: Path) -> None:
    running = Running(path)
    before = running.controller
    running.step()
    assert running.controller is before
    write_atomically(path, STEEPER.to_json())
    assert running.step() == pytest.approx(3.0), "on its goal it stays where it is"
    assert isinstance(running.controller, PI)
    assert running.controller.gains == default_tuning("pi", STEEPER).gains != before.gains
    assert running.consumer.plant.limits is None
    assert running.controller.beyond.within == Limits.of(STEEPER)
    # What was in force is what it goes on from.
    assert running.step(GOAL - 20) == pytest.approx(
        3.0 + 20 * (running.controller.gains.kp + running.controller.gains.ki)
    )


@pytest.mark.parametrize("law", ["p", "pi", "pid"])
def test_a_law_given_by_name_follows_the_file_of_its_model(path: Path, law: str) -> None:
    running = Running(law, model=path)
    before = running.controller
    running.step()
    assert running.controller is before
    write_atomically(path, STEEPER.to_json())
    assert running.step() == pytest.approx(3.0), "on its goal it stays where it is"
    assert running.controller.kind == law
    assert running.controller.gains == default_tuning(law, STEEPER).gains != before.gains
    assert running.consumer.plant.limits is None
    assert running.controller.beyond.within == Limits.of(STEEPER)


def test_a_law_given_by_name_starts_where_the_file_of_its_model_says(path: Path) -> None:
    consumer = consumer_of("pi", None, model=path)
    assert consumer.prefetch == MODEL.prefetch_for(GOAL)


def test_a_model_that_was_given_as_itself_is_followed_nowhere(path: Path) -> None:
    running = Running("pi", model=MODEL)
    before = running.controller
    write_atomically(path, STEEPER.to_json())
    running.step()
    assert running.controller is before


def test_the_limits_of_the_user_stay(path: Path) -> None:
    running = Running(path, limits=Limits(1.0, 4.0))
    write_atomically(path, STEEPER.to_json())
    running.step()
    assert running.consumer.plant.limits == running.controller.limits == Limits(1.0, 4.0)


@pytest.mark.parametrize("goals", [{}, {"buffer_time": 10.0}], ids=["alone", "with another goal"])
def test_another_upper_limit_in_the_file_is_that_of_every_law_and_of_the_next_connection(
    path: Path, goals: dict[str, float]
) -> None:
    tuning = dataclasses.replace(default_tuning("pi", MODEL), upper=4.0)
    write_atomically(path, tuning.to_json())

    def consumer() -> ControlledConsumer:
        settings = settings_from(GOAL, path, **goals)
        controller = Controllers().new(settings, "orders")
        return ControlledConsumer("mine", "orders", settings, controller, 3.0, Runner(Mock()))

    running, next_one = Running(path), Running(path)
    running.consumer, next_one.consumer = consumer(), consumer()
    write_atomically(path, dataclasses.replace(tuning, upper=8.0).to_json())
    running.step()
    wider = Limits.up_to(8.0)
    assert running.consumer.plant.limits == running.controller.limits == wider
    assert all(law.limits == wider for law in getattr(running.controller, "laws", {}).values())
    next_one.consumer.go_on_from(running.consumer)
    assert next_one.consumer.plant.limits == next_one.consumer.limits == wider


def test_a_controller_file_may_take_the_place_of_a_model(path: Path) -> None:
    running = Running(path)
    write_atomically(path, default_tuning("p", MODEL).to_json())
    assert running.step() == pytest.approx(3.0)
    assert running.controller.kind == "p"


def test_an_invalid_file_is_logged_once_and_the_old_controller_goes_on(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    running = Running(path)
    before = running.controller
    with caplog.at_level(logging.ERROR, logger="controlmq"):
        for break_it in (lambda: path.write_text("{}"), path.unlink):
            caplog.clear()
            break_it()
            for _ in range(3):
                running.step()
            (said,) = caplog.messages
            assert "goes on" in said
            assert str(path) in said
    assert running.controller is before
    write_atomically(path, STEEPER.to_json())
    running.step()
    assert running.controller is not before
