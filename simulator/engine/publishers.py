"""Publishers: they send, wait for confirms and are stopped by the broker."""

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
    """Whether neither the broker nor a missing confirm keeps a publisher from sending."""
    sender = state.publishers[publisher]
    if sender.window > 0 and sender.unconfirmed >= sender.window:
        return False
    return not (sender.flow or (state.clock[0].alarm and not sender.released))


@compiled
def publish(state: SimulationState, publisher: int, now: float) -> None:
    """A publisher sends a message and draws when it will send the next."""
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
    """A message is due that its publisher may not send: it is blocked, if it was not before."""
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
    """A publisher is blocked no more: it may send, or no longer wants to."""
    sender = state.publishers[publisher]
    if sender.blocked:
        sender.blocked_time += now - sender.since
    sender.blocked = False
    sender.released = False


@compiled
def next_publish(state: SimulationState, publisher: int, now: float, left: float) -> float:
    """When an interval of which ``left`` seconds are left at the scenario's rate is over."""
    sender = state.publishers[publisher]
    if sender.rate == 0.0:
        return NEVER
    if sender.phases == 0:
        return now + left / sender.rate  # type: ignore[no-any-return]
    return end_of(state.phases, sender.first_phase, sender.phases, now, left / sender.rate)


@compiled
def wake(state: SimulationState, publisher: int, now: float) -> None:
    """Let a publisher that was stopped send what it has, if it may."""
    sender = state.publishers[publisher]
    if sender.blocked and may_send(state, publisher):
        set_timer(state, sender.slot, now)


@called
def copy_entered(state: SimulationState, publisher: int, now: float) -> None:
    """A queue has taken a copy: the publisher gets credit for more."""
    sender = state.publishers[publisher]
    sender.waiting -= 1
    if sender.flow and sender.waiting <= state.clock[0].more_credit:
        sender.flow = False
        wake(state, publisher, now)


@called
def copy_confirmed(state: SimulationState, slip_index: int, refused: bool, now: float) -> None:
    """A queue answers for its copy; after the last the confirm goes back to the publisher."""
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
    """A confirm reaches its publisher."""
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
    """Put the wanted rate in force at once: what is left of the interval is stretched."""
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
    """The queues hold little enough again: every publisher that was stopped goes on.

    Each sends what it has, even if the first of them makes the queues too large again: else
    those behind it would never have their turn.
    """
    clock = state.clock[0]
    clock.alarm = False
    for publisher in range(clock.publishers):
        sender = state.publishers[publisher]
        if sender.blocked and may_send(state, publisher):
            sender.released = True
            set_timer(state, sender.slot, now)
