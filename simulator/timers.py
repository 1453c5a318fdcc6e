"""What happens next: one timer per source of events, the earliest on top.

A tournament tree: the leaves hold when each timer is due, every node above the earlier of its
two children. Setting a timer replays one path to the root. Of timers due at the same instant
the lower slot comes first, so a run does not depend on the order in which they were set.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from simulator.compiled import compiled

NEVER = np.inf
ROOT = 1


class Timers(NamedTuple):
    """The tree, node by node: node 1 is the root, node ``i`` has children ``2i``, ``2i+1``."""

    due: npt.NDArray[np.float64]
    slot: npt.NDArray[np.int64]


def new_timers(slots: int) -> Timers:
    """``slots`` timers, none of them set."""
    leaves = 1 << max(1, (slots - 1).bit_length())
    slot = np.zeros(2 * leaves, np.int64)
    slot[leaves:] = np.arange(leaves)
    for node in range(leaves - 1, 0, -1):
        slot[node] = slot[2 * node]
    return Timers(np.full(2 * leaves, NEVER), slot)


@compiled
def when(timers: Timers, slot: int) -> float:
    """When a timer is due, in seconds."""
    return timers.due[(timers.due.size >> 1) + slot]  # type: ignore[no-any-return]


@compiled
def set_timer(timers: Timers, slot: int, due: float) -> None:
    """Make a timer due at ``due`` seconds, or never."""
    node = (timers.due.size >> 1) + slot
    timers.due[node] = due
    while node > ROOT:
        node >>= 1
        child = 2 * node
        if timers.due[child + 1] < timers.due[child]:
            child += 1
        timers.due[node] = timers.due[child]
        timers.slot[node] = timers.slot[child]
