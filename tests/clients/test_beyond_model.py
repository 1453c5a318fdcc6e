"""The end of a model's range is where the search starts, and passing it is reported once."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from unittest.mock import Mock, patch

import pytest

from controlmq.clients.channel_runner import Runner
from controlmq.clients.controlled_consumer import ControlledConsumer, Controllers
from controlmq.clients.settings import settings_from
from controlmq.controllers import PI, Limits
from controlmq.controllers.limits import MOST_WITHOUT_LIMITS
from controlmq.controllers.resolve import default_tuning
from controlmq.loop import Sample, Step
from controlmq.model import ArxModel

MODEL = ArxModel(a=0.1, b=45.0, c=0.0, interval=1.0, linear_range=(0.5, 9.0))
"""At prefetch 9 it expects 450 messages/second."""


def consumer_of(goal: float = 600, **given: Any) -> ControlledConsumer:
    settings = settings_from(goal, **given)
    controller = Controllers().new(settings, "orders")
    return ControlledConsumer("tag", "orders", settings, controller, None, Runner(Mock()))


def turn(consumer: ControlledConsumer, rate: int = 440) -> Step:
    """One turn of the loop after an interval at this rate."""
    sample = Sample(number=1, time=1.0, interval=1.0, prefetch=consumer.prefetch, arrivals=rate)
    with patch.object(consumer.plant, "observe", lambda: sample):
        consumer.turn()
    assert consumer.last is not None
    return consumer.last


@pytest.mark.parametrize(
    "given",
    [{"model": MODEL}, {"controller": MODEL}, {"controller": "pid", "model": MODEL}],
    ids=["model", "controller", "law"],
)
def test_the_law_goes_on_beyond_the_range_and_the_log_says_so_once(
    given: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    consumer = consumer_of(**given)
    assert consumer.prefetch == 9.0
    found = [turn(consumer).prefetch for _ in range(30)]
    assert found == sorted(found)
    assert found[-1] > 30
    (message,) = caplog.messages
    assert message.startswith("queue orders: the prefetch goes to ")
    for number in ("beyond the 9 ", "440", "600"):
        assert number in message


def test_the_search_ends_at_the_widest_limits() -> None:
    consumer = consumer_of(goal=1e6, model=MODEL)
    assert [turn(consumer).prefetch for _ in range(5)][-1] == MOST_WITHOUT_LIMITS
    low = consumer_of(goal=1, model=MODEL)
    assert [turn(low).prefetch for _ in range(20)][-1] == Limits.of(MODEL).low


def test_inside_the_range_nothing_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    consumer = consumer_of(goal=200, model=MODEL)
    assert turn(consumer, 200).prefetch == pytest.approx(4.0)
    assert caplog.messages == []


def test_the_limits_of_the_user_end_the_search() -> None:
    consumer = consumer_of(model=MODEL, limits=Limits(1.0, 12.0))
    assert [turn(consumer).prefetch for _ in range(30)][-1] == 12.0
    assert consumer.limits == Limits(1.0, 12.0)


@pytest.mark.parametrize("in_file", [False, True])
def test_a_tuning_keeps_the_limit_that_it_was_designed_with(tmp_path: Path, in_file: bool) -> None:
    tuning, path = default_tuning("pi", MODEL), tmp_path / "controller.json"
    tuning.save(path)
    consumer = consumer_of(controller=path if in_file else tuning)
    assert [turn(consumer).prefetch for _ in range(30)][-1] == 9.0
    assert consumer.limits == Limits.of(MODEL)


def test_a_single_subscription_has_the_slots_of_the_range() -> None:
    consumer = consumer_of(model=MODEL, window="single")
    assert [turn(consumer).prefetch for _ in range(30)][-1] == 9.0
    assert consumer.limits == Limits.of(MODEL)


def test_a_new_model_in_the_file_goes_on_beyond_its_range_too(tmp_path: Path) -> None:
    path = tmp_path / "model.json"
    MODEL.save(path)
    consumer = consumer_of(model=path)
    turn(consumer)
    ArxModel(a=0.1, b=90.0, c=0.0, interval=1.0, linear_range=(0.5, 6.0)).save(path)
    assert turn(consumer).prefetch > 9
    assert isinstance(consumer.law, PI)
    assert consumer.law.limits.high == MOST_WITHOUT_LIMITS
