"""The broker's disk: it writes everything that waits for it in one write."""

from __future__ import annotations

from simulator.engine.compiled import called
from simulator.engine.messages import AT_BROKER, append, take_first
from simulator.engine.rows import ENTER, STORED
from simulator.engine.simulation_state import SimulationState
from simulator.engine.timers import NEVER, set_timer


@called
def start_disk(state: SimulationState, now: float) -> None:
    """Begin to write everything that waits for the disk."""
    clock = state.clock[0]
    size = 0
    while state.lines[clock.disk_line].length > 0:
        message = take_first(state, clock.disk_line)
        size += state.pool[message].size
        append(state, clock.disk_batch, message)
    time = clock.disk_write + size * clock.disk_per_byte
    clock.disk_time += time
    set_timer(state, clock.disk_slot, now + time)


@called
def written(state: SimulationState) -> None:
    """End a write: its messages may enter their queues, its confirms may be sent."""
    clock = state.clock[0]
    set_timer(state, clock.disk_slot, NEVER)
    while state.lines[clock.disk_batch].length > 0:
        message = take_first(state, clock.disk_batch)
        row = state.pool[message]
        row.job = ENTER if row.settled else STORED
        append(state, AT_BROKER, message)
