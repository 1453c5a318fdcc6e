"""Consumers: their buffers, handlers and acknowledgements, and what a crash does to them."""

from __future__ import annotations

from simulator.engine.bucket import add_gated, count_start, starts_at
from simulator.engine.compiled import called, compiled
from simulator.engine.draws import draw, uniform
from simulator.engine.factors import factor_at
from simulator.engine.latency_bins import BINS, bin_of
from simulator.engine.links import answer, emit, leave_link, new_message
from simulator.engine.messages import AT_BROKER, FREE, NONE, append, put_first, take_first
from simulator.engine.resources import ask, leave, start
from simulator.engine.rows import COVERED, DONE, ON_RECEIPT, RETURN, SETTLE
from simulator.engine.simulation_state import SimulationState
from simulator.engine.timers import NEVER, set_timer, when
from simulator.engine.window import account, give


@compiled
def receive(state: SimulationState, consumer: int, now: float) -> int:
    """Put a message that reaches its consumer in the buffer; returns an idle handler or NONE."""
    client = state.consumers[consumer]
    message = leave_link(state, client.down_line, client.down_slot)
    if not client.up:
        lose(state, consumer, message)
        return NONE
    row = state.pool[message]
    if row.since >= 0.0:
        client.turnaround_time += now - row.since
        client.turnarounds += 1
    row.since = now
    if client.acknowledge == ON_RECEIPT:
        receipt = take_first(state, FREE)
        state.pool[receipt] = row
        state.pool[receipt].outcome = DONE
        row.settled = True
        if row.twin != NONE:
            state.pool[row.twin].twin = receipt
            row.twin = NONE
        give(state, consumer, receipt, now)
    if client.pace > 0.0:
        add_gated(state, consumer, now)
    append(state, client.buffer_line, message)
    handler = client.idle
    if handler != NONE:
        client.idle = state.handlers[handler].next
    return handler  # type: ignore[no-any-return]


@compiled
def serve(state: SimulationState, handler: int, now: float) -> None:
    """Let a handler start on the first message of the buffer, or be idle if there is none."""
    worker = state.handlers[handler]
    client = state.consumers[worker.consumer]
    buffer = state.lines[client.buffer_line]
    if client.pace > 0.0:
        add_gated(state, worker.consumer, now)
    may_start = buffer.length > 0 and now >= starts_at(state, worker.consumer)
    if handler >= client.last_handler or not may_start:
        worker.message = NONE
        set_timer(state, worker.slot, NEVER)
        if handler < client.last_handler:
            worker.next = client.idle
            client.idle = handler
        if buffer.length > 0:
            await_token(state, worker.consumer, now)
        return
    message = take_first(state, client.buffer_line)
    row = state.pool[message]
    client.arrivals += 1
    client.buffer_time += now - row.since
    if client.pace > 0.0:
        count_start(state, worker.consumer, buffer.length, row.since, now)
    if buffer.length > 0 and client.idle != NONE:  # asked here, to spare most messages the call
        await_token(state, worker.consumer, now)
    note_latency(state, message, now)
    worker.message = message
    worker.work = draw(state, client.work)
    if client.phases > 0:
        worker.work *= factor_at(state.phases, client.first_phase, client.phases, now)
    worker.since = now
    if client.resource == NONE:
        start(state, handler, now)
    else:
        ask(state, handler, now)


@called
def await_token(state: SimulationState, consumer: int, now: float) -> None:
    """Set the timer of the first idle handler, if there is one although messages wait."""
    client = state.consumers[consumer]
    if client.idle != NONE and state.lines[client.buffer_line].length > 0:
        slot = state.handlers[client.idle].slot
        set_timer(state, slot, max(now, starts_at(state, consumer)))


@called
def start_next(state: SimulationState, waiting: int) -> int:
    """The handler that may start now that one has waited for a token; NONE without a message."""
    worker = state.handlers[waiting]
    client = state.consumers[worker.consumer]
    set_timer(state, worker.slot, NEVER)
    handler = client.idle
    if handler == NONE or state.lines[client.buffer_line].length == 0:
        return NONE
    client.idle = state.handlers[handler].next
    return handler  # type: ignore[no-any-return]


@compiled
def note_latency(state: SimulationState, message: int, now: float) -> None:
    """Record the time a message took from its publisher to the business logic."""
    row = state.pool[message]
    kind = state.kinds[row.kind]
    note(state, pair_of(state, row.queue, kind.type), now - row.published)
    if kind.chain != NONE:
        note_chain(state, kind.chain, now - row.origin)


@compiled
def pair_of(state: SimulationState, queue_index: int, type_index: int) -> int:
    """The row of latencies of a type of message in a queue."""
    queue = state.queues[queue_index]
    place, among = queue.first_pair, queue.pairs
    while among > 1:
        half = among // 2
        if state.pairs[place + half] <= type_index:
            place += half
        among -= half
    return place  # type: ignore[no-any-return]


@compiled
def note(state: SimulationState, place: int, taken: float) -> None:
    """Add one latency to a row of latencies."""
    latency = state.latencies[place]
    latency.count += 1
    latency.sum += taken
    latency.most = max(latency.most, taken)
    state.bins[place * BINS + bin_of(taken)] += 1


@called
def note_work(state: SimulationState, place: int, taken: float) -> None:
    """Record the time that a handler with a resource had a message."""
    note(state, place, taken)


@called
def note_chain(state: SimulationState, place: int, taken: float) -> None:
    """Record the time since the first message of a chain was published."""
    note(state, place, taken)


@compiled
def finish(state: SimulationState, handler: int, now: float) -> None:
    """Finish a handler's message: publish what follows from it, and acknowledge or reject it."""
    worker = state.handlers[handler]
    client = state.consumers[worker.consumer]
    message = worker.message
    row = state.pool[message]
    client.finished += 1
    client.work_time += worker.work
    if client.resource != NONE:
        leave(state, client.resource, now)
        note_work(state, client.work_row, worker.work)
    row.outcome = DONE
    if client.failure > 0.0 and uniform(state.sources[client.fail]) < client.failure:
        row.outcome = client.on_failure
        client.failed += 1
    elif client.sends > 0:
        pass_on(state, worker.consumer, message, now)
    if row.settled:
        put_first(state, FREE, message)
    elif client.batch == 1:
        acknowledge(state, worker.consumer, message, now)
    else:
        row.since = now
        append(state, client.done_line, message)
        answer_batch(state, worker.consumer, now)


@compiled
def acknowledge(state: SimulationState, consumer: int, message: int, now: float) -> None:
    """Answer for a finished message; only acks may be held."""
    if state.pool[message].outcome <= COVERED:
        give(state, consumer, message, now)
    else:
        answer(state, consumer, message, now)


@called
def answer_batch(state: SimulationState, consumer: int, now: float) -> None:
    """Answer for all finished messages of a consumer, once they are a batch.

    A batch is never larger than the window, because the consumer would wait for it forever. A
    consumer that was removed does not wait.
    """
    client = state.consumers[consumer]
    chain = state.lines[client.done_line]
    if client.active and chain.length < min(client.batch, client.low):
        return
    while chain.length > 0:
        message = take_first(state, client.done_line)
        row = state.pool[message]
        client.batch_time += now - row.since
        if client.multiple and chain.length > 0 and row.outcome == DONE:
            row.outcome = COVERED
        acknowledge(state, consumer, message, now)


@called
def pass_on(state: SimulationState, consumer: int, cause: int, now: float) -> None:
    """Publish the messages that a finished message causes."""
    client = state.consumers[consumer]
    type_index = state.kinds[state.pool[cause].kind].type
    for number in range(client.first_send, client.first_send + client.sends):
        sending = state.sends[number]
        if sending.on != NONE and sending.on != type_index:
            continue
        if sending.probability < 1.0:
            if uniform(state.sources[sending.choose]) >= sending.probability:
                continue
        message = take_first(state, FREE)
        new_message(state, message, sending.kind, sending.size, now)
        state.pool[message].origin = state.pool[cause].origin
        state.pool[message].index = state.pool[cause].index
        emit(state, client.port, message, now)


@compiled
def lose(state: SimulationState, consumer: int, message: int) -> None:
    """Take a message from a consumer that is down: lost, or kept to be delivered again."""
    client = state.consumers[consumer]
    if state.pool[message].settled:
        client.lost += 1
        put_first(state, FREE, message)
    else:
        put_first(state, client.lost_line, message)


@called
def crash(state: SimulationState, consumer: int, now: float) -> None:
    """Crash a consumer, with all it holds; the broker notices half a round trip later."""
    client = state.consumers[consumer]
    client.up = False
    client.crashes += 1
    account(state, consumer, now)
    add_gated(state, consumer, now)
    while state.lines[client.held_line].length > 0:
        lose(state, consumer, take_first(state, client.held_line))
    set_timer(state, client.release_slot, NEVER)
    while state.lines[client.done_line].length > 0:
        lose(state, consumer, take_first(state, client.done_line))
    client.idle = NONE
    for handler in range(client.first_handler, client.first_handler + client.handlers):
        worker = state.handlers[handler]
        if worker.message != NONE:
            lose(state, consumer, worker.message)
            client.busy_time -= when(state, worker.slot) - now
        set_timer(state, worker.slot, NEVER)
        worker.message = NONE
        worker.next = NONE
        if handler < client.last_handler:
            worker.next = client.idle
            client.idle = handler
    while state.lines[client.buffer_line].length > 0:
        lose(state, consumer, take_first(state, client.buffer_line))
    set_timer(state, client.crash_slot, NEVER)
    set_timer(state, client.notice_slot, now + client.delay)


@called
def notice(state: SimulationState, consumer: int, now: float) -> None:
    """Let the broker notice that a consumer is gone, and take back what it had delivered."""
    account(state, consumer, now)
    client = state.consumers[consumer]
    client.listening = False
    while state.lines[client.down_line].length > 0:
        lose(state, consumer, take_first(state, client.down_line))
    set_timer(state, client.down_slot, NEVER)
    set_timer(state, client.notice_slot, NEVER)
    # The newest goes back first, so that the oldest ends up at the head of the queue.
    while state.lines[client.lost_line].length > 0:
        message = take_first(state, client.lost_line)
        state.pool[message].outcome = RETURN
        state.pool[message].job = SETTLE
        append(state, AT_BROKER, message)
    pause = draw(state, client.restart)
    set_timer(state, client.restart_slot, now + pause)


@called
def restart(state: SimulationState, consumer: int, now: float) -> None:
    """Start a crashed consumer again; it asks for messages."""
    account(state, consumer, now)
    client = state.consumers[consumer]
    client.up = True
    client.listening = True
    client.error = 0.0
    client.spaced = False
    set_timer(state, client.restart_slot, NEVER)
    live(state, consumer, now)


@compiled
def live(state: SimulationState, consumer: int, now: float) -> None:
    """Draw when a consumer that has just started will crash."""
    client = state.consumers[consumer]
    life = draw(state, client.crash)
    set_timer(state, client.crash_slot, now + life)
