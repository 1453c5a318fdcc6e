"""What a share means for the bucket of its member."""

from __future__ import annotations

import math
from typing import NamedTuple

from controlmq.goals import LEAST_BURST, usual_burst

LEAST_SHARE_OF_GOAL = 1e-6
"""Part of the goal below which a share is none."""


class Bound(NamedTuple):
    """At most ``rate`` messages/second and ``burst`` at once, and nothing from ``until`` on."""

    rate: float
    burst: float
    until: float


def bound_of(share: float, until: float, goal: float, burst: float | None) -> Bound:
    """The bound of a member with a share of ``goal``; ``burst`` is that of all together.

    A member has its part of the burst, but at least 1 message.
    """
    if share < LEAST_SHARE_OF_GOAL * goal:
        return Bound(goal, LEAST_BURST, -math.inf)
    all_together = usual_burst(goal) if burst is None else burst
    return Bound(share, max(LEAST_BURST, all_together * share / goal), until)
