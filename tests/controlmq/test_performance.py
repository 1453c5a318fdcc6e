"""Judging a run by its rates."""

from __future__ import annotations

import pytest

from controlmq import InputError
from controlmq.performance import performance, settling_samples


def test_a_run_is_judged_from_where_it_stays_near_the_goal() -> None:
    judged = performance([0, 200, 500, 390, 402, 398, 400], 400)
    assert judged.settling_samples == 3
    assert judged.mean == pytest.approx((390 + 402 + 398 + 400) / 4)
    assert judged.overshoot == pytest.approx(25)


def test_a_run_that_never_settles_is_judged_by_its_second_half() -> None:
    judged = performance([100, 100, 200, 220], 400)
    assert judged.settling_samples is None
    assert judged.mean == 210
    assert judged.overshoot == 0


def test_leaving_the_band_again_counts_as_not_settled() -> None:
    assert settling_samples([1.0, 1.0, 1.2], 1.0, 0.05) is None
    assert settling_samples([1.2, 1.0, 1.0], 1.0, 0.05) == 1
    assert settling_samples([1.0, 1.0], 1.0, 0.05) == 0


def test_too_few_samples_are_refused() -> None:
    with pytest.raises(InputError, match="too few"):
        performance([400, 400], 400)
