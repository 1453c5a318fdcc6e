"""The messages in the system, and the first-in-first-out lines they stand in.

All messages are rows of one pool; a line (a queue, one direction of a link, a consumer's buffer)
is a linked list through the pool. A message moves from line to line without being copied, and a
row is used again as soon as its message is gone: memory is bounded by the number of messages in
the system, wherever they are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from simulator.engine.compiled import called, compiled

if TYPE_CHECKING:
    from simulator.engine.simulation_state import SimulationState

NONE = -1
FREE = 0
"""The line of unused rows."""

AT_BROKER = 1
"""The line of messages that the broker handles before time advances."""

MESSAGE = np.dtype(
    [
        ("due", np.float64),  # seconds: when it leaves the line it is in, if the line is a link
        ("since", np.float64),  # seconds: when it reached its consumer; before, when its slot was
        # released, or negative; after, when its answer was sent
        ("published", np.float64),  # seconds: when it was sent first
        ("origin", np.float64),  # seconds: when the first message of its chain was sent
        ("expires", np.float64),  # seconds: when it expires in its queue
        ("visited", np.uint64),  # queues it was dead-lettered from since it was last rejected
        ("size", np.int32),  # bytes
        ("next", np.int32),  # the message behind it in its line
        ("kind", np.int32),
        ("queue", np.int32),  # where it is, or where it came from
        ("consumer", np.int32),  # to which it was delivered
        ("sender", np.int32),  # the publisher whose credit it uses, or NONE
        ("confirm", np.int32),  # the row that waits for its confirm, or NONE
        ("route", np.int32),
        ("returns", np.int32),  # how often it came back to its queue
        ("index", np.int32),  # the number of its origin among those of the same kind
        ("twin", np.int32),  # the row that replaces it while it is invisible; in that row, this one
        ("job", np.int8),  # what the broker is to do with it
        ("outcome", np.int8),  # its consumer's answer
        ("settled", np.bool_),  # the broker has forgotten it already
        ("stale", np.bool_),  # it has become visible again while its consumer had it
    ],
    align=True,
)
LINE = np.dtype([("first", np.int32), ("last", np.int32), ("length", np.int32)], align=True)


def new_lines(count: int) -> npt.NDArray[Any]:
    """``count`` empty lines."""
    lines = np.zeros(count, LINE)
    lines["first"] = lines["last"] = NONE
    return lines


def with_room(pool: npt.NDArray[Any], lines: npt.NDArray[Any], rows: int) -> npt.NDArray[Any]:
    """A pool of ``rows`` rows with the messages of ``pool``; the new rows are put in ``lines``."""
    used = pool.size
    larger = np.zeros(rows, MESSAGE)
    larger[:used] = pool
    larger["next"][used:] = np.arange(used + 1, rows + 1)
    larger["next"][-1] = NONE
    unused = lines[FREE]
    if unused["length"] == 0:
        unused["first"] = used
    else:
        larger[unused["last"]]["next"] = used
    unused["last"] = rows - 1
    unused["length"] += rows - used
    return larger


@compiled
def append(state: SimulationState, line: int, message: int) -> None:
    """Put a message at the end of a line."""
    pool = state.pool
    chain = state.lines[line]
    pool[message].next = NONE
    if chain.length == 0:
        chain.first = message
    else:
        pool[chain.last].next = message
    chain.last = message
    chain.length += 1


@compiled
def take_first(state: SimulationState, line: int) -> int:
    """Remove the first message of a line that is not empty."""
    chain = state.lines[line]
    message = chain.first
    chain.first = state.pool[message].next
    chain.length -= 1
    return message  # type: ignore[no-any-return]


@called
def insert_by_index(state: SimulationState, line: int, message: int) -> None:
    """Put a message in a line sorted by index, behind those with the same index."""
    chain = state.lines[line]
    index = state.pool[message].index
    if chain.length == 0 or state.pool[chain.last].index <= index:
        append(state, line, message)
        return
    if state.pool[chain.first].index > index:
        put_first(state, line, message)
        return
    before = chain.first
    while state.pool[state.pool[before].next].index <= index:
        before = state.pool[before].next
    state.pool[message].next = state.pool[before].next
    state.pool[before].next = message
    chain.length += 1


@compiled
def put_first(state: SimulationState, line: int, message: int) -> None:
    """Put a message first in a line. For free rows: the row used last is still in the cache."""
    chain = state.lines[line]
    row = state.pool[message]
    row.next = chain.first
    if chain.length == 0:
        chain.last = message
        row.next = NONE
    chain.first = message
    chain.length += 1
