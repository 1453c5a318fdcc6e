"""What goals cost: when it is told, in which words, and that it is logged once."""

from __future__ import annotations

import logging
import statistics
from typing import Any

import pytest

from controlmq import Loop, Sample
from controlmq.clients.channel_runner import Runner
from controlmq.clients.controlled_consumer import ControlledConsumer
from controlmq.clients.settings import settings_from
from controlmq.controllers import controller_from
from controlmq.controllers.costs import TOLD_AFTER_SAMPLES, Costs, costs
from controlmq.controllers.limits import Limits
from controlmq.controllers.selector import Selector
from controlmq.goals import Goals
from controlmq.model import ArxModel
from tests.worlds.test_laws import DELAY, WORK, world

SLOW = Goals(at_most="5/minute")  # type: ignore[arg-type] # it is read there


def sample(arrivals: int = 100, **seen: Any) -> Sample:
    return Sample(1, 1.0, 1.0, 10.0, arrivals, **seen)


AT_CEILING = {"busy": 0.4, "unused": 0.0}


def test_a_short_buffer_time_costs_handlers_time() -> None:
    seen = sample(busy=0.8, buffer_time=0.1)
    (sentence,) = costs(seen, Goals(buffer_time=0.1), "buffer_time").values()
    assert sentence == (
        "a buffer time of 0.1 s leaves handlers idle for 20 % of their time; give more, or "
        "accept the loss"
    )
    assert not costs(seen, Goals(buffer_time=0.1), "least")
    assert not costs(sample(busy=0.97, buffer_time=0.1), Goals(buffer_time=0.1), "buffer_time")
    assert not costs(sample(busy=0.8, buffer_time=0.01), Goals(buffer_time=0.1), "buffer_time")


def test_a_goal_above_what_handlers_do_is_not_reached() -> None:
    (sentence,) = costs(sample(handlers=4, unused=0.5), Goals(goal=200), "least").values()
    assert sentence == (
        "the goal of 200/s is above the 100/s that 4 busy handlers do; give a lower goal or "
        "more handlers"
    )
    assert not costs(sample(busy=0.5, unused=0.5), Goals(goal=200), "least")
    assert not costs(sample(unused=0.0), Goals(goal=100), "least")


def test_a_goal_that_broker_or_network_cannot_reach_is_told_too() -> None:
    """Handlers are idle, and more prefetch was of no use."""
    seen = sample(busy=0.3, unused=0.5)
    assert not costs(seen, Goals(goal=200), "least")
    (sentence,) = costs(seen, Goals(goal=200), "least", in_vain=True).values()
    assert sentence == (
        "the goal of 200/s is above the 100/s that come whatever the prefetch, though handlers are "
        "idle for 70 % of their time: network, broker or this process do no more; give a lower "
        "goal or more consumers"
    )


def test_random_work_may_be_why_a_goal_near_the_capacity_is_not_reached() -> None:
    seen = sample(busy=0.75, unused=0.2)
    (sentence,) = costs(seen, Goals(goal=120), "least", in_vain=True).values()
    assert sentence == (
        "the goal of 120/s is above the 100/s that come whatever the prefetch, though handlers are "
        "idle for 25 % of their time: work that takes longer now and then needs that time, or "
        "network, broker or this process do no more; give a lower goal or more handlers"
    )


def test_a_consumer_whose_network_does_no_more_is_told_of() -> None:
    law, prefetch, told = Selector(Goals(goal=20_000), Limits.widest()), 1.0, set()
    for number in range(60):
        rate = min(900 * prefetch, 9000)
        seen = Sample(
            number, float(number), 1.0, prefetch, int(rate), busy=rate * 3e-5, handlers=1,
            turnaround=0.001, unused=1 - rate / 20_000,
        )  # fmt: skip
        prefetch = law(seen, 20_000)
        told |= law.told.keys()
    assert told == {"goal 20000"}


def test_a_goal_that_a_controller_holds_is_not_above_what_handlers_do() -> None:
    """It paces nothing, so that all tokens count as unused."""
    held = sample(busy=0.97)
    assert not costs(held, Goals(goal=100, buffer_time=1), "goal")
    assert costs(held, Goals(goal=120, buffer_time=1), "goal")


def test_handlers_that_are_spared_are_not_said_to_be_too_few() -> None:
    assert not costs(sample(unused=0.5), Goals(goal=200, protect=True), "protect")
    assert costs(sample(unused=0.5), Goals(goal=200, protect=True), "least")


def test_a_buffer_time_costs_nothing_where_a_ceiling_keeps_handlers_idle() -> None:
    seen, goals = sample(busy=0.4, buffer_time=0.1), Goals(at_most=100, buffer_time=0.1)
    assert not costs(seen, goals, "buffer_time", 100)
    (sentence,) = costs(seen, goals, "buffer_time", 125).values()
    assert "idle for 10 % of their time" in sentence
    assert "idle for 60 %" in costs(seen, goals, "buffer_time", 1000)["buffer_time 0.1"]


def test_a_ceiling_below_what_the_queue_offers_leaves_messages_there() -> None:
    (sentence,) = costs(sample(**AT_CEILING), Goals(at_most=100), "least").values()
    assert sentence == (
        "the queue offers more than at_most, 100/s: messages wait in the queue while handlers "
        "are idle for 60 % of their time"
    )
    assert not costs(sample(busy=0.4, unused=0.5), Goals(at_most=100), "least")
    assert not costs(sample(busy=1.0, unused=0.0), Goals(at_most=100), "least")
    assert not costs(sample(starved=0.5, **AT_CEILING), Goals(at_most=100), "least")


def test_a_ceiling_above_the_goal_costs_nothing() -> None:
    assert not costs(sample(**AT_CEILING), Goals(goal=100, at_most=200), "least")
    assert costs(sample(**AT_CEILING), Goals(goal=200, at_most=200), "least")


def test_a_cost_is_told_when_it_has_stood_for_some_samples() -> None:
    told, goals = Costs(), Goals(at_most=100)
    for _ in range(TOLD_AFTER_SAMPLES - 1):
        assert not told(sample(**AT_CEILING), goals, "least")
    assert told(sample(**AT_CEILING), goals, "least")
    assert not told(sample(), goals, "least")
    assert not told(sample(**AT_CEILING), goals, "least")


def test_samples_without_a_message_change_nothing_unless_the_queue_is_dry() -> None:
    told = Costs()
    for _ in range(TOLD_AFTER_SAMPLES):
        told(sample(0), SLOW, "least")
        found = told(sample(1, **AT_CEILING), SLOW, "least")
    assert found
    assert told(sample(0), SLOW, "least") == found
    assert not told(sample(0), Goals(at_most=1), "least")
    assert not told(sample(0, starved=1.0), SLOW, "least")


@pytest.mark.parametrize("share", [0.5, 0.98])
def test_a_controller_that_holds_its_goal_in_a_selector_tells_no_cost(share: float) -> None:
    goals = Goals(goal=share / WORK, buffer_time=1)
    running = world(Goals())
    model = ArxModel(0.0, 1 / (2 * DELAY + WORK), 0.0, 1.0, linear_range=(0.1, 20.0))
    law = Selector(goals, Limits.widest(), controller_from(model))
    running.circumstances.law = lambda sample, _: law(sample, share / WORK)
    running.advance(until=40.5)
    rates = [sample.rate for sample in running.program.subscriptions[0].samples[-20:]]
    assert statistics.fmean(rates) == pytest.approx(share / WORK, rel=0.02)
    assert law.told == {}


def test_the_cost_of_a_slow_ceiling_is_told() -> None:
    running = world(SLOW)
    running.advance(until=90.5)
    assert isinstance(running.circumstances.law, Selector)
    assert len(running.circumstances.law.told) == 1


class AtCeiling:
    """A consumer that its ceiling keeps at 100 messages/second."""

    def observe(self) -> Sample:
        return sample(**AT_CEILING)

    def actuate(self, prefetch: float) -> None:
        """The prefetch changes nothing."""


def test_every_step_has_what_goals_cost_and_the_log_has_it_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    loop = Loop(AtCeiling(), Selector(Goals(at_most=100), Limits.widest()), None, group="orders")
    steps = list(loop.run(20))
    assert [len(step.told) for step in steps] == [0] * 4 + [1] * 16
    (logged,) = caplog.records
    assert logged.levelno == logging.WARNING
    assert logged.getMessage() == f"orders: {steps[-1].told[0]}"


def test_a_loop_without_a_group_names_none(caplog: pytest.LogCaptureFixture) -> None:
    loop = Loop(AtCeiling(), Selector(Goals(at_most=100), Limits.widest()), None)
    (*_, last) = loop.run(10)
    assert caplog.messages == list(last.told)


def test_the_cost_of_a_new_value_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    law = Selector(Goals(at_most=100), Limits.widest())
    loop = Loop(AtCeiling(), law, None, group="orders")
    list(loop.run(10))
    law.goals = Goals(at_most=90)
    list(loop.run(10))
    assert ["90/s" in each for each in caplog.messages] == [False, True]


def test_a_new_connection_logs_no_cost_again(caplog: pytest.LogCaptureFixture) -> None:
    class Client:
        def __getattr__(self, name: str) -> Any:
            return lambda *_: None

    def connected() -> ControlledConsumer:
        law = Selector(Goals(at_most=100), Limits.widest())
        settings = settings_from(at_most=100)
        runner = Runner(Client())  # type: ignore[arg-type]
        consumer = ControlledConsumer("tag", "orders", settings, law, None, runner)
        consumer.loop.plant = AtCeiling()
        return consumer

    first, second = connected(), connected()
    list(first.loop.run(10))
    second.go_on_from(first)
    (step,) = second.loop.run(1)
    assert step.told
    assert len(caplog.messages) == 1
