"""Links: messages arrive later than they were sent, in the same order."""

from __future__ import annotations

from simulator.engine.compiled import compiled
from simulator.engine.draws import draw, draw_if_any
from simulator.engine.messages import AT_BROKER, NONE, append, take_first
from simulator.engine.processes import to_broker
from simulator.engine.rows import DONE, ENTER, ROUTE
from simulator.engine.simulation_state import SimulationState
from simulator.engine.timers import NEVER, set_timer
from simulator.scenario.checks import LARGEST_MESSAGE_BYTES


@compiled
def enter_link(state: SimulationState, line: int, slot: int, message: int, due: float) -> None:
    """Put a message on a link; it arrives at ``due``, after those ahead of it."""
    state.pool[message].due = due
    append(state, line, message)
    if state.lines[line].length == 1:
        set_timer(state, slot, due)


@compiled
def leave_link(state: SimulationState, line: int, slot: int) -> int:
    """Take the first message off a link, and set the timer for the next one."""
    message = take_first(state, line)
    chain = state.lines[line]
    set_timer(state, slot, state.pool[chain.first].due if chain.length > 0 else NEVER)
    return message


@compiled
def send_down(state: SimulationState, consumer: int, message: int, now: float) -> None:
    """Send a message from the broker to a consumer."""
    client = state.consumers[consumer]
    size = state.pool[message].size
    client.line_free = max(client.line_free, now) + size * client.seconds_per_byte
    jitter = draw_if_any(state, client.down_jitter)
    client.down_last = max(client.down_last, client.line_free + client.delay + jitter)
    enter_link(state, client.down_line, client.down_slot, message, client.down_last)


@compiled
def answer(state: SimulationState, consumer: int, message: int, now: float) -> None:
    """Send a consumer's answer for a message to the broker."""
    client = state.consumers[consumer]
    state.pool[message].since = now
    arrival = now + client.delay + draw_if_any(state, client.up_jitter)
    client.up_last = max(client.up_last, arrival)
    enter_link(state, client.up_line, client.up_slot, message, client.up_last)


@compiled
def emit(state: SimulationState, port_index: int, message: int, now: float) -> None:
    """Send a message from a client that publishes to the broker."""
    port = state.ports[port_index]
    if port.direct:
        reach(state, port_index, message)
        return
    size = state.pool[message].size
    port.free = max(port.free, now) + size * port.seconds_per_byte
    jitter = draw_if_any(state, port.jitter)
    port.last = max(port.last, port.free + port.delay + jitter)
    enter_link(state, port.line, port.slot, message, port.last)


@compiled
def reach(state: SimulationState, port_index: int, message: int) -> None:
    """Take a message in at the broker; it uses its publisher's credit until it is in a queue."""
    clock = state.clock[0]
    row = state.pool[message]
    route = state.routes[row.route]
    if clock.cores == 0 and route.targets == 1 and row.confirm == NONE:
        # Routing takes no time and nothing is copied: the message goes straight to its queue.
        row.sender = NONE
        row.queue = state.targets[route.first]
        row.job = ENTER
        append(state, AT_BROKER, message)
        return
    if row.sender != NONE:
        sender = state.publishers[row.sender]
        sender.waiting += 1
        sender.flow = sender.flow or sender.waiting >= clock.credit
    to_broker(state, state.ports[port_index].process, message, ROUTE)


@compiled
def new_message(
    state: SimulationState, message: int, kind_index: int, size: int, now: float
) -> None:
    """Fill the row of a message that is sent now; ``size`` is a source, or NONE if fixed."""
    row = state.pool[message]
    kind = state.kinds[kind_index]
    row.published = now
    row.origin = now
    kind.sent += 1
    row.index = kind.sent
    row.size = kind.size if size == NONE else round(min(draw(state, size), LARGEST_MESSAGE_BYTES))
    row.kind = kind_index
    row.route = kind.route
    row.visited = 0
    row.returns = 0
    row.sender = NONE
    row.confirm = NONE
    row.outcome = DONE
    row.settled = False
    row.stale = False
    row.twin = NONE
