"""Consumers under the kill switch come back as they were, and unwrapped ones are not touched."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from controlmq.clients import kill_switch
from controlmq.clients.channel_runner import Runner
from controlmq.clients.controlled_consumer import ControlledConsumer
from controlmq.clients.controllers import Controllers
from controlmq.clients.settings import settings_from
from controlmq.consumer.lanes import Lane
from controlmq.controllers import Limits


class Client:
    """A client whose broker confirms every lane at once."""

    def __init__(self) -> None:
        self.runner = Runner(self)  # type: ignore[arg-type]

    def __getattr__(self, name: str) -> Any:
        """Everything else of an adapter does nothing here."""
        return lambda *_: None

    def open_lane(self, lane: Lane) -> None:
        self.runner.lane_opened(lane)


def subscribed(last: ControlledConsumer | None = None, **settings: Any) -> ControlledConsumer:
    """A consumer on a connection of its own, which goes on from the one before."""
    client = Client()
    checked = settings_from(**settings, interval=60)
    controller = Controllers().new(checked, "orders")
    consumer = ControlledConsumer("mine", "orders", checked, controller, None, client.runner)
    client.runner.subscribe(consumer.plant)
    if last is not None:
        consumer.go_on_from(last)
    return consumer


@pytest.mark.parametrize(
    ("limits", "slots"), [(Limits(0.1, 100), 100), (None, 250)], ids=["limits", "no limits"]
)
def test_a_single_subscription_that_starts_switched_off_comes_back_with_all_its_slots(
    switch: Path, limits: Limits | None, slots: int
) -> None:
    switch.write_text("5")
    consumer = subscribed(goal="400/s", window="single", limits=limits)
    assert (consumer.prefetch, consumer.plant.window.granted) == (5, slots)
    consumer.turn()
    assert consumer.prefetch == 5
    switch.unlink()
    consumer.turn()
    assert not consumer.switched_off
    consumer.prefetch = 80
    assert (consumer.prefetch, consumer.plant.limits) == (80, limits)


def test_a_switch_below_the_lower_limit_holds_all_the_same(switch: Path) -> None:
    switch.write_text("5")
    consumer = subscribed(goal="400/s", window="single", limits=Limits(10, 100))
    consumer.turn()
    assert consumer.prefetch == 5


def test_a_variable_starts_a_single_subscription_as_a_plain_one(
    switch: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(kill_switch.VARIABLE, "5")
    consumer = subscribed(goal="400/s", window="single", limits=Limits(0.1, 100))
    assert consumer.plant.plain


def test_an_unwrapped_consumer_keeps_its_prefetch_whatever_the_switch_does(switch: Path) -> None:
    switch.write_text("5")
    consumer = subscribed(prefetch=40)
    consumer.end_control()
    consumer._runner.fix(7)
    for turned in (switch.unlink, switch.touch):
        turned()
        consumer.turn()
        assert (consumer.prefetch, consumer.switched_off) == (7, False)


def test_a_fixed_prefetch_comes_back_after_a_reconnect(switch: Path) -> None:
    before = subscribed(prefetch=40)
    before.prefetch = 30
    switch.write_text("5")
    before.turn()
    assert before.prefetch == 5
    again = subscribed(before, prefetch=40)
    assert again.prefetch == 5
    switch.unlink()
    again.turn()
    assert again.prefetch == 30


def test_a_fixed_prefetch_comes_back_where_the_switch_was_turned_while_disconnected(
    switch: Path,
) -> None:
    before = subscribed(prefetch=40)
    before.prefetch = 30
    switch.write_text("5")
    off = subscribed(before, prefetch=40)
    assert off.prefetch == 5
    switch.unlink()
    assert subscribed(off, prefetch=40).prefetch == 30


@pytest.mark.parametrize(
    "settings",
    [
        {"at_most": 25},
        {"goal": 25, "prefetch": 8},
        {"at_most": 25, "buffer_time": 0.5},
        {"at_most": 25, "protect": True},
    ],
    ids=str,
)
@pytest.mark.parametrize("starts_off", [False, True])
def test_a_bound_on_the_rate_ends_with_the_switch_and_comes_back(
    switch: Path, settings: dict[str, Any], starts_off: bool
) -> None:
    if starts_off:
        switch.touch()
    consumer = subscribed(**settings)
    if not starts_off:
        assert bound(consumer) == 25
        switch.touch()
        consumer.turn()
    assert bound(consumer) is None
    switch.unlink()
    consumer.turn()
    assert bound(consumer) == 25


def test_a_fixed_prefetch_comes_back_within_its_limits(switch: Path) -> None:
    consumer = subscribed(prefetch=40, limits=Limits(10, 50))
    switch.write_text("5")
    consumer.turn()
    switch.unlink()
    consumer.turn()
    assert consumer.prefetch == 40
    consumer.prefetch = 70
    assert consumer.prefetch == 50


@pytest.mark.parametrize("settings", [{"prefetch": 40}, {"goal": 25}], ids=str)
@pytest.mark.parametrize("starts_off", [False, True])
def test_lanes_are_kept_after_the_switch_as_without_it(
    switch: Path, settings: dict[str, Any], starts_off: bool
) -> None:
    usual = lanes_kept(subscribed(**settings))
    if starts_off:
        switch.write_text("5")
    consumer = subscribed(**settings)
    for text in ("5", "6"):
        switch.write_text(text)
        consumer.turn()
        assert lanes_kept(consumer) == (True, 0.0)
    switch.unlink()
    consumer.turn()
    assert lanes_kept(consumer) == usual == (False, 180.0)


def lanes_kept(consumer: ControlledConsumer) -> tuple[bool, float]:
    """Whether lanes have no slot too many, and the seconds for which one may be unneeded."""
    plan = consumer.plant.plan
    return plan.exact, plan.linger


def bound(consumer: ControlledConsumer) -> float | None:
    """The rate that a bucket keeps the consumer to."""
    bucket = consumer.plant.gate.bucket
    return float(bucket.rate) if bucket is not None else None
