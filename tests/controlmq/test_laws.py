"""The laws for goals without a model, each driven by a consumer of four formulas."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest

from controlmq import Limits, Sample
from controlmq.controllers.buffer_time import BufferTime
from controlmq.controllers.least import LeastPrefetch
from controlmq.controllers.protect import Protect
from controlmq.controllers.selector import Selector
from controlmq.goals import Goals
from controlmq.loop import Controller

LIMITS = Limits(0.1, 1000.0)


@dataclass
class Formulas:
    """A consumer with fixed work: ``y = min(u / (R + h), c / h)``, the rest waits in the buffer.

    ``most`` is what the broker can deliver, ``bucket`` the rate that a bucket lets through, both
    in messages/second.
    """

    turnaround: float = 0.1
    handler_time: float = 0.004
    handlers: int = 1
    most: float = float("inf")
    bucket: float = float("inf")

    def sample(self, prefetch: float) -> Sample:
        h = self.handler_time
        capacity = self.handlers / h
        rate = min(prefetch / (self.turnaround + h), capacity, self.most, self.bucket)
        waiting = prefetch / rate - self.turnaround - h
        buffered = waiting if rate == capacity else 0.0
        broker = waiting if rate == self.most else 0.0
        surplus = prefetch - self.bucket * (self.turnaround + h)
        return Sample(
            1,
            1.0,
            1.0,
            prefetch,
            round(rate),
            handler_time=h,
            buffer_time=buffered,
            handlers=self.handlers,
            busy=rate / capacity,
            turnaround=self.turnaround + broker,
            unused=min(max(1 - surplus, 0.0), 1.0),
        )

    def run(self, law: Controller, prefetch: float, samples: int) -> list[float]:
        found = []
        for _ in range(samples):
            prefetch = law(self.sample(prefetch), float("nan"))
            found.append(prefetch)
        return found


def test_the_least_prefetch_is_there_after_one_sample() -> None:
    """50 ms each way and 4 ms of work: 26 suffice, says RabbitMQ's own example."""
    first, *_, last = Formulas().run(LeastPrefetch(LIMITS), 1.0, 40)
    assert first == pytest.approx(26.0, rel=0.3)
    assert last == pytest.approx(26.0, rel=0.06)


def test_the_least_prefetch_follows_round_trip_work_and_handlers() -> None:
    law, plant = LeastPrefetch(LIMITS), Formulas(0.01, 0.002)
    prefetch = plant.run(law, 1.0, 30)[-1]
    changes = [(0.03, 0.002, 1), (0.03, 0.004, 1), (0.03, 0.004, 8), (0.03, 0.004, 2)]
    for turnaround, handler_time, handlers in changes:
        plant = Formulas(turnaround, handler_time, handlers)
        prefetch = plant.run(law, prefetch, 15)[-1]
        wanted = handlers * (turnaround + handler_time) / handler_time
        assert prefetch == pytest.approx(wanted, rel=0.2)


def test_idle_handlers_are_no_reason_for_more_where_the_broker_is_the_limit() -> None:
    plant = Formulas(0.001, 0.0001, 1, most=2000.0)
    found = plant.run(LeastPrefetch(LIMITS), 1.0, 400)
    assert max(found) < 60
    assert sum(found) / len(found) < 12


class ReadsInBatches(Formulas):
    """Its client takes a while to read from its socket, and reads all that has come at once."""

    reading = 0.0001
    """Seconds."""

    def sample(self, prefetch: float) -> Sample:
        waiting = max(prefetch - (self.turnaround + self.handler_time) / self.handler_time, 0.0)
        gap = self.reading / (1 + waiting / 2)
        rate = min(prefetch / (self.turnaround + self.handler_time), 1 / (self.handler_time + gap))
        found = super().sample(prefetch)
        return replace(found, arrivals=round(rate), busy=rate * self.handler_time)


def test_growth_is_not_in_vain_where_handlers_that_lack_little_lack_less_by_it() -> None:
    plant = ReadsInBatches(0.011, 0.001)
    found = plant.run(LeastPrefetch(LIMITS), 1.0, 30)
    assert plant.sample(12.0).busy < 0.92
    assert plant.sample(found[12]).busy > 0.97
    assert max(found) < 35


def test_messages_that_wait_show_that_growth_is_not_in_vain() -> None:
    """Handlers are idle for 5 % of their time, whatever waits before them."""
    plant = Formulas(0.011, 0.001)
    law = BufferTime(LIMITS, 0.05)
    prefetch = 1.0
    for _ in range(15):
        sample = plant.sample(prefetch)
        prefetch = law(replace(sample, busy=0.95 * sample.busy), float("nan"))
    assert plant.sample(prefetch).buffer_time == pytest.approx(0.05, rel=0.1)


def test_a_bucket_needs_what_its_rate_needs_and_little_more() -> None:
    plant = Formulas(0.011, 0.001, bucket=400.0)
    found = plant.run(LeastPrefetch(LIMITS, 400.0), 1.0, 60)
    rates = [min(prefetch / 0.012, 400.0) for prefetch in found[5:]]
    assert sum(rates) / len(rates) > 0.998 * 400
    assert max(found[5:]) < 1.6 * (400 * 0.012 + 1)


def test_starving_teaches_nothing() -> None:
    dry = Sample(1, 1.0, 1.0, 7.0, 3, starved=0.5, busy=0.1, handler_time=0.01)
    for law in (LeastPrefetch(LIMITS), BufferTime(LIMITS, 0.1)):
        assert law(dry, 1.0) == 7.0


@pytest.mark.parametrize("work", [0.004, 0.04])
def test_messages_wait_as_long_as_wanted(work: float) -> None:
    plant = Formulas(0.1, work)
    prefetch = plant.run(BufferTime(LIMITS, 0.05), 1.0, 20)[-1]
    assert plant.sample(prefetch).buffer_time == pytest.approx(0.05, rel=0.03)


def test_the_smallest_prefetch_wins_and_goals_may_change() -> None:
    selector = Selector(Goals(), LIMITS)
    plant = Formulas()
    alone = plant.run(selector, 1.0, 30)[-1]
    selector.goals = Goals(buffer_time=0.001, at_most=100.0)
    plant.bucket = 100.0
    both = plant.run(selector, alone, 30)[-1]
    assert both == pytest.approx(100 * 0.104 + 1, rel=0.3)
    plant.bucket = float("inf")
    selector.goals = Goals(buffer_time=0.5)
    assert plant.run(selector, both, 30)[-1] == pytest.approx(250 * 0.604, rel=0.01)
    selector.goals = Goals()
    assert plant.run(selector, both, 30)[-1] == pytest.approx(alone, rel=0.1)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (Goals(goal=200), Goals(at_most=200)),
        (Goals(at_most=200), Goals(goal=200)),
        (Goals(goal=200), Goals(goal=200, buffer_time=0.5, protect=True)),
        (Goals(goal=200, buffer_time=0.5, protect=True), Goals(goal=200)),
        (Goals(buffer_time=0.1), Goals(buffer_time=0.1, protect=True)),
        (Goals(buffer_time=0.1, protect=True), Goals(buffer_time=0.1)),
    ],
)
def test_goals_that_need_the_same_prefetch_follow_each_other_without_a_bump(
    before: Goals, after: Goals
) -> None:
    selector, plant = Selector(before, LIMITS), Formulas(bucket=before.ceiling or float("inf"))
    settled = plant.run(selector, 1.0, 60)[-1]
    selector.goals = after
    assert plant.run(selector, settled, 1) == pytest.approx([settled], rel=0.01)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (Goals(), Goals(goal=200)),
        (Goals(goal=200), Goals(at_most=50)),
        (Goals(at_most=50), Goals(goal=200)),
        (Goals(at_most=100), Goals(buffer_time=0.1)),
        (Goals(buffer_time=0.1), Goals(at_most=100)),
        (Goals(buffer_time=0.1), Goals(protect=True)),
    ],
)
def test_the_first_step_after_a_change_of_goals_does_not_go_too_far(
    before: Goals, after: Goals
) -> None:
    selector, plant = Selector(before, LIMITS), Formulas(bucket=before.ceiling or float("inf"))
    old = plant.run(selector, 1.0, 60)[-1]
    selector.goals, plant.bucket = after, after.ceiling or float("inf")
    first, *_, new = plant.run(selector, old, 60)
    assert 0.85 * min(old, new) <= first <= 1.15 * max(old, new)


def test_handlers_that_slow_down_get_less_and_come_back() -> None:
    """Eight servers behind the handlers: beyond eight messages each takes longer."""
    law, prefetch, held = Protect(LIMITS), 4.0, []
    for number in range(300):
        servers = 4 if 100 <= number < 200 else 8
        h = 0.01 * max(1.0, prefetch / servers)
        rate = prefetch / h
        seen = Sample(
            1, 1.0, 1.0, prefetch, round(rate), handler_time=h, handlers=100, busy=prefetch / 100
        )
        prefetch = law(seen, float("nan"))
        held.append(prefetch)
    assert held[90] == pytest.approx(8 * 1.5, rel=0.15)
    assert held[190] == pytest.approx(4 * 1.5, rel=0.15)
    assert held[290] == pytest.approx(8 * 1.5, rel=0.15)


def test_work_that_is_slower_by_itself_is_not_congestion_for_long() -> None:
    law, prefetch = Protect(LIMITS), 8.0
    rates = []
    for number in range(400):
        h = 0.01 if number < 50 else 0.03
        rate = min(prefetch, 40.0) / h
        seen = Sample(
            1, 1.0, 1.0, prefetch, round(rate), handler_time=h, handlers=100, busy=prefetch / 100
        )
        prefetch = min(law(seen, float("nan")), 40.0)
        rates.append(rate)
    assert rates[-1] > 0.9 * 40 / 0.03


@pytest.mark.parametrize(
    "goals",
    [Goals(), Goals(at_most=5), Goals(buffer_time=0.1), Goals(protect=True)],
    ids=["least", "at most", "buffer time", "protect"],
)
@pytest.mark.parametrize("busy", [0.3, 1.0])
@pytest.mark.parametrize("before", [0, 1, 20])
def test_a_prefetch_of_0_by_hand_is_left_with_the_next_sample(
    goals: Goals, busy: float, before: int
) -> None:
    law, plant = Selector(goals, LIMITS), Formulas()
    prefetch = plant.run(law, 2.0, before)[-1] if before else 2.0
    for _ in range(3):
        # Messages that were under way arrive in it all the same.
        under_way = replace(plant.sample(prefetch), prefetch=0.0, arrivals=50, busy=busy)
        prefetch = law(under_way, float("nan"))
        assert prefetch >= LIMITS.low
    found = plant.run(law, prefetch, 60)[-1]
    assert found == pytest.approx(plant.run(Selector(goals, LIMITS), 2.0, 60)[-1], rel=0.3)
