"""Resources: handlers that wait for a server, and who is served next."""

from __future__ import annotations

from simulator.engine.compiled import called, compiled
from simulator.engine.messages import NONE
from simulator.engine.simulation_state import SimulationState
from simulator.engine.timers import NEVER, set_timer


@compiled
def start(state: SimulationState, handler: int, now: float) -> None:
    """Let a handler begin to work on its message, for which it may have waited."""
    worker = state.handlers[handler]
    client = state.consumers[worker.consumer]
    end = now + worker.work + client.overhead
    client.busy_time += end - worker.since
    worker.work += now - worker.since
    set_timer(state, worker.slot, end)


@called
def ask(state: SimulationState, handler: int, now: float) -> None:
    """Give a handler a server of its resource, or let it wait for one."""
    worker = state.handlers[handler]
    resource = state.resources[state.consumers[worker.consumer].resource]
    if resource.free > 0:
        resource.free -= 1
        start(state, handler, now)
        return
    set_timer(state, worker.slot, NEVER)
    worker.next = NONE
    if resource.first == NONE:
        resource.first = handler
    else:
        state.handlers[resource.last].next = handler
    resource.last = handler


@called
def leave(state: SimulationState, resource_index: int, now: float) -> None:
    """Give the server that a handler leaves to the one that has waited longest."""
    resource = state.resources[resource_index]
    handler = resource.first
    if handler == NONE:
        resource.free += 1
        return
    resource.first = state.handlers[handler].next
    start(state, handler, now)
