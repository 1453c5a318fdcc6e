"""The broker's processes: each does one job at a time, and they take turns on the cores.

A process that has a job and no core waits in line. When its turn comes it does one job, and goes
to the end of the line if it has more. The Erlang virtual machine shares its schedulers like this
among processes whose jobs are short. A queue does its jobs for consumers first, as RabbitMQ's
queues do, so that publishers cannot keep it from delivering.
"""

from __future__ import annotations

from simulator.engine.compiled import called, compiled
from simulator.engine.messages import AT_BROKER, NONE, append, take_first
from simulator.engine.rows import COVERED, ROUTE, SEND, SETTLE
from simulator.engine.simulation_state import SimulationState
from simulator.engine.timers import NEVER, set_timer


@compiled
def to_broker(state: SimulationState, process_index: int, message: int, job: int) -> None:
    """Give the broker a job; without costs it is done before time advances."""
    state.pool[message].job = job
    if state.clock[0].cores == 0:
        append(state, AT_BROKER, message)
    else:
        to_process(state, process_index, message)


@called
def to_process(state: SimulationState, process_index: int, message: int) -> None:
    """Give a process a job; if it is idle and the job costs nothing, the job is done at once."""
    process = state.processes[process_index]
    idle = process.message == NONE and not process.waiting
    if idle and cost(state, message) == 0.0:
        append(state, AT_BROKER, message)
        return
    job = state.pool[message].job
    append(state, process.line + (1 if job in (SEND, SETTLE) else 0), message)
    if idle:
        wait_for_core(state, process_index)


@compiled
def cost(state: SimulationState, message: int) -> float:
    """Seconds of core time that the job of a message takes."""
    row = state.pool[message]
    price = state.costs[row.job]
    if row.job == SETTLE and row.outcome == COVERED:
        return 0.0
    seconds = price.seconds + row.size * price.per_byte
    if row.job == ROUTE:
        seconds += state.routes[row.route].targets * price.per_copy
    else:
        queue = state.queues[row.queue]
        if queue.slowdown > 0.0:
            entering = state.lines[state.processes[queue.process].line].length
            seconds *= 1.0 + queue.slowdown * (queue.length + entering)
    return seconds  # type: ignore[no-any-return]


@compiled
def wait_for_core(state: SimulationState, process_index: int) -> None:
    """Put a process at the end of the line for a core."""
    clock = state.clock[0]
    process = state.processes[process_index]
    process.next = NONE
    process.waiting = True
    if clock.first_process == NONE:
        clock.first_process = process_index
    else:
        state.processes[clock.last_process].next = process_index
    clock.last_process = process_index


@called
def begin(state: SimulationState, now: float) -> None:
    """Give the first process in line a core; it begins its next job."""
    clock = state.clock[0]
    process = state.processes[clock.first_process]
    clock.first_process = process.next
    clock.idle_cores -= 1
    urgent = state.lines[process.line + 1].length > 0
    process.waiting = False
    process.message = take_first(state, process.line + (1 if urgent else 0))
    seconds = cost(state, process.message)
    clock.core_time += seconds
    set_timer(state, process.slot, now + seconds)


@called
def worked(state: SimulationState, process_index: int) -> None:
    """End a job: the broker acts on it, and the core is free for the next in line."""
    process = state.processes[process_index]
    append(state, AT_BROKER, process.message)
    process.message = NONE
    set_timer(state, process.slot, NEVER)
    state.clock[0].idle_cores += 1
    if state.lines[process.line].length + state.lines[process.line + 1].length > 0:
        wait_for_core(state, process_index)
