"""Visibility timeout: what is not acknowledged in time is there to be delivered again.

A delivered message stays with its queue, invisible, for a time that is the same for all. A row
stands for it there, its *twin*; as time is the same for all, the first in line is the first to
appear. If an acknowledgement comes first, the twin is dropped when its time is up. If none
does, the twin becomes the message, and whatever a consumer says of the other later is too late.
"""

from __future__ import annotations

from simulator.engine.compiled import called
from simulator.engine.links import enter_link, leave_link
from simulator.engine.messages import FREE, NONE, put_first, take_first
from simulator.engine.rows import RETURN, SILENT
from simulator.engine.simulation_state import SimulationState


@called
def hide(state: SimulationState, message: int, now: float) -> None:
    """A message is delivered: its twin waits for the time to be up."""
    row = state.pool[message]
    queue = state.queues[row.queue]
    row.twin = take_first(state, FREE)
    state.pool[row.twin] = row
    state.pool[row.twin].twin = message
    enter_link(state, queue.hidden_line, queue.appear_slot, row.twin, now + queue.visibility)


@called
def answered(state: SimulationState, message: int) -> bool:
    """A consumer answers for a message; whether that still says something to the broker."""
    row = state.pool[message]
    queue = state.queues[row.queue]
    in_time = not row.stale
    if row.twin != NONE:
        twin = state.pool[row.twin]
        twin.twin = NONE
        twin.settled = row.outcome != SILENT
        row.twin = NONE
    if in_time and row.outcome != SILENT:
        return True
    queue.hidden += 1
    put_first(state, FREE, message)
    return False


@called
def appear(state: SimulationState, queue_index: int) -> int:
    """The time of the first invisible message is up; its row if it is to be delivered again."""
    queue = state.queues[queue_index]
    twin = leave_link(state, queue.hidden_line, queue.appear_slot)
    row = state.pool[twin]
    if row.settled:
        put_first(state, FREE, twin)
        return NONE
    if row.twin != NONE:
        state.pool[row.twin].stale = True
        state.pool[row.twin].twin = NONE
        row.twin = NONE
    row.outcome = RETURN
    queue.hidden -= 1
    return twin
