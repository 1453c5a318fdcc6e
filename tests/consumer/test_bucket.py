"""The token bucket keeps its bound in every stretch, and loses nothing that it could allow."""

from __future__ import annotations

import random

import pytest

from controlmq.consumer.bucket import Bucket
from tests.known.stretches import worst_excess

RATES = (1 / 12, 0.1, 3.0, 400.0, 999.9, 12345.678)


@pytest.mark.parametrize("rate", RATES)
@pytest.mark.parametrize("burst", [1, 1.5, 20])
@pytest.mark.parametrize("lateness", [0.0, 0.3, 30.0])
def test_no_stretch_has_more_than_its_rate_and_the_burst(
    rate: float, burst: float, lateness: float
) -> None:
    rng = random.Random(f"{rate} {burst} {lateness}")
    bucket = Bucket(rate, burst)
    now, times = 98765.4321, []
    for _ in range(2000):
        now = max(now, bucket.ready_at)
        if rng.random() < 0.5:
            now += lateness * rng.random() / rate
        bucket.take(now)
        times.append(now)
    assert worst_excess(times, rate, burst) <= 0


@pytest.mark.parametrize("rate", RATES)
def test_whoever_takes_each_token_in_time_gets_the_whole_rate(rate: float) -> None:
    bucket = Bucket(rate, 5)
    now = 98765.4321
    for _ in range(10_005):
        now = max(now, bucket.ready_at)
        bucket.take(now)
    assert (now - 98765.4321) * rate == pytest.approx(10_000, rel=1e-6)


def test_a_delay_is_made_up_for_up_to_the_burst() -> None:
    bucket = Bucket(100.0, 10)
    for _ in range(10):
        assert bucket.ready_at <= 0.0
        bucket.take(0.0)
    assert bucket.ready_at == pytest.approx(0.01, abs=1e-5)
    for _ in range(10):
        assert bucket.ready_at <= 50.0
        bucket.take(50.0)
    assert bucket.ready_at == pytest.approx(50.01, abs=1e-5)


def test_another_rate_begins_with_the_tokens_that_are_there() -> None:
    bucket = Bucket(100.0, 10)
    for _ in range(10):
        bucket.take(1.0)
    bucket.change(1.0, 10, 1.0)
    assert bucket.ready_at == pytest.approx(2.0, abs=1e-5)
    bucket.change(1000.0, 10, 1.5)
    assert bucket.ready_at == pytest.approx(1.5005, abs=1e-5)
    bucket.change(1000.0, 1, 2.5)
    assert bucket.ready_at <= 2.5
    bucket.take(2.5)
    assert bucket.ready_at == pytest.approx(2.501, abs=1e-5)


def test_several_tokens_may_be_taken_at_once() -> None:
    bucket = Bucket(10.0, 1)
    bucket.take(0.0)
    bucket.take(0.0, 3)
    assert bucket.ready_at == pytest.approx(0.4, abs=1e-5)


def test_a_bucket_that_follows_a_share_gains_no_token() -> None:
    bucket = Bucket(10.0, 1)
    bucket.follow(100.0, 5, 0.0)
    assert bucket.ready_at <= 0.0
    bucket.take(0.0)
    assert bucket.ready_at == pytest.approx(0.01, abs=1e-5)
    bucket.follow(10.0, 2, 1.0)  # which was full again
    for _ in range(2):
        assert bucket.ready_at <= 1.0
        bucket.take(1.0)
    assert bucket.ready_at == pytest.approx(1.1, abs=1e-5)


def test_a_bucket_that_follows_a_share_may_begin_empty() -> None:
    bucket = Bucket(10.0, 5)
    bucket.follow(20.0, 5, 1.0, empty=True)
    assert bucket.ready_at == pytest.approx(1.05, abs=1e-5)
    bucket.take(1.0, 3)
    bucket.follow(10.0, 5, 1.0, empty=True)  # debts stay
    assert bucket.ready_at == pytest.approx(1.4, abs=1e-5)
