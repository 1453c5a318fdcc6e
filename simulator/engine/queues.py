"""Queues: routing to them, entering, expiry, delivery, acknowledgements and dead letters."""

from __future__ import annotations

from simulator.engine.compiled import called, compiled
from simulator.engine.links import send_down
from simulator.engine.messages import (
    AT_BROKER,
    FREE,
    NONE,
    append,
    insert_by_index,
    put_first,
    take_first,
)
from simulator.engine.processes import to_broker
from simulator.engine.publishers import copy_confirmed, copy_entered
from simulator.engine.rows import AUTOMATIC, COVERED, ENTER, REJECT, RETURN, ROUTE, SEND, SETTLE
from simulator.engine.simulation_state import SimulationState
from simulator.engine.timers import NEVER, set_timer, when
from simulator.engine.visibility_timeout import answered, hide
from simulator.engine.window import account


@called
def route(state: SimulationState, message: int) -> None:
    """Make a copy of a message for every queue it goes to."""
    row = state.pool[message]
    places = state.routes[row.route]
    if row.confirm != NONE:
        state.pool[row.confirm].returns = places.targets
    if row.sender != NONE:
        state.publishers[row.sender].waiting += places.targets - 1
    for number in range(places.targets):
        queue = state.targets[places.first + number]
        copy = message
        if number + 1 < places.targets:
            copy = take_first(state, FREE)
            state.pool[copy] = state.pool[message]
        if state.queues[queue].visited & row.visited != 0:
            state.queues[queue].cycled += 1  # a circle of dead letters ends here
            put_first(state, FREE, copy)
        else:
            state.pool[copy].queue = queue
            to_broker(state, state.queues[queue].process, copy, ENTER)


@compiled
def enter(state: SimulationState, message: int, now: float) -> None:
    """Put a message in its queue, or refuse it; if needed, write it to disk first."""
    clock = state.clock[0]
    row = state.pool[message]
    queue = state.queues[row.queue]
    if row.sender != NONE:
        copy_entered(state, row.sender, now)
        row.sender = NONE
    refused = queue.length >= queue.max_length and not queue.drop_head
    to_disk = clock.disk and queue.durable and state.kinds[row.kind].persistent
    if to_disk and queue.write_first and not row.settled:
        row.settled = True
        append(state, clock.disk_line, message)
        return
    if to_disk and not queue.write_first and not refused:
        # The message continues, and a second row waits for the disk in its place.
        slip = take_first(state, FREE)
        state.pool[slip] = row
        append(state, clock.disk_line, slip)
    elif row.confirm != NONE:
        copy_confirmed(state, row.confirm, refused, now)
    row.settled = False
    row.confirm = NONE
    queue.published += 1
    if refused:
        queue.dropped += 1
        put_first(state, FREE, message)
        return
    queue.bytes += row.size
    clock.bytes += row.size
    clock.alarm = clock.alarm or clock.bytes > clock.memory_limit
    row.expires = now + queue.ttl
    row.returns = 0
    line = queue.line + min(state.kinds[row.kind].priority, queue.priorities - 1)
    if queue.length >= queue.max_length:
        queue.dropped += 1
        discard(state, take_from(state, row.queue, now), False)
    change_length(state, row.queue, 1, now)
    if queue.in_order:
        insert_by_index(state, line, message)
    else:
        append(state, line, message)
    if row.expires < when(state, queue.expire_slot):
        set_timer(state, queue.expire_slot, row.expires)


@compiled
def change_length(state: SimulationState, queue_index: int, change: int, now: float) -> None:
    """Change a queue's length, and add up its length over time."""
    queue = state.queues[queue_index]
    queue.length_time += queue.length * (now - queue.since)
    queue.since = now
    queue.length += change


@compiled
def take_from(state: SimulationState, queue_index: int, now: float) -> int:
    """Take the first message of the highest priority out of a queue that is not empty."""
    queue = state.queues[queue_index]
    change_length(state, queue_index, -1, now)
    line = queue.line + queue.priorities - 1
    while state.lines[line].length == 0:
        line -= 1
    message = take_first(state, line)
    if queue.in_order:
        queue.next_index = max(queue.next_index, state.pool[message].index + 1)
    return message


@compiled
def is_missing_one(state: SimulationState, queue_index: int) -> bool:
    """Whether a queue in order waits for a message that comes before all it has."""
    queue = state.queues[queue_index]
    if not queue.in_order:
        return False
    return state.pool[state.lines[queue.line].first].index > queue.next_index  # type: ignore[no-any-return]


@compiled
def forget(state: SimulationState, message: int) -> None:
    """Subtract the bytes of a message from its queue."""
    clock = state.clock[0]
    row = state.pool[message]
    state.queues[row.queue].bytes -= row.size
    clock.bytes -= row.size


@compiled
def discard(state: SimulationState, message: int, rejected: bool) -> None:
    """Remove a message from the system, or dead-letter it."""
    forget(state, message)
    row = state.pool[message]
    queue = state.queues[row.queue]
    if queue.dead == NONE:
        put_first(state, FREE, message)
        return
    queue.dead_lettered += 1
    if rejected:
        row.visited = 0  # a circle with a consumer in it is intended
    else:
        row.visited |= queue.visited
    row.route = state.dead[queue.dead * state.clock[0].kinds + row.kind]
    queue.dead_copies += state.routes[row.route].targets
    row.job = ROUTE
    append(state, AT_BROKER, message)


@called
def expire(state: SimulationState, queue_index: int, now: float) -> None:
    """Take out messages that have expired; in each priority the first is the oldest."""
    queue = state.queues[queue_index]
    due = NEVER
    for line in range(queue.line, queue.line + queue.priorities):
        chain = state.lines[line]
        while chain.length > 0 and state.pool[chain.first].expires <= now:
            queue.expired += 1
            change_length(state, queue_index, -1, now)
            discard(state, take_first(state, line), False)
        if chain.length > 0:
            due = min(due, state.pool[chain.first].expires)
    set_timer(state, queue.expire_slot, due)


@compiled
def settle(state: SimulationState, message: int, now: float) -> None:
    """Act on a consumer's answer for a message; its place in the window is free again."""
    row = state.pool[message]
    account(state, row.consumer, now)
    client = state.consumers[row.consumer]
    queue = state.queues[row.queue]
    client.in_flight -= 1
    client.slot_at = now
    client.slot_released = row.since
    if queue.visibility < NEVER and not answered(state, message):
        return
    if row.outcome <= COVERED:
        client.acknowledged += 1
        queue.acknowledged += 1
        forget(state, message)
        put_first(state, FREE, message)
        return
    put_back(state, message, now)


@called
def put_back(state: SimulationState, message: int, now: float) -> None:
    """Put a delivered message back at the head of its queue, or give it up."""
    row = state.pool[message]
    queue = state.queues[row.queue]
    row.returns += 1
    if row.outcome == RETURN and row.returns <= queue.delivery_limit:
        queue.returned += 1
        change_length(state, row.queue, 1, now)
        level = min(state.kinds[row.kind].priority, queue.priorities - 1)
        put_first(state, queue.line + level, message)
        if row.expires < when(state, queue.expire_slot):
            set_timer(state, queue.expire_slot, max(row.expires, now))
        if queue.length > queue.max_length and queue.drop_head:
            queue.dropped += 1
            discard(state, take_from(state, row.queue, now), False)
        return
    queue.rejected += 1
    discard(state, message, row.outcome == REJECT)


@compiled
def hand_over(state: SimulationState, message: int, consumer: int, now: float) -> None:
    """Deliver a message that was taken from its queue to a consumer with room."""
    row = state.pool[message]
    client = state.consumers[consumer]
    queue = state.queues[client.queue]
    row.consumer = consumer
    row.since = client.slot_released if client.slot_at == now else -1.0
    client.delivered += 1
    queue.delivered += 1
    if client.acknowledge == AUTOMATIC:
        client.acknowledged += 1
        queue.acknowledged += 1
        forget(state, message)
        row.settled = True
    else:
        client.in_flight += 1
        client.most_in_flight = max(client.most_in_flight, client.in_flight)
        if queue.visibility < NEVER:
            hide(state, message, now)
    if state.clock[0].cores == 0:
        send_down(state, consumer, message, now)
    else:
        to_broker(state, queue.process, message, SEND)


@called
def send(state: SimulationState, message: int, now: float) -> None:
    """Put a message on the link to its consumer, or back in its queue if that is gone."""
    row = state.pool[message]
    client = state.consumers[row.consumer]
    if client.listening:
        send_down(state, row.consumer, message, now)
    elif row.settled:
        client.lost += 1
        put_first(state, FREE, message)
    else:
        row.outcome = RETURN
        row.job = SETTLE
        append(state, AT_BROKER, message)
