"""A live consumer goes on beyond the range of its model; a single subscription keeps to it."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from unittest.mock import Mock, patch

import pytest

from controlmq.clients.channel_runner import Runner
from controlmq.clients.controlled_consumer import ControlledConsumer
from controlmq.clients.controllers import Controllers
from controlmq.clients.settings import settings_from
from controlmq.controllers.limits import Limits
from controlmq.loop import Sample
from controlmq.model import ArxModel

SLOPE = 50.0
MODEL = ArxModel(a=0.0, b=SLOPE, c=0.0, interval=1.0, linear_range=(0.5, 9.0))
WIDER = ArxModel(a=0.0, b=SLOPE, c=0.0, interval=1.0, linear_range=(0.5, 12.0))


def consumer_of(goal: float = 14 * SLOPE, **given: Any) -> ControlledConsumer:
    settings = settings_from(goal, **given)
    controller = Controllers().new(settings, "orders")
    return ControlledConsumer("tag", "orders", settings, controller, None, Runner(Mock()))


def turns(consumer: ControlledConsumer, count: int = 40, most: float = 1000.0) -> list[float]:
    """Turns of the loop, each after an interval in which the rate followed the prefetch."""
    found = []
    for number in range(1, count + 1):
        rate = round(min(SLOPE * consumer.prefetch, most))
        sample = Sample(number, float(number), 1.0, consumer.prefetch, rate)
        with patch.object(consumer.plant, "observe", lambda sample=sample: sample):
            consumer.turn()
        found.append(consumer.prefetch)
    return found


@pytest.mark.parametrize(
    "given",
    [{"model": MODEL}, {"controller": MODEL}, {"controller": "pid", "model": MODEL}],
    ids=["model", "controller", "law"],
)
def test_it_starts_inside_the_range_and_goes_on_beyond_it(
    given: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    consumer = consumer_of(**given)
    assert consumer.prefetch == 9.0
    assert turns(consumer)[-1] == pytest.approx(14.0, rel=0.01)
    (message,) = caplog.messages
    assert message.startswith("orders: the prefetch goes to ")


def test_a_goal_out_of_reach_stays_near_what_the_rate_follows() -> None:
    assert max(turns(consumer_of(2000.0, model=MODEL), 600, most=11 * SLOPE)) <= 2.01 * 11


def test_the_next_connection_does_not_log_it_again(caplog: pytest.LogCaptureFixture) -> None:
    first, second = consumer_of(model=MODEL), consumer_of(model=MODEL)
    turns(first)
    second.go_on_from(first)
    turns(second)
    assert len(caplog.messages) == 1


def test_a_single_subscription_has_the_slots_of_the_range_and_keeps_to_them(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """As an exclusive consumer has it."""
    consumer = consumer_of(model=MODEL, window="single")
    assert consumer.plant.first_size == 9
    assert set(turns(consumer, 100)) == {9.0}
    assert consumer.limits == Limits.of(MODEL)
    (message,) = caplog.messages
    assert "at its upper limit of 9" in message


def test_a_single_subscription_that_takes_over_keeps_to_the_range_too() -> None:
    """As where the broker refuses further ones."""
    searching = consumer_of(model=MODEL)
    assert searching.limits is None
    assert searching.limits_for("single") == Limits.of(MODEL)
    single = consumer_of(model=MODEL, window="single")
    single.go_on_from(searching)
    assert single.limits == Limits.of(MODEL)


def test_a_single_subscription_has_the_slots_of_the_limits_that_are_given() -> None:
    consumer = consumer_of(model=MODEL, window="single", limits=Limits(0.1, 20.0))
    assert consumer.plant.first_size == 20
    assert turns(consumer)[-1] == pytest.approx(14.0, rel=0.01)


@pytest.mark.parametrize(("window", "limits"), [("auto", None), ("single", Limits.of(WIDER))])
def test_a_new_model_in_the_file_has_a_range_of_its_own(
    tmp_path: Path, window: str, limits: Limits | None
) -> None:
    path = tmp_path / "model.json"
    MODEL.save(path)
    consumer = consumer_of(model=path, window=window)
    turns(consumer, 3)
    WIDER.save(path)
    turns(consumer, 1)
    assert consumer.limits == limits
