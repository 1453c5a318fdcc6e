"""The window of a consumer, and the line of consumers that have room.

The window holds a real-valued prefetch ``u`` exactly, on average over time. With ``n``
messages in flight (delivered and not acknowledged, as the broker sees it) it keeps::

    credit = integral of u - clamp(n, floor(u), ceil(u)) over time, except while starved

and delivers while ``n`` is below ``ceil(u)`` if the credit is not negative, else below
``floor(u)``. With a whole ``u`` it is the plain prefetch; below 1 the window opens once per
message. By Little's law the rate of an unsaturated consumer is then ``u`` divided by the time a
message is in flight, and no rounding pattern can fall in or out of step with the sampling.

Consumers with room stand in the line of their queue. Between two events there are such consumers
only while the queue is empty: they are starved.
"""

from __future__ import annotations

import math

from simulator.engine.compiled import compiled
from simulator.engine.draws import uniform
from simulator.engine.messages import NONE
from simulator.engine.rows import AUTOMATIC
from simulator.engine.simulation_state import SimulationState
from simulator.engine.timers import NEVER, set_timer, when


@compiled
def account(state: SimulationState, consumer: int, now: float) -> None:
    """Add the time since the window last changed to the consumer's sums and its credit."""
    client = state.consumers[consumer]
    elapsed = now - client.since
    client.since = now
    client.in_flight_time += client.in_flight * elapsed
    if client.starved:
        client.starved_time += elapsed
    elif client.listening and client.active:
        held = min(max(client.in_flight, client.low), client.high)
        client.credit += (client.prefetch - held) * elapsed


@compiled
def refresh(state: SimulationState, consumer: int, now: float) -> None:
    """Join or leave the line as the window has room or not, and set when credit returns to 0."""
    client = state.consumers[consumer]
    limit = client.high if client.credit >= 0.0 else client.low
    room = client.in_flight < limit or client.acknowledge == AUTOMATIC
    room = room and client.listening and client.active
    if room and not client.starved:
        join_line(state, consumer)
    elif client.starved and not room:
        leave_line(state, consumer)
    due = NEVER
    if client.credit < 0.0 and client.in_flight == client.low and client.high > client.low:
        due = now - client.credit / (client.prefetch - client.low)
    if due != when(state, client.grant_slot):
        set_timer(state, client.grant_slot, due)


@compiled
def choose(state: SimulationState, queue_index: int) -> int:
    """The consumer that gets the next message: the first in line, or a random one."""
    queue = state.queues[queue_index]
    consumer = queue.first_ready
    if queue.random and queue.ready > 1:
        rank = int(uniform(state.sources[queue.choose]) * queue.ready)
        for _ in range(rank):
            consumer = state.consumers[consumer].next_ready
    return consumer  # type: ignore[no-any-return]


@compiled
def join_line(state: SimulationState, consumer: int) -> None:
    """Put a consumer with room at the end of the line."""
    client = state.consumers[consumer]
    queue = state.queues[client.queue]
    client.starved = True
    client.next_ready = NONE
    client.previous_ready = queue.last_ready
    if queue.last_ready == NONE:
        queue.first_ready = consumer
    else:
        state.consumers[queue.last_ready].next_ready = consumer
    queue.last_ready = consumer
    queue.ready += 1


@compiled
def leave_line(state: SimulationState, consumer: int) -> None:
    """Take a consumer out of the line, wherever it stands."""
    client = state.consumers[consumer]
    queue = state.queues[client.queue]
    client.starved = False
    if client.previous_ready == NONE:
        queue.first_ready = client.next_ready
    else:
        state.consumers[client.previous_ready].next_ready = client.next_ready
    if client.next_ready == NONE:
        queue.last_ready = client.previous_ready
    else:
        state.consumers[client.next_ready].previous_ready = client.previous_ready
    queue.ready -= 1


@compiled
def grant(state: SimulationState, consumer: int, now: float) -> None:
    """Let the window go above the prefetch: it was below for as much as it was above."""
    account(state, consumer, now)
    # Exactly 0 by definition of this instant; the sum may have a rounding error.
    state.consumers[consumer].credit = 0.0


@compiled
def change_window(state: SimulationState, consumer: int, now: float) -> None:
    """Put the wanted prefetch in force; messages in flight stay until acknowledged."""
    account(state, consumer, now)
    client = state.consumers[consumer]
    client.prefetch = client.wanted_prefetch
    client.low = math.floor(client.prefetch)
    client.high = math.ceil(client.prefetch)
    client.active = client.wanted
