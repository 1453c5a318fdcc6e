"""A consumer begins the same way with every client."""

from __future__ import annotations

import dataclasses
import logging
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from controlmq.clients import settings
from controlmq.clients.celery.worker import AdaptiveWorker
from controlmq.clients.channel_runner import Runner
from controlmq.clients.controlled_consumer import ControlledConsumer
from controlmq.clients.controllers import Controllers
from controlmq.clients.kept_bounds import KeptBounds
from controlmq.clients.new_consumer import _warn as warn
from controlmq.clients.new_consumer import new_consumer
from controlmq.clients.settings import settings_from
from controlmq.controllers.limits import Limits
from controlmq.controllers.resolve import default_tuning
from controlmq.model import ArxModel
from tests.clients.aio_pika.unconnected import UnconnectedChannel, in_a_loop
from tests.clients.celery.test_worker import celery_consumer

MODEL = ArxModel(a=0.1, b=70.0, c=0.0, interval=1.0, linear_range=(0.5, 9.0))
STEEPER = dataclasses.replace(MODEL, b=140.0)
GOAL = 210.0


@pytest.fixture
def path(tmp_path: Path) -> Path:
    file = tmp_path / "model.json"
    MODEL.save(file)
    return file


def begun(words: dict[str, Any], **given: Any) -> ControlledConsumer:
    return new_consumer(
        "mine",
        "orders",
        settings_from(**words),
        Controllers(),
        KeptBounds(),
        Runner(Mock()),
        **{"asked": None, "arguments": None} | given,
    )


def gains(consumer: ControlledConsumer) -> Any:
    law: Any = consumer.law
    return law.gains


def test_a_file_written_before_celery_consumes_is_in_force_from_the_start(path: Path) -> None:
    worker = AdaptiveWorker(celery_consumer(), settings_from(GOAL, path))
    worker.connected()
    STEEPER.save(path)
    consumer, _ = worker.new_consumer("mine", "orders", None, Runner(Mock()))
    assert gains(consumer) == default_tuning("pi", STEEPER).gains
    assert consumer.prefetch == STEEPER.prefetch_for(GOAL)


@in_a_loop
async def test_a_file_written_before_aio_pika_consumes_is_in_force_from_the_start(
    tmp_path: Path,
) -> None:
    path = tmp_path / "model.json"
    MODEL.save(path)
    channel = UnconnectedChannel(goal=GOAL, controller=path)
    STEEPER.save(path)
    consumer = await channel.consume("orders", Mock(), "mine")
    assert gains(consumer) == default_tuning("pi", STEEPER).gains
    assert consumer.prefetch == STEEPER.prefetch_for(GOAL)


def test_a_file_that_is_gone_before_the_start_is_logged_and_what_it_held_is_used(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    checked = settings_from(GOAL, path)
    path.unlink()
    with caplog.at_level(logging.ERROR, logger="controlmq"):
        consumer = new_consumer(
            "mine",
            "orders",
            checked,
            Controllers(),
            KeptBounds(),
            Runner(Mock()),
            asked=None,
            arguments=None,
        )
    assert str(path) in caplog.text
    assert gains(consumer) == default_tuning("pi", MODEL).gains


def test_one_that_goes_on_from_another_takes_its_law_and_its_prefetch(path: Path) -> None:
    first = begun({"goal": GOAL, "controller": path})
    first.prefetch = 6.5
    path.unlink()  # the law follows it already
    second = begun({"goal": GOAL, "controller": MODEL}, last=first, asked=2.0)
    assert second.law is first.law
    assert second.prefetch == 7


@pytest.mark.parametrize(
    ("limits", "slots"), [(None, 250), (Limits(0.1, 40), 40)], ids=["no limits", "limits"]
)
@pytest.mark.parametrize("single_by", ["window", "exclusive"])
def test_a_single_subscription_of_a_law_without_a_model_has_250_slots_or_its_limit(
    single_by: str, limits: Limits | None, slots: int
) -> None:
    words = {"goal": GOAL, "controller": "scale", "limits": limits}
    if single_by == "window":
        consumer = begun({**words, "window": "single"})
    else:
        consumer = begun(words, exclusive=True)
    assert consumer.plant.first_size == slots


def test_an_exclusive_consumer_has_one_subscription() -> None:
    assert begun({"goal": GOAL, "controller": MODEL}).plant.kind == "auto"
    assert begun({"goal": GOAL, "controller": MODEL}, exclusive=True).plant.kind == "single"


@pytest.mark.parametrize("moves", [False, True])
def test_celery_holds_acks_for_half_of_the_consumers_timeout(
    moves: bool, caplog: pytest.LogCaptureFixture
) -> None:
    settings._warn_of_long_hold.cache_clear()
    words: dict[str, Any] = {"buffer_time": 0.5} if moves else {}
    worker = AdaptiveWorker(celery_consumer(), settings_from(max_hold=7200.0, **words))
    worker.connected()
    held = []
    for arguments in ({"x-consumer-timeout": 3_000}, None):
        consumer, _ = worker.new_consumer("mine", "orders", arguments, Runner(Mock()))
        held.append(consumer.plant.window.max_hold)
        assert consumer.adapts == moves
    assert held == [1.5, 7200.0]
    assert "acks may be held for 7200 s" in caplog.text
    settings._warn_of_long_hold.cache_clear()


def test_a_queue_that_a_mapping_does_not_name_is_logged_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    warn.cache_clear()
    for _ in range(2):
        assert begun({"at_most": {"order": 5}, "prefetch": 4}).plant.buckets is None
    (said,) = caplog.messages
    assert said == (
        "queue orders: consumed without at_most, given for 'order' only; name it there too, with "
        "None if that is meant"
    )


@pytest.mark.parametrize(
    "words",
    [
        {"at_most": {"order": 5, "orders": None}},
        {"at_most": {"order": 5}, "buffer_time": {"orders": 0.5}},
        {"at_most": 5},
        {},
    ],
    ids=str,
)
def test_a_queue_that_is_named_with_none_or_another_goal_is_not_logged(
    words: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    begun(words)
    assert caplog.messages == []
