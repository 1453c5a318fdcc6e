"""Publishers: they send, wait for confirms, and stop when the broker tells them to."""

from __future__ import annotations

from simulator.engine.compiled import called, compiled
from simulator.engine.draws import draw, draw_if_any, uniform
from simulator.engine.factors import end_of, progress
from simulator.engine.links import emit, enter_link, leave_link, new_message
from simulator.engine.messages import FREE, put_first, take_first
from simulator.engine.rows import DONE, REJECT
from simulator.engine.simulation_state import SimulationState
from simulator.engine.timers import NEVER, set_timer, when


@compiled
def may_send(state: SimulationState, publisher: int) -> bool:
    """Whether a publisher is stopped neither by the broker nor by missing confirms."""
    sender = state.publishers[publisher]
    if sender.window > 0 and sender.unconfirmed >= sender.window:
        return False
    return not (sender.flow or (state.clock[0].alarm and not sender.released))


@compiled
def publish(state: SimulationState, publisher: int, now: float) -> None:
    """Send a publisher's message, and draw when it will send the next."""
    sender = state.publishers[publisher]
    if not may_send(state, publisher):
        hold_back(state, publisher, now)
        return
    if sender.overdue:
        unblock(state, publisher, now)
        sender.overdue = False
    interval = draw(state, sender.every)
    set_timer(state, sender.slot, next_publish(state, publisher, now, interval))
    choice = sender.first_choice
    if sender.choices > 1:
        chance = uniform(state.sources[sender.choose])
        while chance > state.choices[choice].up_to:
            choice += 1
    message = take_first(state, FREE)
    new_message(state, message, state.choices[choice].kind, state.choices[choice].size, now)
    sender.published += 1
    row = state.pool[message]
    row.sender = publisher
    if sender.window > 0:
        sender.unconfirmed += 1
        row.confirm = take_first(state, FREE)
        slip = state.pool[row.confirm]
        slip.sender = publisher
        slip.published = now
        slip.outcome = DONE
        slip.returns = 0
    emit(state, sender.port, message, now)


@called
def hold_back(state: SimulationState, publisher: int, now: float) -> None:
    """Block a publisher that may not send a message that is due."""
    sender = state.publishers[publisher]
    set_timer(state, sender.slot, NEVER)
    sender.late += not sender.overdue
    sender.overdue = True
    sender.released = False
    if not sender.blocked:
        sender.blocked = True
        sender.since = now


@called
def unblock(state: SimulationState, publisher: int, now: float) -> None:
    """Unblock a publisher: it may send again, or no longer wants to."""
    sender = state.publishers[publisher]
    if sender.blocked:
        sender.blocked_time += now - sender.since
    sender.blocked = False
    sender.released = False


@compiled
def next_publish(state: SimulationState, publisher: int, now: float, left: float) -> float:
    """When an interval ends that has ``left`` seconds left at the scenario's rate."""
    sender = state.publishers[publisher]
    if sender.rate == 0.0:
        return NEVER
    if sender.phases == 0:
        return now + left / sender.rate  # type: ignore[no-any-return]
    return end_of(state.phases, sender.first_phase, sender.phases, now, left / sender.rate)


@compiled
def wake(state: SimulationState, publisher: int, now: float) -> None:
    """Let a blocked publisher send its message, if it may."""
    sender = state.publishers[publisher]
    if sender.blocked and may_send(state, publisher):
        set_timer(state, sender.slot, now)


@called
def copy_entered(state: SimulationState, publisher: int, now: float) -> None:
    """Give a publisher credit for a copy that a queue has taken."""
    sender = state.publishers[publisher]
    sender.waiting -= 1
    if sender.flow and sender.waiting <= state.clock[0].more_credit:
        sender.flow = False
        wake(state, publisher, now)


@called
def copy_confirmed(state: SimulationState, slip_index: int, refused: bool, now: float) -> None:
    """Note a queue's answer for its copy; after the last one, send the confirm."""
    slip = state.pool[slip_index]
    slip.returns -= 1
    if refused:
        slip.outcome = REJECT
    if slip.returns > 0:
        return
    sender = state.publishers[slip.sender]
    delay = state.ports[sender.port].delay
    arrival = now + delay + draw_if_any(state, sender.confirm_jitter)
    sender.confirm_last = max(sender.confirm_last, arrival)
    enter_link(state, sender.confirm_line, sender.confirm_slot, slip_index, sender.confirm_last)


@called
def confirm(state: SimulationState, publisher: int, now: float) -> None:
    """Take a confirm that reaches its publisher."""
    sender = state.publishers[publisher]
    slip = leave_link(state, sender.confirm_line, sender.confirm_slot)
    sender.unconfirmed -= 1
    sender.confirm_time += now - state.pool[slip].published
    if state.pool[slip].outcome == DONE:
        sender.confirmed += 1
    else:
        sender.refused += 1
    put_first(state, FREE, slip)
    wake(state, publisher, now)


@called
def change_rate(state: SimulationState, publisher: int, now: float) -> None:
    """Put the wanted rate in force at once: the rest of the interval is stretched."""
    sender = state.publishers[publisher]
    before = sender.rate
    sender.rate = sender.wanted_rate
    if sender.overdue:
        if sender.rate == 0.0:
            unblock(state, publisher, now)
            set_timer(state, sender.slot, NEVER)
        elif before == 0.0:
            set_timer(state, sender.slot, now)
        return
    due = when(state, sender.slot)
    if before > 0.0 and due < NEVER:
        elapsed = due - now
        if sender.phases > 0:
            elapsed = progress(state.phases, sender.first_phase, sender.phases, now, due)
        sender.left = elapsed * before
    set_timer(state, sender.slot, next_publish(state, publisher, now, sender.left))


@called
def end_alarm(state: SimulationState, now: float) -> None:
    """End the memory alarm: every publisher that it stopped continues.

    Each may send one message, even if the first of them raises the alarm again; otherwise the
    publishers behind it would never get their turn.
    """
    clock = state.clock[0]
    clock.alarm = False
    for publisher in range(clock.publishers):
        sender = state.publishers[publisher]
        if sender.blocked and may_send(state, publisher):
            sender.released = True
            set_timer(state, sender.slot, now)
