"""Workloads: when messages are published."""

from __future__ import annotations

import itertools
import statistics

import pytest

from controlmq import InputError
from controlmq.measure.load import EXPERIMENTS, Burst, Load


def times_until(load: Load, end: float) -> list[float]:
    return list(itertools.takewhile(lambda time: time < end, load.times(seed=3)))


def test_the_published_workload_is_2500_messages_a_second_from_25_publishers() -> None:
    rosa = EXPERIMENTS["rosa"]
    assert rosa.rate == 2500
    assert len(times_until(rosa, 20)) == pytest.approx(50_000, rel=0.01)


def test_times_ascend_and_keep_to_their_spread() -> None:
    times = times_until(Load(publishers=1, mean=0.010, sd=0.001), 20)
    gaps = [after - before for before, after in itertools.pairwise(times)]
    assert min(gaps) >= 0
    assert statistics.fmean(gaps) == pytest.approx(0.010, rel=0.01)
    assert statistics.stdev(gaps) == pytest.approx(0.001, rel=0.1)


def test_bursts_multiply_the_rate_and_pauses_stop_it() -> None:
    bursts = (Burst(1, 1, 0), Burst(2, 1, 3))
    times = times_until(Load(publishers=10, mean=0.010, bursts=bursts), 4)
    in_second = [sum(second <= time < second + 1 for time in times) for second in range(4)]
    assert in_second == pytest.approx([1000, 0, 3000, 1000], abs=30)


@pytest.mark.parametrize(
    "bad",
    [
        lambda: Load(0, 1.0),
        lambda: Load(1, 0.0),
        lambda: Load(1, 1.0, sd=-1.0),
        lambda: Load(1, 1.0, size=-1),
        lambda: Burst(-1, 1, 1),
        lambda: Burst(0, 0, 1),
        lambda: Burst(0, 1, -1),
    ],
)
def test_impossible_workloads_are_refused(bad: object) -> None:
    with pytest.raises(InputError):
        bad()  # type: ignore[operator]
