"""The end of a model's range starts the search; beyond it a law goes on while the rate follows."""

from __future__ import annotations

import itertools
import random
import statistics
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from controlmq import ArxModel, Limits, Loop, Sample, Tuning
from controlmq.controllers import build, controller_from
from controlmq.controllers.beyond_range import BEYOND_FOLLOWED_FACTOR
from controlmq.controllers.resolve import default_tuning, resolve
from controlmq.controllers.selector import Selector
from controlmq.goals import Goals

SLOPE = 50.0
END = 10.0
MODEL = ArxModel(a=0.0, b=SLOPE, c=0.0, interval=1.0, linear_range=(1.0, END))
"""It was fitted up to a prefetch of 10, and 500 messages/second."""

LAWS = ["p", "pi", "pid"]


@dataclass
class Plant:
    """A consumer whose rate follows the prefetch up to what it can do."""

    most: float
    slope: float = SLOPE
    noise: float = 0.0
    prefetch: float = END
    busy: float = 1.0
    """Of the handlers, as far as anybody knows."""
    prefetches: list[float] = field(default_factory=list)
    rates: list[float] = field(default_factory=list)
    draw: random.Random = field(default_factory=lambda: random.Random(1))

    def observe(self) -> Sample:
        rate = min(self.slope * self.prefetch, self.most) * self.draw.gauss(1.0, self.noise)
        self.prefetches.append(self.prefetch)
        self.rates.append(rate)
        number = len(self.rates)
        arrivals = max(round(rate), 0)
        return Sample(number, float(number), 1.0, self.prefetch, arrivals, busy=self.busy)

    def actuate(self, prefetch: float) -> None:
        self.prefetch = prefetch


def run(plant: Plant, law: str, goal: float, samples: int, **given: Limits) -> Loop:
    loop = Loop(plant, controller_from(law, model=MODEL, **given), goal)
    list(loop.run(samples))
    return loop


@pytest.mark.parametrize("noise", [0.0, 0.05])
@pytest.mark.parametrize("law", LAWS)
def test_a_goal_beyond_the_range_is_reached_and_the_log_says_so_once(
    law: str, noise: float, caplog: pytest.LogCaptureFixture
) -> None:
    plant = Plant(most=1000.0, noise=noise)
    run(plant, law, 14 * SLOPE, 120)
    assert statistics.fmean(plant.rates[20:]) == pytest.approx(14 * SLOPE, rel=0.01)
    assert statistics.fmean(plant.prefetches[20:]) == pytest.approx(14, rel=0.03)
    (said,) = caplog.messages
    for part in ("beyond the 10 ", "700/s", "identify the model again", "limits"):
        assert part in said


@pytest.mark.parametrize("noise", [0.0, 0.05, 0.1])
@pytest.mark.parametrize("times", [5.0, 15.0])
@pytest.mark.parametrize("law", LAWS)
def test_a_goal_far_beyond_the_range_is_reached_without_a_step_back(
    law: str, times: float, noise: float, caplog: pytest.LogCaptureFixture
) -> None:
    plant = Plant(most=100 * SLOPE * END, noise=noise)
    run(plant, law, times * SLOPE * END, 60)
    assert statistics.fmean(plant.rates[20:]) == pytest.approx(times * SLOPE * END, rel=0.03)
    assert min(plant.prefetches) >= END
    assert all(later > 0.6 * before for before, later in itertools.pairwise(plant.prefetches))
    assert len(caplog.messages) == 1


@pytest.mark.parametrize("noise", [0.0, 0.05, 0.1])
@pytest.mark.parametrize("most", [4.0, 10.0, 12.0, 60.0])
@pytest.mark.parametrize("law", LAWS)
def test_a_goal_that_cannot_be_reached_goes_no_further_than_twice_what_its_rate_needs(
    law: str, most: float, noise: float
) -> None:
    """Neither at once nor in an hour, and it costs nothing of the rate."""
    plant = Plant(most=most * SLOPE, noise=noise)
    run(plant, law, 100 * SLOPE, 3600)
    needed = max(most, END)
    assert max(plant.prefetches) < BEYOND_FOLLOWED_FACTOR * needed * (1 + 5 * noise) + 0.01
    assert statistics.fmean(plant.rates[20:]) == pytest.approx(SLOPE * most, rel=0.01)


@pytest.mark.parametrize("noise", [0.0, 0.05])
def test_a_growth_in_vain_is_told_once_with_its_numbers(
    noise: float, caplog: pytest.LogCaptureFixture
) -> None:
    plant = Plant(most=12 * SLOPE, noise=noise)
    loop = run(plant, "pi", 2000.0, 1000)
    beyond, halted = caplog.messages
    assert "beyond the 10 " in beyond
    for part in ("2000/s", "needs a prefetch of 1", "goes no further", "lower the goal"):
        assert part in halted
    step = loop.step()
    assert len(step.told) == 2


@pytest.mark.parametrize("slope", [SLOPE / 1.7, SLOPE / 1.25])
def test_a_round_trip_that_grows_is_followed(slope: float) -> None:
    plant = Plant(most=1000.0)
    loop = run(plant, "pi", 14 * SLOPE, 30)
    plant.slope = slope
    list(loop.run(60))
    assert plant.rates[-1] == pytest.approx(14 * SLOPE, rel=0.01)


@pytest.mark.parametrize("noise", [0.0, 0.05])
@pytest.mark.parametrize("prefetch", [1.0, END])
@pytest.mark.parametrize("law", ["pi", "pid"])
def test_a_gain_far_below_that_of_the_model_is_no_end(
    law: str, prefetch: float, noise: float
) -> None:
    """As with five times the round trip: the rate follows, at a fifth of what the model says."""
    plant = Plant(most=1000.0, slope=SLOPE / 5, noise=noise, prefetch=prefetch, busy=0.4)
    run(plant, law, 7 * SLOPE, 200)
    assert statistics.fmean(plant.rates[150:]) == pytest.approx(7 * SLOPE, rel=0.02)


@pytest.mark.parametrize("noise", [0.0, 0.05])
def test_a_round_trip_that_grows_fivefold_beyond_the_range_is_followed(noise: float) -> None:
    plant = Plant(most=10_000.0, noise=noise, busy=0.4)
    loop = run(plant, "pi", 14 * SLOPE, 50)
    plant.slope = SLOPE / 5
    list(loop.run(300))
    assert statistics.fmean(plant.rates[250:]) == pytest.approx(14 * SLOPE, rel=0.02)


@pytest.mark.parametrize("noise", [0.0, 0.05, 0.1])
@pytest.mark.parametrize("goal", [1.1, 100.0])
def test_a_broker_that_does_no_more_is_not_asked_for_more_and_more(
    goal: float, noise: float
) -> None:
    """Handlers stay idle whatever the prefetch is; half as much again is tried now and then."""
    most = 12 * SLOPE
    plant = Plant(most=most, noise=noise, busy=0.4)
    run(plant, "pi", goal * most, 3600)
    most = BEYOND_FOLLOWED_FACTOR * 12 * (1 + 5 * noise)
    assert max(plant.prefetches) < 1.5 * most + 0.01
    assert statistics.median(plant.prefetches) < most + 0.01


def test_handlers_that_become_faster_are_followed() -> None:
    plant = Plant(most=11 * SLOPE)
    loop = run(plant, "pi", 25 * SLOPE, 400)
    plant.most = 10_000.0
    list(loop.run(30))
    assert plant.rates[-1] == pytest.approx(25 * SLOPE, rel=0.01)


def test_a_stall_of_one_sample_does_not_throw_it_back() -> None:
    plant = Plant(most=10_000.0)
    loop = run(plant, "pi", 60 * SLOPE, 40)
    plant.most = 20 * SLOPE
    list(loop.run(1))
    plant.most = 10_000.0
    list(loop.run(20))
    assert min(plant.prefetches[40:]) > 55


def test_at_the_very_end_it_is_told_too(caplog: pytest.LogCaptureFixture) -> None:
    plant = Plant(most=1e9)
    run(plant, "pi", 3000 * SLOPE, 100)
    assert plant.prefetch == 2000.0
    assert ["it is 2000 and goes no further" in each for each in caplog.messages] == [False, True]


def test_a_new_law_goes_on_where_another_one_was() -> None:
    plant = Plant(most=10_000.0, prefetch=50.0)
    run(plant, "pi", 60 * SLOPE, 20)
    assert min(plant.prefetches) == 50.0


def test_inside_the_range_the_law_is_the_published_one(caplog: pytest.LogCaptureFixture) -> None:
    free, limited = Plant(1000.0, noise=0.03, prefetch=2.0), Plant(1000.0, noise=0.03, prefetch=2.0)
    run(free, "pi", 400.0, 100)
    run(limited, "pi", 400.0, 100, limits=Limits(0.1, 20.0))
    assert free.prefetches == limited.prefetches
    assert caplog.messages == []


def test_the_limits_of_the_user_end_the_search() -> None:
    plant = Plant(most=1000.0)
    run(plant, "pi", 14 * SLOPE, 60, limits=Limits(0.1, 12.0))
    assert max(plant.prefetches) == 12.0


def test_a_prefetch_put_in_force_by_hand_is_where_the_search_begins() -> None:
    plant = Plant(most=1000.0, prefetch=16.0)
    run(plant, "pi", 16 * SLOPE, 10)
    assert plant.prefetches == [16.0] * 10


@pytest.mark.parametrize("law", LAWS)
def test_a_prefetch_of_0_by_hand_is_left_with_the_next_sample(law: str) -> None:
    controller = controller_from(law, model=MODEL)
    under_way = Sample(1, 1.0, 1.0, 0.0, 30)
    assert controller(under_way, 400.0) > 0


@pytest.mark.parametrize("prefetch", [26.0, 2000.0])
def test_a_prefetch_put_in_force_by_hand_does_not_stay_where_it_is_of_no_use(
    prefetch: float,
) -> None:
    plant = Plant(most=500.0, prefetch=prefetch)
    run(plant, "pi", 40 * SLOPE, 20)
    assert max(plant.prefetches[1:]) <= BEYOND_FOLLOWED_FACTOR * END


def test_another_goal_in_vain_is_logged_too(caplog: pytest.LogCaptureFixture) -> None:
    plant = Plant(most=12 * SLOPE)
    loop = run(plant, "pi", 2000.0, 100)
    loop.goal = 1900.0
    assert [key for key in loop.step().told if key.startswith("in vain")] == []
    list(loop.run(100))
    assert ["1900/s" in each for each in caplog.messages] == [False, False, True]


@pytest.mark.parametrize("held_at", [END, 1.2 * END])
def test_what_another_goal_keeps_lower_is_not_taken_for_growth_in_vain(
    held_at: float, caplog: pytest.LogCaptureFixture
) -> None:
    class Held(Plant):
        def actuate(self, prefetch: float) -> None:
            self.prefetch = min(prefetch, held_at)

    for law in LAWS:
        run(Held(most=1000.0), law, 2000.0, 100)
    assert not [each for each in caplog.messages if "no further" in each]


def test_a_selector_tells_what_its_controller_tells() -> None:
    law = Selector(Goals(goal=700), Limits.widest(), controller_from(MODEL))
    plant = Plant(most=1000.0)
    list(Loop(plant, law, 700.0).run(20))
    assert plant.prefetch > END
    assert [key for key in law.told if key.startswith("beyond")]


@pytest.mark.parametrize("given_as", ["tuning", "file"])
def test_the_upper_limit_of_a_tuning_ends_the_search(tmp_path: Path, given_as: str) -> None:
    tuning, path = replace(default_tuning("pi", MODEL), upper=12.0), tmp_path / "pi.json"
    tuning.save(path)
    found = resolve(path if given_as == "file" else tuning)
    assert found.limits == Limits(0.1, 12.0)
    plant = Plant(most=1000.0)
    list(Loop(plant, found.make(), 14 * SLOPE).run(60))
    assert max(plant.prefetches) == 12.0


def test_a_controller_file_goes_on_beyond_its_range_and_one_of_an_earlier_release_does_not(
    tmp_path: Path,
) -> None:
    path = tmp_path / "pi.json"
    tuning = default_tuning("pi", MODEL)
    tuning.save(path)
    assert Tuning.load(path) == tuning
    assert resolve(path).limits is None
    text = path.read_text()
    assert '  "upper": null,\n' in text
    path.write_text(text.replace('  "upper": null,\n', ""))
    assert resolve(path).limits == Limits.of(MODEL)
    assert build(Tuning.load(path)).limits.high == END
