"""Visibility timeout: a message that is not acknowledged in time is delivered again.

A delivered message stays in its queue, invisible, as a second row: its *twin*. The timeout is the
same for all messages of a queue, so the first twin in line is the first to become visible. If the
message is acknowledged first, the twin is dropped when the timeout ends. If not, the twin becomes
the message, and an answer for the original has no effect.
"""

from __future__ import annotations

from simulator.engine.compiled import called
from simulator.engine.links import enter_link, leave_link
from simulator.engine.messages import FREE, NONE, put_first, take_first
from simulator.engine.rows import RETURN, SILENT
from simulator.engine.simulation_state import SimulationState


@called
def hide(state: SimulationState, message: int, now: float) -> None:
    """Make the twin of a message that is delivered; it waits for the timeout."""
    row = state.pool[message]
    queue = state.queues[row.queue]
    row.twin = take_first(state, FREE)
    state.pool[row.twin] = row
    state.pool[row.twin].twin = message
    enter_link(state, queue.hidden_line, queue.appear_slot, row.twin, now + queue.visibility)


@called
def answered(state: SimulationState, message: int) -> bool:
    """Take a consumer's answer for a message; returns whether it came in time."""
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
    """End the timeout of the first invisible message; its row if it is to be delivered again."""
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
