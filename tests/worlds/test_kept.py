"""A lane whose messages the broker keeps is noticed in time, and a new connection has them.

That nothing is noticed where nothing is kept, all other worlds show.
"""

from __future__ import annotations

import pytest

from tests.worlds.kept import kept_world

CHUNK = 10


@pytest.mark.parametrize(
    "first", [0, *(pytest.param(first, marks=pytest.mark.slow) for first in range(10, 200, CHUNK))]
)
def test_a_lane_whose_messages_the_broker_keeps_is_noticed_in_time(first: int) -> None:
    for seed in range(first, first + CHUNK):
        kept_world(seed).run()
