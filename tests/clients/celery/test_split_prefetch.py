"""One prefetch is split among several queues."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlmq.clients.celery.split_prefetch import split_prefetch

ANY = math.inf


@pytest.mark.parametrize(
    ("total", "needs", "expected"),
    [
        (4, [ANY], [4]),
        (4, [ANY, ANY, ANY], [2, 1, 1]),
        (9, [ANY, ANY, ANY], [3, 3, 3]),
        (4, [ANY, 0, 0], [4, 1, 1]),  # idle queues keep one slot, which costs nobody anything
        (8, [ANY, 2, 0], [6, 2, 1]),
        (8, [1.2, ANY, 0], [2, 6, 1]),
        (2, [ANY, ANY, ANY], [1, 1, 1]),  # a consumer has one slot at least
        (10, [3, 2], [3, 2]),
    ],
)
def test_queues_get_what_they_need_and_equally_if_that_is_too_much(
    total: int, needs: list[float], expected: list[int]
) -> None:
    assert split_prefetch(total, needs) == expected


@given(st.integers(1, 50), st.lists(st.sampled_from([0, 1, 2.5, 7, ANY]), min_size=1, max_size=8))
def test_no_more_is_split_than_there_is(total: int, needs: list[float]) -> None:
    given = split_prefetch(total, needs)
    assert min(given) >= 1
    assert sum(each for each in given if each > 1) <= total
    wanting = [each for each, need in zip(given, needs, strict=True) if need == ANY]
    assert not wanting or max(wanting) - min(wanting) <= 1
