"""The window of a consumer, and the line of consumers that have room.

The broker has whole slots, ``ceil(u)`` for a prefetch of ``u``; the consumer makes the rest by
holding acknowledgements, exactly as :mod:`controlmq.consumer.held_acks` does live. Open slots are
the slots of the broker less the acks held, and the mean of them over time is ``u``::

    error = integral of u - clamp(open slots, floor(u), ceil(u)) over time, except while starved

An ack is held while the error is negative and no more than ``ceil(u) - floor(u)`` are held.
Where ``spacing`` is set, the acks that open slots also keep that distance from each other; where
``pace`` is set, each of them takes a token (:mod:`simulator.engine.bucket`). No ack is held for
longer than ``MAX_HOLD_SECONDS``. After the prefetch dropped, acks of surplus slots go at once and
open none. With a whole prefetch, no spacing and no pace, nothing is ever held.

Consumers with room stand in the line of their queue. Between two events there are such consumers
only while the queue is empty: they are starved.
"""

from __future__ import annotations

import math

from simulator.engine.bucket import count_opening, opens_at
from simulator.engine.compiled import called, compiled
from simulator.engine.draws import uniform
from simulator.engine.links import answer
from simulator.engine.messages import NONE, append, take_first
from simulator.engine.rows import AUTOMATIC
from simulator.engine.simulation_state import SimulationState
from simulator.engine.timers import NEVER, set_timer, when

# The values of controlmq.consumer: a test compares them.
MADE_UP_ACKS = 3
MADE_UP_SECONDS = 0.002
MOST_ERROR_SLOT_SECONDS = 1.0
ROUNDING_SLOT_SECONDS = 1e-9
MAX_HELD = 250
MAX_HOLD_SECONDS = 10.0
IDLE_AFTER_SECONDS = 0.1


@compiled
def account(state: SimulationState, consumer: int, now: float) -> None:
    """Add the time since the window last changed to the consumer's sums and its error."""
    client = state.consumers[consumer]
    elapsed = now - client.since
    client.since = now
    client.in_flight_time += client.in_flight * elapsed
    held = state.lines[client.held_line].length
    slots = max(client.high, client.in_flight) - held  # more than high only after a drop
    client.held_time += held * elapsed
    client.open_time += slots * elapsed
    if client.starved:
        client.starved_time += elapsed
    elif client.high > client.low and client.listening and client.active and not client.spaced:
        slots = min(max(slots, client.low), client.high)
        error = client.error + (client.prefetch - slots) * elapsed
        lowest = (client.low - client.prefetch) * MAX_HOLD_SECONDS
        client.error = min(max(error, lowest), MOST_ERROR_SLOT_SECONDS)


@compiled
def refresh(state: SimulationState, consumer: int, now: float) -> None:
    """Join or leave the line of the queue as the broker has room for the consumer or not."""
    client = state.consumers[consumer]
    room = client.in_flight < client.high or client.acknowledge == AUTOMATIC
    room = room and client.listening and client.active
    if room and not client.starved:
        join_line(state, consumer)
        client.dry_since = now
    elif client.starved and not room:
        leave_line(state, consumer)


@compiled
def give(state: SimulationState, consumer: int, message: int, now: float) -> None:
    """Take a handler's ack of a message; send it, or hold it until the window lets it go."""
    client = state.consumers[consumer]
    client.given += 1
    whole = client.low == client.high and client.spacing == 0.0 and client.pace == 0.0
    if whole or not client.active:
        answer(state, consumer, message, now)
    else:
        hold(state, consumer, message, now)


@called
def hold(state: SimulationState, consumer: int, message: int, now: float) -> None:
    """Hold an ack, unless its slot is surplus; then send what the window lets go."""
    account(state, consumer, now)
    client = state.consumers[consumer]
    if client.in_flight > client.high:
        answer(state, consumer, message, now)
        return
    state.pool[message].since = now
    append(state, client.held_line, message)
    release(state, consumer, now)


@called
def release(state: SimulationState, consumer: int, now: float) -> None:
    """Send the held acks that may go now, oldest first, and set the timer for the next."""
    client = state.consumers[consumer]
    held = state.lines[client.held_line]
    dry = client.starved and now >= client.dry_since + IDLE_AFTER_SECONDS
    keep = 0
    if client.error < -ROUNDING_SLOT_SECONDS and client.active and not dry:
        keep = client.high - client.low
    client.spaced = False
    while held.length > keep:
        if (client.spacing > 0.0 or client.pace > 0.0) and client.active and not dry:
            if now < opens_at(state, consumer) and held.length <= MAX_HELD:
                client.spaced = True
                break
            if client.spacing > 0.0:
                made_up = max(MADE_UP_ACKS * client.spacing, MADE_UP_SECONDS)
                due = max(client.next_release, now - made_up)
                client.next_release = min(due, now) + client.spacing
            if client.pace > 0.0:
                count_opening(state, consumer, state.pool[held.first].since, now)
        answer(state, consumer, take_first(state, client.held_line), now)
    while held.length > 0 and now >= state.pool[held.first].since + MAX_HOLD_SECONDS:
        answer(state, consumer, take_first(state, client.held_line), now)
    due = NEVER
    if held.length > 0:
        due = min(now + IDLE_AFTER_SECONDS, state.pool[held.first].since + MAX_HOLD_SECONDS)
        if client.starved:
            due = min(due, client.dry_since + IDLE_AFTER_SECONDS)
        elif client.spaced:
            due = min(due, opens_at(state, consumer))
        elif client.error < 0.0:
            due = min(due, now - client.error / (client.prefetch - client.low))
    if due != when(state, client.release_slot):
        set_timer(state, client.release_slot, due)


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
def change_window(state: SimulationState, consumer: int, now: float) -> None:
    """Put the wanted prefetch in force; messages in flight stay until acknowledged."""
    account(state, consumer, now)
    client = state.consumers[consumer]
    client.prefetch = client.wanted_prefetch
    client.spacing = client.wanted_spacing
    client.low = math.floor(client.prefetch)
    client.high = math.ceil(client.prefetch)
    client.active = client.wanted
    release(state, consumer, now)
