"""What happens next: one timer per source of events, the earliest on top.

A tournament tree: the leaves hold when each timer is due, every node above the earlier of its
two children. Setting a timer replays the path to the root as far as anything changes. Of timers
due at the same instant the lower slot comes first, so a run does not depend on the order in
which they were set.

Node 1 is the root, node ``i`` has children ``2i`` and ``2i+1``; ``due`` holds when the earliest
below a node is due, ``winner`` its slot.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from simulator.compiled import compiled

if TYPE_CHECKING:
    from simulator.state import State

NEVER = np.inf
ROOT = 1

Tree = tuple[npt.NDArray[np.float64], npt.NDArray[np.int64]]


def leaves(slots: int) -> int:
    """How many leaves a tree for so many timers has."""
    return 1 << max(1, (slots - 1).bit_length())


def new_timers(due: npt.NDArray[np.float64]) -> Tree:
    """``due`` and ``winner`` of a tree of timers that are due at these times."""
    width = leaves(due.size)
    tree, winner = np.full(2 * width, NEVER), np.zeros(2 * width, np.int64)
    tree[width : width + due.size] = due
    winner[width:] = np.arange(width)
    while width > 1:
        children = np.arange(width, 2 * width, 2)
        children = np.where(tree[children + 1] < tree[children], children + 1, children)
        width >>= 1
        tree[width : 2 * width] = tree[children]
        winner[width : 2 * width] = winner[children]
    return tree, winner


@compiled
def when(state: State, slot: int) -> float:
    """When a timer is due, in seconds."""
    return state.due[state.clock[0].leaves + slot]  # type: ignore[no-any-return]


@compiled
def set_timer(state: State, slot: int, due: float) -> None:
    """Make a timer due at ``due`` seconds, or never."""
    node = state.clock[0].leaves + slot
    state.due[node] = due
    while node > ROOT:
        node >>= 1
        child = 2 * node
        if state.due[child + 1] < state.due[child]:
            child += 1
        if state.due[node] == state.due[child] and state.winner[node] == state.winner[child]:
            return  # and so it is further up
        state.due[node] = state.due[child]
        state.winner[node] = state.winner[child]
