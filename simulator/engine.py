"""The event loop: publish, deliver, finish, acknowledge, grant.

A message is published into its queue, delivered over the link to a consumer whose window has
room, waits in the consumer's buffer for an idle handler, is worked on, and leaves the system
when its acknowledgement reaches the broker.

The window holds a real-valued prefetch ``u`` exactly, on average over time. With ``n``
messages in flight (delivered and not acknowledged, as the broker sees it) it keeps::

    credit = integral of u - clamp(n, floor(u), ceil(u)) over time, except while starved

and delivers while ``n`` is below ``ceil(u)`` if the credit is not negative, else below
``floor(u)``. A whole ``u`` is the plain prefetch; below 1 the window opens once per message.
By Little's law the rate of an unsaturated consumer is then ``u`` over the time a message is in
flight, and no rounding pattern can fall in or out of step with the sampling.

Nothing here depends on where a run is cut into samples: times are added up at events alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from simulator.compiled import compiled, entry_point, source_stamp
from simulator.draws import draw
from simulator.messages import FREE, NONE, append, put_first, take_first
from simulator.state import ACKNOWLEDGE, DELIVER, FINISH, GRANT, PUBLISH, State
from simulator.timers import NEVER, ROOT, set_timer, when


@compiled
def publish(state: State, publisher: int, now: float) -> None:
    """A publisher sends a message to its queue and draws when it will send the next."""
    sender = state.publishers[publisher]
    interval = draw(state.sources[sender.source]) / state.clock[0].publish_rate
    set_timer(state.timers, sender.slot, now + interval)
    queue = state.queues[sender.queue]
    queue.published += 1
    length = state.messages.lines[queue.line].length
    if length >= queue.max_length:
        queue.dropped += 1
        if not queue.drop_head:
            return
        put_first(state.messages, FREE, take_first(state.messages, queue.line))
    message = take_first(state.messages, FREE)
    state.messages.pool[message].size = sender.size
    append(state.messages, queue.line, message)
    if length == 0:
        _offer(state, sender.queue, now)


@compiled
def _offer(state: State, queue_index: int, now: float) -> None:
    """Give the only message of a queue to the next consumer in turn that has room.

    The queue was empty until now, so the consumers with room are those marked starved.
    """
    queue = state.queues[queue_index]
    for step in range(queue.consumers):
        turn = (queue.turn + step) % queue.consumers
        consumer = queue.first_consumer + turn
        if state.consumers[consumer].starved:
            queue.turn = (turn + 1) % queue.consumers
            account(state, consumer, now)
            fill(state, consumer, now)
            return


@compiled
def deliver(state: State, consumer: int, now: float) -> None:
    """A message reaches its consumer: an idle handler starts on it, or it waits."""
    client = state.consumers[consumer]
    message = _leave_link(state, client.down_line, client.down_slot)
    state.messages.pool[message].since = now
    handler = client.idle
    if handler == NONE:
        append(state.messages, client.buffer_line, message)
        return
    client.idle = state.handlers[handler].next_idle
    _start(state, handler, message, now)


@compiled
def _start(state: State, handler: int, message: int, now: float) -> None:
    """The business logic receives a message."""
    worker = state.handlers[handler]
    client = state.consumers[worker.consumer]
    client.arrivals += 1
    client.buffer_time += now - state.messages.pool[message].since
    worker.message = message
    worker.work = draw(state.sources[client.work])
    set_timer(state.timers, worker.slot, now + worker.work + client.overhead)


@compiled
def finish(state: State, handler: int, now: float) -> None:
    """A handler is done: it acknowledges and turns to the next message in the buffer."""
    worker = state.handlers[handler]
    client = state.consumers[worker.consumer]
    client.finished += 1
    client.work_time += worker.work
    arrival = now + client.delay + draw(state.sources[client.up_jitter])
    client.up_last = max(client.up_last, arrival)
    _enter_link(state, client.up_line, client.up_slot, worker.message, client.up_last)
    if state.messages.lines[client.buffer_line].length > 0:
        _start(state, handler, take_first(state.messages, client.buffer_line), now)
        return
    worker.message = NONE
    worker.next_idle = client.idle
    client.idle = handler
    set_timer(state.timers, worker.slot, NEVER)


@compiled
def acknowledge(state: State, consumer: int, now: float) -> None:
    """An acknowledgement reaches the broker: the message is gone, its place is free."""
    client = state.consumers[consumer]
    message = _leave_link(state, client.up_line, client.up_slot)
    put_first(state.messages, FREE, message)
    account(state, consumer, now)
    client.in_flight -= 1
    client.acknowledged += 1
    fill(state, consumer, now)


@compiled
def grant(state: State, consumer: int, now: float) -> None:
    """The window has been below the prefetch for long enough to go above it."""
    account(state, consumer, now)
    # By definition of this instant; summing up may have left a rounding error.
    state.consumers[consumer].credit = 0.0
    fill(state, consumer, now)


@compiled
def account(state: State, consumer: int, now: float) -> None:
    """Add up the time since the window last changed."""
    client = state.consumers[consumer]
    elapsed = now - client.since
    client.since = now
    client.in_flight_time += client.in_flight * elapsed
    if client.starved:
        client.starved_time += elapsed
    else:
        held = min(max(client.in_flight, client.low), client.high)
        client.credit += (client.prefetch - held) * elapsed


@compiled
def fill(state: State, consumer: int, now: float) -> None:
    """Deliver while the window has room, then note what it waits for next.

    Only this consumer can have room: had another, the queue would be empty.
    """
    client = state.consumers[consumer]
    line = state.queues[client.queue].line
    limit = client.high if client.credit >= 0.0 else client.low
    while client.in_flight < limit and state.messages.lines[line].length > 0:
        _send(state, consumer, take_first(state.messages, line), now)
    client.starved = client.in_flight < limit
    due = NEVER
    if client.credit < 0.0 and client.in_flight == client.low and client.high > client.low:
        due = now - client.credit / (client.prefetch - client.low)
    if due != when(state.timers, client.grant_slot):
        set_timer(state.timers, client.grant_slot, due)


@compiled
def _send(state: State, consumer: int, message: int, now: float) -> None:
    """Put a message on the link to its consumer; messages on a link keep their order."""
    client = state.consumers[consumer]
    client.in_flight += 1
    client.delivered += 1
    client.most_in_flight = max(client.most_in_flight, client.in_flight)
    size = state.messages.pool[message].size
    client.line_free = max(client.line_free, now) + size * client.seconds_per_byte
    arrival = client.line_free + client.delay + draw(state.sources[client.down_jitter])
    client.down_last = max(client.down_last, arrival)
    _enter_link(state, client.down_line, client.down_slot, message, client.down_last)


@compiled
def _enter_link(state: State, line: int, slot: int, message: int, due: float) -> None:
    state.messages.pool[message].due = due
    append(state.messages, line, message)
    if state.messages.lines[line].length == 1:
        set_timer(state.timers, slot, due)


@compiled
def _leave_link(state: State, line: int, slot: int) -> int:
    message = take_first(state.messages, line)
    chain = state.messages.lines[line]
    set_timer(
        state.timers, slot, state.messages.pool[chain.first].due if chain.length > 0 else NEVER
    )
    return message


@compiled
def change_prefetch(state: State, consumer: int, now: float) -> None:
    """Put the wanted prefetch in force; what is in flight already stays until acknowledged."""
    account(state, consumer, now)
    client = state.consumers[consumer]
    client.prefetch = client.wanted_prefetch
    client.low = math.floor(client.prefetch)
    client.high = math.ceil(client.prefetch)
    fill(state, consumer, now)


@compiled
def change_publish_rate(state: State, now: float) -> None:
    """Put the wanted rate in force at once: what is left of each interval is stretched."""
    before, after = state.clock[0].publish_rate, state.clock[0].wanted_rate
    state.clock[0].publish_rate = after
    for sender in state.publishers:
        if before > 0.0:
            sender.left = (when(state.timers, sender.slot) - now) * before
        set_timer(state.timers, sender.slot, now + sender.left / after if after > 0.0 else NEVER)


def _build_run(stamp: int) -> Callable[[State, float], bool]:
    def run_until(state: State, end: float) -> bool:
        """Run every event up to and including ``end`` seconds; False if the pool is full.

        Changes asked for since the last run take effect first. After False the caller makes
        room and calls again; nothing is lost.
        """
        clock = state.clock[0]
        if stamp == 0:  # stands for the sources in the key of the cache
            return False
        if clock.wanted_rate != clock.publish_rate:
            change_publish_rate(state, clock.now)
        for consumer in range(state.consumers.size):
            client = state.consumers[consumer]
            if client.wanted_prefetch != client.prefetch:
                change_prefetch(state, consumer, clock.now)
        while state.timers.due[ROOT] <= end:
            now = state.timers.due[ROOT]
            slot = state.slots[state.timers.slot[ROOT]]
            if slot.event == PUBLISH:
                if state.messages.lines[FREE].length == 0:
                    clock.now = now
                    return False
                publish(state, slot.entity, now)
            elif slot.event == DELIVER:
                deliver(state, slot.entity, now)
            elif slot.event == FINISH:
                finish(state, slot.entity, now)
            elif slot.event == ACKNOWLEDGE:
                acknowledge(state, slot.entity, now)
            elif slot.event == GRANT:
                grant(state, slot.entity, now)
        clock.now = end
        return True

    return entry_point(run_until)


run_until = _build_run(source_stamp())
