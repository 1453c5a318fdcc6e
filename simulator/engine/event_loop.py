"""The event loop: takes the next event, and does all that follows from it at that instant.

A message is sent by a publisher, routed to its queues, delivered over the link to a consumer
whose window has room, waits in the consumer's buffer for an idle handler, is worked on, and
leaves the system when its acknowledgement reaches the broker.

A step that several events lead to is called from one place in the loop only, because numba would
compile each call separately. Nothing here depends on where a run is cut into samples: times are
added up only at events.
"""

from __future__ import annotations

from collections.abc import Callable

from simulator.engine import consumers, disk, publishers, queues, rows, window
from simulator.engine.bucket import change_pace
from simulator.engine.compiled import compiled, entry_point, source_stamp
from simulator.engine.links import leave_link, reach
from simulator.engine.messages import AT_BROKER, FREE, NONE, put_first, take_first
from simulator.engine.processes import begin, to_broker, worked
from simulator.engine.simulation_state import SimulationState
from simulator.engine.timers import NEVER, ROOT
from simulator.engine.visibility_timeout import appear

FINISHED, FULL, STANDING_STILL = range(3)

MOST_EVENTS_AT_ONE_INSTANT = 20_000_000
"""More events at one instant mean that messages go in a circle that takes no time."""


@compiled
def at_broker(state: SimulationState, now: float) -> tuple[int, int]:
    """Do one job of the broker; returns the consumer and the queue that it may affect."""
    message = take_first(state, AT_BROKER)
    row = state.pool[message]
    consumer, queue = NONE, NONE
    if row.job == rows.ENTER:
        queue = row.queue
        queues.enter(state, message, now)
    elif row.job == rows.SEND:
        queues.send(state, message, now)
    elif row.job == rows.SETTLE:
        consumer, queue = row.consumer, row.queue
        queues.settle(state, message, now)
    elif row.job == rows.ROUTE:
        queues.route(state, message)
    else:
        if row.confirm != NONE:
            publishers.copy_confirmed(state, row.confirm, False, now)
        put_first(state, FREE, message)
    return consumer, queue


@compiled
def attend_broker(state: SimulationState, now: float) -> bool:
    """Let a broker whose work takes time or room do what it can now; whether there was any."""
    clock = state.clock[0]
    if clock.first_process != NONE and clock.idle_cores > 0:
        begin(state, now)
    elif clock.alarm and clock.bytes <= clock.memory_limit:
        publishers.end_alarm(state, now)
    elif (
        clock.disk
        and state.lines[clock.disk_line].length > 0
        and state.lines[clock.disk_batch].length == 0
    ):
        disk.start_disk(state, now)
    else:
        return False
    return True


@compiled
def dispatch(state: SimulationState, consumer: int, queue_index: int, now: float) -> None:
    """Refresh a window that has changed, then deliver messages to consumers with room."""
    if consumer != NONE:
        queue_index = state.consumers[consumer].queue
    chain = state.lines[AT_BROKER]
    while True:
        if consumer != NONE:
            window.refresh(state, consumer, now)
        queue = state.queues[queue_index]
        if queue.length == 0 or queue.ready == 0 or queues.is_missing_one(state, queue_index):
            return
        if queue.visibility < NEVER and state.lines[FREE].length < state.clock[0].reserve:
            state.clock[0].unserved = queue_index  # a delivery needs a row for a twin
            return
        if chain.length > 0:
            # More messages are about to be put back at the head of this queue.
            first = state.pool[chain.first]
            if first.job == rows.SETTLE and first.queue == queue_index:
                return
        consumer = window.choose(state, queue_index)
        window.account(state, consumer, now)
        window.leave_line(state, consumer)
        message = queues.take_from(state, queue_index, now)
        queues.hand_over(state, message, consumer, now)


@compiled
def change_rates(state: SimulationState, now: float) -> None:
    """Put the wanted rates of publishers in force."""
    for publisher in range(state.clock[0].publishers):
        if state.publishers[publisher].wanted_rate != state.publishers[publisher].rate:
            publishers.change_rate(state, publisher, now)


@compiled
def change_consumer(state: SimulationState, consumer: int, now: float) -> int:
    """Put a consumer's wanted settings in force; returns it if that changes its window."""
    client = state.consumers[consumer]
    unchanged = client.wanted_prefetch == client.prefetch and client.wanted == client.active
    paced = client.wanted_pace == client.pace and client.wanted_early == client.early
    if unchanged and paced and client.wanted_spacing == client.spacing:
        return NONE
    if client.wanted and not client.active and client.crash_slot != NONE:
        consumers.live(state, consumer, now)
    if not paced:
        change_pace(state, consumer, now)
    window.change_window(state, consumer, now)
    consumers.await_token(state, consumer, now)
    consumers.answer_batch(state, consumer, now)
    return consumer


def _build(stamp: int) -> Callable[[SimulationState, float], int]:
    def advance(state: SimulationState, end: float) -> int:
        """Run every event up to and including ``end`` seconds; returns why it stopped.

        Changes requested since the last run take effect first. After FULL the caller makes room
        in the message pool and calls again; nothing is lost.
        """
        clock = state.clock[0]
        if stamp == 0:  # makes the stamp of the sources part of the cache's key
            return FULL
        # What every event needs is kept in local variables.
        now, still, reserve, last = clock.now, clock.still, clock.reserve, clock.consumers
        limited = clock.cores > 0 or clock.disk or clock.memory_limit < rows.NO_BOUND
        # The last run stopped at this queue because the message pool was full.
        unserved = clock.unserved
        clock.unserved = NONE
        changing = last
        if clock.changed:
            clock.changed = False
            change_rates(state, now)
            changing = 0
        while True:
            if state.lines[FREE].length < reserve:
                clock.now, clock.still = now, still
                clock.changed = clock.changed or changing < last
                clock.unserved = max(clock.unserved, unserved)
                return FULL
            consumer, queue, serving = NONE, NONE, NONE
            if unserved != NONE:
                queue = unserved
                unserved = NONE
            elif state.lines[AT_BROKER].length > 0:
                consumer, queue = at_broker(state, now)
            elif changing < last:
                consumer = change_consumer(state, changing, now)
                changing += 1
            elif not (limited and attend_broker(state, now)):
                due = state.timers[ROOT].due
                if due > end:
                    break
                still = still + 1 if due == now else 0
                if still > MOST_EVENTS_AT_ONE_INSTANT:
                    clock.now = now
                    return STANDING_STILL
                now = due
                slot = state.slots[state.timers[ROOT].slot]
                entity = slot.entity
                if slot.event == rows.PUBLISH:
                    publishers.publish(state, entity, now)
                elif slot.event == rows.DELIVER:
                    serving = consumers.receive(state, entity, now)
                elif slot.event == rows.FINISH:
                    if state.handlers[entity].message == NONE:
                        serving = consumers.start_next(state, entity)
                    else:
                        consumers.finish(state, entity, now)
                        serving = entity
                elif slot.event == rows.ACKNOWLEDGE:
                    client = state.consumers[entity]
                    message = leave_link(state, client.up_line, client.up_slot)
                    process = state.queues[client.queue].process
                    to_broker(state, process, message, rows.SETTLE)
                elif slot.event == rows.RELEASE:
                    window.account(state, entity, now)
                    window.release(state, entity, now)
                elif slot.event == rows.REACH:
                    port = state.ports[entity]
                    reach(state, entity, leave_link(state, port.line, port.slot))
                elif slot.event == rows.CONFIRM:
                    publishers.confirm(state, entity, now)
                elif slot.event == rows.EXPIRE:
                    queues.expire(state, entity, now)
                elif slot.event == rows.CRASH:
                    consumers.crash(state, entity, now)
                elif slot.event == rows.NOTICE:
                    consumers.notice(state, entity, now)
                    consumer = entity
                elif slot.event == rows.RESTART:
                    consumers.restart(state, entity, now)
                    consumer = entity
                elif slot.event == rows.WORKED:
                    worked(state, entity)
                elif slot.event == rows.APPEAR:
                    message = appear(state, entity)
                    if message != NONE:
                        queues.put_back(state, message, now)
                        queue = entity
                else:
                    disk.written(state)
            if serving != NONE:
                consumers.serve(state, serving, now)
            if consumer != NONE or queue != NONE:
                dispatch(state, consumer, queue, now)
        clock.now, clock.still = end, still
        return FINISHED

    return entry_point(advance)


run_until = _build(source_stamp())
