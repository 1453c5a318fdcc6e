"""The messages in the system, and the first-in-first-out lines they stand in.

All messages live in one pool of rows; a line (a queue, one direction of a link, a consumer's
buffer) is a chain through the pool. A message moves from line to line without being copied,
and a row is used again as soon as its message is gone: memory is bounded by what is in the
system, whichever entities hold it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from simulator.compiled import compiled

NONE = -1
FREE = 0
"""The line of unused rows."""

MESSAGE = np.dtype(
    [
        ("due", np.float64),  # seconds: when it leaves the line it is in, if the line is a link
        ("since", np.float64),  # seconds: when it reached its consumer
        ("size", np.int32),  # bytes
        ("next", np.int32),  # the message behind it in its line
    ],
    align=True,
)
LINE = np.dtype([("first", np.int64), ("last", np.int64), ("length", np.int64)], align=True)


class Messages(NamedTuple):
    """The pool and its lines."""

    pool: npt.NDArray[Any]
    lines: npt.NDArray[Any]


def new_messages(lines: int, rows: int) -> Messages:
    """An empty system with ``lines`` lines (besides the unused rows) and room for ``rows``."""
    chains = np.zeros(1 + lines, LINE)
    chains["first"] = chains["last"] = NONE
    empty = Messages(np.zeros(0, MESSAGE), chains)
    return with_room(empty, rows)


def with_room(messages: Messages, rows: int) -> Messages:
    """The same messages in a pool of ``rows`` rows; all old rows must be in use."""
    used = messages.pool.size
    pool = np.zeros(rows, MESSAGE)
    pool[:used] = messages.pool
    pool["next"][used:] = np.arange(used + 1, rows + 1)
    pool["next"][-1] = NONE
    messages.lines[FREE] = (used, rows - 1, rows - used)
    return Messages(pool, messages.lines)


@compiled
def append(messages: Messages, line: int, message: int) -> None:
    """Put a message at the end of a line."""
    chain = messages.lines[line]
    messages.pool[message].next = NONE
    if chain.length == 0:
        chain.first = message
    else:
        messages.pool[chain.last].next = message
    chain.last = message
    chain.length += 1


@compiled
def take_first(messages: Messages, line: int) -> int:
    """Remove the first message of a line that is not empty."""
    chain = messages.lines[line]
    message = chain.first
    chain.first = messages.pool[message].next
    chain.length -= 1
    return message  # type: ignore[no-any-return]


@compiled
def put_first(messages: Messages, line: int, message: int) -> None:
    """Put a message before all others: the row used last is the one still in the cache."""
    chain = messages.lines[line]
    messages.pool[message].next = chain.first
    if chain.length == 0:
        chain.last = message
        messages.pool[message].next = NONE
    chain.first = message
    chain.length += 1
