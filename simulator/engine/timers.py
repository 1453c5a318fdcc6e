"""Timers: one for each source of events, with the earliest at the root of a tree.

The tree is a tournament: the leaves hold when each timer is due, every node above them the
earliest of its four children. Setting a timer updates the path to the root as far as anything
changes. If timers are due at the same instant, the lower slot comes first, so a run does not
depend on the order in which they were set.

Node 1 is the root. Node ``i`` has children ``4i`` to ``4i+3``, which share a cache line. A node
holds when the earliest timer below it is due, and its slot.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from simulator.engine.compiled import compiled

if TYPE_CHECKING:
    from simulator.engine.simulation_state import SimulationState

NEVER = np.inf
ROOT = 1
CHILDREN = 4

TIMER = np.dtype([("due", np.float64), ("slot", np.int64)])


def leaves(slots: int) -> int:
    """The number of leaves of a tree for ``slots`` timers."""
    width = CHILDREN
    while width < slots:
        width *= CHILDREN
    return width


def new_timers(due: npt.NDArray[np.float64]) -> npt.NDArray[Any]:
    """A tree of timers that are ``due`` at these times."""
    width = leaves(due.size)
    room = np.zeros(2 * width + CHILDREN, TIMER)
    aligned = -room.ctypes.data % (CHILDREN * TIMER.itemsize) // TIMER.itemsize
    tree = room[aligned : aligned + 2 * width]  # the children of a node in one cache line
    level = tree[width:]
    level["due"], level["slot"] = NEVER, np.arange(width)
    level["due"][: due.size] = due
    while width > 1:
        families = level.reshape(-1, CHILDREN)
        first = families["due"].argmin(axis=1)
        width //= CHILDREN
        level = tree[width : 2 * width]
        level[:] = families[np.arange(width), first]
    return tree


@compiled
def when(state: SimulationState, slot: int) -> float:
    """When a timer is due, in seconds."""
    return state.timers[state.clock[0].leaves + slot].due  # type: ignore[no-any-return]


@compiled
def set_timer(state: SimulationState, slot: int, due: float) -> None:
    """Make a timer due at ``due`` seconds, or never."""
    timers = state.timers  # looked up once, not again after every store
    node = state.clock[0].leaves + slot
    timers[node].due = due
    node >>= 2
    while node > 0:
        top = timers[node]
        if due < top.due or (due == top.due and slot <= top.slot):
            top.due = due
            top.slot = slot
            node >>= 2
        elif top.slot == slot:
            break
        else:
            return  # it was not the earliest here, and is not now
    # From here up it was the earliest; now another timer may be.
    while node > 0 and timers[node].slot == slot:
        child = CHILDREN * node
        # Minima and sums of comparisons: no processor could predict branches here.
        a, b = timers[child].due, timers[child + 1].due
        c, d = timers[child + 2].due, timers[child + 3].due
        left, right = min(a, b), min(c, d)
        in_right = right < left
        first = child + 2 * in_right + ((d < c) if in_right else (b < a))
        timers[node].due = min(left, right)
        timers[node].slot = timers[first].slot
        node >>= 2
